"""T5: the command line, killed and interrupted in the middle of ingestions with calls in flight."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from evireform import connect
from evireform.database import Database
from evireform.formats.passages import read_passages
from evireform.settings import EmbeddingSettings, LanguageSettings, Settings
from tests.doubles.scripted_language import split_sentences
from tests.doubles.scripted_openai import Request, ScriptedOpenAI
from tests.jobs.indexes import contents, differences, rows, untrue

AT_ONCE = 8
KILLS = 20
PASSAGES = 300
MODEL = "interrupted"

NURSERY = """
import json, os, signal, sys
import evireform.cli.commands, evireform.database, evireform.embedded, openai, rich.progress
import evireform.embedding.openai, evireform.language.openai
signal.signal(signal.SIGINT, signal.default_int_handler)
for line in sys.stdin:
    given = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(given["output"], os.O_WRONLY | os.O_CREAT), 1)
        sys.argv = ["evireform", *given["arguments"]]
        evireform.cli.main()
        sys.exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Starts a command for each line that it reads, in a child that has the modules loaded already."""


@dataclass
class Served:
    """A scripted server that extracts sentences, each after a moment.

    Attributes:
        runs: The texts that it was asked about, in order, by run.
        answers: How many questions it answers before it keeps the others waiting.
        released: Ends the waiting.
    """

    openai: ScriptedOpenAI
    runs: list[list[str]] = field(default_factory=lambda: [[]])
    answers: int = 10**9
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def asked(self) -> int:
        return sum(map(len, self.runs))

    def answer(self, request: Request) -> dict[str, Any]:
        text = json.loads(request.messages[1]["content"])["text"]
        self.runs[-1].append(text)
        if self.asked > self.answers:
            self.released.wait(timeout=60)
        time.sleep(0.05)
        return {"propositions": [{"text": p.text, "entities": p.entities} for p in split_sentences(text)]}

    def settings(self) -> list[str]:
        values = {
            "language.backend": "openai", "language.model": MODEL, "language.base_url": self.openai.base_url,
            "language.concurrency": AT_ONCE, "embedding.backend": "openai", "embedding.model": "hash-64",
            "embedding.base_url": self.openai.base_url,
        }  # fmt: skip
        return [part for key, value in values.items() for part in ("--set", f"{key}={value}")]

    def connect(self, home: Path) -> Database:
        settings = Settings(
            language=LanguageSettings(
                backend="openai", model=MODEL, base_url=self.openai.base_url, concurrency=AT_ONCE
            ),
            embedding=EmbeddingSettings(backend="openai", model="hash-64", base_url=self.openai.base_url),
        )
        return connect(home=home, settings=settings)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("OPENAI_API_KEY", "for tests")
    with ScriptedOpenAI() as server:
        found = Served(server)
        server.on("extract", found.answer)
        yield found
        found.released.set()


@pytest.fixture
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="evireform-test-"))
    folder.chmod(0o755)
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    lines = [
        {"id": f"p{number:03}", "text": f"Ada met Bob {number}. Carl saw Ada in {1800 + number}."}
        for number in range(PASSAGES)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


class Nursery:
    """Runs commands one at a time, quickly."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def begin(self, *arguments: str, output: str = os.devnull) -> int:
        """Start a command; gives its process id."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps({"arguments": arguments, "output": output}) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self) -> int:
        """Wait for the command; gives its exit code, negative for a signal."""
        assert self.process.stdout
        return int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline, "waited 30 s in vain"
        time.sleep(0.002)


def ingestion(served: Served, home: Path, file: Path, *options: str) -> list[str]:
    return ["ingest", str(file), "--corpus", "c", "--home", str(home), *served.settings(), *options]


def kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def test_t05_killed_at_twenty_random_points_it_finishes_and_pays_twice_only_for_what_was_in_flight(
    served: Served, home: Path, file: Path, nursery: Nursery
) -> None:
    command = ingestion(served, home, file)
    chance = random.Random(5)
    ends = []
    for turn in range(KILLS):
        served.runs.append([])
        pid = nursery.begin(*command)
        if turn % 2:  # while it starts, reads the ledger, and writes what it finds there
            time.sleep(chance.random() * 0.8)
        else:  # while it asks
            asked = chance.randrange(8)
            wait_until(partial(lambda run, asked: len(run) >= asked, served.runs[-1], asked))
            time.sleep(chance.random() * 0.08)
        kill(pid, signal.SIGKILL)
        ends.append(nursery.end())
    served.runs.append([])
    nursery.begin(*command)
    assert nursery.end() == 0
    assert ends == [-signal.SIGKILL] * KILLS

    assert len({text for run in served.runs for text in run}) == PASSAGES
    for number, run in enumerate(served.runs):
        later = {text for other in served.runs[number + 1 :] for text in other}
        assert len(run) == len(set(run))
        assert len(later.intersection(run)) <= AT_ONCE
    with served.connect(home) as db:
        paid = rows(db.store, "SELECT passage_key, count(*) FROM model_call WHERE NOT cached GROUP BY 1")
        assert sorted(paid) == [(f"p{number:03}", 1) for number in range(PASSAGES)]
        db.corpus("straight", create=True).ingest(read_passages([file]))
        assert len(contents(db.store, "c", "passage")) == PASSAGES
        assert differences(db.store, "c", "straight") == {}
        assert untrue(db.store) == {}


def test_ctrl_c_ends_it_at_once_with_calls_in_flight_and_nothing_finished_is_paid_again(
    served: Served, home: Path, file: Path, nursery: Nursery, tmp_path: Path
) -> None:
    served.answers = 100
    output = tmp_path / "summary.json"
    pid = nursery.begin(*ingestion(served, home, file, "--json"), output=str(output))
    wait_until(lambda: served.asked == 100 + AT_ONCE)
    pressed = time.monotonic()
    kill(pid, signal.SIGINT)
    assert nursery.end() == 130
    assert time.monotonic() - pressed < 30.0  # a call would take sixty; the machine may be busy
    summary = json.loads(output.read_text())
    assert summary["stopped"] == "interrupted"
    assert summary["added"] + summary["not_done"] < PASSAGES

    served.released.set()
    served.runs.append([])
    nursery.begin(*ingestion(served, home, file))
    assert nursery.end() == 0
    assert len(served.runs[-1]) == PASSAGES - 100
