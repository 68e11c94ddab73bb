"""Filters: which passages a search may look at, by their metadata.

A *condition* says that some value under a name is one of several, or lies in a range; a filter is a tuple
of conditions that all must hold. Numbers match numbers, texts match texts, and texts compare in code-point
order.
"""

from __future__ import annotations

import json
import math
import numbers
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from evireform.errors import UsageError
from evireform.given import shown
from evireform.wellformed import well_formed

Value = str | int | float | bool
Operator = Literal["=", "<", "<=", ">", ">="]

LONGEST_NAME = 100
LONGEST_TEXT = 500
"""Characters of the names and texts that can be filtered by; longer ones are kept, but not looked up."""

_LONGEST_WHOLE = 310
"""Characters that a whole number within a 64-bit float may have."""

_SHOWN = 5
"""Values of a condition that a message shows."""

_NEXT = "\x01"
"""What makes a text its own successor in code-point order, as none can hold NUL."""

_END = "\U0010ffff" * (LONGEST_TEXT + 1)
"""A text behind every text that can be filtered by."""

_CONDITION = re.compile(r"\s*([^=<>!]*[^=<>!\s])\s*(!?=|[<>]=?)(.*)", re.DOTALL)
_ITEM = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[^",]*)\s*(,|$)', re.DOTALL)
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Some value under ``name`` equals one of ``values``, or lies on one side of the only one.

    Without values it holds for no passage.

    Raises:
        UsageError: it can mean nothing; the message says why.

    >>> str(Condition(name="lang", values=("en", "2020")))
    'lang=en,"2020"'
    """

    name: str
    operator: Operator = "="
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or len(self.name) > LONGEST_NAME:
            raise UsageError(
                f"a filter needs a name of 1 to {LONGEST_NAME} characters, not {shown(self.name)}"
            )
        if self.operator not in get_args(Operator):
            raise UsageError(
                f"a filter compares with {', '.join(get_args(Operator))}, not {shown(self.operator)}"
            )
        if not isinstance(self.values, list | tuple):
            raise UsageError(f"{self.name} needs a list of values, not {shown(self.values)}")
        object.__setattr__(self, "values", tuple(map(_plain, self.values)))
        for value in self.values:
            _check(self.name, value)
        if self.operator != "=" and (len(self.values) != 1 or isinstance(self.values[0], bool)):
            raise UsageError(f"{self.name}{self.operator} takes one number or one text")
        for text in (self.name, *self.values):
            if isinstance(text, str) and (well_formed(text) != text or "\0" in text):
                raise UsageError(f"the filter on {self.name!r} holds what no text can")

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{','.join(map(_written, self.values))}"

    def brief(self) -> str:
        """The same for a message, with the first values and the number of the others.

        >>> Condition(name="n", values=tuple(range(1000))).brief()
        'n=0,1,2,3,4 and 995 more'
        """
        first = self.values[:_SHOWN]
        said = ",".join(text if len(text := _written(one)) <= 60 else f"{text[:60]}…" for one in first)
        more = len(self.values) - len(first)
        return f"{self.name}{self.operator}{said}" + (f" and {more:,} more" if more else "")


Filter = tuple[Condition, ...]
Where = Mapping[str, Any] | Sequence[Condition]
"""A filter as a caller may write it: conditions, or a mapping (see `conditions`)."""


def conditions(where: Where | None) -> Filter:
    """The conditions of a filter.

    Args:
        where: Conditions, or a mapping of a name to a value, to a list of values of which any will do, or to
            a mapping of operators to values that all must hold. None is no filter.

    Raises:
        UsageError: something in it can be no condition.

    >>> [str(c) for c in conditions({"year": {">=": 2020, "<": 2024}, "lang": ["en", "de"], "public": True})]
    ['year>=2020', 'year<2024', 'lang=en,de', 'public=true']
    """
    if where is None:
        return ()
    if not isinstance(where, Mapping):
        listed = isinstance(where, Sequence) and all(isinstance(one, Condition) for one in where)
        if not listed or isinstance(where, str):
            raise UsageError(
                f'a filter is a mapping of names to values, such as {{"year": 2020}}, not {shown(where)}'
            )
        return tuple(where)
    found = []
    for name, asked in where.items():
        by_operator: Mapping[Any, Any] = asked if isinstance(asked, Mapping) else {"=": asked}
        if not by_operator:
            raise UsageError(f"the filter on {shown(name)} compares with nothing")
        for operator, value in by_operator.items():
            values = tuple(value) if isinstance(value, list | tuple) else (value,)
            found.append(Condition(name=name, operator=operator, values=values))
    return tuple(found)


def parse(texts: Sequence[str]) -> Filter:
    """Conditions as they are typed: ``year>=2020``, ``lang=en,de``, ``code="2020"``, ``public=true``.

    What reads as a JSON number is one, and ``true`` and ``false`` are booleans; in double quotes, with the
    escapes of JSON, everything is text. Commas outside quotes separate the values of ``=``.

    Raises:
        UsageError: a text is no condition.

    >>> parse(['year<2021', 'code="a,b",7'])[1].values
    ('a,b', 7)
    """
    return tuple(_parsed(text) for text in texts)


def restored(rows: Sequence[Mapping[str, Any]]) -> Filter:
    """The conditions that ``dataclasses.asdict`` and JSON made rows of."""
    return tuple(
        Condition(name=row["name"], operator=row["operator"], values=tuple(row["values"])) for row in rows
    )


def intervals(asked: Filter) -> list[dict[str, Any]]:
    """Each value of each condition as an interval: a filter is the product of sums of intervals.

    A passage passes when for every ``condition`` number one of its values lies in one of the intervals.
    Numbers lie in ``[least, most]`` as 64-bit floats, texts and booleans (``true``, ``false``) in
    ``[low, high)`` in code-point order.

    >>> intervals(parse(["year>=2020", "public=true"]))[0]
    {'condition': 0, 'name': 'year', 'kind': 'number', 'least': 2020.0, 'most': inf}
    """
    return [interval for number, one in enumerate(asked) for interval in _intervals(number, one)]


def _intervals(number: int, one: Condition) -> Iterator[dict[str, Any]]:
    for value in one.values:
        if isinstance(value, str | bool):
            kind = "boolean" if isinstance(value, bool) else "text"
            low, high = _texts(one.operator, _said(value))
            limits: dict[str, Any] = {"low": low, "high": high}
        else:
            kind, (least, most) = "number", _numbers(one.operator, float(value))
            limits = {"least": least, "most": most}
        yield {"condition": number, "name": one.name, "kind": kind, **limits}


def _texts(operator: Operator, text: str) -> tuple[str, str]:
    """The half-open range of texts on the wanted side of one."""
    low = {"=": text, ">=": text, ">": text + _NEXT}.get(operator, "")
    high = {"=": text + _NEXT, "<=": text + _NEXT, "<": text}.get(operator, _END)
    return low, high


def _numbers(operator: Operator, number: float) -> tuple[float, float]:
    """The closed range of numbers on the wanted side of one."""
    least = {"=": number, ">=": number, ">": math.nextafter(number, math.inf)}.get(operator, -math.inf)
    most = {"=": number, "<=": number, "<": math.nextafter(number, -math.inf)}.get(operator, math.inf)
    return least, most


def _plain(value: Any) -> Any:
    """A number of another library, such as `numpy.int64`, as one of Python."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    return value


def _check(name: str, value: object) -> None:
    if not isinstance(value, str | int | float):
        raise UsageError(
            f"{name} can be compared with text, numbers, true and false, not with {shown(value)}"
        )
    if isinstance(value, str):
        if len(value) > LONGEST_TEXT:
            raise UsageError(f"{name} can be compared with texts of up to {LONGEST_TEXT} characters")
        return
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise UsageError(f"{name} can be compared with numbers that a 64-bit float can hold")


def _parsed(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{shown(text)} is no condition: write NAME=VALUE, NAME=VALUE,VALUE, NAME>=VALUE or such"
        )
    name, rest = match[1], match[3]
    operator: Any = match[2]
    if operator == "!=":
        raise UsageError(f"{shown(text)}: there is no !=; say which values are wanted")
    if rest.lstrip()[:1] in tuple("=<>!"):
        raise UsageError(f"{shown(text)}: compare with one of {', '.join(get_args(Operator))}")
    values, position = [], 0
    while True:
        item = _ITEM.match(rest, position)
        if item is None:
            raise UsageError(f"{shown(text)}: a double quote or comma stands where none may be")
        values.append(_value(text, item[1].strip()))
        position = item.end()
        if not item[2]:
            break
    return Condition(name=name, operator=operator, values=tuple(values))


def _value(text: str, item: str) -> Value:
    if not item:
        raise UsageError(f'{shown(text)}: a value is missing; write "" for an empty text')
    if item[0] == '"':
        try:
            return str(json.loads(item, strict=False))
        except ValueError:
            raise UsageError(f"{shown(text)}: what is quoted takes the escapes of JSON") from None
    if item in ("true", "false"):
        return item == "true"
    if match := _NUMBER.fullmatch(item):
        whole = not (match[2] or match[3]) and len(item) <= _LONGEST_WHOLE
        return int(item) if whole else float(item)
    return item


def _said(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _written(value: Value) -> str:
    """A value as `parse` reads it."""
    plain = _said(value)
    odd = plain[:1] in "=<>!" or not {'"', ","}.isdisjoint(plain)
    if isinstance(value, str) and (odd or _value_or_none(plain) != value):
        return json.dumps(value, ensure_ascii=False)
    return plain


def _value_or_none(text: str) -> Value | None:
    return None if not text or text != text.strip() else _value(text, text)
