"""A database for a whole module, where hundreds of examples each make a corpus of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evireform.store.connection import Store
from tests.conftest import SCHEMA, database


@pytest.fixture(scope="module")
def shared_store(server_url: str, template_database: str) -> Iterator[Store]:
    """A store that the tests of a module share; each takes a corpus name that no other does."""
    with database(server_url, template_database) as url:
        opened = Store(url, schema=SCHEMA)
        yield opened
        opened.close()
