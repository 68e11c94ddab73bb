"""What a statement reads must not grow with the corpus, also while the planner's statistics lag behind.

A corpus is new to the planner just when it is written fastest. Found as a lock that took 18 seconds a batch.
"""

from __future__ import annotations

import pytest

from evireform.ingestion import delete
from evireform.records import Passage
from evireform.store.connection import Store
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import ingest, search

TABLES = ("entity", "entity_form", "incidence", "mention", "passage", "passage_entity", "proposition")


def passages(start: int, count: int) -> list[Passage]:
    return [
        Passage(key=f"p{n:05}", text=f"Ada saw Place{n}. Bob met Person{n}. Cy ate Dish{n}.")
        for n in range(start, start + count)
    ]


def rows_fetched(store: Store) -> int:
    """Rows that scans of our tables have read so far, whichever kind of scan it was."""
    query = (
        "SELECT sum(seq_tup_read + COALESCE(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables"
        " WHERE relname = ANY (%s)"
    )
    with store.transaction() as tx:
        tx.driver.execute("SELECT pg_stat_force_next_flush()")
    with store.transaction(read_only=True) as tx:
        row = tx.driver.execute(query, (list(TABLES),)).fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture
def grown(store: Store) -> Store:
    """A store with a corpus that grew tenfold since an ingestion last told the planner about it."""
    with store.transaction() as tx:
        for table in TABLES:
            tx.driver.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    ingest(store, "other", passages(0, 300), language=ScriptedLanguage())
    ingest(store, "c", passages(0, 64), language=ScriptedLanguage())
    ingest(store, "c", passages(64, 576), language=ScriptedLanguage())
    return store


def test_adding_a_passage_reads_no_more_than_its_own_rows(grown: Store) -> None:
    before = rows_fetched(grown)
    ingest(grown, "c", passages(900, 1), language=ScriptedLanguage())
    assert rows_fetched(grown) - before < 300


def test_deleting_a_passage_reads_no_more_than_its_own_rows(grown: Store) -> None:
    before = rows_fetched(grown)
    delete(grown, "c", ["p00007"])
    assert rows_fetched(grown) - before < 300


def test_a_search_reads_no_more_than_its_neighbourhood(grown: Store) -> None:
    before = rows_fetched(grown)
    search(grown, "c", "Who met Person7?", language=ScriptedLanguage())
    assert rows_fetched(grown) - before < 3_000


def test_many_new_names_at_once_are_read_once_each(grown: Store) -> None:
    """Found as 17 seconds for 20,000 names in a new corpus beside one that the planner knew."""
    names = 3_000
    text = " ".join(f"Ada saw Place{n}x." for n in range(names))
    before = rows_fetched(grown)
    ingest(grown, "new", [Passage(key="p", text=text)], language=ScriptedLanguage())
    assert rows_fetched(grown) - before < 100 * names
