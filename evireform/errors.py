"""Every error that evireform raises, in one tree.

::

    EvireformError                  exit code 1
    ├── UsageError                  exit code 2: an argument or a setting is wrong
    │   ├── CorpusNotFound
    │   ├── EntityNotFound
    │   └── ExtractorMismatch       a generation is extracted with another extractor
    ├── CorpusSwitched              another generation of the corpus took its name meanwhile
    ├── InputError                  a file that cannot be read as what it should be
    ├── OutputError                 a file or folder that cannot be written
    ├── DatabaseError               the server refused, vanished, or timed out
    │   ├── DatabaseUnreachable
    │   ├── ServerTooOld
    │   ├── ExtensionMissing
    │   ├── PermissionMissing
    │   ├── SchemaMissing
    │   └── SchemaTooNew
    ├── EmbeddedServerError         the bundled server does not start or stop
    ├── VectorSpaceMismatch         a corpus is opened with another embedding model
    ├── ModelUnavailable            a model, its package or its file is not there
    ├── ModelCallFailed             a model was asked and did not give a usable answer
    └── BudgetSpent                 the next model call would go beyond the budget

The docstring of a class is its default message. Facts are attributes; the message says what to do.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class EvireformError(Exception):
    """evireform could not do what was asked."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class UsageError(EvireformError):
    """An argument or a setting is wrong."""

    exit_code: ClassVar[int] = 2


class CorpusNotFound(UsageError):
    """There is no corpus of this name."""

    def __init__(self, message: str | None = None, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class CorpusSwitched(EvireformError):
    """The corpus was switched to another generation meanwhile: repeat it, and it goes on in that one."""

    def __init__(self, message: str | None = None, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class EntityNotFound(UsageError):
    """No proposition of the corpus names this entity."""

    def __init__(self, message: str | None = None, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class ExtractorMismatch(UsageError):
    """A generation has one extractor, and another one is set now."""


class InputError(EvireformError):
    """A file cannot be read as what it should be."""

    def __init__(
        self,
        message: str | None = None,
        *,
        path: Path | str | None = None,
        line_number: int | None = None,
    ) -> None:
        super().__init__(message)
        self.path = path
        self.line_number = line_number


class OutputError(EvireformError):
    """A file or folder cannot be written."""

    def __init__(self, message: str | None = None, *, path: Path | str | None = None) -> None:
        super().__init__(message)
        self.path = path


class DatabaseError(EvireformError):
    """The database refused a statement."""

    def __init__(
        self, problem: str | None = None, *, remedy: str = "", statement: str = "", sqlstate: str = ""
    ) -> None:
        super().__init__(f"{problem}: {remedy}" if remedy else problem)
        self.problem = problem or str(self)
        self.remedy = remedy
        self.statement = statement
        self.sqlstate = sqlstate


class DatabaseUnreachable(DatabaseError):
    """No connection to the database: check the URL, and that the server runs."""


class ServerTooOld(DatabaseError):
    """The server is too old: evireform needs PostgreSQL 15 and pgvector 0.8, or newer."""


class ExtensionMissing(DatabaseError):
    """The server has no pgvector: install it there, or use the pgvector/pgvector image."""


class PermissionMissing(DatabaseError):
    """The database role may not do this: ask the owner of the database to grant it."""


class SchemaMissing(DatabaseError):
    """The database has no evireform tables, or old ones: run `evireform init`."""


class SchemaTooNew(DatabaseError):
    """The database was migrated by a newer evireform: upgrade the package."""


class EmbeddedServerError(EvireformError):
    """The bundled PostgreSQL server did not start."""

    def __init__(self, message: str | None = None, *, log: str = "") -> None:
        super().__init__(message)
        self.log = log


class VectorSpaceMismatch(EvireformError):
    """The corpus was embedded with another model."""

    def __init__(self, message: str | None = None, *, stored: str = "", offered: str = "") -> None:
        super().__init__(message)
        self.stored = stored
        self.offered = offered


class ModelUnavailable(EvireformError):
    """A model is not there: install the extra that brings it."""


class ModelCallFailed(EvireformError):
    """A model was asked and gave no usable answer."""

    def __init__(self, message: str | None = None, *, purpose: str = "", attempts: int = 0) -> None:
        super().__init__(message)
        self.purpose = purpose
        self.attempts = attempts


class BudgetSpent(EvireformError):
    """The budget for model calls is spent: what was done is kept; raise the budget and run it again."""
