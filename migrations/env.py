"""Runs the migrations, on the connection that ``evireform init`` brings or on one of its own.

Without a connection it takes ``EVIREFORM_DATABASE_URL`` and ``EVIREFORM_SCHEMA`` (``evireform``) from the
environment, for developers. The statements name no schema; the search path says where they work.
"""

from __future__ import annotations

import os

import psycopg
import sqlalchemy as sa
from alembic import context
from alembic.util import CommandError


def run(connection: sa.Connection, schema: str) -> None:
    context.configure(connection=connection, version_table_schema=schema)
    with context.begin_transaction():
        context.run_migrations()


def run_alone() -> None:
    url = os.environ.get("EVIREFORM_DATABASE_URL", "")
    schema = os.environ.get("EVIREFORM_SCHEMA", "evireform")
    engine = sa.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=sa.NullPool
    )
    with engine.begin() as connection:
        connection.execute(sa.schema.CreateSchema(schema, if_not_exists=True))
        connection.exec_driver_sql("CREATE EXTENSION IF NOT EXISTS vector")
        connection.exec_driver_sql(
            "SELECT set_config('search_path', concat_ws(', ', quote_ident(%s), quote_ident(nspname)), true) "
            "FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace "
            "WHERE extname = 'vector'",
            (schema,),
        )
        run(connection, schema)


if context.is_offline_mode():
    raise CommandError("the migrations need a live database: set EVIREFORM_DATABASE_URL, without --sql")
if (given := context.config.attributes.get("connection")) is not None:
    run(given, context.config.attributes["schema"])
else:
    run_alone()
