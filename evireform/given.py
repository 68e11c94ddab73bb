"""What a program gave as an argument: refused with what to write where it is of another kind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evireform.errors import UsageError

MOST = 1_000_000
"""Most rows that a list may be asked for."""

_SHOWN = 60


def shown(value: object) -> str:
    """A value as a message shows it: the beginning of its `repr`.

    >>> shown("abc"), shown("x" * 100)
    ("'abc'", "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…")
    """
    try:
        text = repr(value[: _SHOWN + 1] if isinstance(value, str) else value)
    except ValueError:  # a whole number of thousands of digits
        return f"a very long {type(value).__name__}"
    return text if len(text) <= _SHOWN + 2 else f"{text[:_SHOWN]}…"


def text(name: str, value: object) -> str:
    """A text.

    Raises:
        UsageError: it is none.
    """
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a text, not {shown(value)}")
    return value


def texts(name: str, values: object) -> list[str]:
    """A list of texts. One text is a sequence of texts too, and would be taken letter by letter.

    Raises:
        UsageError: it is none.
    """
    if isinstance(values, str | bytes):
        raise UsageError(f"{name} must be a list of texts, not one text: write [{shown(values)}]")
    if not isinstance(values, Iterable) or isinstance(values, Mapping):
        raise UsageError(f"{name} must be a list of texts, not {shown(values)}")
    found = list(values)
    for value in found:
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a list of texts, but {shown(value)} is none")
    return found


def limit(value: object) -> int:
    """How many rows of a list are wanted.

    Raises:
        UsageError: no list can have so many.
    """
    if type(value) is not int or not 1 <= value <= MOST:
        raise UsageError(f"limit must be a whole number from 1 to {MOST:,}, not {shown(value)}")
    return value
