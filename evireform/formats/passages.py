"""Passages from JSONL, CSV, folders of text files, and standard input, one at a time and in order."""

from __future__ import annotations

import csv
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evireform.errors import InputError
from evireform.formats.text import (
    MAX_LINE_CHARACTERS,
    decoded,
    json_problem,
    json_type,
    key_problem,
    numbered_lines,
    outside_key,
    parse_object,
    printable,
    text_problem,
)
from evireform.records import Passage, Rejected

STANDARD_INPUT = "-"
_FIELDS = ("id", "title", "text")
_TEXT_SUFFIXES = (".txt", ".md")
_TOO_LONG = f"longer than {MAX_LINE_CHARACTERS:,} characters: split it"
_HEADING = re.compile(r"\s{0,3}#{1,6}[ \t]+(?P<title>.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")

Row = Passage | Rejected
Reader = Callable[[str, io.TextIOWrapper], Iterator["Located"]]


@dataclass(frozen=True, slots=True)
class Located:
    """A passage or its refusal with the line it began on (``None`` where the file is the passage)."""

    row: Row
    line_number: int | None


def read_passages(
    sources: Sequence[str | Path], *, standard_input: io.BufferedReader | None = None
) -> Iterator[Row]:
    """Passages of all sources in input order; what cannot be one comes as `Rejected` in its place.

    A source is a ``.jsonl`` file (``id``, ``text``, optional ``title``; every other field is metadata), a
    ``.csv`` file with those columns, a ``.txt`` or ``.md`` file, a folder of these last two (every other
    file and every hidden one is left out; the key is the path within the folder), or ``-`` for JSONL on
    standard input. Text is UTF-8, or what a byte order mark says. A key that an earlier passage has is
    refused, also across sources. Only the keys are kept in memory.

    Args:
        sources: Paths, or ``-``.
        standard_input: What ``-`` reads; the process's own by default.

    Raises:
        InputError: a source is missing, unreadable, binary, or of an unknown kind. Sources are looked
            at before the first passage is read; a fault of the content comes where it stands.

    >>> import io
    >>> lines = io.BufferedReader(io.BytesIO(b'{"id": 7, "text": "One."}\\n{"id": "b"}\\n'))
    >>> first, second = read_passages(["-"], standard_input=lines)
    >>> first
    Passage(key='7', text='One.', title='', metadata={})
    >>> second.line_number, second.reason
    (2, 'text is missing')
    """
    names = [str(source) for source in sources]
    readers = [_reader(name) for name in names]
    return _unique(names, readers, standard_input)


def _unique(
    names: Sequence[str], readers: Sequence[Reader | None], standard_input: io.BufferedReader | None
) -> Iterator[Row]:
    """Rows of all sources, where the first passage keeps its key and later ones are refused."""
    first_seen: dict[str, tuple[str, int | None]] = {}
    for name, reader in zip(names, readers, strict=True):
        located = _folder(Path(name)) if reader is None else _read_with(name, reader, standard_input)
        for item in located:
            row = item.row
            if isinstance(row, Passage):
                where = (name, item.line_number)
                earlier = first_seen.setdefault(row.key, where)
                if earlier is not where:
                    yield Rejected(
                        reason=f"duplicate id: already given {_place(earlier, name)}",
                        path="standard input" if name == STANDARD_INPUT else printable(name),
                        line_number=item.line_number,
                        passage_key=row.key,
                    )
                    continue
            yield row


def _place(earlier: tuple[str, int | None], name: str) -> str:
    source, line_number = earlier
    parts = [f"on line {line_number}"] if line_number is not None else []
    if source != name or line_number is None:
        parts.append(f"by {printable(source)}")
    return " ".join(parts)


def _reader(name: str) -> Reader | None:
    """How a source is read; ``None`` is a folder."""
    if name == STANDARD_INPUT:
        return _jsonl
    path = Path(name)
    shown = printable(name)
    if path.is_dir():
        return None
    if not path.exists():
        raise InputError(f"{shown} does not exist: check the path", path=name)
    suffix = path.suffix.lower()
    reader = {".jsonl": _jsonl, ".csv": _csv, ".txt": _text_file, ".md": _text_file}.get(suffix)
    if reader is not None:
        _look_at(path)
        return reader
    advice = "give .jsonl, .csv, .txt or .md, a folder of .txt and .md, or - for JSONL on standard input"
    if suffix == ".json":
        advice = "write one object per line into a .jsonl file (for a list: jq -c '.[]')"
    raise InputError(f"{shown} is of a kind that is not read: {advice}", path=name)


def _look_at(path: Path) -> None:
    """Open a file and see that it begins like text, so that a wrong one stops the work before it begins."""
    if path.is_file():  # a pipe can be opened only once
        try:
            with path.open("rb") as stream, decoded(stream, printable(path)):
                pass
        except OSError as error:
            raise InputError(f"{printable(path)} cannot be read: {error.strerror}", path=path) from error


def _read_with(name: str, reader: Reader, standard_input: io.BufferedReader | None) -> Iterator[Located]:
    if name == STANDARD_INPUT:
        stream = standard_input or sys.stdin.buffer
        text = decoded(stream, "standard input")  # type: ignore[arg-type]
        try:
            yield from reader("standard input", text)
        finally:
            text.detach()
        return
    try:
        with Path(name).open("rb") as stream, decoded(stream, printable(name)) as text:
            yield from reader(name, text)
    except OSError as error:
        raise InputError(f"{printable(name)} cannot be read: {error.strerror}", path=name) from error


def _jsonl(name: str, text: io.TextIOWrapper) -> Iterator[Located]:
    for line_number, line in numbered_lines(text):
        if line is None:
            yield Located(_rejected(f"the line is {_TOO_LONG}", name, line_number), line_number)
        elif line.strip():
            yield Located(_from_line(line, name, line_number), line_number)


def _from_line(line: str, name: str, line_number: int) -> Row:
    try:
        fields = parse_object(line)
    except ValueError as error:
        return _rejected(str(error), name, line_number)
    return _from_fields(fields, name, line_number)


def _csv(name: str, text: io.TextIOWrapper) -> Iterator[Located]:
    # The limit belongs to the whole process and guards nothing here but long texts; it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE_CHARACTERS))
    rows = csv.reader(text, strict=True)
    header: list[str] = []
    line_number = 1
    while True:
        try:
            values = next(rows, None)
        except csv.Error as error:
            if not header:
                raise InputError(
                    f"{printable(name)} has no readable header line: {error}", path=name, line_number=1
                ) from error
            yield Located(_rejected(f"malformed CSV: {error}", name, line_number), line_number)
            values = []
        if values is None:
            return
        if not header and values:
            header = _header(values, name, line_number)
        elif values:
            yield Located(_from_values(header, values, name, line_number), line_number)
        line_number = rows.line_num + 1


def _header(values: Sequence[str], name: str, line_number: int) -> list[str]:
    header = [value.strip().removeprefix("\ufeff") for value in values]
    problem = next((f"{field!r} is missing" for field in ("id", "text") if field not in header), "")
    if not problem and len(set(header)) < len(header):
        problem = "a column occurs twice"
    if problem:
        raise InputError(
            f"the header of {printable(name)} must name the columns id and text, each once "
            f"({problem}): it has {printable(', '.join(header))}",
            path=name,
            line_number=line_number,
        )
    return header


def _from_values(header: Sequence[str], values: Sequence[str], name: str, line_number: int) -> Row:
    if len(values) != len(header):
        reason = f"the row has {len(values)} fields, the header has {len(header)}"
        return _rejected(reason, name, line_number)
    return _from_fields(dict(zip(header, values, strict=True)), name, line_number)


def _folder(folder: Path) -> Iterator[Located]:
    """Text files of a folder, ordered by key."""
    keys: list[str] = []

    def refuse(error: OSError) -> None:
        raise InputError(
            f"{printable(str(error.filename))} cannot be read: {error.strerror}", path=error.filename
        )

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        keys.extend(
            Path(place, name).relative_to(folder).as_posix()
            for name in files
            if not name.startswith(".") and Path(name).suffix.lower() in _TEXT_SUFFIXES
        )
    if not keys:
        raise InputError(f"{printable(folder)} holds no .txt or .md file", path=folder)
    for key in sorted(keys):
        path = folder / key
        try:
            with path.open("rb") as stream, decoded(stream, printable(path)) as text:
                row = _whole_file(str(path), key, text)
        except InputError as error:
            row = _rejected(str(error), str(path), None, key)
        except OSError as error:
            row = _rejected(f"cannot be read: {error.strerror}", str(path), None, key)
        yield Located(row, None)


def _text_file(name: str, text: io.TextIOWrapper) -> Iterator[Located]:
    yield Located(_whole_file(name, Path(name).name, text), None)


def _whole_file(name: str, key: str, text: io.TextIOWrapper) -> Row:
    """A file as one passage: a markdown heading gives the title, else the name of the file does.

    A heading that opens the text leaves it, because it is the title and would be read twice.
    """
    body = text.read(MAX_LINE_CHARACTERS + 1)
    if len(body) > MAX_LINE_CHARACTERS:
        return _rejected(f"the text is {_TOO_LONG}", name, None, key)
    path = Path(key)
    title = path.stem
    if path.suffix.lower() == ".md":
        title, body = _split_heading(body, title)
    row = _from_fields({"id": key, "title": title, "text": body.strip()}, name, None)
    return replace(row, path=printable(name)) if isinstance(row, Rejected) else row


def _split_heading(body: str, default: str) -> tuple[str, str]:
    fenced = False
    lines = body.lstrip().split("\n")
    for position, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (found := _HEADING.match(line)) and found["title"]:
            return found["title"], "\n".join(lines[1:]) if position == 0 else body
    return default, body


def _from_fields(fields: Mapping[str, Any], name: str, line_number: int | None) -> Row:
    """A passage from named values, checked one by one in the order in which a reader would look."""
    given = fields.get("id")
    key = outside_key(given)
    if key is None:
        problem = "is missing" if given is None else f"must be text or a whole number, not {json_type(given)}"
        return _rejected(f"id {problem}", name, line_number)
    if problem := key_problem(key):
        return _rejected(f"id {problem}", name, line_number, key)
    text, title = fields.get("text"), fields.get("title")
    if text is None:
        return _rejected("text is missing", name, line_number, key)
    if not isinstance(text, str):
        return _rejected(f"text must be text, not {json_type(text)}", name, line_number, key)
    if not text.strip():
        return _rejected("text is empty", name, line_number, key)
    if title is not None and not isinstance(title, str):
        return _rejected(f"title must be text, not {json_type(title)}", name, line_number, key)
    metadata = {field: value for field, value in fields.items() if field not in _FIELDS}
    problems = {
        "text": text_problem(text),
        "title": text_problem(title or ""),
        "metadata": json_problem(metadata),
    }
    for field, problem in problems.items():
        if problem:
            return _rejected(f"{field} {problem}", name, line_number, key)
    return Passage(key=key, text=text, title=title or "", metadata=metadata)


def _rejected(reason: str, name: str, line_number: int | None, key: str = "") -> Rejected:
    shown = printable(key)[:200] if key_problem(key) else key
    return Rejected(reason=reason, path=printable(name), line_number=line_number, passage_key=shown)
