"""Creating and migrating the database: `init`, safe however many processes run it at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.schema import CreateSchema

from evireform import errors
from evireform.store.connection import Store, search_path
from evireform.store.statements import resource_dir, script

if TYPE_CHECKING:
    from evireform.store.connection import Transaction

MIN_SERVER = 150_000
MIN_PGVECTOR = (0, 8)
_LOCK = 0x65766972  # any constant of our own: "evir"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitReport:
    """What `init` found and did."""

    server_version: str
    pgvector_version: str
    revision_before: str
    revision: str

    @property
    def changed(self) -> bool:
        return self.revision_before != self.revision


def init(store: Store) -> InitReport:
    """Create the schema, the extension where it is missing, the tables, functions and views.

    Everything happens in one transaction under an advisory lock, so that it also works behind a pooler in
    transaction mode. Running it again changes nothing.

    Raises:
        ServerTooOld: PostgreSQL below 15, or pgvector below 0.8.
        ExtensionMissing: the server has no pgvector.
        PermissionMissing: the role may not create the extension or the schema.
        SchemaTooNew: a newer evireform migrated the database.
    """
    with store.plain_transaction() as tx:
        tx.run("init_lock", {"key": _LOCK})
        version_number, server_version = tx.run("server_version", {})[0]
        check_server(version_number, server_version)
        _ensure_extension(tx)
        pgvector_version = tx.run("extension", {})[0][0]
        check_pgvector(pgvector_version)
        _ensure_schema(tx, store.schema)
        tx.run("set_search_path", {"search_path": search_path(tx, store.schema)})
        before = current_revision(tx, store.schema)
        check_revision(before)
        config = _config()
        config.attributes["connection"] = tx.connection
        config.attributes["schema"] = store.schema
        command.upgrade(config, "head")
        for name in ("functions", "views"):
            tx.driver.execute(script(name).encode())
        tx.run("insert_default_tenant", {})
        return InitReport(
            server_version=server_version,
            pgvector_version=pgvector_version,
            revision_before=before,
            revision=current_revision(tx, store.schema),
        )


def check_server(version_number: int, version: str) -> None:
    """Refuse a server that is too old."""
    if version_number < MIN_SERVER:
        raise errors.ServerTooOld(f"the server is PostgreSQL {version}; evireform needs 15 or newer")


def check_pgvector(version: str) -> None:
    """Refuse a pgvector that is too old."""
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_PGVECTOR:
        raise errors.ServerTooOld(
            f"the database has pgvector {version}; evireform needs 0.8 or newer: install it on the server, "
            "then run ALTER EXTENSION vector UPDATE"
        )


def check_revision(revision: str) -> None:
    """Refuse a database that a newer evireform migrated."""
    if revision and revision not in revisions():
        raise errors.SchemaTooNew(
            f"the database is at migration {revision}, which this evireform does not know: upgrade the package"
        )


def require_current(tx: Transaction, schema: str) -> None:
    """Refuse to work on tables that are missing, old, or newer than this package."""
    revision = current_revision(tx, schema)
    check_revision(revision)
    if not revision:
        raise errors.SchemaMissing(
            f"the database has no evireform tables in schema {schema!r}: run `evireform init`"
        )
    if revision != revisions()[0]:
        raise errors.SchemaMissing(
            f"the tables are at migration {revision}, the package needs {revisions()[0]}: run `evireform init`"
        )


def current_revision(tx: Transaction, schema: str) -> str:
    """The migration that the database is at; empty when there is none."""
    if not tx.run("has_revision_table", {"schema": schema})[0][0]:
        return ""
    tx.run("set_search_path", {"search_path": search_path(tx, schema)})
    rows = tx.run("revision", {})
    return str(rows[0][0]) if rows else ""


def revisions() -> list[str]:
    """Every migration of the package, newest first."""
    return [entry.revision for entry in ScriptDirectory.from_config(_config()).walk_revisions()]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(resource_dir("migrations")).replace("%", "%%"))
    return config


def _ensure_extension(tx: Transaction) -> None:
    if tx.run("extension", {}):
        return
    available = tx.run("available_extension", {})
    check_available(available[0][0] if available else "")
    try:
        tx.run("create_extension", {})
    except errors.PermissionMissing as exc:
        raise errors.PermissionMissing(
            "the database role may not create the extension: ask the owner of the database or a superuser "
            "to run CREATE EXTENSION vector; in it, then run `evireform init` again",
            statement=exc.statement,
            sqlstate=exc.sqlstate,
        ) from exc


def check_available(version: str) -> None:
    """Refuse a server on which pgvector is not installed."""
    if not version:
        raise errors.ExtensionMissing(
            "the server has no pgvector: install it there (package postgresql-NN-pgvector), or use the "
            "pgvector/pgvector image"
        )


def _ensure_schema(tx: Transaction, schema: str) -> None:
    if tx.run("has_schema", {"schema": schema})[0][0]:
        return
    try:
        tx.core(CreateSchema(schema))
    except errors.PermissionMissing as exc:
        raise errors.PermissionMissing(
            f"the database role may not create the schema {schema!r}: ask the owner of the database to run "
            "GRANT CREATE ON DATABASE for it, then run `evireform init` again",
            statement=exc.statement,
            sqlstate=exc.sqlstate,
        ) from exc
