"""One PostgreSQL for the session, one migrated template database, one clone a test."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from evireform.embedded import EmbeddedServer
from evireform.store.connection import Store
from evireform.store.migrate import init

SCHEMA = "evireform"


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """A server that the tests may fill with databases, as a superuser; each xdist worker has its own.

    ``EVIREFORM_TEST_DATABASE_URL`` names one that is there already.
    """
    if given := os.environ.get("EVIREFORM_TEST_DATABASE_URL"):
        yield given
        return
    home = Path(tempfile.mkdtemp(prefix="evireform-test-"))
    home.chmod(0o755)
    server = EmbeddedServer(home)
    try:
        url = server.start()
        with psycopg.connect(url, autocommit=True) as connection:
            # What is written here need not outlive a power cut.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield url
    finally:
        server.stop()
        shutil.rmtree(home)


@pytest.fixture(scope="session")
def new_database(server_url: str) -> Iterator[Callable[[str], str]]:
    """Makes a database from a template and returns its URL; all are dropped at the end."""
    made: list[str] = []

    def run(statement: str, *names: str) -> None:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))

    def make(template: str = "template0") -> str:
        name = f"evireform_test_{uuid.uuid4().hex[:12]}"
        run("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, template)
        made.append(name)
        return make_conninfo(server_url, dbname=name)

    yield make
    for name in made:
        run("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


@pytest.fixture(scope="session")
def template_database(new_database: Callable[..., str]) -> str:
    """Name of a database with the migrated tables and nothing in them."""
    url = new_database()
    store = Store(url, schema=SCHEMA)
    init(store)
    store.close()
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


@pytest.fixture
def empty_database_url(new_database: Callable[..., str]) -> str:
    """URL of a database of the test's own without evireform's tables."""
    return new_database()


@pytest.fixture
def database_url(new_database: Callable[..., str], template_database: str) -> str:
    """URL of a database of the test's own with evireform's tables, empty."""
    return new_database(template_database)


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A store on a database of the test's own."""
    store = Store(database_url, schema=SCHEMA)
    yield store
    store.close()
