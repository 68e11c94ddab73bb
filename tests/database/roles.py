"""Login roles that are no superuser, for tests of what they may do."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql


@contextmanager
def new_role(url: str) -> Iterator[str]:
    """A login role that owns nothing, with password ``secret``; at the end it goes with what it then owns."""
    name = f"evireform_test_{uuid.uuid4().hex[:12]}"
    role = sql.Identifier(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(role))
        yield name
        connection.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(role))
        connection.execute(sql.SQL("DROP OWNED BY {}").format(role))
        connection.execute(sql.SQL("DROP ROLE {}").format(role))


def run_as_owner(url: str, statement: str, *names: str) -> None:
    """Run a statement as the superuser of the tests; ``{}`` stands for each name, quoted."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
