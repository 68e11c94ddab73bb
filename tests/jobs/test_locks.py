"""Who waits for whom: in one line, for no deadlock, and at the cost of no passage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from evireform import generations, ingestion
from evireform.errors import DatabaseError, EvireformError
from evireform.records import CorpusRow, Extraction, Passage
from evireform.settings import WorkerSettings
from evireform.store import corpora
from evireform.store import generations as store_generations
from evireform.store.connection import Store, Transaction
from tests.conftest import SCHEMA
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import ingest, rows
from tests.jobs.processes import wait_until
from tests.scale import scaled

ADA = Passage(key="ada", text="Ada met Bob.")
OLDER = Passage(key="ada", text="Ada was born.")
NEWER = Passage(key="ada", text="Ada wrote a program.")
BOB = Passage(key="bob", text="Bob saw Ada.")


class Meanwhile(ScriptedLanguage):
    """Does something while it extracts, once."""

    def __init__(self, act: Callable[[], object], **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]
        self.act: Callable[[], object] | None = act

    def extract(self, passages: list[Passage]) -> list[Extraction]:  # type: ignore[override]
        act, self.act = self.act, None
        if act:
            act()
        return super().extract(passages)


@pytest.fixture
def corpus(store: Store) -> CorpusRow:
    with store.transaction() as tx:
        return corpora.create_corpus(tx, "c", titles="on")


@pytest.fixture
def hurried(database_url: str) -> Iterator[Store]:
    opened = Store(database_url, schema=SCHEMA, statement_timeout_s=0.3)
    yield opened
    opened.close()


def drain(store: Store) -> None:
    worker = ingestion.worker(
        store, encoder=HashEncoder(), language=ScriptedLanguage(), settings=WorkerSettings(), corpus="c"
    )
    worker.run(drain=True)


def waiting(store: Store) -> list[tuple[object, ...]]:
    return rows(store, "SELECT passage_key, body, attempts, worker_id FROM queued_passage ORDER BY 1")


def texts(store: Store) -> list[tuple[object, ...]]:
    return rows(store, "SELECT passage_key, body, state FROM passage ORDER BY 1")


# --- the newest text wins ---------------------------------------------------------------------------------


def queue_newer(store: Store) -> None:
    ingestion.enqueue(store, "c", [NEWER])


def delete_and_queue_newer(store: Store) -> None:
    ingestion.delete(store, "c", ["ada"])
    queue_newer(store)


@pytest.mark.parametrize("before", [[], [OLDER]], ids=["nothing waits", "an older text waits"])
@pytest.mark.parametrize("act", [queue_newer, delete_and_queue_newer])
def test_a_text_queued_while_an_older_one_is_ingested_stays_and_wins(
    store: Store, corpus: CorpusRow, before: list[Passage], act: Callable[[Store], None]
) -> None:
    ingestion.enqueue(store, corpus.name, before)
    ingest(store, "c", [ADA], language=Meanwhile(lambda: act(store)))
    assert texts(store) == [("ada", ADA.text, "ready")]
    assert waiting(store) == [("ada", NEWER.text, 0, None)]
    drain(store)
    assert (texts(store), waiting(store)) == ([("ada", NEWER.text, "ready")], [])


def test_a_text_that_waited_before_a_newer_one_was_ingested_goes(store: Store, corpus: CorpusRow) -> None:
    ingestion.enqueue(store, corpus.name, [OLDER, BOB])
    ingest(store, "c", [ADA])
    assert waiting(store) == [("bob", BOB.text, 0, None)]


def test_a_text_queued_while_a_failed_one_is_retried_stays_and_wins(store: Store, corpus: CorpusRow) -> None:
    ingest(store, corpus.name, [ADA], language=ScriptedLanguage(errors={"ada": "no"}))
    ingestion.retry(store, "c", encoder=HashEncoder(), language=Meanwhile(lambda: queue_newer(store)))
    assert (texts(store), len(waiting(store))) == ([("ada", ADA.text, "ready")], 1)
    drain(store)
    assert (texts(store), waiting(store)) == ([("ada", NEWER.text, "ready")], [])


# --- who waits for a lock is not to blame -----------------------------------------------------------------

LOCKS = {
    "the corpus": "SELECT FROM corpus FOR UPDATE",
    "the gate": (
        "SELECT pg_advisory_xact_lock(hashtextextended('evireform corpus ' || corpus_id, 0)) FROM corpus"
    ),
    "a passage": "SELECT FROM passage FOR UPDATE",
    "an entity": "SELECT FROM entity FOR UPDATE",
    "the vectors": "LOCK TABLE embedding IN SHARE ROW EXCLUSIVE MODE",
}


class Other:
    """Somebody who locks something until `release`."""

    def __init__(self, connection: psycopg.Connection, statement: str) -> None:
        self._connection = connection
        self._statement = statement

    def lock(self) -> None:
        self._connection.execute(self._statement.encode())

    def release(self) -> None:
        self._connection.rollback()


@pytest.fixture(params=LOCKS)
def other(request: pytest.FixtureRequest, database_url: str) -> Iterator[Other]:
    with psycopg.connect(database_url) as connection:
        connection.execute("SELECT set_config('search_path', %s, false)", [SCHEMA])
        connection.commit()
        yield Other(connection, LOCKS[request.param])
        connection.rollback()


@pytest.mark.usefixtures("corpus")
def test_an_ingestion_that_waits_too_long_for_a_lock_ends_and_refuses_no_passage(
    store: Store, hurried: Store, other: Other
) -> None:
    ingest(store, "c", [OLDER])
    language = Meanwhile(other.lock)
    with pytest.raises(DatabaseError, match="was canceled"):
        ingest(hurried, "c", [ADA], language=language)
    other.release()
    assert texts(store) == [("ada", OLDER.text, "ready")]
    assert ingest(hurried, "c", [ADA, BOB]).rejected == ()
    assert texts(store) == [("ada", ADA.text, "ready"), ("bob", BOB.text, "ready")]


@pytest.mark.usefixtures("corpus")
def test_a_worker_that_waits_too_long_for_a_lock_ends_and_gives_back_what_it_had(
    store: Store, hurried: Store, other: Other
) -> None:
    ingest(store, "c", [OLDER])
    ingestion.enqueue(store, "c", [ADA])
    worker = ingestion.worker(
        hurried,
        encoder=HashEncoder(),
        language=Meanwhile(other.lock),
        settings=WorkerSettings(attempts=1),
    )
    with pytest.raises(DatabaseError, match="was canceled"):
        worker.run(drain=True)
    assert waiting(store) == [("ada", ADA.text, 0, None)]
    other.release()
    assert texts(store) == [("ada", OLDER.text, "ready")]
    drain(store)
    assert (texts(store), waiting(store)) == ([("ada", ADA.text, "ready")], [])


@pytest.mark.usefixtures("corpus")
def test_who_waits_too_long_for_a_corpus_is_told_that_others_work_on_it(
    hurried: Store, store: Store, corpus: CorpusRow
) -> None:
    with store.transaction() as alone:
        corpora.lock_corpus(alone, corpus.corpus_id)
        with pytest.raises(DatabaseError, match="others work on the same"), hurried.transaction() as tx:
            corpora.hold_corpus(tx, corpus.corpus_id)


# --- one line ---------------------------------------------------------------------------------------------


@contextmanager
def in_line(store: Store, number: int, act: Callable[[Transaction], object]) -> Iterator[threading.Thread]:
    """Act in a transaction of another thread; goes on when so many wait for a gate."""

    def work() -> None:
        with store.transaction() as tx:
            act(tx)

    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: len(queued(store)) == number)
    yield thread
    thread.join(timeout=60)
    assert not thread.is_alive()


def queued(store: Store) -> list[tuple[object, ...]]:
    return rows(
        store,
        "SELECT FROM pg_locks JOIN pg_database AS base ON base.oid = pg_locks.database "
        "WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()",
    )


SHARED: dict[str, Callable[[Transaction, CorpusRow], object]] = {
    "hold_corpus": lambda tx, corpus: corpora.hold_corpus(tx, corpus.corpus_id),
    "lock_extractor": lambda tx, corpus: corpora.lock_extractor(tx, corpus),
    "hold": lambda tx, corpus: store_generations.hold(tx, corpus),
    "share_log": lambda tx, corpus: tx.run("share_log", {"corpus_id": corpus.corpus_id}),
}
ALONE: dict[str, Callable[[Transaction, CorpusRow], object]] = {
    "lock_corpus": lambda tx, corpus: corpora.lock_corpus(tx, corpus.corpus_id),
    "lock": lambda tx, corpus: store_generations.lock(tx, corpus),
    "delete_corpus": lambda tx, corpus: corpora.delete_corpus(tx, corpus.name),
}


@pytest.mark.parametrize(
    ("alone", "shared"),
    [("lock_corpus", shared) for shared in SHARED] + [(alone, "share_log") for alone in ALONE],
)
def test_writers_do_not_overtake_who_waits_to_have_the_corpus_alone(
    store: Store, corpus: CorpusRow, alone: str, shared: str
) -> None:
    turns: list[str] = []

    def first(tx: Transaction) -> None:
        ALONE[alone](tx, corpus)
        turns.append("alone")

    def second(tx: Transaction) -> None:
        SHARED[shared](tx, corpus)
        turns.append("shared")

    with store.transaction() as tx:
        corpora.hold_corpus(tx, corpus.corpus_id)
        operator = in_line(store, 1, first)
        operator.__enter__()
        writer = in_line(store, 2, second)
        writer.__enter__()
    operator.__exit__(None, None, None)
    writer.__exit__(None, None, None)
    assert turns == ["alone", "shared"]


def test_a_writer_sees_what_was_committed_while_it_waited(store: Store, corpus: CorpusRow) -> None:
    found: list[str] = []
    with store.transaction() as tx:
        corpora.lock_corpus(tx, corpus.corpus_id)
        writer = in_line(store, 1, lambda other: found.append(corpora.hold_corpus(other, corpus.corpus_id)))
        writer.__enter__()
        store_generations.rename(tx, corpus, "renamed")
    writer.__exit__(None, None, None)
    assert found == ["renamed"]


# --- no circle --------------------------------------------------------------------------------------------


def delete(store: Store) -> None:
    with store.transaction() as tx:
        corpora.delete_corpus(tx, "c")


def at_once(*acts: Callable[[], object]) -> list[EvireformError]:
    """Act in threads that begin together; gives what was refused."""
    together = threading.Barrier(len(acts))
    errors: list[EvireformError] = []

    def work(act: Callable[[], object]) -> None:
        together.wait(timeout=30)
        try:
            act()
        except EvireformError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return errors


@pytest.mark.parametrize("act", [generations.switch, generations.drop])
def test_a_corpus_is_deleted_while_its_generations_are_switched_or_dropped(
    store: Store, act: Callable[[Store, str], object]
) -> None:
    for _ in range(scaled(6, 60)):
        ingest(store, "c", [ADA, BOB])
        generations.start(store, "c", encoder=HashEncoder(), language=ScriptedLanguage())
        generations.switch(store, "c")  # now the shadow has the lower id
        errors = at_once(lambda: act(store, "c"), lambda: delete(store))
        assert [error for error in errors if isinstance(error, DatabaseError)] == []
        with store.transaction() as tx:
            for left in corpora.list_corpora(tx):
                corpora.delete_corpus(tx, left.name)
