"""What a model may answer: the JSON schemas it is given, and a strict reading of what it sends back."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import json_repair
from pydantic import BaseModel, BeforeValidator, ValidationError, field_validator
from pydantic_core import from_json

from evireform.wellformed import well_formed

MAX_ENUM = 500
"""Labels listed in a schema; servers refuse longer lists, and unknown labels are dropped anyway."""

MAX_MENDED = 4_000
"""Characters of a malformed answer that is mended; over hostile longer ones json_repair takes seconds."""

_MAX_BRACKETS = 200
_MAX_VALUES = 100

_IN_FENCE = "the answer stood in a code fence"
_IN_TEXT = "the answer stood among other text"
_LIST = "a list came in place of an object"
_MENDED = "the JSON was malformed and was mended"
_BROKE_OFF = "the answer broke off, and its whole leading items were used"

_OPENING = re.compile(r"""\{\s*["'}]|\[\s*["'{\[]""")
_SEPARATORS = re.compile(r"[\s,:\\]+")
_CONSTANTS = {"None": "null", "True": "true", "False": "false"}
_CONSTANT = re.compile(r"\b(?:None|True|False)\b")
_ENDS_TOO_EARLY = "EOF while parsing"
_THINKING_BEGINS, _THINKING_ENDS = "<think>", "</think>"


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


class ModelAnswer(BaseModel):
    """One JSON object of a model. Its first field is the one that it is recognised by.

    ``only_whole`` says that an answer that broke off is none: what it says is stored, and what it left out
    would be missing for good.
    """

    only_whole: ClassVar[bool] = False


class ExtractionAnswer(ModelAnswer):
    """``{"propositions": [{"text": …, "entities": […]}]}`` without blank propositions."""

    only_whole: ClassVar[bool] = True

    propositions: list[PropositionAnswer]

    @field_validator("propositions")
    @classmethod
    def _not_blank(cls, propositions: list[PropositionAnswer]) -> list[PropositionAnswer]:
        kept = [proposition for proposition in propositions if proposition.text]
        if propositions and not kept:
            raise ValueError("every proposition is blank")
        return kept


class SelectionAnswer(ModelAnswer):
    """``{"selected": [label, …]}``."""

    selected: Texts


class ReformulationAnswer(ModelAnswer):
    """``{"queries": [query, …]}``."""

    queries: Texts


class GapAnswer(BaseModel):
    """What is missing, in words and as a search query; the words are for the model to think in."""

    missing: Any = None
    query: Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class ControlAnswer(ModelAnswer):
    """``{"sufficient": …, "gaps": [{"missing": …, "query": …}]}``."""

    gaps: list[GapAnswer]
    sufficient: bool


class JudgementAnswer(ModelAnswer):
    """``{"passages": [label, …]}``."""

    passages: Texts


class ReadingAnswer(ModelAnswer):
    """``{"answer": …, "passages": [label, …]}``."""

    only_whole: ClassVar[bool] = True

    answer: str
    passages: Texts = []

    @field_validator("answer")
    @classmethod
    def _not_blank(cls, answer: str) -> str:
        if not answer.strip():
            raise ValueError("it is blank")
        return answer.strip()


Answer = TypeVar("Answer", bound=ModelAnswer)


class BrokeOff(ValueError):
    """An answer that ends before it is whole, and of which nothing can be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Generic[Answer]):
    """An answer, what had to be forgiven to read it (empty: nothing), and whether it broke off."""

    answer: Answer
    forgiven: str = ""
    broke_off: bool = False


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _list(items: dict[str, Any], **limits: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **limits}


def _label(labels: Sequence[str]) -> dict[str, Any]:
    return {"type": "string"} | ({"enum": list(labels)} if len(labels) <= MAX_ENUM else {})


def extraction_schema() -> dict[str, Any]:
    """Schema of an `ExtractionAnswer`."""
    text = {"type": "string"}
    return _object(propositions=_list(_object(text=text, entities=_list(text))))


def selection_schema(labels: Sequence[str], limit: int) -> dict[str, Any]:
    """Schema of a `SelectionAnswer` of at most ``limit`` of these labels."""
    return _object(selected=_list(_label(labels), maxItems=limit))


def reformulation_schema(limit: int) -> dict[str, Any]:
    """Schema of a `ReformulationAnswer` of at most ``limit`` queries."""
    return _object(queries=_list({"type": "string"}, maxItems=limit))


def control_schema(limit: int) -> dict[str, Any]:
    """Schema of a `ControlAnswer` of at most ``limit`` gaps."""
    text = {"type": "string"}
    gap = _object(missing=text, query=text)
    return _object(sufficient={"type": "boolean"}, gaps=_list(gap, maxItems=limit))


def judgement_schema(labels: Sequence[str], limit: int) -> dict[str, Any]:
    """Schema of a `JudgementAnswer` of at most ``limit`` of these labels."""
    return _object(passages=_list(_label(labels), maxItems=limit))


def reading_schema(labels: Sequence[str]) -> dict[str, Any]:
    """Schema of a `ReadingAnswer` that cites these labels; without any it cites nothing."""
    text = {"type": "string"}
    if not labels:
        return _object(answer=text)
    return _object(answer=text, passages=_list(_label(labels), maxItems=len(labels)))


def read(shape: type[Answer], content: str) -> Read[Answer]:
    """The answer in a model's message.

    The message should be one JSON object. Forgiven are a code fence, other text around the one object or
    list, a list without its object, separators that are missing, doubled or of another kind, and, where the
    answer need not be whole, an end that is missing: then its whole leading items count. Thoughts before the
    answer are skipped. Numbers are read as text. Nothing is guessed: a mended answer has the words, brackets
    and quotes of the message, all of them and in the same order.

    Args:
        shape: The kind of answer.
        content: The message.

    Raises:
        BrokeOff: it ends too early.
        ValueError: there is no such answer in it; the message says what is wrong, for the model to read.

    >>> read(ReformulationAnswer, '{"queries": ["a"]}')
    Read(answer=ReformulationAnswer(queries=['a']), forgiven='', broke_off=False)
    >>> read(ReformulationAnswer, '```json\\n["a"]\\n```').forgiven
    'the answer stood in a code fence; a list came in place of an object'
    >>> read(ReformulationAnswer, '{"queries": ["a", "b').answer
    ReformulationAnswer(queries=['a'])
    """
    field = next(iter(shape.model_fields))
    text = _without_thoughts(content).strip()
    try:
        found = _Value(_decode(text), "")
    except _NamedTwice:
        raise
    except ValueError as error:
        found = _found(text, field, str(error))
    value, forgiven = found.value, found.forgiven
    if found.broke_off and shape.only_whole:
        raise BrokeOff("it breaks off before its end")
    if isinstance(value, list) and value and len(shape.model_fields) == 1:
        member = value[0] if len(value) == 1 else None
        value = member if isinstance(member, dict) and field in member else {field: value}
        forgiven = f"{forgiven}; {_LIST}" if forgiven else _LIST
    if not isinstance(value, dict) or field not in value:
        raise ValueError(f'it is not a JSON object with the field "{field}"')
    if found.broke_off and [] in value.values():
        raise BrokeOff("it breaks off before its first item is whole")
    if shape.only_whole and forgiven == _IN_TEXT and not value[field]:
        raise ValueError(f'an empty "{field}" counts only where no other text stands beside it')
    try:
        answer = shape.model_validate(value, extra="forbid" if found.mended else "ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])).encode("unicode_escape").decode()[:200]
        raise ValueError(f"{place}: {first['msg']}") from error
    return Read(answer=answer, forgiven=forgiven, broke_off=found.broke_off)


def _without_thoughts(content: str) -> str:
    """The message after the thoughts that some models begin with.

    Raises:
        BrokeOff: it holds nothing else.
    """
    if not content.lstrip().startswith(_THINKING_BEGINS):
        return content
    _, ended, answer = content.partition(_THINKING_ENDS)
    if not ended:
        raise BrokeOff("it holds thoughts and no answer")
    return answer


@dataclass(frozen=True, slots=True)
class _Value:
    """A JSON value with what was forgiven to have it."""

    value: Any
    forgiven: str
    broke_off: bool = False
    mended: bool = False


def _found(text: str, field: str, problem: str) -> _Value:
    """The one value with the field, or the one list, in a text that is not JSON as a whole."""
    values: list[Any] = []
    position = 0
    for _ in range(_MAX_VALUES):
        if (opening := _OPENING.search(text, position)) is None:
            break
        try:
            value, position = _DECODER.raw_decode(text, opening.start())
        except _NamedTwice:
            raise
        except (ValueError, RecursionError) as error:
            if values:
                raise ValueError("it holds more than one JSON value") from error
            return _repaired(text[opening.start() :], field, str(error))
        if isinstance(value, list) or field in value:
            values.append(value)
    if len(values) > 1:
        raise ValueError("it holds more than one JSON value")
    if not values:
        raise ValueError(f"it is not JSON: {problem}")
    fenced = text.startswith("```") and text.endswith("```")
    return _Value(values[0], _IN_FENCE if fenced else _IN_TEXT)


def _repaired(text: str, field: str, problem: str) -> _Value:
    """The value that a text begins with, but for its end or its separators."""
    text = well_formed(text)
    try:
        from_json(text)
    except ValueError as error:
        if str(error).startswith(_ENDS_TOO_EARLY):
            if len(re.findall(rf'"{field}"\s*:', text)) > 1:
                raise BrokeOff("it breaks off, and names a field twice before") from error
            return _Value(_leading(from_json(text, allow_partial=True)), _BROKE_OFF, broke_off=True)
    try:
        return _Value(_LENIENT.raw_decode(text)[0], _MENDED, mended=True)
    except (ValueError, RecursionError):
        pass
    text = text[: max(text.rfind("}"), text.rfind("]")) + 1]
    brackets = [text.count(bracket) for bracket in "{}[]"]
    paired = brackets[0] == brackets[1] and brackets[2] == brackets[3]
    if len(text) <= MAX_MENDED and paired and sum(brackets) <= _MAX_BRACKETS:
        try:
            value = json_repair.loads(text, skip_json_loads=True)
        except (ValueError, RecursionError):
            value = None
        if _skeleton(text) == _skeleton(json.dumps(value, ensure_ascii=False)):
            return _Value(value, _MENDED, mended=True)
    raise ValueError(f"it is not JSON: {problem}")


def _leading(value: Any) -> Any:
    """A value that broke off, without the object at its end, which may be half of one."""
    last = list(value.values())[-1] if isinstance(value, dict) and value else value
    if isinstance(last, list) and last and isinstance(last[-1], dict):
        last.pop()
    return value


def _skeleton(text: str) -> str:
    """A text without what separates its words, brackets and quotes, these all of one kind."""
    return _SEPARATORS.sub("", _CONSTANT.sub(lambda match: _CONSTANTS[match[0]], text)).replace("'", '"')


def _decode(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


class _NamedTwice(ValueError):
    def __init__(self) -> None:
        super().__init__("an object names a field twice")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) != len(pairs):
        raise _NamedTwice
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_HOOKS: dict[str, Any] = {
    "object_pairs_hook": _unique,
    "parse_int": str,
    "parse_float": str,
    "parse_constant": _no_constant,
}
_DECODER = json.JSONDecoder(**_HOOKS)
_LENIENT = json.JSONDecoder(**_HOOKS, strict=False)
"""The same, with raw line ends and tabs inside of strings."""
