"""Databases that a module shares, and processes with the server that they ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evireform.store import corpora
from evireform.store.connection import Store
from tests.conftest import SCHEMA, database
from tests.doubles.scripted_openai import ScriptedOpenAI
from tests.jobs.processes import Nursery, Served


@pytest.fixture(scope="module")
def shared_store(server_url: str, template_database: str) -> Iterator[Store]:
    """A store that the tests of a module share; each takes a corpus name that no other does."""
    with database(server_url, template_database) as url:
        opened = Store(url, schema=SCHEMA)
        yield opened
        opened.close()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server that extracts sentences, and counts what it is asked."""
    monkeypatch.setenv("OPENAI_API_KEY", "for tests")
    with ScriptedOpenAI() as server:
        found = Served(server)
        server.on("extract", found.answer)
        yield found
        found.released.set()


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    """Starts commands, one at a time."""
    made = Nursery()
    yield made
    made.close()


@pytest.fixture(scope="module")
def module_url(server_url: str, template_database: str) -> Iterator[str]:
    """URL of a database that the tests of a module share."""
    with database(server_url, template_database) as url:
        yield url


@pytest.fixture
def emptied_url(module_url: str) -> Iterator[str]:
    """The same, emptied after each test: quicker than a database of its own."""
    yield module_url
    store = Store(module_url, schema=SCHEMA)
    with store.transaction() as tx:
        for row in corpora.list_corpora(tx):
            corpora.delete_corpus(tx, row.name)
        tx.driver.execute("DELETE FROM model_call")
    store.close()


@pytest.fixture
def emptied_store(shared_store: Store) -> Store:
    """The database of the module with nothing in it: cheaper than one of the test's own."""
    with shared_store.transaction() as tx:
        for row in corpora.list_corpora(tx):
            corpora.delete_corpus(tx, row.name)
        tx.driver.execute("TRUNCATE model_call RESTART IDENTITY")
    return shared_store
