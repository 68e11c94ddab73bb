"""Bytes to lines of text: encodings, limits, and JSON values that a database can hold."""

from __future__ import annotations

import codecs
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evireform.errors import InputError

MAX_LINE_CHARACTERS = 64 * 1024 * 1024
"""Longest line (or text file) that is read; a longer one is refused, so that memory stays bounded."""

MAX_NESTING = 50
"""Deepest nesting of metadata."""

MAX_DIGITS = 4_000
"""Longest whole number in metadata; what reads JSON in Python refuses those beyond 4,300 digits."""

MAX_KEY_BYTES = 512
"""Longest key of a passage in UTF-8: it stands in database indexes, whose entries are limited."""

_ENCODINGS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_TOO_LONG = 10**MAX_DIGITS
_HEAD_BYTES = 4096
_UNDECODABLE = "\udcff"
_INVALID_BYTES = "holds bytes that are not valid in the encoding of the file: convert it to UTF-8"
_SURROGATE = re.compile("[\ud800-\udfff]")
_WHITE_CONTROLS = b"\t\n\v\f\r\x1b"
_CONTROLS = bytes(byte for byte in range(32) if byte not in _WHITE_CONTROLS)


def _mark_undecodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _UNDECODABLE, error.end


# A lone surrogate never comes out of a correct decoder, so it marks the place of invalid bytes and
# spoils only the line that it is in.
codecs.register_error("evireform-mark", _mark_undecodable)


def decoded(stream: io.BufferedReader, path: str) -> io.TextIOWrapper:
    """Text of a byte stream: UTF-8, or what its byte order mark says, with line ends as ``\\n``.

    Invalid bytes become lone surrogates, which `text_problem` finds in the line they stand in.

    Raises:
        InputError: the stream does not begin like text.
    """
    head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    for mark, encoding in _ENCODINGS:
        if head.startswith(mark):
            return io.TextIOWrapper(stream, encoding=encoding, errors="evireform-mark")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls > 16 and controls > len(head) / 20:
        raise InputError(
            f"{path} is binary, or UTF-16 without a byte order mark: unpack it, or convert it to UTF-8",
            path=path,
        )
    return io.TextIOWrapper(stream, encoding="utf-8", errors="evireform-mark")


def numbered_lines(text: io.TextIOWrapper) -> Iterator[tuple[int, str | None]]:
    """Lines with their numbers from 1, without line ends; ``None`` in place of one that is too long."""
    number = 0
    while line := text.readline(MAX_LINE_CHARACTERS):
        number += 1
        too_long = False
        while not line.endswith("\n") and len(line) == MAX_LINE_CHARACTERS:
            line, too_long = text.readline(MAX_LINE_CHARACTERS), True
        yield number, None if too_long else line.rstrip("\n").removeprefix("\ufeff")


def text_problem(text: str) -> str:
    """Why a database cannot hold this text; empty when it can.

    >>> text_problem("fine"), text_problem("a\\0b")
    ('', 'holds a NUL character')
    """
    if "\0" in text:
        return "holds a NUL character"
    if _UNDECODABLE in text:
        return _INVALID_BYTES
    if _SURROGATE.search(text):
        return "holds a lone surrogate, which is half of a character"
    return ""


def storable(text: str) -> str:
    """Text from a model as a database can hold it: NUL characters go, lone surrogates become U+FFFD.

    For what a model wrote, where refusing the whole would lose more; `text_problem` refuses what people give.

    >>> storable("a\\0b\\ud800c")
    'ab\ufffdc'
    """
    return _SURROGATE.sub("\ufffd", text.replace("\0", ""))


def key_problem(key: str) -> str:
    """Why this cannot be the key of a passage; empty when it can."""
    if not key.strip():
        return "is empty"
    if problem := text_problem(key):
        return problem
    if (size := len(key.encode())) > MAX_KEY_BYTES:
        return f"has {size} bytes, more than {MAX_KEY_BYTES}"
    return ""


def json_problem(value: Any) -> str:
    """Why a JSON column cannot hold this value; empty when it can.

    Args:
        value: What `json.loads` gives.
    """
    level = [value]
    for _ in range(MAX_NESTING):
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                if problem := text_problem(item):
                    return problem
            elif type(item) is int:
                if abs(item) >= _TOO_LONG:
                    return f"holds a number of more than {MAX_DIGITS:,} digits: write it as text"
            elif isinstance(item, float):
                if item in (float("inf"), float("-inf")):
                    return "holds a number that is too large"
            elif isinstance(item, dict):
                below.extend(item)
                below.extend(item.values())
            elif isinstance(item, list | tuple):
                below.extend(item)
        if not below:
            return ""
        level = below
    return f"is nested more than {MAX_NESTING} levels deep"


def parse_object(line: str) -> dict[str, Any]:
    """The JSON object in a line.

    Raises:
        ValueError: it is not one; the message says why.
    """
    if _UNDECODABLE in line:
        raise ValueError(f"the line {_INVALID_BYTES}")
    try:
        value = json.loads(line, parse_constant=_refuse_constant, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise ValueError(f"malformed JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("malformed JSON: nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object is expected, not {json_type(value)}")  # noqa: TRY004
    return value


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS:,} digits: write it as text")
    return int(digits)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"malformed JSON: {name} is not a JSON number")


def json_type(value: Any) -> str:
    """What a JSON value is called in a message.

    >>> json_type([]), json_type(None), json_type(True)
    ('a list', 'null', 'true or false')
    """
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "an object")


def outside_key(value: Any) -> str | None:
    """A key as files give it, text or a whole number; ``None`` for anything else.

    >>> outside_key("a"), outside_key(7), outside_key(True), outside_key(None)
    ('a', '7', None, None)
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None


def printable(text: str | Path) -> str:
    """Text that can be written to a terminal or a log: what does not print stands escaped.

    >>> printable("two\\nlines")
    'two\\\\nlines'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(text)
    )
