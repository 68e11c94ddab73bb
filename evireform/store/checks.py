"""What the server is, whether evireform can live on it, and how to mend what is wrong."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from evireform.errors import (
    DatabaseError,
    ExtensionMissing,
    PermissionMissing,
    SchemaMissing,
    ServerTooOld,
    UsageError,
)
from evireform.records import Check
from evireform.store import corpora, spaces
from evireform.store.revisions import known_revisions

if TYPE_CHECKING:
    from evireform.store.connection import Store, Transaction

MIN_SERVER = 150000
"""PostgreSQL 15, as ``server_version_num`` spells it."""

MIN_EXTENSION = (0, 8)
"""pgvector with iterative scans."""

_GROWN = 2
"""A measurement of an index is old when the space holds so many times as many vectors as then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What the server is and what the role may do on it.

    Attributes:
        version_number: As ``server_version_num``.
        version: As the server spells it.
        database: Its name.
        role: The current user.
        standby: Whether it only replays another server's changes.
        creates_schemas: Whether the role may create schemas in the database.
        owns_schema: Whether the role may create in our schema; None when that is not there.
        creates_in_public: Whether the role may create in ``public``.
        available: Version of pgvector that could be installed; None when the server has none.
        installed: Its version in the database; empty when it is not installed there.
        extension_schema: Where it is installed.
        uses_extension: Whether the role may use that schema.
    """

    version_number: int
    version: str
    database: str
    role: str
    standby: bool
    creates_schemas: bool
    owns_schema: bool | None
    creates_in_public: bool
    available: str | None
    installed: str
    extension_schema: str
    uses_extension: bool


def server_facts(tx: Transaction, schema: str) -> ServerFacts:
    """Ask the server."""
    row = tx.run("server_facts", {"schema": schema})[0]
    extension = tx.run("extension", {})
    return ServerFacts(
        version_number=row[0],
        version=row[1],
        database=row[2],
        role=row[3],
        standby=row[4],
        creates_schemas=row[5],
        owns_schema=row[6],
        creates_in_public=bool(row[7]),
        available=row[8],
        installed=extension[0][0] if extension else "",
        extension_schema=extension[0][1] if extension else "",
        uses_extension=bool(row[9]),
    )


def require_server(facts: ServerFacts) -> None:
    """Refuse a server that is too old.

    Raises:
        ServerTooOld: PostgreSQL is older than 15.
    """
    if facts.version_number < MIN_SERVER:
        raise ServerTooOld(
            f"the server is PostgreSQL {facts.version}, evireform needs {MIN_SERVER // 10000} or newer",
            remedy="upgrade the server, or use another",
        )


def require_extension(facts: ServerFacts) -> None:
    """Refuse a server without a pgvector that serves. Whether the role may install it shows in trying.

    Raises:
        ServerTooOld: pgvector is older than 0.8.
        ExtensionMissing: the server has no pgvector.
        PermissionMissing: it is in a schema that the role may not use.
    """
    needed = ".".join(map(str, MIN_EXTENSION))
    if facts.installed:
        if _version(facts.installed) < MIN_EXTENSION:
            raise ServerTooOld(
                f"the database has pgvector {facts.installed}, evireform needs {needed} or newer",
                remedy="install it on the server, then run in the database, as the owner of the extension: "
                "ALTER EXTENSION vector UPDATE",
            )
        if not facts.uses_extension:
            home, role = quoted(facts.extension_schema), quoted(facts.role)
            raise PermissionMissing(
                f"role {role} may not use schema {home}, where pgvector is",
                remedy=f"run, as the owner of the schema: GRANT USAGE ON SCHEMA {home} TO {role}",
            )
        return
    if facts.available is None:
        raise ExtensionMissing(
            "the server has no pgvector",
            remedy="install it there (on Debian the package "
            f"postgresql-{facts.version_number // 10000}-pgvector), or use the image pgvector/pgvector",
        )
    if _version(facts.available) < MIN_EXTENSION:
        raise ServerTooOld(
            f"the server offers pgvector {facts.available}, evireform needs {needed} or newer",
            remedy="install that on the server",
        )


def require_schema(facts: ServerFacts, schema: str) -> None:
    """Refuse a role that may not create our schema, or in it.

    Raises:
        PermissionMissing: it may not; the message holds the statement for who may.
    """
    role, name = quoted(facts.role), quoted(schema)
    if facts.standby:
        raise PermissionMissing("the server is a standby", remedy="connect to its primary")
    if facts.owns_schema is None and not facts.creates_schemas:
        raise PermissionMissing(
            f"role {role} may not create schema {name}",
            remedy=f"run in database {quoted(facts.database)}, as its owner: "
            f"CREATE SCHEMA {name} AUTHORIZATION {role}",
        )
    if facts.owns_schema is False:
        raise PermissionMissing(
            f"role {role} may not create tables in schema {name}",
            remedy=f"run, as the owner of the schema: GRANT CREATE, USAGE ON SCHEMA {name} TO {role}",
        )


def check_database(store: Store, *, index_threshold: int, min_recall: float) -> list[Check]:
    """Look at server, extension, tables and vector spaces, as far as each lets one look at the next.

    Args:
        store: The database.
        index_threshold: Vectors from which a space should have an index (`store.spaces.ensure_index`).
        min_recall: Recall of an index, as it was measured last, below which something is wrong.
    """
    try:
        with store.plain_transaction(read_only=True) as tx:
            facts = server_facts(tx, store.schema)
    except DatabaseError as exc:
        return [_failed("connection", exc)]
    extension = (
        f"pgvector {facts.installed} in schema {facts.extension_schema}"
        if facts.installed
        else f"pgvector {facts.available}, not installed in the database yet"
    )
    checks = [
        Check(name="connection", ok=True, detail=f"database {facts.database} as role {facts.role}"),
        _look("server", f"PostgreSQL {facts.version}", lambda: require_server(facts)),
        _look("extension", extension, lambda: require_extension(facts)),
    ]
    try:
        with store.transaction(read_only=True) as tx:
            rows = tx.run("space_facts", {"tenant": tx.tenant})
    except SchemaMissing as exc:
        may = _look(
            "permission",
            f"role {facts.role} may make the tables",
            lambda: require_schema(facts, store.schema),
        )
        return [*checks, may, _failed("tables", exc)]
    except DatabaseError as exc:
        return [*checks, _failed("tables", exc)]
    tables = f"migration {known_revisions()[-1]} in schema {store.schema}"
    checks += [Check(name="tables", ok=True, detail=tables), _tenancy(store, facts.role)]
    if store.reader is not store.engine:
        checks.append(_standby(store))
    return [*checks, *(_space(*row, index_threshold=index_threshold, min_recall=min_recall) for row in rows)]


def _tenancy(store: Store, role: str) -> Check:
    """Whose rows the role sees, and whether row-level security keeps it from those of others."""
    try:
        with store.transaction(read_only=True) as tx:
            open_tables = [row[0] for row in tx.run("unprotected_relations", {})]
            ((bound, tenants, memberships, access),) = tx.run("role_facts", {"tenant": tx.tenant})
            corpora.current_tenant(tx)
    except PermissionMissing as exc:
        return _failed("tenant", exc)
    except UsageError as exc:
        return Check(name="tenant", ok=False, detail=str(exc), remedy="name one with --tenant")
    if open_tables:
        force = f"ALTER TABLE {quoted(open_tables[0])} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
        return Check(
            name="tenant",
            ok=False,
            detail=f"row-level security is not forced on {', '.join(open_tables)}",
            remedy=f"run as the owner of the tables, for each: {force}",
        )
    shown = ", ".join(memberships) or "none of its own"
    if not bound:
        bypasses = " and sees those of all tenants, as one that bypasses row-level security"
        sees = bypasses if tenants > 1 else ""
        return Check(name="tenant", ok=True, detail=f"role {role}: {shown}{sees}")
    only = "; it only reads" if access == "reader" else ""
    return Check(name="tenant", ok=True, detail=f"role {role}: {shown}; row-level security is forced{only}")


def _standby(store: Store) -> Check:
    """The server of ``read_url``: whether it follows the primary, and how far behind it is."""
    try:
        with store.plain_transaction(read_only=True) as tx:
            ((system, written),) = tx.run("primary_facts", {})
        with store.plain_transaction(read_only=True, engine=store.reader) as tx:
            ((its_system, replaying, behind, age_s),) = tx.run("standby_facts", {"written": written})
    except DatabaseError as exc:
        return _failed("standby", exc)
    remedy = "give a hot standby of the database's own server in read_url, or leave it out"
    if its_system != system:
        return Check(name="standby", ok=False, detail="it is no copy of the primary", remedy=remedy)
    if not replaying:
        return Check(
            name="standby", ok=False, detail="it does not follow the primary any more", remedy=remedy
        )
    if behind is None:
        return Check(name="standby", ok=True, detail="it follows a server that is a standby itself")
    age = "" if age_s is None else f"; the last change that it has is {age_s:.1f} s old"
    return Check(name="standby", ok=True, detail=f"{behind} bytes behind the primary{age}")


def _look(name: str, detail: str, require: Callable[[], None]) -> Check:
    try:
        require()
    except DatabaseError as exc:
        return _failed(name, exc)
    return Check(name=name, ok=True, detail=detail)


def _failed(name: str, exc: DatabaseError) -> Check:
    return Check(name=name, ok=False, detail=exc.problem, remedy=exc.remedy)


def _space(
    corpus: str,
    kind: str,
    model: str,
    dimensions: int,
    active: bool,
    has_partition: bool,
    vectors: int,
    has_index: bool,
    recall: float | None,
    breadth: int | None,
    measured: int,
    *,
    index_threshold: int,
    min_recall: float,
) -> Check:
    """A vector space.

    ``vectors`` is the planner's estimate, -1 when it has none yet; ``measured`` how many there were when the
    recall of the index was measured.
    """
    name = f"{kind} vectors of corpus {corpus!r}"
    detail = f"{model}, {dimensions}-d, {'active' if active else 'not active'}"
    if not has_partition:
        return Check(
            name=name,
            ok=False,
            detail=f"{detail}, its partition is missing",
            remedy="delete the corpus and ingest it again",
        )
    command = f"evireform index --corpus {shlex.quote(corpus)}"
    if not has_index:
        if vectors < index_threshold * spaces.wide_factor(dimensions):
            return Check(name=name, ok=True, detail=f"{detail}, scanned")
        return Check(
            name=name,
            ok=False,
            detail=f"{detail}, about {vectors} vectors without an index: searches are exact but slow",
            remedy=f"run `{command}`",
        )
    if recall is None:
        detail = f"{detail}, HNSW index, its recall was never measured"
        return Check(name=name, ok=True, detail=detail, remedy=f"run `{command}`")
    detail = f"{detail}, HNSW index, recall@100 {recall:.3f} at ef_search {breadth}"
    if recall < min_recall:
        return Check(
            name=name,
            ok=False,
            detail=f"{detail}, below {min_recall:g}",
            remedy=f"raise search.ef_search, or run `{command} --rebuild`",
        )
    if vectors > _GROWN * measured:
        detail = f"{detail}, measured when it held {measured} of now about {vectors} vectors"
        return Check(name=name, ok=True, detail=detail, remedy=f"run `{command}`")
    return Check(name=name, ok=True, detail=detail)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def quoted(name: str) -> str:
    """A name as a statement spells it."""
    return sql.Identifier(name).as_string()
