"""The command line of the queue: `ingest --queue`, `worker`, `status --watch`."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner, Result

from evireform import connect
from evireform.cli import app
from evireform.records import Extraction, Passage
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

ROOT = Path(__file__).resolve().parents[2]
PASSAGES = [
    {"id": "ada", "title": "Ada", "text": "Ada met Babbage."},
    {"id": "bob", "title": "Bob", "text": "Bob saw Ada. Ada left."},
]

Command = Callable[..., Result]

STARTED = """
import sys, time
import evireform.cli.worker
import evireform.database
from evireform.cli import main
from evireform.records import ExtractedProposition, Extraction
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

def extract(passage):
    print("extracting " + passage.key, file=sys.stderr, flush=True)
    time.sleep(seconds)
    return Extraction(propositions=(ExtractedProposition(text=passage.text),))

language = ScriptedLanguage(extract=extract, concurrency=2)
evireform.database.load_encoder = lambda _: HashEncoder()
evireform.database.load_language = lambda *_: language
seconds = float(sys.argv.pop(1))
sys.modules["evireform.cli.worker"].GRACE_S = 1.0
main()
"""
"""The command line with models that say what they extract, and take a time for each; a second of grace."""


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("EVIREFORM_", "PG", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", database_url)


@pytest.fixture
def language(monkeypatch: pytest.MonkeyPatch) -> ScriptedLanguage:
    made = ScriptedLanguage()
    monkeypatch.setattr("evireform.database.load_encoder", lambda _: HashEncoder())
    monkeypatch.setattr("evireform.database.load_language", lambda *_: made)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "wiki.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in PASSAGES), encoding="utf-8")
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def counts(*names: str) -> list[Any]:
    corpus = json.loads(run("status", "--json").stdout)["corpora"][0]
    return [corpus[name] for name in names]


@contextmanager
def started(seconds: float, *arguments: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED, str(seconds), *arguments],
        stdout=more.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        **more,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_line(process: subprocess.Popen[str], beginning: str) -> None:
    assert process.stderr
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith(beginning):
            return
    raise AssertionError(f"it ended without saying {beginning!r}, but {''.join(said)}")


# ingest --queue


def test_queueing_says_what_waits_and_needs_no_model(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("evireform.database.load_encoder", none)
    monkeypatch.setattr("evireform.database.load_language", none)
    result = run("ingest", "--queue", file, "--corpus", "wiki", "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert (summary["corpus"], summary["queued"], summary["rejected"]) == ("wiki", 2, [])
    assert "waiting already" in run("ingest", "--queue", file, "--corpus", "wiki").stdout
    assert counts("ready", "waiting", "leased") == [0, 2, 0]


def test_queueing_lists_what_cannot_go_in(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "a", "text": "Ada."}\nnot JSON\n', encoding="utf-8")
    extractions = tmp_path / "ready.jsonl"
    extractions.write_text("nor this\n", encoding="utf-8")
    result = run("ingest", "--queue", path, "--corpus", "wiki", "--extractions", extractions, "--json")
    assert result.exit_code == 1
    summary = json.loads(result.stdout)
    assert summary["queued"] == 1
    assert [one["line_number"] for one in summary["rejected"]] == [2, 1]


def test_ready_made_extractions_are_queued(file: Path, tmp_path: Path, language: ScriptedLanguage) -> None:
    extractions = tmp_path / "ready.jsonl"
    ready = {"passage_id": "ada", "propositions": [{"text": "Ada met Babbage.", "entities": ["Ada"]}]}
    extractions.write_text(json.dumps(ready) + "\n", encoding="utf-8")
    run("ingest", "--queue", file, "--corpus", "wiki", "--extractions", extractions)
    assert run("worker", "--drain").exit_code == 0
    assert language.extracted == ["bob"]


@pytest.mark.parametrize("option", [["--estimate"], ["--budget", "1k"], ["--no-cache"]])
def test_what_is_for_model_calls_is_refused_with_the_queue(file: Path, option: list[str]) -> None:
    result = run("ingest", "--queue", file, "--corpus", "wiki", *option)
    assert result.exit_code == 2
    assert "--queue asks no model" in result.stderr


# worker


def test_a_worker_drains_the_queue_and_logs_each_batch(file: Path, language: ScriptedLanguage) -> None:
    run("ingest", "--queue", file, "--corpus", "wiki")
    result = run("worker", "--drain", "--batch", "1", "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert (summary["written"], summary["failed"], summary["reason"]) == (2, 0, "")
    assert [line for line in result.stderr.splitlines() if "written" in line] == ["wiki: 1 written"] * 2
    assert language.extracted == ["ada", "bob"]
    assert counts("ready", "waiting", "leased") == [2, 0, 0]


def test_draining_exits_with_1_where_passages_failed_and_retry_takes_them(
    file: Path, monkeypatch: pytest.MonkeyPatch, language: ScriptedLanguage
) -> None:
    failing = ScriptedLanguage(errors={"ada": "no usable answer"})
    run("ingest", "--queue", file, "--corpus", "wiki")
    with monkeypatch.context() as patched:
        patched.setattr("evireform.database.load_language", lambda *_: failing)
        result = run("worker", "--corpus", "wiki", "--drain", "--attempts", "2")
    assert result.exit_code == 1
    assert "1 to be tried again (first: no usable answer)" in result.stderr
    assert "given up after 2 attempts: no usable answer" in result.stderr
    assert counts("ready", "failed", "waiting") == [1, 1, 0]
    assert run("retry", "--corpus", "wiki").exit_code == 0
    assert language.extracted == ["ada"]
    assert counts("ready", "failed") == [2, 0]


def test_a_worker_that_can_make_no_call_says_why(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ScriptedLanguage(extract=lambda _: Extraction(error="the server is gone", in_vain="server"))
    monkeypatch.setattr("evireform.database.load_encoder", lambda _: HashEncoder())
    monkeypatch.setattr("evireform.database.load_language", lambda *_: gone)
    run("ingest", "--queue", file, "--corpus", "wiki")
    result = run("worker")
    assert result.exit_code == 1
    assert "stopped: the server is gone" in result.stdout
    assert counts("waiting", "leased", "failed") == [2, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--attempts", "0"], "attempts must lie between 1 and 1000"),
        (["--lease-s", "0"], "lease_s must lie between 0.1"),
        (["--corpus", "absent"], "no corpus is called 'absent'"),
    ],
)
def test_a_worker_refuses_what_it_cannot_work_by(
    arguments: list[str], said: str, language: ScriptedLanguage
) -> None:
    result = run("worker", *arguments)
    assert (result.exit_code, language.extracted) == (2, [])
    assert said in result.stderr


def queue_many(number: int) -> None:
    with connect(os.environ["EVIREFORM_DATABASE_URL"]) as db:
        passages = [Passage(key=f"p{place:02}", text="Ada met Bob.") for place in range(number)]
        db.corpus("wiki", create=True).enqueue(passages)


def test_sigterm_lets_a_worker_finish_and_give_back_and_exits_with_0() -> None:
    queue_many(20)
    with started(0.5, "worker", "--json") as process:
        wait_for_line(process, "extracting")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    written = json.loads(out)["written"]
    assert 1 <= written <= 4
    assert counts("ready", "waiting", "leased") == [written, 20 - written, 0]


def test_a_call_that_takes_too_long_is_given_back() -> None:
    queue_many(2)
    with started(60, "worker") as process:
        wait_for_line(process, "extracting")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=55) == 0  # a second, on a machine that is not busy
    assert counts("ready", "waiting", "leased") == [0, 2, 0]


def test_a_second_signal_ends_a_worker_at_once() -> None:
    queue_many(2)
    with started(600, "worker", "--json") as process:
        wait_for_line(process, "extracting")
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads(out)["written"] == 0
    assert counts("waiting", "leased") == [2, 0]


def test_a_worker_waits_for_more_and_ends_when_idle() -> None:
    queue_many(1)
    with started(0.0, "worker", "--set", "worker.poll_s=0.2") as process:
        wait_for_line(process, "wiki: 1 written")
        with connect(os.environ["EVIREFORM_DATABASE_URL"]) as db:
            db.corpus("wiki").enqueue([Passage(key="later", text="Carl left.")])
        wait_for_line(process, "wiki: 1 written")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    assert counts("ready", "waiting") == [2, 0]


# status


def test_status_shows_the_queue_and_who_works_on_it(file: Path, database_url: str) -> None:
    run("ingest", "--queue", file, "--corpus", "wiki")
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "INSERT INTO evireform.worker (tenant_id, host, process, seen_at) "
            "SELECT tenant_id, 'far-away', 77, now() - interval '2 minutes' FROM evireform.tenant"
        )
    shown = run("status").stdout
    assert "far-away" in shown
    assert "lost 120 s ago" in shown
    (worker,) = json.loads(run("status", "--json").stdout)["workers"]
    assert (worker["process"], worker["alive"]) == (77, False)


def test_watching_gives_a_line_each_time_until_ctrl_c(file: Path) -> None:
    run("ingest", "--queue", file, "--corpus", "wiki")
    with started(0, "status", "--watch", "--corpus", "wiki", "--json", "--interval-s", "0.1") as process:
        assert process.stdout
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    for line in lines:
        (corpus,) = line["corpora"]
        assert (corpus["name"], corpus["waiting"], corpus["ready"], corpus["left_s"]) == ("wiki", 2, 0, None)


FAILING = ScriptedLanguage(errors={"ada": "no usable answer"})


def test_watching_on_a_terminal_draws_failures_with_reasons_until_ctrl_c(file: Path) -> None:
    with connect(os.environ["EVIREFORM_DATABASE_URL"], encoder=HashEncoder(), language=FAILING) as db:
        db.corpus("wiki", create=True).ingest([Passage(key="ada", text="Ada left.")])
    run("ingest", "--queue", file, "--corpus", "wiki")
    master, terminal = pty.openpty()
    with started(0, "status", "--watch", "--interval-s", "0.1", stdout=terminal) as process:
        os.close(terminal)
        seen = b""
        while b"no usable answer" not in seen:
            seen += os.read(master, 65_536)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == 0
    assert b"no worker: `evireform worker` starts one" in seen


def test_an_interval_without_watching_is_refused() -> None:
    result = run("status", "--interval-s", "1")
    assert result.exit_code == 2
    assert "--interval-s is for --watch" in result.stderr


def test_progress_knows_the_cost_so_far(database_url: str) -> None:
    with connect(database_url, encoder=HashEncoder(), language=ScriptedLanguage()) as db:
        db.corpus("wiki", create=True)
        with psycopg.connect(database_url) as connection:
            connection.execute(
                "INSERT INTO evireform.model_call (tenant_id, corpus_name, purpose, model, tokens_in, cost) "
                "SELECT tenant_id, 'wiki', 'extract', 'm', 5, 0.25 FROM evireform.tenant"
            )
        (progress,) = db.progress()
    assert str(progress.cost) == "0.25"
