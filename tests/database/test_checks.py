"""What `doctor` finds on a database, and how it says to mend it."""

from __future__ import annotations

import pytest
from psycopg.conninfo import make_conninfo

from evireform.records import Check
from evireform.store import corpora, spaces
from evireform.store.checks import check_database
from evireform.store.connection import Store
from tests.conftest import SCHEMA
from tests.database.roles import new_role, run_as_owner


def look(url: str, index_threshold: int = 3_000) -> dict[str, Check]:
    store = Store(url, schema=SCHEMA)
    try:
        return {
            check.name: check
            for check in check_database(store, index_threshold=index_threshold, min_recall=0.95)
        }
    finally:
        store.close()


def with_vectors(store: Store, count: int) -> None:
    with store.transaction() as tx:
        corpus = corpora.create_corpus(tx, "wiki", titles="on")
        space = corpora.create_space(tx, corpus, kind="proposition", model="tiny", dimensions=2, prompts={})
        tx.driver.execute(
            "INSERT INTO embedding (corpus_id, space_id, item_id, tenant_id, embedding) "
            "SELECT %s, %s, n, %s, '[1,0]' FROM generate_series(1, %s) AS n",
            (corpus.corpus_id, space.space_id, corpus.tenant_id, count),
        )
        tx.driver.execute("ANALYZE embedding")


def test_all_is_well(store: Store, database_url: str) -> None:
    with_vectors(store, 10)
    found = look(database_url)
    assert list(found) == [
        "connection",
        "server",
        "extension",
        "tables",
        "tenant",
        "proposition vectors of corpus 'wiki'",
    ]
    assert {(check.ok, check.remedy) for check in found.values()} == {(True, "")}
    assert found["proposition vectors of corpus 'wiki'"].detail == "tiny, 2-d, active, scanned"


def test_a_server_that_is_not_there() -> None:
    found = look("host=/nowhere password=s3cr3t")
    assert list(found) == ["connection"]
    assert not found["connection"].ok
    assert found["connection"].remedy == "check its URL, and that it runs"
    assert "s3cr3t" not in found["connection"].detail


def test_tables_that_are_missing(empty_database_url: str) -> None:
    found = look(empty_database_url)
    assert [name for name, check in found.items() if not check.ok] == ["tables"]
    assert found["tables"].remedy == "run `evireform init`"
    assert found["permission"].ok
    assert "not installed in the database yet" in found["extension"].detail


def test_tables_that_are_missing_and_a_role_that_may_not_make_them(empty_database_url: str) -> None:
    with new_role(empty_database_url) as role:
        found = look(make_conninfo(empty_database_url, user=role, password="secret"))
    assert [name for name, check in found.items() if not check.ok] == ["permission", "tables"]
    assert found["permission"].remedy.endswith(f'CREATE SCHEMA "evireform" AUTHORIZATION "{role}"')


def test_tables_of_a_newer_version(database_url: str) -> None:
    run_as_owner(database_url, "UPDATE evireform.alembic_version SET version_num = '9999'")
    found = look(database_url)
    assert (found["tables"].ok, found["tables"].remedy) == (False, "upgrade the package")


def test_many_vectors_without_an_index(store: Store, database_url: str) -> None:
    with_vectors(store, 10)
    found = look(database_url, index_threshold=10)["proposition vectors of corpus 'wiki'"]
    assert not found.ok
    assert "about 10 vectors without an index" in found.detail
    assert found.remedy == "run `evireform index --corpus wiki`"


def test_many_vectors_with_an_index(store: Store, database_url: str) -> None:
    with_vectors(store, 10)
    with store.transaction() as tx:
        space = corpora.spaces(tx, corpora.get_corpus(tx, "wiki").corpus_id)[0]
        tx.run("create_space_index", {"corpus_id": space.corpus_id, "space_id": space.space_id})
    found = look(database_url, index_threshold=10)["proposition vectors of corpus 'wiki'"]
    assert (found.ok, found.detail, found.remedy) == (
        True,
        "tiny, 2-d, active, HNSW index, its recall was never measured",
        "run `evireform index --corpus wiki`",
    )


def measured(store: Store, database_url: str, *, recall: float, vectors: int) -> Check:
    """What is said of an index over ten vectors whose recall was measured."""
    with_vectors(store, 10)
    with store.transaction() as tx:
        space = corpora.spaces(tx, corpora.get_corpus(tx, "wiki").corpus_id)[0]
        tx.run("create_space_index", {"corpus_id": space.corpus_id, "space_id": space.space_id})
        spaces.save_recall(tx, space, recall=recall, breadth=400, vectors=vectors)
    return look(database_url)["proposition vectors of corpus 'wiki'"]


def test_an_index_of_good_recall(store: Store, database_url: str) -> None:
    found = measured(store, database_url, recall=0.95, vectors=10)
    assert (found.ok, found.detail, found.remedy) == (
        True,
        "tiny, 2-d, active, HNSW index, recall@100 0.950 at ef_search 400",
        "",
    )


def test_an_index_of_poor_recall(store: Store, database_url: str) -> None:
    found = measured(store, database_url, recall=0.9499, vectors=10)
    assert (found.ok, found.detail, found.remedy) == (
        False,
        "tiny, 2-d, active, HNSW index, recall@100 0.950 at ef_search 400, below 0.95",
        "raise search.ef_search, or run `evireform index --corpus wiki --rebuild`",
    )


def test_an_index_that_was_measured_long_ago(store: Store, database_url: str) -> None:
    found = measured(store, database_url, recall=1.0, vectors=4)
    assert (found.ok, found.detail, found.remedy) == (
        True,
        "tiny, 2-d, active, HNSW index, recall@100 1.000 at ef_search 400, "
        "measured when it held 4 of now about 10 vectors",
        "run `evireform index --corpus wiki`",
    )


@pytest.mark.parametrize("index_threshold", [10, 3_000])
def test_a_space_whose_partition_was_dropped(store: Store, database_url: str, index_threshold: int) -> None:
    with_vectors(store, 10)
    run_as_owner(database_url, "DROP TABLE evireform.embedding_1_1")
    found = look(database_url, index_threshold)["proposition vectors of corpus 'wiki'"]
    assert (found.ok, found.detail) == (False, "tiny, 2-d, active, its partition is missing")
