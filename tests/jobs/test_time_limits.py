"""No statement and no transaction outlives its time, nor the client that it was for."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import psycopg
import pytest

from evireform import connect
from evireform.errors import DatabaseError, DatabaseUnreachable
from evireform.records import Passage
from evireform.settings import Settings
from evireform.store.connection import Store
from tests.conftest import SCHEMA
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

LIMITS = ("statement_timeout", "idle_in_transaction_session_timeout", "client_connection_check_interval")

CLIENT = """
import sys
from evireform.store.connection import Store
with Store(sys.argv[1], schema=sys.argv[2]).transaction() as tx:
    tx.driver.execute("SELECT pg_sleep(600)")
"""


def sessions(url: str, condition: str) -> int:
    """How many sessions of evireform on this database are in some state."""
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        f"AND application_name = 'evireform' AND {condition}"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    return int(row[0]) if row else 0


def until_no(url: str, condition: str, *, more: bool = False) -> None:
    """Wait until no session is in this state; with ``more`` until one is."""
    deadline = time.monotonic() + 60
    while (sessions(url, condition) > 0) is not more:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def limits(store: Store, **options: float | bool) -> list[str]:
    with store.transaction(**options) as tx:  # type: ignore[arg-type]
        return [
            str(row[0])
            for name in LIMITS
            for row in tx.driver.execute("SELECT current_setting(%s)", [name]).fetchall()
        ]


def test_every_transaction_has_its_limits(store: Store) -> None:
    assert limits(store) == ["1min", "1min", "2s"]


def test_both_limits_follow_one_setting(store: Store) -> None:
    assert limits(store, statement_timeout_s=1.5)[:2] == ["1500ms", "1500ms"]
    assert limits(store, statement_timeout_s=0, read_only=True)[:2] == ["0", "0"]


def test_a_search_beyond_its_time_names_statement_and_setting(database_url: str) -> None:
    doubles = {"encoder": HashEncoder(), "language": ScriptedLanguage()}
    with (
        connect(database_url, settings=Settings(statement_timeout_s=0.3), **doubles) as database,  # type: ignore[arg-type]
        psycopg.connect(database_url) as other,
    ):
        corpus = database.corpus("c", create=True)
        corpus.ingest([Passage(key="x", text="Ada saw Bob.")])
        other.execute(f"LOCK TABLE {SCHEMA}.proposition".encode())
        with pytest.raises(DatabaseError, match=r"`candidates` was canceled .*raise statement_timeout_s"):
            corpus.search("Whom did Ada see?")
        other.rollback()
        assert [p.passage_key for p in corpus.search("Whom did Ada see?").passages] == ["x"]


def test_a_transaction_that_hears_nothing_of_its_client_ends(database_url: str) -> None:
    store = Store(database_url, schema=SCHEMA, statement_timeout_s=0.3)

    def stall() -> None:
        with store.transaction():
            until_no(database_url, "state LIKE 'idle in transaction%'")

    with pytest.raises(DatabaseUnreachable):
        stall()
    store.close()


def test_a_killed_client_leaves_no_running_statement(database_url: str) -> None:
    sleeps = "wait_event = 'PgSleep'"
    client = subprocess.Popen([sys.executable, "-c", CLIENT, database_url, SCHEMA])
    until_no(database_url, sleeps, more=True)
    client.send_signal(signal.SIGKILL)
    client.wait()
    until_no(database_url, sleeps)
