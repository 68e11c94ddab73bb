"""The real thing: a hot standby that streams from its primary answers searches, and is never written to."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from typer.testing import CliRunner

from evireform import connect
from evireform.cli import app
from evireform.database import Database
from evireform.errors import DatabaseError, DatabaseUnreachable, PermissionMissing
from evireform.records import Passage
from evireform.settings import SearchSettings, Settings
from evireform.store.checks import check_database
from evireform.store.connection import Store
from evireform.store.corpora import create_corpus
from evireform.store.migrate import init
from tests.conftest import SCHEMA
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.standby import PRIMARY_PORT, STANDBY_PORT, Servers, streaming

TEXTS = [Passage(key=key, text=f"Ada saw {key}.") for key in ("x", "y", "z")]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with streaming() as both:
        store = Store(both.primary_url, schema=SCHEMA)
        init(store)
        store.close()
        caught_up(both)
        yield both


@pytest.fixture
def database(servers: Servers) -> Iterator[Database]:
    """Both servers as one database, with a corpus ``c`` that the standby has too."""
    with opened(servers) as both:
        both.corpus("c", create=True).ingest(TEXTS)
        caught_up(servers)
        yield both
        both.delete_corpus("c")


def opened(servers: Servers, settings: Settings | None = None) -> Database:
    return connect(
        servers.primary_url,
        read_url=servers.standby_url,
        settings=settings,
        encoder=HashEncoder(),
        language=ScriptedLanguage(),
    )


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
        return row and row[0]


def caught_up(servers: Servers) -> None:
    """Wait until the standby has replayed what the primary has written."""
    written = ask(servers.primary_url, "SELECT pg_current_wal_lsn()")
    until(lambda: ask(servers.standby_url, f"SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn"))


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def found(database: Database) -> list[str]:
    return sorted(p.passage_key for p in database.corpus("c").search("Ada saw x").passages)


def standby_check(database: Database) -> tuple[bool, str]:
    found = check_database(database.store, index_threshold=3_000, min_recall=0.95)
    (check,) = (check for check in found if check.name == "standby")
    return check.ok, check.detail


@contextmanager
def stopped(servers: Servers, name: str, port: int) -> Iterator[None]:
    servers.stop(name)
    try:
        yield
    finally:
        servers.start(name, port)


@pytest.mark.usefixtures("database")
def test_a_search_reads_nothing_of_the_primary(servers: Servers) -> None:
    silent = opened(servers, Settings(search=SearchSettings(log=False)))
    with silent, stopped(servers, "primary", PRIMARY_PORT):
        assert found(silent) == ["x", "y", "z"]
        assert silent.corpus("c").answer("Ada saw x").read == ("x", "y", "z")
        assert silent.corpus("c").status().ready == 3
        assert [corpus.name for corpus in silent.corpora()] == ["c"]
        assert silent.cost().total.calls == 0


@pytest.mark.usefixtures("database")
def test_the_command_line_takes_its_url(servers: Servers) -> None:
    urls = ["--database-url", servers.primary_url, "--read-url", servers.standby_url]
    with stopped(servers, "primary", PRIMARY_PORT):
        ran = CliRunner().invoke(app, ["status", "--corpus", "c", "--json", *urls])
    assert [corpus["ready"] for corpus in json.loads(ran.stdout)["corpora"]] == [3]


def test_a_search_is_logged_on_the_primary(servers: Servers, database: Database) -> None:
    ranking = database.corpus("c").search("Ada saw x")
    query = f"SELECT question FROM {SCHEMA}.question_log WHERE question_id = {ranking.log_id}"
    assert (ranking.notes, ask(servers.primary_url, query)) == ((), "Ada saw x")
    caught_up(servers)
    assert database.corpus("c").replay(ranking.log_id or 0).same


def test_a_search_whose_log_cannot_be_written_says_so(servers: Servers, database: Database) -> None:
    with stopped(servers, "primary", PRIMARY_PORT):
        ranking = database.corpus("c").search("Ada saw x")
    assert ranking.log_id is None
    assert ranking.notes[-1].startswith("not logged: no connection to the database")


def test_what_writes_needs_no_standby(servers: Servers, database: Database) -> None:
    with stopped(servers, "standby", STANDBY_PORT):
        handle = database.corpus("c")
        assert handle.ingest([*TEXTS, Passage(key="w", text="Ada saw w.")]).added == 1
        assert handle.delete(["w"]) == ["w"]


def test_without_the_standby_a_search_says_what_is_missing(servers: Servers, database: Database) -> None:
    with (
        stopped(servers, "standby", STANDBY_PORT),
        pytest.raises(DatabaseUnreachable, match=r"no connection to the standby .*check read_url"),
    ):
        found(database)
    assert found(database) == ["x", "y", "z"]


@pytest.mark.usefixtures("database")
def test_libpq_takes_the_primary_where_no_standby_answers(servers: Servers) -> None:
    either = (
        f"postgresql:///postgres?user=owner&host={servers.home},{servers.home}"
        f"&port={STANDBY_PORT},{PRIMARY_PORT}&target_session_attrs=prefer-standby"
    )
    with connect(
        servers.primary_url, read_url=either, encoder=HashEncoder(), language=ScriptedLanguage()
    ) as both:
        with both.store.reading() as tx:
            replaying = tx.driver.execute("SELECT pg_is_in_recovery()").fetchone()
        with stopped(servers, "standby", STANDBY_PORT):
            assert (replaying, found(both)) == ((True,), ["x", "y", "z"])


def test_a_deletion_shows_on_the_standby_once_it_is_replayed(servers: Servers, database: Database) -> None:
    ask(servers.standby_url, "SELECT pg_wal_replay_pause()")
    try:
        database.corpus("c").delete(["x"])
        before = found(database)
        behind = standby_check(database)
    finally:
        ask(servers.standby_url, "SELECT pg_wal_replay_resume()")
    caught_up(servers)
    assert (before, found(database)) == (["x", "y", "z"], ["y", "z"])
    assert behind[0]
    assert re.match(r"[1-9]\d* bytes behind the primary; the last change that it has is \d", behind[1])


def test_a_search_that_the_standby_breaks_off_can_be_asked_again(
    servers: Servers, database: Database
) -> None:
    database.corpus("gone", create=True).ingest(TEXTS)
    caught_up(servers)
    with psycopg.connect(servers.standby_url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET max_standby_streaming_delay = 0")
        connection.execute("SELECT pg_reload_conf()")

    def delete() -> None:
        until(
            lambda: ask(
                servers.standby_url, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            )
        )
        database.delete_corpus("gone")

    deleting = threading.Thread(target=delete)
    deleting.start()
    with (
        pytest.raises(DatabaseError, match="ask again; hot_standby_feedback") as caught,
        database.store.reading() as tx,
    ):
        tx.driver.execute("SELECT count(*), pg_sleep(60) FROM embedding")
    deleting.join()
    assert caught.value.sqlstate == "40001"
    assert found(database) == ["x", "y", "z"]


def test_a_standby_is_not_written_to(database: Database) -> None:
    with (
        pytest.raises(PermissionMissing, match="read-only transaction"),
        database.store.reading() as tx,
    ):
        create_corpus(tx, "d", titles="on")


def test_doctor_shows_a_standby_that_follows(database: Database) -> None:
    ok, detail = standby_check(database)
    assert ok
    assert re.match(r"\d+ bytes behind the primary", detail)


def test_doctor_refuses_a_standby_that_is_none(servers: Servers, server_url: str) -> None:
    with connect(servers.primary_url, read_url=server_url) as database:
        assert standby_check(database) == (False, "it is no copy of the primary")


def test_a_promoted_standby_goes_on_answering_and_is_reported() -> None:
    with streaming() as servers, opened(servers) as database:
        database.init()
        database.corpus("c", create=True).ingest(TEXTS)
        caught_up(servers)
        servers.promote()
        database.corpus("c").delete(["x"])
        assert found(database) == ["x", "y", "z"]
        assert standby_check(database) == (False, "it does not follow the primary any more")
        query = f"SELECT count(*) FROM {SCHEMA}.question_log"
        assert (ask(servers.primary_url, query), ask(servers.standby_url, query)) == (1, 0)
