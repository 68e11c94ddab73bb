"""Evaluation sets: questions with the passages that answer them together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evireform.errors import InputError
from evireform.formats.text import (
    decoded,
    json_type,
    numbered_lines,
    outside_key,
    parse_object,
    printable,
    text_problem,
)
from evireform.records import Question


def read_questions(path: str | Path) -> list[Question]:
    """Questions from JSONL, in the order of the file.

    A line holds ``id``, ``question``, ``answers`` and ``gold_passage_ids`` (both lists, which may be
    empty), and optionally ``hops`` and ``type``; other fields are ignored. An evaluation over a part of
    its questions would mislead, so the first fault ends the reading.

    Args:
        path: The file; UTF-8, or what its byte order mark says.

    Raises:
        InputError: the file is missing, unreadable or without a question, or a line is wrong; the
            message names the field and the line.
    """
    shown = printable(path)
    questions: list[Question] = []
    lines: dict[str, int] = {}
    number = 0
    try:
        with Path(path).open("rb") as stream, decoded(stream, shown) as text:
            for number, line in numbered_lines(text):
                if line is None:
                    raise ValueError("the line is too long")
                if not line.strip():
                    continue
                question = _question(parse_object(line))
                if question.key in lines:
                    raise ValueError(f"id: already given on line {lines[question.key]}")
                lines[question.key] = number
                questions.append(question)
    except OSError as error:
        raise InputError(f"{shown} cannot be read: {error.strerror}", path=path) from error
    except ValueError as error:
        raise InputError(f"{shown} line {number}: {error}", path=path, line_number=number) from error
    if not questions:
        raise InputError(f"{shown} holds no question", path=path)
    return questions


def _question(fields: Mapping[str, Any]) -> Question:
    """The question in one object. Raises ValueError with the name of the field that is wrong."""
    key = outside_key(fields.get("id"))
    if key is None or not key.strip():
        raise ValueError(f"id: text or a whole number is expected, not {_given(fields, 'id')}")
    text = fields.get("question")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"question: text is expected, not {_given(fields, 'question')}")
    hops = fields.get("hops")
    if hops is not None and (not isinstance(hops, int) or isinstance(hops, bool)):
        raise ValueError(f"hops: a whole number is expected, not {_given(fields, 'hops')}")
    kind = fields.get("type", "")
    if not isinstance(kind, str):
        raise ValueError(f"type: text is expected, not {_given(fields, 'type')}")  # noqa: TRY004
    for field, value in (("id", key), ("question", text), ("type", kind)):
        if problem := text_problem(value):
            raise ValueError(f"{field}: {problem}")
    return Question(
        key=key,
        text=text,
        gold=tuple(dict.fromkeys(_texts(fields, "gold_passage_ids"))),
        answers=_texts(fields, "answers") if "answers" in fields else (),
        kind=kind,
        hops=hops,
    )


def _texts(fields: Mapping[str, Any], field: str) -> tuple[str, ...]:
    values = fields.get(field)
    if not isinstance(values, list):
        raise ValueError(f"{field}: a list is expected, not {_given(fields, field)}")  # noqa: TRY004
    texts = [outside_key(value) for value in values]
    for value, text in zip(values, texts, strict=True):
        if text is None:
            raise ValueError(f"{field}: each must be text or a whole number, not {json_type(value)}")
        if problem := text_problem(text):
            raise ValueError(f"{field}: {problem}")
    return tuple(text for text in texts if text is not None)


def _given(fields: Mapping[str, Any], field: str) -> str:
    if field not in fields:
        return "a missing field"
    value = fields[field]
    return "empty text" if isinstance(value, str) and not value.strip() else json_type(value)
