"""What an evaluation writes down: outcomes of questions, and studies made of them. Plain and frozen.

An *outcome* is what one method made of one question; a *condition* is an index that methods are run on (there
is one, unless a study grows the corpus or changes the embedding model); a *study* sums outcomes up in tables,
plots and paired differences. Shares and measures are between 0 and 1 throughout; reports write percent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Value = str | int | float | None
"""One cell of a table; None is a figure that there is not."""

Unit = Literal["text", "share", "count", "mean", "seconds", "points"]
"""How a cell reads: a share of 1 (percent), a whole number, a mean, seconds, a difference of shares."""

POOL_SIZE = 20
"""Distinct source passages of the candidates that make the initial pool C_0 (SPEC section 4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeCost:
    """What one question took: model calls, their tokens, and its share of the seconds of its batch.

    Steps that several methods share are made once and counted for each method that takes them.
    """

    model_calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """Passages that a search of the method had in hand before propagation, as keys.

    ``candidates`` are the distinct source passages of the candidate propositions, best first; ``observed``
    those of the selected ones; ``found`` those of the propositions that residual queries brought, in order.
    """

    candidates: tuple[str, ...] = ()
    observed: tuple[str, ...] = ()
    found: tuple[str, ...] = ()

    @property
    def initial(self) -> tuple[str, ...]:
        """C_0: the first 20 distinct source passages of the candidates."""
        return self.candidates[:POOL_SIZE]

    @property
    def expanded(self) -> tuple[str, ...]:
        """C_+: C_0 with the passages that residual queries found."""
        return tuple(dict.fromkeys(self.initial + self.found))


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedSeed:
    """A proposition with a share of the mixed signal: where it stands, what it says, its mass."""

    passage_key: str
    ordinal: int
    text: str
    mass: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedQuery:
    """A residual query of a round, with the passages of the propositions that it found."""

    text: str
    round_number: int
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedTerm:
    """One additive part of a score: from the question (0) or a residual query (1..), by a seed (its place in
    the trace's seeds), directly or through an entity (its name)."""

    query: int
    seed: int
    entity: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedPassage:
    """A ranked passage with the terms that sum to its score."""

    passage_key: str
    rank: int
    score: float
    terms: tuple[TracedTerm, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """How a ranking came about: kept for every question whose first five do not hold all of its gold.

    ``passages`` are the first five of the ranking, and the gold passages that stand below them.
    """

    seeds: tuple[TracedSeed, ...]
    queries: tuple[TracedQuery, ...]
    passages: tuple[TracedPassage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one method made of one question.

    Attributes:
        question: The question's key.
        passages: The ranking: passage key and score, best first, as deep as the run ranks.
        measures: ``recall@5``, ``f1`` … of this question; without gold there are none.
        cost: What it took.
        degraded: Every fall-back.
        reason: Why the ranking is empty; else empty.
        answer: What was answered, where answers were asked for.
        pools: Of a method that searches propositions; else None.
        trace: Of a miss of such a method; else None.
    """

    question: str
    passages: tuple[tuple[str, float], ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict)
    cost: OutcomeCost = field(default_factory=OutcomeCost)
    degraded: tuple[str, ...] = ()
    reason: str = ""
    answer: str | None = None
    pools: Pools | None = None
    trace: Trace | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """An index that methods were run on. ``label`` is empty where a study has only one."""

    label: str
    corpus: str
    corpus_digest: str
    passages: int
    embedding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodResult:
    """What one method did under one condition, summed up.

    Attributes:
        method: Its name, with the settings that it changes (``full@alpha=0.25``).
        condition: Label of the condition; empty where there is only one.
        settings: Everything that its rankings depend on, besides index and models.
        models: Role (``embedding``, ``language``, ``cross-encoder``) to the model's name.
        outcomes: File with its outcomes, relative to the study's folder.
        questions: Questions asked.
        judged: Those with gold passages.
        means: Measure to its mean over the judged questions; also ``f1`` and ``em`` where there are answers.
        by_hops: Number of hops (as text) to the means of those questions, and ``questions``, their number.
        by_kind: Kind of question likewise.
        degraded: Questions with a fall-back.
        cost: Means a question: ``model_calls``, ``tokens_in``, ``tokens_out``, ``seconds``.
    """

    method: str
    condition: str
    settings: Mapping[str, Any]
    models: Mapping[str, str]
    outcomes: str
    questions: int
    judged: int
    means: Mapping[str, float]
    by_hops: Mapping[str, Mapping[str, float]]
    by_kind: Mapping[str, Mapping[str, float]]
    degraded: int
    cost: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Paired difference ``method - against`` of a measure with its bootstrap interval, as shares of 1.

    ``better`` and ``worse`` count the questions where the method is above and below. ``seed`` is that of the
    bootstrap.
    """

    method: str
    against: str
    measure: str
    difference: float
    low: float
    high: float
    questions: int
    better: int
    worse: int
    seed: int

    @property
    def significant(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """Head of a table's column, and how its cells read."""

    name: str
    unit: Unit


PAIRED = (
    Column(name="difference", unit="points"),
    Column(name="low", unit="points"),
    Column(name="high", unit="points"),
    Column(name="without zero", unit="text"),
    Column(name="better", unit="count"),
    Column(name="worse", unit="count"),
)
"""How a paired difference is shown, wherever one is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of figures. The first column names the row."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line, or one bar of every group: ``y`` over ``x``, with an interval where ``low`` is not empty."""

    label: str
    x: tuple[str | int | float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Series over one pair of axes; ``mark`` is the x of the default setting, where there is one.

    ``unit`` is that of ``y``: shares are drawn as percent.
    """

    title: str
    kind: Literal["lines", "bars"]
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    mark: int | float | None = None
    unit: Unit = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One study of one question set, with everything needed to run it again.

    Attributes:
        name: ``ablation``, ``controls`` …
        title: What it asks, in a few words.
        dataset: Name of the question set.
        titles: The titles setting of the corpus.
        questions: Questions asked.
        unjudged: Those without gold passages.
        conditions: The indexes; the first is the main one.
        results: One for every method and condition, in the order in which they are shown.
        differences: Paired differences, in the order in which they are shown.
        tables: Further tables; those of measures, hops, kinds, costs and differences derive from the above.
        plots: Plots.
        settings: Search settings that the methods start from.
        command: Options of the command that makes it, without paths (``--study ablation --titles on …``).
        models: Role to name.
        versions: Package or server to version.
        seeds: What each random choice began from: ``bootstrap`` (base), ``sample``.
        notes: What a reader must know: left-out methods, how groups were made, fall-backs.
        shortfalls: What keeps the figures from being those of the whole set: passages that are not in the
        index, questions with a fall-back.
    """

    name: str
    title: str
    dataset: str
    titles: str
    questions: int
    unjudged: int
    conditions: tuple[Condition, ...]
    results: tuple[MethodResult, ...]
    differences: tuple[Difference, ...]
    tables: tuple[Table, ...]
    plots: tuple[Plot, ...]
    settings: Mapping[str, Any]
    command: str
    models: Mapping[str, str]
    versions: Mapping[str, str]
    seeds: Mapping[str, int]
    notes: tuple[str, ...]
    shortfalls: tuple[str, ...] = ()
