"""Login roles that are no superuser, for tests of what they may do."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from evireform.records import Access
from evireform.store import tenants
from evireform.store.connection import Store


@contextmanager
def new_role(url: str) -> Iterator[str]:
    """A login role that owns nothing, with password ``secret``; at the end it goes with what it then owns."""
    name = f"evireform_test_{uuid.uuid4().hex[:12]}"
    run_as_owner(url, "CREATE ROLE {} LOGIN PASSWORD 'secret'", name)
    try:
        yield name
    finally:
        for statement in ("REASSIGN OWNED BY {} TO CURRENT_USER", "DROP OWNED BY {}", "DROP ROLE {}"):
            run_as_owner(url, statement, name)


@contextmanager
def new_member(url: str, tenant: str = "default", access: Access = "writer") -> Iterator[str]:
    """The URL of a new login role that belongs to a tenant, which is made where it is missing."""
    with new_role(url) as role:
        with closing(Store(url, schema="evireform")) as store, store.transaction() as tx:
            if tenant not in [row.name for row in tenants.list_tenants(tx)]:
                tenants.create_tenant(tx, tenant)
            tenants.grant(tx, tenant, role, access)
        yield make_conninfo(url, user=role, password="secret")


def run_as_owner(url: str, statement: str, *names: str) -> None:
    """Run a statement as the superuser of the tests; ``{}`` stands for each name, quoted."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
