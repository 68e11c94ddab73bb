"""The named statements of ``sql/*.sql``, and where the files that ship with the package are.

A statement begins with ``-- name: x``; the comment below says what it is for and what it costs. The only
thing ever formatted into one is ``{d}``, a checked integer, the dimensions of its vectors: without that cast
the plan is a sequential scan. A line ``-- wide: ...`` stands for the line above it where the vectors are too
wide for an index, and theirs holds the signs of their elements.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_CAST = "halfvec({d})"
_WIDE = re.compile(r"^ *\S.*\n( *)-- wide: (.*)$", re.MULTILINE)

WIDEST = 4_000
"""Dimensions up to which an HNSW index of pgvector holds the vectors of ``halfvec`` themselves."""


def resource_dir(name: str) -> Path:
    """Folder ``sql`` or ``migrations``: inside an installed package, else at the top of the source tree.

    Raises:
        FileNotFoundError: the installation is broken.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"evireform's folder {name!r} is missing: install the package again")


@cache
def statements() -> dict[str, str]:
    """Every named statement of the package by name."""
    return read_statements(resource_dir("sql"))


def read_statements(folder: Path) -> dict[str, str]:
    """The named statements of a folder's files by name, each with its comment.

    Raises:
        ValueError: two statements share a name.
    """
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.sql")):
        parts = _NAME.split(path.read_text(encoding="utf-8"))
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"two statements are called {name!r}; the second is in {path.name}")
            found[name] = text.strip().removesuffix(";")
    return found


def statement(name: str, *, dimensions: int | None = None, exact: bool = False) -> str:
    """The text of a statement, with the dimensions of its vectors where it searches any.

    Exact, it is without them, so that no index fits: PostgreSQL 18 forgets that index scans are switched
    off where a partitioned table has one partition left.

    Raises:
        KeyError: no statement has this name.
        ValueError: the statement needs dimensions, or they are not a positive integer.
    """
    text = statements().get(name)
    if text is None:
        raise KeyError(f"no statement is called {name!r}")
    if _CAST not in text:
        return text
    if type(dimensions) is not int or dimensions < 1:
        raise ValueError(f"statement {name!r} needs its dimensions, a positive integer, not {dimensions!r}")
    if exact:
        return text.replace(_CAST, "halfvec")
    if dimensions > WIDEST:
        text = _WIDE.sub(r"\1\2", text)
    return text.replace("{d}", str(dimensions))


def script(name: str) -> str:
    """A file of ``sql`` without named statements, such as functions or views."""
    return (resource_dir("sql") / f"{name}.sql").read_text(encoding="utf-8")
