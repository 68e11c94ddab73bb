"""Transactions leave no trace on a connection, and every error says what to do without a secret."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from evireform.errors import (
    DatabaseError,
    DatabaseUnreachable,
    EvireformError,
    PermissionMissing,
    SchemaMissing,
    UsageError,
)
from evireform.store import corpora
from evireform.store.connection import EF_SEARCH, Store, Transaction
from tests.conftest import SCHEMA
from tests.database.roles import new_role, run_as_owner

SETTINGS = (
    "search_path",
    "statement_timeout",
    "hnsw.ef_search",
    "hnsw.iterative_scan",
    "enable_indexscan",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "transaction_isolation",
    "transaction_read_only",
)


@pytest.fixture
def opened() -> Iterator[Callable[..., Store]]:
    """Opens stores that are closed after the test."""
    stores: list[Store] = []

    def open_store(url: str, **options: object) -> Store:
        stores.append(Store(url, schema=SCHEMA, **options))  # type: ignore[arg-type]
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def settings_of(connection: psycopg.Connection[tuple[str, ...]]) -> dict[str, str | None]:
    connection.execute("SELECT '[1]'::public.halfvec")  # loads the library, so that its settings exist
    query = (
        "SELECT current_setting(name, true) FROM unnest(%s::text[]) WITH ORDINALITY AS s (name, n) ORDER BY n"
    )
    rows = connection.execute(query, [list(SETTINGS)]).fetchall()
    return dict(zip(SETTINGS, (row[0] for row in rows), strict=True))


def ask(tx: Transaction, query: str) -> object:
    row = tx.driver.execute(query.encode()).fetchone()
    return row and row[0]


def end_process(url: str, process: object) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [process])


def names(store: Store) -> list[str]:
    with store.transaction(read_only=True) as tx:
        return [corpus.name for corpus in corpora.list_corpora(tx)]


def test_a_transaction_commits_when_its_block_ends_well(store: Store) -> None:
    with store.transaction() as tx:
        corpora.create_corpus(tx, "wiki", titles="on")
    assert names(store) == ["wiki"]


def test_a_transaction_is_undone_when_its_block_fails(store: Store) -> None:
    def fail() -> None:
        with store.transaction() as tx:
            corpora.create_corpus(tx, "wiki", titles="on")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(store) == []


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"snapshot": True},
        {"read_only": True, "snapshot": True},
        {"exact": True, "ef_search": 77},
        {"statement_timeout_s": 1.5},
    ],
)
@pytest.mark.parametrize("fails", [False, True])
def test_no_setting_outlives_a_transaction(
    opened: Callable[..., Store], database_url: str, options: dict[str, bool], fails: bool
) -> None:
    with psycopg.connect(database_url) as fresh:
        expected = settings_of(fresh)
    pooled = opened(database_url, pool_size=1)
    for _ in range(2):
        try:
            with pooled.transaction(**options) as tx:
                process = ask(tx, "SELECT pg_backend_pid()")
                corpora.list_corpora(tx)
                if fails:
                    tx.run("create_space_index", {"corpus_id": 0, "space_id": 0})
        except DatabaseError:
            assert fails
        with pooled.engine.connect() as connection:
            raw = connection.connection.driver_connection
            assert isinstance(raw, psycopg.Connection)
            assert raw.info.backend_pid == process
            assert settings_of(raw) == expected


def test_settings_of_a_transaction(store: Store) -> None:
    with store.transaction(ef_search=77, statement_timeout_s=1.5) as tx:
        assert settings_of(tx.driver) == {
            "search_path": '"evireform", "public", "pg_temp"',
            "statement_timeout": "1500ms",
            "hnsw.ef_search": "77",
            "hnsw.iterative_scan": "relaxed_order",
            "enable_indexscan": "on",
            "default_transaction_isolation": "read committed",
            "default_transaction_read_only": "off",
            "transaction_isolation": "read committed",
            "transaction_read_only": "off",
        }


def test_settings_unless_told(store: Store) -> None:
    with store.transaction() as tx:
        found = settings_of(tx.driver)
    assert (found["hnsw.ef_search"], found["statement_timeout"]) == (str(EF_SEARCH), "1min")


def test_exact_is_for_one_transaction(store: Store) -> None:
    with store.transaction(exact=True) as tx:
        assert tx.exact
    with store.transaction() as tx:
        assert not tx.exact


@pytest.mark.parametrize(("snapshot", "seen"), [(True, []), (False, ["wiki"])])
def test_a_snapshot_does_not_see_what_others_commit(store: Store, snapshot: bool, seen: list[str]) -> None:
    with store.transaction(read_only=True, snapshot=snapshot) as tx:
        corpora.list_corpora(tx)
        with store.transaction() as other:
            corpora.create_corpus(other, "wiki", titles="on")
        assert [corpus.name for corpus in corpora.list_corpora(tx)] == seen


def test_a_transaction_counts_statements_and_rows(store: Store) -> None:
    with store.transaction() as tx:
        corpora.create_corpus(tx, "wiki", titles="on")
        before = (tx.tally.statements, tx.tally.rows)
        corpora.list_corpora(tx)
        tx.run("failed_passages", {"corpus_id": 1, "fetch": 10})
        assert (tx.tally.statements - before[0], tx.tally.rows - before[1]) == (2, 1)


def test_a_refused_statement_is_named(store: Store) -> None:
    with pytest.raises(DatabaseError) as caught, store.transaction() as tx:
        corpora.create_corpus(tx, "wiki", titles="maybe")  # type: ignore[arg-type]
    assert (type(caught.value), caught.value.sqlstate) == (DatabaseError, "23514")
    assert "ck_corpus_titles" in str(caught.value)
    assert isinstance(caught.value.__cause__, sa.exc.IntegrityError)


def test_a_named_statement_is_in_its_error(store: Store) -> None:
    with (
        pytest.raises(DatabaseError, match="the database refused `lock_passages`") as caught,
        store.transaction() as tx,
    ):
        tx.run("lock_passages", {"corpus_id": "one", "passage_keys": []})
    assert (caught.value.statement, caught.value.sqlstate) == ("lock_passages", "22P02")
    assert isinstance(caught.value.__cause__, psycopg.Error)


def test_a_statement_that_takes_too_long_names_the_setting(
    opened: Callable[..., Store], database_url: str
) -> None:
    hurried = opened(database_url, statement_timeout_s=0.1)
    with (
        pytest.raises(DatabaseError, match="raise statement_timeout_s") as caught,
        hurried.transaction() as tx,
    ):
        ask(tx, "SELECT pg_sleep(10)")
    assert caught.value.sqlstate == "57014"


def test_writing_in_a_read_only_transaction_is_refused(store: Store) -> None:
    with (
        pytest.raises(PermissionMissing, match="read-only transaction"),
        store.transaction(read_only=True) as tx,
    ):
        corpora.create_corpus(tx, "wiki", titles="on")


def test_a_role_without_rights_is_told_what_it_needs(opened: Callable[..., Store], database_url: str) -> None:
    with new_role(database_url) as role:
        stranger = opened(make_conninfo(database_url, user=role, password="secret"))
        with pytest.raises(PermissionMissing, match="evireform tenant grant"), stranger.transaction():
            pass
        stranger.close()


def test_a_missing_table_asks_for_init(store: Store, database_url: str) -> None:
    run_as_owner(database_url, "DROP TABLE evireform.question_log CASCADE")
    with (
        pytest.raises(SchemaMissing, match=r"question_log.*: run `evireform init`"),
        store.transaction() as tx,
    ):
        tx.run("question_log_entry", {"corpus_id": 1, "question_id": 1})


def test_a_database_without_our_tables_asks_for_init(
    opened: Callable[..., Store], empty_database_url: str
) -> None:
    fresh = opened(empty_database_url)
    with pytest.raises(SchemaMissing, match="run `evireform init`"), fresh.transaction():
        pass


def test_a_server_that_goes_away_is_told_and_the_next_transaction_works(
    store: Store, database_url: str
) -> None:
    def lose() -> None:
        with store.transaction() as tx:
            end_process(database_url, ask(tx, "SELECT pg_backend_pid()"))
            corpora.list_corpora(tx)

    with pytest.raises(DatabaseUnreachable) as caught:
        lose()
    assert caught.value.sqlstate == "57P01"
    assert names(store) == []


def test_a_pooled_connection_that_died_is_replaced(store: Store, database_url: str) -> None:
    with store.transaction() as tx:
        process = ask(tx, "SELECT pg_backend_pid()")
    end_process(database_url, process)
    assert names(store) == []


def test_a_pool_in_full_use_names_the_setting(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.engine.pool, "_timeout", 0.1)
    with ExitStack() as stack:
        for _ in range(store.engine.pool.size() + 10):  # type: ignore[attr-defined]
            stack.enter_context(store.transaction())
        with pytest.raises(DatabaseError, match="raise pool_size"), store.transaction():
            pass


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cr3t@/wiki?host=/nowhere",
        "postgresql://ann:s3cr3t@127.0.0.1:1/wiki",
        "host=/nowhere user=ann password=s3cr3t",
    ],
)
def test_an_unreachable_server_is_told_without_the_password(opened: Callable[..., Store], url: str) -> None:
    away = opened(url)
    message = "check its URL, and that it runs"
    with pytest.raises(DatabaseUnreachable, match=message) as caught, away.transaction():
        pass
    assert_no_secret(caught.value)


def test_a_database_that_is_not_there_is_named(opened: Callable[..., Store], database_url: str) -> None:
    away = opened(make_conninfo(database_url, dbname="nowhere", password="s3cr3t"))
    message = 'database "nowhere" does not exist'
    with pytest.raises(DatabaseUnreachable, match=message) as caught, away.transaction():
        pass
    assert_no_secret(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s3cr3t%zz@host/wiki",
        "postgresql://ann:s3cr3t@[host/wiki",
        "mysql://ann:s3cr3t@host/wiki",
        "host=x passwort=s3cr3t",
        "s3cr3t",
    ],
)
def test_a_url_that_libpq_does_not_understand_is_not_quoted(url: str) -> None:
    with pytest.raises(UsageError, match="postgresql://user@host/database") as caught:
        Store(url, schema=SCHEMA)
    assert_no_secret(caught.value)


def assert_no_secret(error: EvireformError) -> None:
    told = "".join(traceback.format_exception(error))
    quoted = re.sub(r"^ .*\n", "", told, flags=re.MULTILINE)  # without the lines of code
    assert str(error) in quoted
    assert "s3cr3t" not in quoted


def test_an_empty_url_takes_the_environment_of_libpq(
    opened: Callable[..., Store], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_of = {
        "host": "PGHOST",
        "port": "PGPORT",
        "user": "PGUSER",
        "password": "PGPASSWORD",
        "dbname": "PGDATABASE",
    }
    for key, given in conninfo_to_dict(database_url).items():
        monkeypatch.setenv(names_of[key], str(given))
    assert names(opened("")) == []


def test_the_old_scheme_of_urls_works(opened: Callable[..., Store], database_url: str) -> None:
    given = conninfo_to_dict(database_url)
    query = "&".join(f"{key}={value}" for key, value in given.items())
    assert names(opened(f"postgres://?{query}")) == []


def test_a_transaction_that_was_open_when_the_store_was_closed_ends_well_and_is_closed(store: Store) -> None:
    with store.transaction() as tx:
        driver = tx.driver
        store.close()
        assert tx.driver.execute("SELECT 1").fetchone() == (1,)
    assert driver.closed


@pytest.mark.parametrize("begin", [Store.transaction, Store.reading, Store.plain_transaction])
def test_no_transaction_begins_after_the_store_was_closed(
    store: Store, begin: Callable[[Store], AbstractContextManager[object]]
) -> None:
    store.close()
    with pytest.raises(UsageError, match="the database was closed: connect to it again"), begin(store):
        pass
