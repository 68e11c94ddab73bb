"""Connections and transactions: the one border where errors of the driver are translated.

No state outlives a transaction, so that a pooler in transaction mode is fine: every transaction begins
with one statement that sets what it needs for itself alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.engine import URL, make_url

from evireform import errors
from evireform.store.statements import statement

EF_SEARCH = 400
"""Breadth of an HNSW search unless told: recall@100 on real vectors is in docs/results.md."""

_MISSING = {"42P01", "3F000", "42883", "42704"}


class Tally:
    """What a transaction ran."""

    def __init__(self) -> None:
        self.statements = 0
        self.rows = 0


class Transaction:
    """An open transaction. Statements run by name; nothing here commits.

    Attributes:
        connection: The SQLAlchemy connection, for rows by key.
        tally: Statements and rows so far.
        exact: Whether indexes are switched off for vector searches.
    """

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.tally = Tally()
        self.exact = False

    @property
    def driver(self) -> psycopg.Connection[Any]:
        """The psycopg connection below."""
        driver = self.connection.connection.driver_connection
        if not isinstance(driver, psycopg.Connection):
            raise TypeError("the engine does not run on psycopg")
        return driver

    def run(
        self, name: str, parameters: Mapping[str, Any], *, dimensions: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Run a named statement and fetch its rows.

        Raises:
            DatabaseError: the server refused it.
        """
        text = statement(name, dimensions=dimensions)
        with _translated(name), self.driver.cursor(binary=True) as cursor:
            cursor.execute(text.encode(), parameters)
            rows = cursor.fetchall() if cursor.description else []
        self.tally.statements += 1
        self.tally.rows += len(rows)
        return rows

    def core(self, query: sa.Executable) -> list[Any]:
        """Run a SQLAlchemy Core statement and fetch its rows."""
        with _translated("core"):
            result = self.connection.execute(query)
            rows = list(result) if result.returns_rows else []
        self.tally.statements += 1
        self.tally.rows += len(rows)
        return rows

    def copy(self, name: str, data: bytes) -> None:
        """Run a named ``COPY ... FROM STDIN`` with its data."""
        with _translated(name), self.driver.cursor() as cursor:
            with cursor.copy(statement(name).encode()) as copy:
                copy.write(data)
            self.tally.statements += 1
            self.tally.rows += max(cursor.rowcount, 0)

    def set_exact(self, exact: bool) -> None:
        """Scan every vector from now on in this transaction, or use the index again."""
        self.run("set_index_scans", {"value": "off" if exact else "on"})
        self.exact = exact


class Store:
    """A database with evireform's tables in one schema.

    Args:
        url: ``postgresql://``; empty takes libpq's own environment.
        schema: Schema of the tables.
        pool_size: Connections kept.
        statement_timeout_s: Longest that a statement may run; 0 is without end.
    """

    def __init__(
        self, url: str, *, schema: str, pool_size: int = 5, statement_timeout_s: float = 60.0
    ) -> None:
        self.schema = schema
        self._timeout_s = statement_timeout_s
        self._ready = False
        self._search_path = ""
        self.engine = sa.create_engine(
            _driver_url(url),
            pool_size=pool_size,
            pool_pre_ping=True,
            connect_args={"prepare_threshold": None, "application_name": "evireform"},
        )

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()

    @contextmanager
    def transaction(
        self,
        *,
        read_only: bool = False,
        snapshot: bool = False,
        ef_search: int | None = None,
        exact: bool = False,
        statement_timeout_s: float | None = None,
    ) -> Iterator[Transaction]:
        """A transaction on the evireform tables; commits when the block ends well.

        Args:
            read_only: Refuse writes.
            snapshot: Every statement sees the same state of the database (REPEATABLE READ).
            ef_search: Breadth of HNSW searches.
            exact: Scan every vector instead.
            statement_timeout_s: Instead of the store's own.

        Raises:
            DatabaseUnreachable: no connection.
            SchemaMissing: the tables are not there, or old.
            SchemaTooNew: a newer evireform migrated them.
            DatabaseError: a statement was refused.
        """
        self._check()
        with self.plain_transaction(read_only=read_only, snapshot=snapshot) as tx:
            timeout_s = self._timeout_s if statement_timeout_s is None else statement_timeout_s
            tx.run(
                "begin",
                {
                    "search_path": self._search_path,
                    "statement_timeout": f"{round(timeout_s * 1000)}ms",
                    "ef_search": str(ef_search or EF_SEARCH),
                },
            )
            if exact:
                tx.set_exact(True)
            yield tx

    @contextmanager
    def plain_transaction(
        self, *, read_only: bool = False, snapshot: bool = False
    ) -> Iterator[Transaction]:
        """A transaction that expects nothing of the database, for setting it up and looking at it."""
        with _translated("connect"):
            connection = self.engine.connect()
        try:
            if snapshot or read_only:
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ" if snapshot else "READ COMMITTED",
                    postgresql_readonly=read_only,
                )
            with _translated("transaction"), connection.begin():
                yield Transaction(connection)
        finally:
            connection.close()

    def _check(self) -> None:
        """Once: find the extension's schema, and compare the migration with the package's."""
        if self._ready:
            return
        from evireform.store.migrate import require_current

        with self.plain_transaction(read_only=True) as tx:
            self._search_path = search_path(tx, self.schema)
            require_current(tx, self.schema)
        self._ready = True


def search_path(tx: Transaction, schema: str) -> str:
    """Our schema, then that of the vector extension wherever it is, and temporary tables last."""
    rows = tx.run("extension", {})
    schemas = [schema, *(row[1] for row in rows), "pg_temp"]
    return ", ".join(sql.Identifier(name).as_string() for name in dict.fromkeys(schemas))


def _driver_url(url: str) -> URL:
    """SQLAlchemy's form of a libpq URL.

    Raises:
        UsageError: it is not a PostgreSQL URL.
    """
    try:
        parsed = make_url(url or "postgresql://")
    except sa.exc.ArgumentError as exc:
        raise errors.UsageError("the database URL must look like postgresql://user@host/database") from exc
    if parsed.get_backend_name() not in ("postgresql", "postgres"):
        raise errors.UsageError(f"evireform runs on PostgreSQL, not on {parsed.get_backend_name()}")
    return parsed.set(drivername="postgresql+psycopg")


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Errors of the driver, of SQLAlchemy and of the server as ours, without URL or password."""
    try:
        yield
    except sa.exc.DBAPIError as exc:
        if isinstance(exc.orig, psycopg.Error):
            raise translate(exc.orig, name) from exc
        raise
    except psycopg.Error as exc:
        raise translate(exc, name) from exc


def translate(exc: psycopg.Error, name: str) -> errors.DatabaseError:
    """The error of ours that says what to do about an error of the driver."""
    state = exc.sqlstate or ""
    detail = (exc.diag.message_primary or "").strip() if exc.diag else ""
    if state == "57014":
        message = "a statement ran into the time limit: raise statement_timeout_s, or ask for less"
        return errors.DatabaseError(message, statement=name, sqlstate=state)
    if state == "42501" or state == "25006":
        return errors.PermissionMissing(
            f"the database role may not do this ({detail}): ask the owner of the database to grant it",
            statement=name,
            sqlstate=state,
        )
    if state in _MISSING:
        return errors.SchemaMissing(
            f"the database lacks what evireform needs ({detail}): run `evireform init`",
            statement=name,
            sqlstate=state,
        )
    if isinstance(exc, psycopg.OperationalError) and (not state or state[:2] in ("08", "28", "3D", "53", "57")):
        return errors.DatabaseUnreachable(
            f"no connection to the database ({detail or _brief(exc)}): check its URL, and that it runs",
            statement=name,
            sqlstate=state,
        )
    return errors.DatabaseError(
        f"the database refused `{name}`: {detail or _brief(exc)} (SQLSTATE {state or 'none'})",
        statement=name,
        sqlstate=state,
    )


def _brief(exc: psycopg.Error) -> str:
    """The first line of a driver's message; libpq never puts a password into it."""
    lines = str(exc).strip().splitlines()
    return lines[0] if lines else type(exc).__name__


