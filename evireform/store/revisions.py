"""Which migration a database has, and which ones this package knows."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from evireform.errors import PermissionMissing, SchemaMissing, SchemaTooNew
from evireform.store.statements import resource_dir

if TYPE_CHECKING:
    from evireform.store.connection import Transaction

GRANTS = (
    "connect as another role, or let the owner of the tables make this one a writer of a tenant, "
    "or a reader, who only searches: `evireform tenant grant`"
)

INIT = "run `evireform init`"


@cache
def known_revisions() -> tuple[str, ...]:
    """The package's migrations, oldest first: a file's name begins with its revision."""
    files = (resource_dir("migrations") / "versions").glob("[0-9]*_*.py")
    return tuple(sorted(path.name.partition("_")[0] for path in files))


def database_revision(tx: Transaction, schema: str) -> str:
    """The migration that the tables in a schema have; empty when there are none.

    Raises:
        PermissionMissing: the role may not read them.
    """
    found = tx.run("migration_table", {"schema": schema})
    if not found:
        return ""
    if not found[0][0]:
        raise PermissionMissing(
            f"the database role may not use schema {schema!r}",
            remedy=GRANTS,
        )
    rows = tx.run("migration", {})
    return str(rows[0][0]) if rows else ""


def require_known(revision: str) -> None:
    """Refuse tables that a newer package migrated.

    Raises:
        SchemaTooNew: this package does not know the revision.
    """
    if revision and revision not in known_revisions():
        raise SchemaTooNew(
            f"the database was migrated to {revision} by a newer evireform, this one knows "
            f"{known_revisions()[-1]}",
            remedy="upgrade the package",
        )


def require_current(revision: str, schema: str) -> None:
    """Refuse tables that are not those of this package.

    Raises:
        SchemaMissing: there are none, or older ones.
        SchemaTooNew: a newer package migrated them.
    """
    require_known(revision)
    if not revision:
        raise SchemaMissing(f"there are no evireform tables in schema {schema!r}", remedy=INIT)
    if revision != known_revisions()[-1]:
        raise SchemaMissing(
            f"the tables in schema {schema!r} are those of migration {revision}, this evireform needs "
            f"{known_revisions()[-1]}",
            remedy=INIT,
        )
