"""What a model may answer: the JSON schemas it is given, and a strict reading of what it sends back."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError, field_validator

MAX_ENUM = 500
"""Labels listed in a schema; servers refuse longer lists, and unknown labels are dropped anyway."""

_THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"\A```[\w-]*\n(.*?)\n?```\Z", re.DOTALL)
_MAX_OBJECTS = 20


def _texts(value: Any) -> Any:
    """A list without its members that are not text; refused when it has members and none is text."""
    if not isinstance(value, list):
        return value
    texts = [item for item in value if isinstance(item, str)]
    if value and not texts:
        raise ValueError("none of its members is text")
    return texts


def _names(value: Any) -> Any:
    """Names that are text and not blank, stripped; nothing for null."""
    items = [] if value is None else value
    if not isinstance(items, list):
        return value
    return [item.strip() for item in items if isinstance(item, str) and item.strip()]


Texts = Annotated[list[str], BeforeValidator(_texts)]


class PropositionAnswer(BaseModel):
    """One proposition as a model wrote it; blank where it wrote null."""

    text: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
    entities: Annotated[list[str], BeforeValidator(_names)] = []

    @field_validator("text")
    @classmethod
    def _stripped(cls, text: str) -> str:
        return text.strip()


class ExtractionAnswer(BaseModel):
    """``{"propositions": [{"text": …, "entities": […]}]}`` without blank propositions."""

    propositions: list[PropositionAnswer]

    @field_validator("propositions")
    @classmethod
    def _not_blank(cls, propositions: list[PropositionAnswer]) -> list[PropositionAnswer]:
        kept = [proposition for proposition in propositions if proposition.text]
        if propositions and not kept:
            raise ValueError("every proposition is blank")
        return kept


class SelectionAnswer(BaseModel):
    """``{"selected": [label, …]}``."""

    selected: Texts


class ReformulationAnswer(BaseModel):
    """``{"queries": [query, …]}``."""

    queries: Texts


Answer = TypeVar("Answer", ExtractionAnswer, SelectionAnswer, ReformulationAnswer)


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any], **limits: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **limits}


def extraction_schema() -> dict[str, Any]:
    """Schema of an `ExtractionAnswer`."""
    text = {"type": "string"}
    return _object(propositions=_list(_object(text=text, entities=_list(text))))


def selection_schema(labels: Sequence[str], limit: int) -> dict[str, Any]:
    """Schema of a `SelectionAnswer` of at most ``limit`` of these labels."""
    label = {"type": "string"} | ({"enum": list(labels)} if len(labels) <= MAX_ENUM else {})
    return _object(selected=_list(label, maxItems=limit))


def reformulation_schema(limit: int) -> dict[str, Any]:
    """Schema of a `ReformulationAnswer` of at most ``limit`` queries."""
    return _object(queries=_list({"type": "string"}, maxItems=limit))


def read(shape: type[Answer], content: str) -> tuple[Answer, str]:
    """The answer in a model's message, and what had to be forgiven to read it (empty: nothing).

    The message should be one JSON object. Forgiven are a code fence, other text around the one object that
    has the wanted field, and the field's list without its object. Numbers are read as text.

    Args:
        shape: The kind of answer; its one field is the one that is looked for.
        content: The message.

    Raises:
        ValueError: there is no such answer in it; the message says what is wrong, for the model to read.

    >>> read(ReformulationAnswer, '{"queries": ["a"]}')
    (ReformulationAnswer(queries=['a']), '')
    >>> read(ReformulationAnswer, '```json\\n["a"]\\n```')[1]
    'a list came in place of an object'
    """
    field = next(iter(shape.model_fields))
    value, forgiven = _find(_THINKING.sub("", content).strip(), field)
    if isinstance(value, list):
        value, forgiven = {field: value}, "a list came in place of an object"
    if not isinstance(value, dict) or field not in value:
        raise ValueError(f'it is not a JSON object with the field "{field}"')
    try:
        return shape.model_validate(value), forgiven
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}") from error


def _find(text: str, field: str) -> tuple[Any, str]:
    try:
        return _decode(text), ""
    except ValueError as error:
        problem = error
    if fenced := _FENCED.match(text):
        try:
            return _decode(fenced[1]), "the answer stood in a code fence"
        except ValueError as error:
            problem = error
    objects = [value for value in _objects(text) if field in value]
    if len(objects) == 1:
        return objects[0], "the answer stood among other text"
    if objects:
        raise ValueError("it holds more than one JSON object")
    raise ValueError(f"it is not JSON: {problem}")


def _objects(text: str) -> list[dict[str, Any]]:
    """JSON objects that stand in a text, outermost ones, looked for at its first few opening braces."""
    found: list[dict[str, Any]] = []
    position = text.find("{")
    for _ in range(_MAX_OBJECTS):
        if position < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, position)
            found.append(value)
        except (ValueError, RecursionError):
            end = position + 1
        position = text.find("{", end)
    return found


def _decode(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("an object names a field twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=str, parse_float=str, parse_constant=_no_constant
)
