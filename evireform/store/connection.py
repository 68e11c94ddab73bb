"""Connections and transactions: the one border where errors of the driver are translated.

No state outlives a transaction, so that a pooler in transaction mode is fine: every transaction begins
with one statement that sets what it needs for itself alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
import sqlalchemy as sa
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from evireform import errors
from evireform.store.revisions import GRANTS, INIT, database_revision, require_current
from evireform.store.statements import script, statement
from evireform.store.vectors import take_arrays

NO_ROLE = "none"
"""How PostgreSQL spells that a session has the rights of its login role."""

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
        exact: Whether vector searches scan every vector of their partition (see `store.searching.nearest`).
        tenant: Name of the tenant whose corpora are looked up; empty is the one of the role.
        role: Whose rights it has; empty is the login role.
        gates: Ids of the corpora whose gates it has passed (see `store.corpora`).
    """

    def __init__(self, connection: sa.Connection, *, tenant: str = "", role: str = "") -> None:
        self.connection = connection
        self.tenant = tenant
        self.role = role
        self.tally = Tally()
        self.exact = False
        self.gates: set[int] = set()

    @property
    def driver(self) -> psycopg.Connection[Any]:
        """The psycopg connection below."""
        driver = self.connection.connection.driver_connection
        if not isinstance(driver, psycopg.Connection):
            raise TypeError("the engine does not run on psycopg")
        return driver

    def run(
        self, name: str, parameters: Mapping[str, Any], *, dimensions: int | None = None, exact: bool = False
    ) -> list[tuple[Any, ...]]:
        """Run a named statement and fetch its rows.

        Args:
            name: The statement.
            parameters: Values by name.
            dimensions: Of the vectors that it searches, where it searches any.
            exact: Whether it scans every one of them.

        Raises:
            DatabaseError: the server refused it.
        """
        text = statement(name, dimensions=dimensions, exact=exact)
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

    def begin(self, path: str, *, statement_timeout_s: float, ef_search: int) -> None:
        """Set what the transaction needs, for itself alone, in one statement."""
        parameters = {
            "role": self.role or NO_ROLE,
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
        tenant: Name of the tenant whose corpora are meant; empty is the only one that the role belongs to.
        role: Role whose rights every transaction takes (SET LOCAL ROLE); empty is the login role.
        read_url: A hot standby of that server, for what `reading` reads; empty where there is none.
        pool_size: Connections kept open, to each of both.
        statement_timeout_s: Longest that a statement may run, and that a transaction may wait for its client
            to say something; 0 is without end.

    Attributes:
        engine: Of the primary.
        reader: Of the standby, or the same.

    Raises:
        UsageError: a URL is none that libpq understands.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str,
        tenant: str = "",
        role: str = "",
        read_url: str = "",
        pool_size: int = 5,
        statement_timeout_s: float = 60.0,
    ) -> None:
        self.schema = schema
        self.tenant = tenant
        self.role = role
        self._timeout_s = statement_timeout_s
        self._search_paths: dict[sa.Engine, str] = {}
        self._closed = False
        self.engine = self._engine(url, pool_size)
        self.reader = self._engine(read_url, pool_size) if read_url else self.engine

    def _engine(self, url: str, pool_size: int) -> sa.Engine:
        url = _checked_url(url)
        return sa.create_engine(
            "postgresql+psycopg://",
            creator=lambda: self._connect(url),
            pool_size=pool_size,
            pool_pre_ping=True,
            use_native_hstore=False,
        )

    def _connect(self, url: str) -> psycopg.Connection[Any]:
        # Without named prepared statements: a pooler in transaction mode gives every transaction another
        # server process.
        connection = psycopg.connect(url, prepare_threshold=None, fallback_application_name="evireform")
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
        self.reader.dispose()

    def reading(
        self, *, snapshot: bool = False, ef_search: int | None = None, exact: bool = False
    ) -> AbstractContextManager[Transaction]:
        """A read-only transaction on the standby, where there is one: for what may be a moment old.

        Whoever must see what he wrote himself takes `transaction`, which is always the primary's. The
        arguments and errors are its own; besides, a standby may break a statement off (DatabaseError).
        """
        return self._begun(
            self.reader,
            read_only=True,
            snapshot=snapshot,
            ef_search=ef_search,
            exact=exact,
            statement_timeout_s=None,
        )

    def transaction(
        self,
        *,
        read_only: bool = False,
        snapshot: bool = False,
        ef_search: int | None = None,
        exact: bool = False,
        statement_timeout_s: float | None = None,
    ) -> AbstractContextManager[Transaction]:
        """A transaction on the evireform tables of the primary; commits when the block ends well.

        Args:
            read_only: Refuse writes.
            snapshot: Every statement sees the same state of the database (REPEATABLE READ).
            ef_search: Breadth of HNSW searches.
            exact: Scan every vector instead.
            statement_timeout_s: Instead of the store's own.

        Raises:
            UsageError: the store was closed.
            DatabaseUnreachable: no connection.
            SchemaMissing: the tables are not there, or old.
            SchemaTooNew: a newer evireform migrated them.
            DatabaseError: a statement was refused.
        """
        return self._begun(
            self.engine,
            read_only=read_only,
            snapshot=snapshot,
            ef_search=ef_search,
            exact=exact,
            statement_timeout_s=statement_timeout_s,
        )

    @contextmanager
    def _begun(
        self,
        engine: sa.Engine,
        *,
        read_only: bool,
        snapshot: bool,
        ef_search: int | None,
        exact: bool,
        statement_timeout_s: float | None,
    ) -> Iterator[Transaction]:
        path = self._checked_search_path(engine)
        timeout_s = self._timeout_s if statement_timeout_s is None else statement_timeout_s
        with self.plain_transaction(read_only=read_only, snapshot=snapshot, engine=engine) as tx:
            tx.begin(path, statement_timeout_s=timeout_s, ef_search=ef_search or EF_SEARCH)
            tx.exact = exact
            yield tx

    @contextmanager
    def plain_transaction(
        self, *, read_only: bool = False, snapshot: bool = False, engine: sa.Engine | None = None
    ) -> Iterator[Transaction]:
        """A transaction that expects nothing of the database, for setting it up and looking at it.

        It is on the primary unless ``engine`` is the `reader`.
        """
        if self._closed:
            raise errors.UsageError("the database was closed: connect to it again")
        engine = engine or self.engine
        with _translated("connect", standby=engine is not self.engine):
            connection = engine.connect()
        try:
            if snapshot or read_only:
                # psycopg says it in BEGIN itself; nothing is set on the session.
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ" if snapshot else "READ COMMITTED",
                    postgresql_readonly=read_only,
                )
            with _translated("transaction"), connection.begin():
                tx = Transaction(connection, tenant=self.tenant, role=self.role)
                if self.role:
                    tx.run("take_role", {"role": self.role})
                yield tx
        finally:
            if self._closed and not connection.invalidated:
                connection.detach()
            connection.close()

    def _checked_search_path(self, engine: sa.Engine) -> str:
        """The search path of every transaction; the first time it looks at whether the tables are ours."""
        if engine not in self._search_paths:
            with self.plain_transaction(read_only=True, engine=engine) as tx:
                path = search_path(self.schema, tx.run("extension", {}))
                tx.begin(path, statement_timeout_s=self._timeout_s, ef_search=EF_SEARCH)
                require_current(database_revision(tx, self.schema), self.schema)
            self._search_paths[engine] = path
        return self._search_paths[engine]


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
    except (psycopg.ProgrammingError, UnicodeEncodeError):
        # Neither the driver's message nor the exception: both may quote the password.
        raise errors.UsageError(
            "libpq does not understand the database URL: write postgresql://user@host/database, "
            "with %-escapes for special characters in a password"
        ) from None
    return url


@contextmanager
def _translated(name: str, *, standby: bool = False) -> Iterator[None]:
    """Errors of the driver and of the server as ours, wherever they come up."""
    try:
        yield
    except sa.exc.DBAPIError as exc:
        if isinstance(exc.orig, psycopg.Error):
            raise translate(exc.orig, name, standby=standby) from exc
        raise
    except psycopg.Error as exc:
        raise translate(exc, name, standby=standby) from exc
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
_TAKING = dict.fromkeys(
    ("begin", "take_role"), "name another role, or let who administers it GRANT it to the login role"
)
"""What to do where the statement that takes a role is refused."""

_CANCELED = "57014"

_WAITS = ("hold_", "lock_", "share_", "close_")
"""Beginnings of the names of statements that wait for others, and do nothing else."""

_IN_USE = "55P03"
"""lock_not_available: `drop_space_partition` gives up, so that searches need not wait behind it."""

READS_ONLY = "42501"
"""How the server says that a role lacks a right (insufficient_privilege): a reader writes nothing."""
_WAITED = "25P03"
"""idle_in_transaction_session_timeout"""

_BROKEN_OFF = "40001"
"""Serialization failure: here nothing can fail so but what a standby breaks off to follow its primary."""


def translate(exc: psycopg.Error, name: str, *, standby: bool = False) -> errors.DatabaseError:
    """The error of ours that says what to do about one of the driver.

    Args:
        exc: It; what is taken from it is the server's or libpq's own first line, which holds no password.
        name: The statement, or what else was being done.
        standby: Whether the server is the one of ``read_url``.
    """
    state = exc.sqlstate or ""
    said = exc.diag.message_primary or next(iter(str(exc).strip().splitlines()), type(exc).__name__)
    kind: type[errors.DatabaseError] = errors.DatabaseError
    problem, remedy = f"the database refused `{name}` ({said})", ""
    if state == _CANCELED:
        problem, remedy = f"`{name}` was canceled ({said})", "raise statement_timeout_s, or ask for less"
        if name.startswith(_WAITS):
            remedy = "others work on the same: repeat it when they have ended, or raise statement_timeout_s"
    elif state == _WAITED:
        kind = errors.DatabaseUnreachable
        problem = f"the server heard nothing for too long in an open transaction ({said})"
        remedy = "raise statement_timeout_s, or keep this process from being held up"
    elif state == _BROKEN_OFF:
        problem = f"the standby broke off `{name}` to follow its primary ({said})"
        remedy = "ask again; hot_standby_feedback = on on the standby makes this rare"
    elif state == _IN_USE:
        problem = "somebody has been reading vectors for seconds, so nothing was dropped"
        remedy = "try again, or look in pg_stat_activity for a transaction that was left open, and end it"
    elif state == "25006":  # read_only_sql_transaction: a standby
        kind, remedy = errors.PermissionMissing, "this server only answers searches: connect to its primary"
    elif state == READS_ONLY:
        kind, remedy = errors.PermissionMissing, _TAKING.get(name, GRANTS)
    elif name == "take_role" and state == "22023":  # invalid_parameter_value
        problem, remedy = (
            f"no such role can be taken ({said})",
            "name another (--as-role, or the setting `role`)",
        )
    elif state in _MISSING:
        kind, remedy = errors.SchemaMissing, INIT
    elif state in _UNREACHABLE or state[:2] in ("08", "28") or (not state and _is_lost(exc)):
        kind = errors.DatabaseUnreachable
        problem, remedy = f"no connection to the database ({said})", "check its URL, and that it runs"
        if standby:
            problem = f"no connection to the standby ({said})"
            remedy = "check read_url, and that it runs; without a read_url the primary answers searches"
    return kind(problem, remedy=remedy, statement=name, sqlstate=state)


def _is_lost(exc: psycopg.Error) -> bool:
    return isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError)
