"""What a statement reads must not grow with the corpus, also while the planner's statistics lag behind.

A corpus is new to the planner just when it is written fastest. Found as a lock that took 18 seconds a batch.
"""

from __future__ import annotations

from typing import Any

import pytest

from evireform.ingestion import delete
from evireform.records import Passage
from evireform.store.connection import Store, Transaction
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
    return counted(store, "seq_tup_read + COALESCE(idx_tup_fetch, 0)")


def rows_written(store: Store) -> int:
    """Rows of our tables that were inserted, changed or deleted so far."""
    return counted(store, "n_tup_ins + n_tup_upd + n_tup_del")


def counted(store: Store, counters: str) -> int:
    query = f"SELECT sum({counters})::bigint FROM pg_stat_user_tables WHERE relname = ANY (%s)"
    with store.transaction() as tx:
        tx.driver.execute("SELECT pg_stat_force_next_flush()")
    with store.transaction(read_only=True) as tx:
        row = tx.driver.execute(query.encode(), (list(TABLES),)).fetchone()
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


def test_t01_adding_a_passage_reads_no_more_than_its_own_rows(grown: Store) -> None:
    before = rows_fetched(grown)
    ingest(grown, "c", passages(900, 1), language=ScriptedLanguage())
    assert rows_fetched(grown) - before < 300


def test_t01_adding_a_passage_takes_as_much_in_a_corpus_ten_times_as_large(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its names are those that every other passage has: the cost does not grow with their degrees either."""
    ran: list[str] = []
    run = Transaction.run

    def counting(self: Transaction, name: str, *arguments: Any, **options: Any) -> Any:
        ran.append(name)
        return run(self, name, *arguments, **options)

    monkeypatch.setattr(Transaction, "run", counting)
    costs = []
    for name, size in (("small", 60), ("large", 600)):
        ingest(store, name, passages(0, size), language=ScriptedLanguage())
        before = rows_written(store)
        ran.clear()
        ingest(store, name, passages(900, 1), language=ScriptedLanguage())
        costs.append((rows_written(store) - before, sorted(ran)))
    assert costs[0] == costs[1]


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
