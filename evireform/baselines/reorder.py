"""Reordering: a judge who has read the first evidence orders 40 passages of dense search; nothing enters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from evireform.baselines.listwise import judged
from evireform.errors import UsageError
from evireform.evaluation.bench import POOL, Bench
from evireform.evaluation.method import Ranked
from evireform.evaluation.records import OutcomeCost
from evireform.records import ModelCall, Question
from evireform.settings import SearchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder:
    """The control of SPEC section 4 for what residual queries bring: the same evidence, a fixed pool."""

    needs_model: ClassVar[bool] = True

    search: SearchSettings
    pool: int = POOL

    def __post_init__(self) -> None:
        if self.pool < 1:
            raise UsageError(f"reorder: pool must be at least 1, not {self.pool}")

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"pool": self.pool, "candidates": self.search.candidates, "selected": self.search.selected}

    def models(self, bench: Bench) -> Mapping[str, str]:
        return {"embedding": bench.encoder.model, "language": bench.language.name}

    def rank(self, bench: Bench, questions: Sequence[Question]) -> list[Ranked]:
        observed = bench.observations(questions, self.search)
        evidence = [o.rounds[0].observed if o.rounds else () for o in observed.observations]
        seconds = sum(observed.stage_s.get(s, 0.0) for s in ("embed", "candidates", "select", "observe"))
        ranked = judged(bench, questions, evidence, pool=self.pool)
        return [
            replace(
                one,
                cost=_sum(
                    one.cost, [call for call in o.calls if call.purpose == "select"], seconds / len(ranked)
                ),
                degraded=tuple(r for r in o.degraded if r.startswith("selection: ")) + one.degraded,
            )
            for one, o in zip(ranked, observed.observations, strict=True)
        ]


def _sum(cost: OutcomeCost, calls: Sequence[ModelCall], seconds: float) -> OutcomeCost:
    return OutcomeCost(
        model_calls=cost.model_calls + len(calls),
        tokens_in=cost.tokens_in + sum(call.tokens_in or 0 for call in calls),
        tokens_out=cost.tokens_out + sum(call.tokens_out or 0 for call in calls),
        seconds=cost.seconds + seconds,
    )


def method(settings: SearchSettings) -> Reorder:
    return Reorder(search=replace(settings, reformulate="off", set_weight=1.0))
