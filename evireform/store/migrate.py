"""Making the tables, or bringing them up to date: all of it in one transaction, one process at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.schema import CreateSchema

from evireform.errors import PermissionMissing, UsageError
from evireform.records import InitReport
from evireform.store import corpora, tenants
from evireform.store.checks import (
    ServerFacts,
    quoted,
    require_extension,
    require_schema,
    require_server,
    server_facts,
)
from evireform.store.connection import EF_SEARCH, search_path
from evireform.store.revisions import database_revision, known_revisions, require_known
from evireform.store.statements import resource_dir

if TYPE_CHECKING:
    from evireform.store.connection import Store, Transaction


def init(store: Store, *, to: str = "") -> InitReport:
    """Make extension, schema, tables, functions and views, as far as they are missing or old.

    Repeating it changes nothing. Any number of processes may do it at once: each waits for the one before.

    Args:
        store: The database.
        to: Take the tables to this migration instead of the newest, before an older evireform is installed.
            What only later tables hold is lost. The functions and views are left to its own ``init``.

    Raises:
        UsageError: ``to`` is no migration of this package.
        DatabaseUnreachable: no connection.
        ServerTooOld: PostgreSQL or pgvector is too old.
        ExtensionMissing: the server has no pgvector.
        PermissionMissing: the role may not do it; the message says which statement its owner should run.
        SchemaTooNew: a newer evireform migrated the tables.
    """
    latest = known_revisions()[-1]
    to = to or latest
    if to not in known_revisions():
        raise UsageError(f"there is no migration {to!r}: this evireform knows {', '.join(known_revisions())}")
    with store.plain_transaction() as tx:
        tx.run("init_lock", {})
        facts = server_facts(tx, store.schema)
        require_server(facts)
        require_extension(facts)
        require_schema(facts, store.schema)
        if facts.owns_schema is None:
            tx.core(CreateSchema(store.schema))
        if not facts.installed:
            _create_extension(tx, facts, store.schema)
        (version, extension_schema), *_ = extension = tx.run("extension", {})
        tx.begin(search_path(store.schema, extension), statement_timeout_s=0, ef_search=EF_SEARCH)
        before = database_revision(tx, store.schema)
        require_known(before)
        if before != to:
            tx.run("drop_views", {})
            _migrate(tx, store.schema, to, down=before > to)
        if to == latest:
            tx.script("functions")
            tx.script("views")
            corpora.create_default_tenant(tx)
            tenants.settle_members(tx)
    return InitReport(
        schema=store.schema,
        server_version=facts.version,
        extension_version=version,
        extension_schema=extension_schema,
        migrated_from=before,
        migrated_to=to,
    )


def _create_extension(tx: Transaction, facts: ServerFacts, schema: str) -> None:
    """Install pgvector in ``public``, since a database has one for all, or failing that in our schema."""
    home = "public" if facts.creates_in_public else schema
    tx.begin(search_path(home, []), statement_timeout_s=0, ef_search=EF_SEARCH)
    try:
        tx.run("create_extension", {})
    except PermissionMissing as exc:
        raise PermissionMissing(
            f"role {quoted(facts.role)} may not install pgvector",
            remedy=f"run in database {quoted(facts.database)}, as a superuser: CREATE EXTENSION vector",
            statement=exc.statement,
            sqlstate=exc.sqlstate,
        ) from exc


def _migrate(tx: Transaction, schema: str, revision: str, *, down: bool) -> None:
    from alembic import command
    from alembic.config import Config

    folder = str(resource_dir("migrations"))
    config = Config(attributes={"connection": tx.connection, "schema": schema})
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    (command.downgrade if down else command.upgrade)(config, revision)
