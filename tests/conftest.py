"""One PostgreSQL for the session, one migrated template database, one clone a test."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

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


@contextmanager
def database(server_url: str, template: str = "template0") -> Iterator[str]:
    """A database made from a template and dropped at the end; gives its URL."""
    name = sql.Identifier(f"evireform_test_{uuid.uuid4().hex[:12]}")
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY wal_log").format(name, sql.Identifier(template))
        )
        try:
            yield make_conninfo(server_url, dbname=name.as_string().strip('"'))
        finally:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))


@pytest.fixture(scope="session")
def template_database(server_url: str) -> Iterator[str]:
    """Name of a database with the migrated tables and nothing in them."""
    with database(server_url) as url:
        migrated = Store(url, schema=SCHEMA)
        init(migrated)
        migrated.close()
        yield str(conninfo_to_dict(url)["dbname"])


@pytest.fixture
def empty_database_url(server_url: str) -> Iterator[str]:
    """URL of a database of the test's own without evireform's tables."""
    with database(server_url) as url:
        yield url


@pytest.fixture
def database_url(server_url: str, template_database: str) -> Iterator[str]:
    """URL of a database of the test's own with evireform's tables, empty."""
    with database(server_url, template_database) as url:
        yield url


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """A store on a database of the test's own."""
    opened = Store(database_url, schema=SCHEMA)
    yield opened
    opened.close()
