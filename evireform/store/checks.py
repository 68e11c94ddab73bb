"""What the server is, whether evireform can live on it, and how to mend what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from evireform.errors import DatabaseError, ExtensionMissing, PermissionMissing, ServerTooOld
from evireform.records import Check
from evireform.store.revisions import known_revisions

if TYPE_CHECKING:
    from evireform.store.connection import Store, Transaction

MIN_SERVER = 150000
"""PostgreSQL 15, as ``server_version_num`` spells it."""

MIN_EXTENSION = (0, 8)
"""pgvector with iterative scans."""

_HNSW_DIMENSIONS = 4_000


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


def check_database(store: Store, *, index_threshold: int) -> list[Check]:
    """Look at server, extension, tables and vector spaces, as far as each lets one look at the next.

    Args:
        store: The database.
        index_threshold: Vectors from which a space should have an index.
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
            rows = tx.run("space_facts", {})
    except DatabaseError as exc:
        may = _look(
            "permission",
            f"role {facts.role} may make the tables",
            lambda: require_schema(facts, store.schema),
        )
        return [*checks, may, _failed("tables", exc)]
    tables = f"migration {known_revisions()[-1]} in schema {store.schema}"
    checks.append(Check(name="tables", ok=True, detail=tables))
    return [*checks, *(_space(*row, index_threshold=index_threshold) for row in rows)]


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
    *,
    index_threshold: int,
) -> Check:
    """A vector space; ``vectors`` is the planner's estimate, -1 when it has none yet."""
    name = f"{kind} vectors of corpus {corpus!r}"
    detail = f"{model}, {dimensions}-d, {'active' if active else 'not active'}"
    if not has_partition:
        return Check(
            name=name,
            ok=False,
            detail=f"{detail}, its partition is missing",
            remedy="delete the corpus and ingest it again",
        )
    if not has_index and vectors >= index_threshold and dimensions <= _HNSW_DIMENSIONS:
        return Check(
            name=name,
            ok=False,
            detail=f"{detail}, about {vectors} vectors without an index: searches are exact but slow",
            remedy="run `evireform ingest` to its end: it builds the index last",
        )
    return Check(name=name, ok=True, detail=f"{detail}, {'HNSW index' if has_index else 'scanned'}")


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def quoted(name: str) -> str:
    """A name as a statement spells it."""
    return sql.Identifier(name).as_string()
