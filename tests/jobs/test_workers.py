"""T1, T5 and T15 through the queue: any number of workers, killed anywhere, make the index that one would."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from evireform import ingestion
from evireform.records import Passage
from evireform.settings import WorkerSettings
from evireform.store import corpora
from evireform.store.connection import Store
from tests.conftest import SCHEMA
from tests.doubles.hash_encoder import HashEncoder
from tests.jobs.indexes import contents, differences, ingest, rows, untrue
from tests.jobs.processes import AT_ONCE, Nursery, Served, kill, wait_until
from tests.jobs.test_index_truth import PASSAGES, in_parallel, language, passage, rankings
from tests.scale import scaled

ROOT = Path(__file__).resolve().parents[2]

KILLS = scaled(4, 20)
TO_KILL_OVER = scaled(100, 300)
PROCESSES = scaled(3, 8)
OVERLAPPING = scaled(60, 600)

INGESTING = """
import random, sys
from evireform import connect
from tests.doubles.hash_encoder import HashEncoder
from tests.jobs.test_index_truth import language, passage

url, number, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
passages = [passage(f"p{place:03}") for place in range(most)]
mine = random.Random(number).sample(passages, most * 2 // 3)
sys.stdin.readline()
with connect(url, encoder=HashEncoder(), language=language()) as db:
    db.init()
    corpus = db.corpus("c", create=True)
    if number % 2:
        corpus.enqueue(mine)
        db.worker().run(drain=True)
    else:
        corpus.ingest(mine)
"""
"""Waits for a line, then makes the tables and ingests its share of the passages; odd ones use the queue."""


@pytest.fixture
def other_nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def take_from_the_dead(store: Store, *alive: int) -> int:
    """End the leases of every process but some, as time would; gives how many passages still wait."""
    with store.transaction() as tx:
        tx.driver.execute(
            b"UPDATE queued_passage SET leased_until = now() - interval '1 s' FROM worker "
            b"WHERE worker.worker_id = queued_passage.worker_id AND process <> ALL (%s)",
            (list(alive),),
        )
    return len(rows(store, "SELECT FROM queued_passage"))


@pytest.mark.parametrize("workers", [1, 4])
def test_t01_through_the_queue_the_index_is_the_same(store: Store, database_url: str, workers: int) -> None:
    ingest(store, "straight", PASSAGES, language=language())
    with store.transaction() as tx:
        corpora.create_corpus(tx, "queued", titles="on")
    ingestion.enqueue(store, "queued", random.Random(workers).sample(PASSAGES, len(PASSAGES)))
    stores = [Store(database_url, schema=SCHEMA) for _ in range(workers)]
    made = [
        ingestion.worker(
            own, encoder=HashEncoder(), language=language(), settings=WorkerSettings(batch=3, poll_s=0.1)
        )
        for own in stores
    ]
    in_parallel(*(partial(worker.run, drain=True) for worker in made))
    for own in stores:
        own.close()
    assert sum(worker.summary().written for worker in made) == len(PASSAGES)
    assert differences(store, "queued", "straight") == {}
    assert rankings(store, "queued") == rankings(store, "straight")
    assert rows(store, "SELECT * FROM queued_passage") == []


def test_t05_workers_killed_at_random_points_lose_nothing_and_pay_twice_only_for_what_was_in_flight(
    served: Served, database_url: str, nursery: Nursery, other_nursery: Nursery
) -> None:
    passages = [
        Passage(key=f"p{number:03}", text=f"Ada met Bob {number}. Carl saw Ada in {1800 + number}.")
        for number in range(TO_KILL_OVER)
    ]
    command = [
        "worker", "--drain", "--batch", "5", "--lease-s", "3600", "--attempts", "1000",
        "--database-url", database_url, *served.settings(),
    ]  # fmt: skip
    chance = random.Random(5)
    with served.connect(url=database_url) as db:
        db.corpus("c", create=True).enqueue(passages)
        nurseries = [nursery, other_nursery]
        running = [one.begin(*command) for one in nurseries]
        for turn in range(KILLS):
            asked = served.asked + chance.randrange(2 * AT_ONCE)
            if turn % 2 and asked < TO_KILL_OVER // 2:  # while both ask
                wait_until(partial(lambda asked: served.asked >= asked, asked))
                time.sleep(chance.random() * 0.05)
            else:  # while it starts
                time.sleep(chance.random() * 0.8)
            place = turn % 2
            kill(running[place], signal.SIGKILL)
            nurseries[place].end()
            running[place] = nurseries[place].begin(*command)
            take_from_the_dead(db.store, *running)
        wait_until(lambda: take_from_the_dead(db.store, *running) == 0, within_s=600)
        assert [one.end() for one in nurseries] == [0, 0]

        store = db.store
        assert served.asked <= TO_KILL_OVER + KILLS * AT_ONCE
        paid = rows(store, "SELECT passage_key, count(*) FROM model_call WHERE NOT cached GROUP BY 1")
        assert sorted(paid) == [(one.key, 1) for one in passages]
        db.corpus("straight", create=True).ingest(passages)
        assert len(contents(store, "c", "passage")) == TO_KILL_OVER
        assert differences(store, "c", "straight") == {}
        assert untrue(store) == {}
        assert rows(store, "SELECT * FROM queued_passage") == []


def test_t15_many_processes_make_the_tables_and_ingest_overlapping_passages_at_once(
    empty_database_url: str,
) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", INGESTING, empty_database_url, str(number), str(OVERLAPPING)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        for number in range(PROCESSES)
    ]
    for process in started:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=300)[1] for process in started]
    assert [(process.returncode, text) for process, text in zip(started, said, strict=True)] == [
        (0, "")
    ] * PROCESSES

    store = Store(empty_database_url, schema=SCHEMA)
    held = [row[0] for row in contents(store, "c", "passage")]
    everything = [passage(key) for key in held]
    ingest(store, "straight", everything, language=language())
    assert differences(store, "c", "straight") == {}
    assert untrue(store) == {}
    again = ingest(store, "c", everything, language=language())
    assert (again.unchanged, again.added, again.changed) == (len(held), 0, 0)
    store.close()
