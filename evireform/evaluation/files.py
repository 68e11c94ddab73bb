"""The files of an evaluation: records as JSON, and back."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from evireform.errors import InputError, UsageError
from evireform.evaluation.records import MethodResult, Outcome, Study
from evireform.records import Question

RESULTS = "results.json"
QUESTIONS = "questions.jsonl"

Record = TypeVar("Record")

_LONGEST_NAME = 60
"""Characters of a file name that stand for a name; with hash and ending at most 255 bytes nearly always."""

if sys.platform != "win32":
    import fcntl

_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """What reads and writes records of a kind; made once, for it takes its time."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def to_json(record: object) -> str:
    """A record as one line of JSON."""
    return _adapter(type(record)).dump_json(record).decode()


def from_json(kind: type[Record], text: str, *, path: Path, line_number: int | None = None) -> Record:
    """A record from JSON.

    Raises:
        InputError: the text is no JSON, or not such a record.
    """
    try:
        record: Record = _adapter(kind).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(map(str, first["loc"]))
        place = f"{path}" + (f" line {line_number}" if line_number else "")
        raise InputError(
            f"{place} is not what evaluate writes: {field + ': ' if field else ''}{first['msg']}",
            path=path,
            line_number=line_number,
        ) from error
    return record


def digest(made_of: object) -> str:
    """A hash of plain values, the same for equal ones."""
    text = json.dumps(made_of, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def file_name(name: str) -> str:
    """A name of a method or condition as the name of a file, the same on every system.

    One that has to be altered or cut ends in a hash of itself, so that no two names share a file.

    >>> file_name("full@alpha=0.25"), file_name("group 1/5")
    ('full@alpha=0.25', 'group-1-5-f9e339c2')
    """
    plain = re.sub(r"[^\w.@=+-]+", "-", name)[:_LONGEST_NAME]
    return plain if plain == name else f"{plain}-{digest(name)[:8]}"


@contextmanager
def held(directory: Path | None) -> Iterator[None]:
    """The folder of a study for this run alone, until it ends; None holds nothing.

    Where the file system has no locks (and on Windows), nothing is held.

    Raises:
        UsageError: another run writes there, or the folder cannot be made.
    """
    if directory is None or sys.platform == "win32":
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        fd = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise UsageError(f"{directory} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"another run writes to {directory}: wait for its end, or name another output"
            ) from error
        except OSError:  # no locks on this file system
            pass
        yield
    finally:
        os.close(fd)


def write_study(directory: Path, study: Study) -> None:
    """Write ``results.json``, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    text = _adapter(Study).dump_json(study, indent=2).decode() + "\n"
    write_whole(directory / RESULTS, text)


def write_questions(directory: Path, questions: Sequence[Question]) -> None:
    """Write the questions that were asked, with gold, answers and kind.

    Raises:
        UsageError: the file cannot be written.
    """
    write_whole(directory / QUESTIONS, "".join(to_json(question) + "\n" for question in questions))


def write_whole(path: Path, text: str) -> None:
    """Write beside the file, then rename: a reader sees the old file or the whole new one.

    Raises:
        UsageError: the file cannot be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def read_study(directory: Path) -> Study:
    """The study in a folder.

    Raises:
        InputError: there is none, or it is not what `write_study` writes.
    """
    path = directory / RESULTS
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"there is no {RESULTS} in {directory}: evaluate writes it", path=path) from error
    return from_json(Study, text, path=path)


def read_questions(directory: Path) -> list[Question]:
    """The questions that the study in a folder asked.

    Raises:
        InputError: the file is missing or malformed.
    """
    path = directory / QUESTIONS
    return [from_json(Question, line, path=path, line_number=number) for number, line in _lines(path)]


def read_outcomes(directory: Path, result: MethodResult) -> Iterator[Outcome]:
    """The outcomes of one method of a study, one after the other, in the order in which they were made.

    Of several of one question, the last.

    Raises:
        InputError: the file is missing or malformed.
    """
    path = directory / result.outcomes
    last = {
        from_json(_Asked, line, path=path, line_number=number).question: number
        for number, line in _lines(path)
    }
    for number, line in _lines(path):
        outcome = from_json(Outcome, line, path=path, line_number=number)
        if last[outcome.question] == number:
            yield outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Of an outcome, the question alone."""

    question: str


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as stream:
            yield from enumerate(stream, start=1)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}", path=path) from error
