"""Writers and readers on the same passages, for seconds or (long form) ten minutes: none blocks another."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from evireform import ingestion
from evireform.errors import EvireformError
from evireform.records import Passage
from evireform.store.connection import Store
from tests.conftest import SCHEMA
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import differences, ingest, search
from tests.scale import scaled

SECONDS = scaled(4.0, 600.0)
WRITERS = READERS = 8
KEYS = [f"p{number:02}" for number in range(40)]
NAMES = ("Ada", "Bob", "Carl", "Dora", "Łódź", "ADA", "bob", "C", "C++")


def passage(key: str, version: int) -> Passage:
    """A passage of one to six sentences that shares its names with most others, the same each time."""
    chance = random.Random(f"{key} {version}")
    sentences = [
        f"{chance.choice(NAMES)} saw {chance.choice(NAMES)} in {chance.randrange(9)}."
        for _ in range(chance.randrange(1, 7))
    ]
    return Passage(key=key, text=" ".join(sentences), metadata={"version": chance.randrange(3)})


FINAL = [passage(key, 0) for key in KEYS]


def write(store: Store, chance: random.Random) -> None:
    """Change, relabel or delete some passages in a random order."""
    keys = chance.sample(KEYS, chance.randrange(1, 12))
    action = chance.random()
    if action < 0.2:
        ingestion.delete(store, "c", keys)
        return
    version = 0 if action < 0.5 else chance.randrange(5)
    changed = [passage(key, version) for key in keys]
    if action > 0.8:
        changed = [Passage(key=p.key, text=p.text, metadata={"by": chance.randrange(3)}) for p in changed]
    ingest(store, "c", changed, language=ScriptedLanguage())


def read(store: Store, chance: random.Random) -> None:
    """Ask a question, logged or not."""
    question = f"Who saw {chance.choice(NAMES)} and {chance.choice(NAMES)}?"
    search(store, "c", question, log=chance.random() < 0.3, k=5)


@pytest.fixture
def deadlocks(database_url: str) -> Callable[[], int]:
    """Asks how many deadlocks the server has broken in this database."""

    def count() -> int:
        with psycopg.connect(database_url, autocommit=True) as connection:
            row = connection.execute(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        return int(row[0]) if row else -1

    return count


def test_t15_eight_writers_and_eight_readers_of_the_same_passages_do_not_block_each_other(
    store: Store, database_url: str, deadlocks: Callable[[], int]
) -> None:
    ingest(store, "c", FINAL, language=ScriptedLanguage())
    until = time.monotonic() + SECONDS
    done = {"write": 0, "read": 0}
    errors: list[Exception] = []

    def work(number: int, kind: str, act: Callable[[Store, random.Random], None]) -> None:
        own = Store(database_url, schema=SCHEMA, pool_size=2)
        chance = random.Random(f"{kind} {number}")
        turns = 0
        try:
            while turns < 3 or (time.monotonic() < until and not errors):
                act(own, chance)
                turns += 1
        except EvireformError as error:
            errors.append(error)
        finally:
            own.close()
            with counting:
                done[kind] += turns

    counting = threading.Lock()
    threads = [
        threading.Thread(target=work, args=(number, kind, act))
        for number in range(WRITERS)
        for kind, act in (("write", write), ("read", read))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert min(done.values()) >= 3 * WRITERS
    assert deadlocks() == 0
    ingest(store, "c", FINAL, language=ScriptedLanguage())
    ingest(store, "fresh", FINAL, language=ScriptedLanguage())
    assert differences(store, "c", "fresh") == {}


def test_the_count_of_deadlocks_sees_one(database_url: str, deadlocks: Callable[[], int]) -> None:
    with (
        psycopg.connect(database_url) as first,
        psycopg.connect(database_url) as second,
    ):
        # Who looks for a circle is who is broken off: the second.
        for connection, key, patience in ((first, 1, "1h"), (second, 2, "50ms")):
            connection.execute("SELECT set_config('deadlock_timeout', %s, false)", [patience])
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [key])
        waiting = threading.Thread(target=lambda: first.execute("SELECT pg_advisory_xact_lock(2)"))
        waiting.start()
        with pytest.raises(psycopg.errors.DeadlockDetected):
            second.execute("SELECT pg_advisory_xact_lock(1)")
        second.rollback()
        waiting.join()
    deadline = time.monotonic() + 30
    while deadlocks() == 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)
