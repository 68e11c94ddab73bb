"""What a method is, and methods by name.

A *method* ranks passages for questions on a `Bench`. The variants of our own search are settings of one
class (`variants`); every other method is a file of `evireform.baselines`, and its name is that of the file.
A name may carry settings: ``full@alpha=0.25``, ``bm25@k1=0.9@b=0.4``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from evireform import baselines
from evireform.errors import UsageError
from evireform.evaluation.records import OutcomeCost
from evireform.records import Question, Ranking
from evireform.settings import VARIANTS, SearchSettings

if TYPE_CHECKING:
    from evireform.evaluation.bench import Bench


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What a method made of one question.

    ``passages`` are keys and scores, best first, each key once. ``answer`` is set by a method that answers
    without ranking; ``ranking`` by one that has a trace. ``degraded`` lists every fall-back, ``reason`` says
    why the ranking is empty.
    """

    passages: tuple[tuple[str, float], ...] = ()
    cost: OutcomeCost = field(default_factory=OutcomeCost)
    degraded: tuple[str, ...] = ()
    reason: str = ""
    answer: str | None = None
    ranking: Ranking | None = None


class Method(Protocol):
    """A way to rank passages. Its fields are its settings."""

    needs_model: ClassVar[bool]
    """Whether it is nothing without a language model."""

    @property
    def search(self) -> SearchSettings | None:
        """What it asks of `Bench.observations`, so that methods share what they can; None asks nothing."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything, beside index and models, that its rankings depend on."""
        ...

    def models(self, bench: Bench) -> Mapping[str, str]:
        """The models that its rankings depend on, by role."""
        ...

    def rank(self, bench: Bench, questions: Sequence[Question]) -> list[Ranked]:
        """One result a question, in order, not deeper than ``bench.depth``. Gold and answers are not read.

        It is called with a batch at a time. What a model did wrong degrades a result and is never raised.
        """
        ...


def names() -> tuple[str, ...]:
    """Every name, without settings."""
    return (*VARIANTS, *baselines.NAMES)


def by_name(name: str, settings: SearchSettings) -> Method:
    """The method of a name.

    Args:
        name: One of `names`, and ``@field=value`` for each setting that differs.
        settings: The search settings that it starts from.

    Raises:
        UsageError: there is no such method or setting, or a value cannot be one.
    """
    first, *assignments = name.split("@")
    if first in VARIANTS:
        from evireform.evaluation.variants import Variant

        return Variant(name=name, search=assigned(settings.variant(first), name, assignments))
    if first not in baselines.NAMES:
        raise UsageError(f"no method is called {first!r}; there are {', '.join(names())}")
    module = import_module(f"evireform.baselines.{first.replace('-', '_')}")
    method: Method = assigned(module.method(settings), name, assignments)
    return method


def assigned(target: Any, name: str, assignments: Sequence[str]) -> Any:
    """A frozen dataclass with the fields that a name assigns.

    Raises:
        UsageError: it has no such field, or the value cannot be one.
    """
    given = {}
    known = {field.name: getattr(target, field.name) for field in fields(target)}
    plain = {key: value for key, value in known.items() if isinstance(value, str | int | float)}
    for assignment in assignments:
        key, _, text = assignment.partition("=")
        if key not in plain:
            raise UsageError(f"{name}: there is no setting {key!r}; there are {', '.join(plain) or 'none'}")
        given[key] = _value(name, key, text, type(plain[key]))
    return replace(target, **given)


def _value(name: str, key: str, text: str, kind: type) -> str | int | float | bool:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        value: str | int | float = kind(text)
    except (KeyError, ValueError):
        raise UsageError(f"{name}: {key} cannot be {text!r}") from None
    return value
