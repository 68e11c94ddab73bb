"""Listwise reranking: a language model orders the 40 passages of dense search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from evireform import parallel, seeds
from evireform.errors import UsageError
from evireform.evaluation.bench import POOL, Bench
from evireform.evaluation.method import Ranked
from evireform.evaluation.records import OutcomeCost
from evireform.records import Judgement, ObservedPassage, Question
from evireform.settings import SearchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Listwise:
    """The pool in the model's order; what it does not list follows in the order of the pool."""

    needs_model: ClassVar[bool] = True
    search: ClassVar[None] = None

    pool: int = POOL

    def __post_init__(self) -> None:
        if self.pool < 1:
            raise UsageError(f"listwise: pool must be at least 1, not {self.pool}")

    @property
    def settings(self) -> Mapping[str, Any]:
        return asdict(self)

    def models(self, bench: Bench) -> Mapping[str, str]:
        return {"embedding": bench.encoder.model, "language": bench.language.name}

    def rank(self, bench: Bench, questions: Sequence[Question]) -> list[Ranked]:
        return judged(bench, questions, [() for _ in questions], pool=self.pool)


def judged(
    bench: Bench, questions: Sequence[Question], evidence: Sequence[Sequence[ObservedPassage]], *, pool: int
) -> list[Ranked]:
    """Dense passages in the order that a judge gives them, who has read the evidence of each question."""
    found, dense_s = bench.dense(questions, pool)
    texts = bench.passages(sorted({key for hits in found for key, _ in hits}))

    def ask(row: int) -> tuple[Judgement, float]:
        shown = [texts[key] for key, _ in found[row]]
        with bench.timed() as seconds:
            said = bench.language.judge(questions[row].text, evidence[row], shown, limit=len(shown))
        return said, seconds()

    answers = parallel.in_order(ask, range(len(questions)), at_once=bench.language.concurrency)
    return [
        _ranked([key for key, _ in hits], said, seconds + dense_s / len(questions), bench.depth)
        for hits, (said, seconds) in zip(found, answers, strict=True)
    ]


def _ranked(pool: Sequence[str], said: Judgement, seconds: float, depth: int) -> Ranked:
    listed = seeds.valid_positions(said.positions, len(pool))
    order = [*listed, *(row for row in range(len(pool)) if row not in listed)]
    degraded = said.degraded or ("" if listed or not pool else "the judge listed no passage of the pool")
    return Ranked(
        passages=tuple((pool[row], 1.0 / place) for place, row in enumerate(order[:depth], start=1)),
        cost=OutcomeCost(
            model_calls=len(said.calls),
            tokens_in=sum(call.tokens_in or 0 for call in said.calls),
            tokens_out=sum(call.tokens_out or 0 for call in said.calls),
            seconds=seconds,
        ),
        degraded=(degraded,) if degraded else (),
    )


def method(_: SearchSettings) -> Listwise:
    return Listwise()
