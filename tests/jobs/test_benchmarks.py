"""The benchmarks compare like with like, and run: their figures are nobody's business here."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from benchmarks import compare, concurrency, hub, ingestion, security, sides, synthetic
from benchmarks.doubles import PreparedQuestion
from evireform.settings import SearchSettings
from evireform.store.connection import Store
from evireform.store.schema import vector_space


def test_both_sides_of_the_benchmark_rank_the_same(store: Store) -> None:
    synthetic.load(store, "synthetic", synthetic.SyntheticCorpus(propositions=600))
    with store.transaction() as tx:
        tx.core(sa.update(vector_space).values(prompts={"question": "Question: {text}"}))
    space, index = compare.open_index(store, "synthetic")
    questions = synthetic.questions(index.vectors, 5)
    compared = compare.compare(store, "synthetic", space, index, questions, SearchSettings())
    assert (compared.propositions, compared.recall, compared.exact_agreement) == (600, 1.0, 1.0)


@pytest.fixture
def questions(store: Store) -> list[PreparedQuestion]:
    """Questions about the corpus ``synthetic-600``, which is there."""
    name = concurrency.corpus(store, 600)
    return synthetic.questions(compare.open_index(store, name)[1].vectors, 4)


def test_ingestion_is_timed_in_every_way(store: Store, database_url: str) -> None:
    rates = ingestion.measure(database_url, propositions=200, added=20, writers=[1, 2], indexed=True)
    assert {rate.way: rate.propositions for rate in rates} == {
        "raw COPY of the vectors as text": 200,
        "raw COPY of the vectors, binary": 200,
        "bulk, 1 writer": 200,
        "added, 1 passage a call": 20,
        "added, 10 passages a call": 20,
        "HNSW built over all of it": 240,
        "added, 1 passage a call, HNSW there": 20,
        "added, 10 passages a call, HNSW there": 20,
        "bulk, 2 writers": 200,
        "bulk, 1 writer, HNSW there": 200,
    }
    assert len(ingestion.table(rates)) == 2 + len(rates)
    with store.transaction() as tx:
        assert tx.driver.execute("SELECT count(*) FROM passage").fetchone() == (0,)


def test_searches_beside_a_writer_leave_the_corpus_as_it_was(
    store: Store, database_url: str, questions: list[PreparedQuestion]
) -> None:
    measured = concurrency.measure(database_url, "synthetic-600", questions, clients=[1], seconds=0.5)
    assert [(row.clients, row.written > 0, row.per_second > 0) for row in measured] == [
        (1, False, True), (1, True, True),
    ]  # fmt: skip
    assert len(concurrency.table(measured)) == 4
    with store.transaction() as tx:
        assert tx.driver.execute("SELECT count(*) FROM proposition").fetchone() == (600,)


def test_both_roles_are_timed_and_the_reader_is_gone_afterwards(
    store: Store, database_url: str, questions: list[PreparedQuestion]
) -> None:
    times = security.measure(store, database_url, "synthetic-600", questions)
    assert list(times) == ["superuser", "reader"]
    assert len(sides.table(times)) == 4
    with store.transaction() as tx:
        query = "SELECT count(*) FROM pg_roles WHERE rolname = %s"
        assert tx.driver.execute(query, [security.ROLE]).fetchone() == (0,)


def test_the_corpus_with_a_hub_is_the_other_one_besides(
    store: Store, questions: list[PreparedQuestion]
) -> None:
    name = hub.hub_corpus(store, 600, 500)
    times, rankings = hub.measure(store, "synthetic-600", name, questions)
    assert list(times) == list(rankings) == ["without the hub", "with the hub"]
    with store.transaction() as tx:
        found = tx.driver.execute(
            "SELECT max(degree) FROM entity JOIN corpus USING (corpus_id) WHERE name = %s", [name]
        ).fetchone()
        corpus_id = tx.driver.execute("SELECT corpus_id FROM corpus WHERE name = %s", [name]).fetchone()
        assert corpus_id
        assert set(synthetic.disagreements(tx, corpus_id[0]).values()) == {0}
    assert found
    assert 500 <= found[0] < 600
