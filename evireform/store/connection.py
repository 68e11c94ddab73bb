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
from psycopg.conninfo import conninfo_to_dict

from evireform import errors
from evireform.store.revisions import GRANTS, INIT, database_revision, require_current
from evireform.store.statements import script, statement
from evireform.store.vectors import take_arrays

EF_SEARCH = 400
"""Breadth of an HNSW search unless told: recall@100 on real vectors is in docs/benchmarks.md."""


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
        exact: Whether vector searches scan every vector of their partition; may be changed at any time.
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
        text = statement(name, dimensions=dimensions, exact=self.exact)
        with _translated(name), self.driver.cursor(binary=True) as cursor:
            cursor.execute(text.encode(), parameters)
            rows = cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []
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

    def begin(self, path: str, *, statement_timeout_s: float, ef_search: int) -> None:
        """Set what the transaction needs, for itself alone, in one statement."""
        parameters = {
            "search_path": path,
            "statement_timeout": f"{round(statement_timeout_s * 1000)}ms",
            "ef_search": str(ef_search),
        }
        self.run("begin", parameters)

    def script(self, name: str) -> None:
        """Run a file of ``sql`` that holds no named statements."""
        with _translated(name), self.driver.cursor() as cursor:
            cursor.execute(script(name).encode())
        self.tally.statements += 1


class Store:
    """A database with evireform's tables in one schema.

    Args:
        url: Whatever libpq takes: ``postgresql://``, ``host=... dbname=...``; empty leaves it to libpq's
            own environment and files.
        schema: Schema of the tables.
        pool_size: Connections kept open.
        statement_timeout_s: Longest that a statement may run; 0 is without end.

    Raises:
        UsageError: the URL is none that libpq understands.
    """

    def __init__(
        self, url: str, *, schema: str, pool_size: int = 5, statement_timeout_s: float = 60.0
    ) -> None:
        self.schema = schema
        self._url = _checked_url(url)
        self._timeout_s = statement_timeout_s
        self._search_path = ""
        self._closed = False
        self.engine = sa.create_engine(
            "postgresql+psycopg://",
            creator=self._connect,
            pool_size=pool_size,
            pool_pre_ping=True,
            use_native_hstore=False,
        )

    def _connect(self) -> psycopg.Connection[Any]:
        # Without named prepared statements: a pooler in transaction mode gives every transaction another
        # server process.
        connection = psycopg.connect(self._url, prepare_threshold=None, fallback_application_name="evireform")
        take_arrays(connection)
        return connection

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Close every pooled connection. What a thread still has under way ends well, and closes its own."""
        self._closed = True
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
        path = self._checked_search_path()
        timeout_s = self._timeout_s if statement_timeout_s is None else statement_timeout_s
        with self.plain_transaction(read_only=read_only, snapshot=snapshot) as tx:
            tx.begin(path, statement_timeout_s=timeout_s, ef_search=ef_search or EF_SEARCH)
            tx.exact = exact
            yield tx

    @contextmanager
    def plain_transaction(self, *, read_only: bool = False, snapshot: bool = False) -> Iterator[Transaction]:
        """A transaction that expects nothing of the database, for setting it up and looking at it."""
        with _translated("connect"):
            connection = self.engine.connect()
        try:
            if snapshot or read_only:
                # psycopg says it in BEGIN itself; nothing is set on the session.
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ" if snapshot else "READ COMMITTED",
                    postgresql_readonly=read_only,
                )
            with _translated("transaction"), connection.begin():
                yield Transaction(connection)
        finally:
            if self._closed and not connection.invalidated:
                connection.detach()
            connection.close()

    def _checked_search_path(self) -> str:
        """The search path of every transaction; the first time it looks at whether the tables are ours."""
        if not self._search_path:
            with self.plain_transaction(read_only=True) as tx:
                path = search_path(self.schema, tx.run("extension", {}))
                tx.begin(path, statement_timeout_s=self._timeout_s, ef_search=EF_SEARCH)
                require_current(database_revision(tx, self.schema), self.schema)
            self._search_path = path
        return self._search_path


def search_path(schema: str, extension: list[tuple[Any, ...]]) -> str:
    """Our schema, then that of the vector extension wherever it is, and temporary tables last.

    Args:
        schema: Ours.
        extension: What the statement ``extension`` gave.
    """
    schemas = [schema, *(row[1] for row in extension), "pg_temp"]
    return ", ".join(sql.Identifier(name).as_string() for name in dict.fromkeys(schemas))


def _checked_url(url: str) -> str:
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # Neither the driver's message nor the exception: both may quote the password.
        raise errors.UsageError(
            "libpq does not understand the database URL: write postgresql://user@host/database, "
            "with %-escapes for special characters in a password"
        ) from None
    return url


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Errors of the driver and of the server as ours, wherever they come up."""
    try:
        yield
    except sa.exc.DBAPIError as exc:
        if isinstance(exc.orig, psycopg.Error):
            raise translate(exc.orig, name) from exc
        raise
    except psycopg.Error as exc:
        raise translate(exc, name) from exc
    except sa.exc.TimeoutError as exc:
        raise errors.DatabaseError(
            "every connection of the pool is in use", remedy="raise pool_size, or ask less at once"
        ) from exc


_MISSING = {
    "42P01",  # undefined_table
    "3F000",  # invalid_schema_name
    "42883",  # undefined_function
    "42704",  # undefined_object: the type of the extension
}
_UNREACHABLE = {
    "3D000",  # invalid_catalog_name
    "53300",  # too_many_connections
    "57P01",  # admin_shutdown
    "57P02",  # crash_shutdown
    "57P03",  # cannot_connect_now
    "57P05",  # idle_session_timeout
}
_CANCELED = "57014"


def translate(exc: psycopg.Error, name: str) -> errors.DatabaseError:
    """The error of ours that says what to do about one of the driver.

    Args:
        exc: It; what is taken from it is the server's or libpq's own first line, which holds no password.
        name: The statement, or what else was being done.
    """
    state = exc.sqlstate or ""
    said = exc.diag.message_primary or next(iter(str(exc).strip().splitlines()), type(exc).__name__)
    kind: type[errors.DatabaseError] = errors.DatabaseError
    problem, remedy = f"the database refused `{name}` ({said})", ""
    if state == _CANCELED:
        problem, remedy = f"`{name}` was canceled ({said})", "raise statement_timeout_s, or ask for less"
    elif state == "25006":  # read_only_sql_transaction: a standby
        kind, remedy = errors.PermissionMissing, "this server only answers searches: connect to its primary"
    elif state == "42501":  # insufficient_privilege
        kind, remedy = errors.PermissionMissing, GRANTS
    elif state in _MISSING:
        kind, remedy = errors.SchemaMissing, INIT
    elif state in _UNREACHABLE or state[:2] in ("08", "28") or (not state and _is_lost(exc)):
        kind = errors.DatabaseUnreachable
        problem, remedy = f"no connection to the database ({said})", "check its URL, and that it runs"
    return kind(problem, remedy=remedy, statement=name, sqlstate=state)


def _is_lost(exc: psycopg.Error) -> bool:
    return isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError)
