"""Alembic's entry: on the connection that `evireform init` hands in, or on EVIREFORM_DATABASE_URL."""

from __future__ import annotations

import os

import sqlalchemy as sa
from alembic import context


def run(connection: sa.Connection, schema: str) -> None:
    context.configure(connection=connection, version_table_schema=schema, transactional_ddl=False)
    context.run_migrations()


def run_alone() -> None:
    """For developers: `alembic upgrade head` against a database whose schema and extension exist."""
    url = sa.make_url(os.environ["EVIREFORM_DATABASE_URL"]).set(drivername="postgresql+psycopg")
    schema = os.environ.get("EVIREFORM_SCHEMA", "evireform")
    with sa.create_engine(url).begin() as connection:
        path = f'"{schema}", public, pg_temp'
        connection.execute(sa.select(sa.func.set_config("search_path", path, True)))
        run(connection, schema)


given = context.config.attributes
if "connection" in given:
    run(given["connection"], given["schema"])
else:
    run_alone()
