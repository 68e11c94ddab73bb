"""Rankings as TREC run files and gold passages as qrels, for any evaluator.

Both formats separate their columns by white space, so white space within a key is written as in URLs
(``%20``), and ``%`` as ``%25`` where it would otherwise read as such an escape; `read_run` undoes both.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from evireform.errors import InputError, UsageError
from evireform.formats.text import decoded, numbered_lines, printable
from evireform.records import Question

_UNSAFE = re.compile(r"\s|%(?=[0-9A-Fa-f]{2})")


def strictly_decreasing(scores: Sequence[float]) -> list[np.float32]:
    """The scores as 32-bit floats, lowered where needed so that each is below the one before it.

    Common evaluators round scores to 32 bits and break ties each in their own way; a run whose rounded
    scores strictly decrease is ranked alike by all. A score that already is below the one before stays.

    Args:
        scores: In ranking order, finite and within the range of 32-bit floats.

    Raises:
        ValueError: a score is not finite, or too large for 32 bits.

    >>> [float(score) for score in strictly_decreasing([2.0, 1.0, 1.0])]
    [2.0, 1.0, 0.9999999403953552]
    """
    lowered: list[np.float32] = []
    bound = np.float32(np.inf)
    for score in scores:
        if not math.isfinite(score) or abs(score) > float(np.finfo(np.float32).max):
            raise ValueError(f"score must be a finite 32-bit number, not {score!r}")
        rounded = np.float32(score)
        if rounded >= bound:
            rounded = np.nextafter(bound, np.float32(-np.inf))
        lowered.append(rounded)
        bound = rounded
    return lowered


def write_run(path: str | Path, rankings: Mapping[str, Sequence[tuple[str, float]]], *, tag: str) -> None:
    """Write rankings as a TREC run: ``question Q0 passage rank score tag``, whole or not at all.

    A question with an empty ranking has no line: the format has no other way to say so, and an evaluator
    counts it 0 because the qrels name it.

    Args:
        path: File to write or replace.
        rankings: Question key to (passage key, score), best first.
        tag: Name of the run.

    Raises:
        ValueError: a ranking names a passage twice, or a score is not a finite 32-bit number.
        UsageError: the file cannot be written.
    """
    lines = []
    for question, ranking in rankings.items():
        passages = [passage for passage, _ in ranking]
        if len(set(passages)) < len(passages):
            raise ValueError(f"the ranking of question {question!r} names a passage twice")
        scores = strictly_decreasing([score for _, score in ranking])
        for rank, (passage, score) in enumerate(zip(passages, scores, strict=True), start=1):
            lines.append(f"{_escape(question)} Q0 {_escape(passage)} {rank} {score!s} {_escape(tag)}\n")
    _write(Path(path), lines)


def write_qrels(path: str | Path, questions: Iterable[Question]) -> None:
    """Write gold passages as TREC qrels: ``question 0 passage 1``, whole or not at all.

    A question without gold has no line: it is not judged.

    Raises:
        UsageError: the file cannot be written.
    """
    lines = [
        f"{_escape(question.key)} 0 {_escape(passage)} 1\n"
        for question in questions
        for passage in question.gold
    ]
    _write(Path(path), lines)


def read_run(path: str | Path) -> dict[str, list[tuple[str, float]]]:
    """Rankings of a TREC run: question key to (passage key, score), by falling score, equal ones by key.

    Raises:
        InputError: the file is missing, unreadable or binary, a line is not one of a run, its score is no
            finite 32-bit number, or its question has its passage already.
    """
    shown = printable(path)
    seen: set[tuple[str, str]] = set()
    rankings: dict[str, list[tuple[str, float]]] = {}
    try:
        with Path(path).open("rb") as stream, decoded(stream, shown) as text:
            for number, line in numbered_lines(text):
                if line is not None and not line.strip():
                    continue
                question, passage, score = _run_line(line or "", shown, number)
                if (question, passage) in seen:
                    raise InputError(
                        f"{shown} line {number}: question {question!r} has passage {passage!r} already",
                        path=shown,
                        line_number=number,
                    )
                seen.add((question, passage))
                rankings.setdefault(question, []).append((passage, score))
    except OSError as error:
        raise InputError(f"{shown} cannot be read: {error.strerror}", path=path) from error
    for ranking in rankings.values():
        ranking.sort(key=lambda row: (-row[1], row[0]))
    return rankings


def _run_line(line: str, shown: str, number: int) -> tuple[str, str, float]:
    columns = line.split()
    try:
        question, _, passage, _, text, _ = columns
        score = float(text)
    except ValueError as error:
        raise InputError(
            f"{shown} line {number}: 'question Q0 passage rank score tag' is expected",
            path=shown,
            line_number=number,
        ) from error
    if not abs(score) <= float(np.finfo(np.float32).max):
        raise InputError(
            f"{shown} line {number}: the score must be a finite 32-bit number, not {text}",
            path=shown,
            line_number=number,
        )
    return unquote(question), unquote(passage), score


def _escape(key: str) -> str:
    return _UNSAFE.sub(lambda found: quote(found[0], safe=""), key)


def _write(path: Path, lines: Iterable[str]) -> None:
    """Write beside the file, then rename: a reader sees the old file or the whole new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as stream:
            stream.writelines(lines)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(f"{printable(path)} cannot be written: {error.strerror}") from error
