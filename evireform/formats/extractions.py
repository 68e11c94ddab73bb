"""Ready-made extractions: propositions with their entities that a model wrote earlier, from a file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from evireform.errors import InputError
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
from evireform.records import ExtractedProposition, Extraction, Rejected


class Extractions(dict[str, Extraction]):
    """Passage key to its extraction, with all that the file held and we left out, in ``rejected``."""

    def __init__(self, extractions: dict[str, Extraction], rejected: Iterable[Rejected]) -> None:
        super().__init__(extractions)
        self.rejected = tuple(rejected)


def read_extractions(path: str | Path) -> Extractions:
    """Extractions from JSONL: ``{"passage_id", "propositions": [{"text", "entities"}]}`` a line.

    An entity is text, a number, or an object with a ``name``; other fields are ignored. A proposition or
    an entity that is malformed is left out and reported in ``rejected``, and its neighbours go in. Where
    nothing usable is left of a line with a known passage, the extraction carries ``error``, so that the
    passage fails with a reason and does not pass for one that says nothing.

    Args:
        path: The file; UTF-8, or what its byte order mark says.

    Raises:
        InputError: the file is missing, unreadable or binary.
    """
    shown = printable(path)
    extractions: dict[str, Extraction] = {}
    lines: dict[str, int] = {}
    rejected: list[Rejected] = []
    try:
        with Path(path).open("rb") as stream, decoded(stream, shown) as text:
            for number, line in numbered_lines(text):
                if line is not None and not line.strip():
                    continue
                key, extraction, problems = _from_line(line, f"{shown} line {number}")
                if key in lines:
                    problems = [f"duplicate passage_id: already given on line {lines[key]}"]
                elif key:
                    lines[key] = number
                    extractions[key] = extraction
                rejected.extend(
                    Rejected(reason=problem, path=shown, line_number=number, passage_key=printable(key))
                    for problem in problems
                )
    except OSError as error:
        raise InputError(f"{shown} cannot be read: {error.strerror}", path=path) from error
    return Extractions(extractions, rejected)


def with_spans(extraction: Extraction, text: str) -> Extraction:
    """The extraction with the place of each proposition in a passage's text, where it stands there verbatim.

    >>> made = Extraction(propositions=(ExtractedProposition(text="It rains."),))
    >>> with_spans(made, "Look. It rains.").propositions[0].span
    (6, 15)
    """
    return replace(extraction, propositions=tuple(_with_span(item, text) for item in extraction.propositions))


def _with_span(proposition: ExtractedProposition, text: str) -> ExtractedProposition:
    start = text.find(proposition.text)
    span = None if start < 0 else (start, start + len(proposition.text))
    return replace(proposition, span=span)


def _from_line(line: str | None, where: str) -> tuple[str, Extraction, list[str]]:
    """Key (empty when unknown), extraction, and every problem of one line."""
    if line is None:
        return "", Extraction(), ["the line is too long"]
    try:
        fields = parse_object(line)
    except ValueError as error:
        return "", Extraction(), [str(error)]
    key = outside_key(fields.get("passage_id"))
    if key is None:
        return "", Extraction(), ["passage_id is missing, or neither text nor a whole number"]
    if problem := key_problem(key):
        return "", Extraction(), [f"passage_id {problem}"]
    given = fields.get("propositions")
    if not isinstance(given, list):
        problem = f"propositions must be a list, not {json_type(given)}"
        return key, Extraction(error=f"{where}: {problem}"), [problem]
    propositions: list[ExtractedProposition] = []
    problems: list[str] = []
    for number, item in enumerate(given, start=1):
        proposition, faults = _proposition(item)
        problems.extend(f"proposition {number}: {fault}" for fault in faults)
        if proposition is not None:
            propositions.append(proposition)
    if given and not propositions:
        return key, Extraction(error=f"{where}: no usable proposition ({problems[0]})"), problems
    return key, Extraction(propositions=tuple(propositions)), problems


def _proposition(item: Any) -> tuple[ExtractedProposition | None, list[str]]:
    if not isinstance(item, dict):
        return None, [f"an object is expected, not {json_type(item)}"]
    text, entities = item.get("text"), item.get("entities")
    if not isinstance(text, str):
        return None, [f"text must be text, not {json_type(text)}"]
    if problem := text_problem(text) or ("" if text.strip() else "is empty"):
        return None, [f"text {problem}"]
    if not isinstance(entities, list):
        return None, [f"entities must be a list, not {json_type(entities)}"]
    names: list[str] = []
    faults: list[str] = []
    for entity in entities:
        name = _entity_name(entity)
        if name is None:
            faults.append(f"an entity must be text or have a name, not {json_type(entity)}")
        elif problem := text_problem(name):
            faults.append(f"an entity {problem}")
        else:
            names.append(name)
    return ExtractedProposition(text=text.strip(), entities=tuple(names)), faults


def _entity_name(entity: Any) -> str | None:
    if isinstance(entity, dict):
        entity = entity.get("name")
    if isinstance(entity, float):
        return str(entity)
    return outside_key(entity)
