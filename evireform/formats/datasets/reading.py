"""Records of published files, one at a time: JSON arrays and JSONL, checked against a model of their fields.

A record that is wrong ends the reading, because an evaluation over a part of its questions would mislead;
the error names the file, the line (or, in a JSON array, the record) and the field.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from evireform.errors import InputError, UsageError
from evireform.formats.text import (
    decoded,
    json_type,
    key_problem,
    numbered_lines,
    outside_key,
    parse_object,
    printable,
    text_problem,
)


def _storable(text: str) -> str:
    if problem := text_problem(text):
        raise ValueError(problem)
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("text is expected, not empty text")
    return _storable(text)


def _key(value: object) -> str:
    key = outside_key(value)
    if key is None:
        raise ValueError(f"text or a whole number is expected, not {json_type(value)}")
    if problem := key_problem(key):
        raise ValueError(problem)
    return key


Text = Annotated[str, AfterValidator(_storable)]
"""Text that a database can hold; may be empty."""

Filled = Annotated[str, AfterValidator(_filled)]
"""Text that a database can hold and that says something."""

Key = Annotated[str, BeforeValidator(_key)]
"""A key, given as text or as a whole number."""


class Record(BaseModel):
    """The fields that we read of a record; it may have others."""

    model_config = ConfigDict(extra="ignore", frozen=True)


R = TypeVar("R", bound=Record)


def passage_key(title: str, text: str) -> str:
    """The key of a passage that its file gives none: one for equal title and text, the same in every file.

    >>> passage_key("Oslo", "It is a city."), passage_key("Oslo", "It is a town.")
    ('2d56d2632d70532ee679', '53258c06b6b63decc2c4')
    """
    return hashlib.blake2b(f"{title}\0{text}".encode(), digest_size=10).hexdigest()


def checked(model: type[R], fields: Any) -> R:
    """The record that these values make.

    Raises:
        ValueError: they do not; the message begins with the field.
    """
    if not isinstance(fields, dict):
        raise ValueError(f"a JSON object is expected, not {json_type(fields)}")  # noqa: TRY004
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        # Beside names and positions, pydantic's places hold names of kinds, which are not in the file.
        field, *below = first["loc"]
        place = ".".join(str(part) for part in (field, *below) if part == field or not _is_kind(part))
        message = first["msg"].removeprefix("Value error, ")
        message = message[:1].lower() + message[1:]
        raise ValueError(f"{place}: {message}") from error


def _is_kind(part: str | int) -> bool:
    return isinstance(part, str) and ("[" in part or part in ("str", "int"))


@contextmanager
def faults_at(path: Path, place: str, line_number: int | None = None) -> Iterator[None]:
    """Say where in which file a value is wrong: a `ValueError` inside becomes an `InputError`."""
    try:
        yield
    except ValueError as error:
        raise InputError(f"{printable(path)} {place}: {error}", path=path, line_number=line_number) from error


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file that are not blank, with their numbers.

    Raises:
        InputError: the file is missing, unreadable or binary, or a line is too long.
    """
    with _opened(path) as text:
        for number, line in numbered_lines(text):
            if line is None:
                raise InputError(
                    f"{printable(path)} line {number} is too long", path=path, line_number=number
                )
            if line.strip():
                yield number, line


def jsonl_records(path: Path, model: type[R]) -> Iterator[tuple[int, R]]:
    """The records of a JSONL file with their line numbers.

    Raises:
        InputError: the file cannot be read, or a record is wrong; line and field are named.
    """
    for number, line in lines_of(path):
        with faults_at(path, f"line {number}", number):
            record = checked(model, parse_object(line))
        yield number, record


def json_records(path: Path, model: type[R]) -> Iterator[tuple[int, R]]:
    """The records of a file that is one JSON array, with their numbers from 1; one is in memory at a time.

    A file that is one JSON object is an array of one.

    Raises:
        InputError: the file cannot be read, or a record is wrong; record and field are named.
    """
    for number, fields in json_values(path):
        with faults_at(path, f"record {number}"):
            record = checked(model, fields)
        yield number, record


def json_values(path: Path) -> Iterator[tuple[int, Any]]:
    """The values of a JSON array with their numbers from 1; the one value of a file that is no array."""
    is_array = json_start(path) == "["
    yield from enumerate(_streamed(path, "items", "item" if is_array else ""), start=1)


def json_members(path: Path) -> Iterator[tuple[str, Any]]:
    """The members of a file that is one JSON object, in order; one is in memory at a time."""
    yield from _streamed(path, "kvitems", "")


def json_start(path: Path) -> str:
    """The first character of a JSON file that is not white space; empty when there is none."""
    with _opened(path) as text:
        while character := text.read(1):
            if not character.isspace():
                return character
    return ""


def first_record(path: Path) -> dict[str, Any]:
    """The first object of a JSON array or a JSONL file, to tell what it is; empty when there is none."""
    try:
        if path.suffix == ".jsonl":
            return next((parse_object(line) for _, line in lines_of(path)), {})
        # An object that is the whole file would be read whole, and is no set of questions.
        first = next(json_values(path), None) if json_start(path) == "[" else None
    except (InputError, ValueError):
        return {}
    return first[1] if first and isinstance(first[1], dict) else {}


def _streamed(path: Path, function: str, prefix: str) -> Iterator[Any]:
    try:
        import ijson
    except ImportError as error:
        raise UsageError(
            "reading this format needs the package ijson: pip install 'evireform[evaluation]'"
        ) from error
    count = 0
    with _opened(path) as text:
        try:
            for value in getattr(ijson, function)(_Bytes(text), prefix, use_float=True):
                count += 1
                yield value
        except ijson.JSONError as error:
            problem = str(error).strip().split("\n")[0]
            raise InputError(
                f"{printable(path)} record {count + 1}: malformed or half a JSON file ({problem})", path=path
            ) from error


class _Bytes:
    """Decoded text as the UTF-8 bytes that the JSON parser reads, whatever the file's own encoding."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text = text

    def read(self, size: int) -> bytes:
        return self._text.read(size).encode("utf-8", "surrogatepass")


@contextmanager
def _opened(path: Path) -> Iterator[io.TextIOWrapper]:
    shown = printable(path)
    try:
        with path.open("rb") as stream, decoded(stream, shown) as text:
            yield text
    except OSError as error:
        raise InputError(f"{shown} cannot be read: {error.strerror}", path=path) from error
