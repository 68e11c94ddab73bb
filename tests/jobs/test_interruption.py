"""T5: the command line, killed and interrupted in the middle of ingestions with calls in flight."""

from __future__ import annotations

import json
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from evireform.formats.passages import read_passages
from tests.jobs.indexes import contents, differences, rows, untrue
from tests.jobs.processes import AT_ONCE, Nursery, Served, kill, wait_until

KILLS = 20
PASSAGES = 300


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


def ingestion(served: Served, home: Path, file: Path, *options: str) -> list[str]:
    return ["ingest", str(file), "--corpus", "c", "--home", str(home), *served.settings(), *options]


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
    with served.connect(home=home) as db:
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
