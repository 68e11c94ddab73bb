"""The variants of our own search as methods: one class, whose settings differ (SPEC section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from evireform.evaluation.bench import Bench
from evireform.evaluation.method import Ranked
from evireform.evaluation.records import OutcomeCost
from evireform.records import Question, Ranking
from evireform.retrieval.clock import Clock
from evireform.retrieval.final_set import settle
from evireform.retrieval.pipeline import rank
from evireform.settings import MAX_ROUNDS, SearchSettings

_NOT_SETTINGS = ("k", "log", "hub_degree", "where")
"""Fields that no ranking depends on: how deep it is cut, whether it is logged, how hubs are read, and the
filter, which an evaluation has none of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The search under one configuration."""

    needs_model: ClassVar[bool] = False

    name: str
    search: SearchSettings

    @property
    def settings(self) -> Mapping[str, Any]:
        return {key: value for key, value in asdict(self.search).items() if key not in _NOT_SETTINGS}

    def models(self, bench: Bench) -> Mapping[str, str]:
        return {"embedding": bench.encoder.model, "language": bench.language.name}

    def rank(self, bench: Bench, questions: Sequence[Question]) -> list[Ranked]:
        settings = replace(self.search, k=bench.depth, log=False)
        observed = bench.observations(questions, settings)
        clock = Clock()
        ranked = rank(
            bench.store, bench.corpus, bench.space, observed.observations,
            settings=settings, clock=clock, method=self.name,
        )  # fmt: skip
        ranked, _ = settle(
            ranked, observed.observations,
            language=bench.language, titles=bench.corpus.titles, settings=settings, clock=clock,
        )  # fmt: skip
        stages = {stage: s for stage, s in observed.stage_s.items() if stage in self._stages()}
        seconds = (sum(stages.values()) + sum(clock.stage_s.values())) / len(questions)
        return [self._ranked(ranking, seconds) for ranking in ranked]

    def _ranked(self, ranking: Ranking, seconds: float) -> Ranked:
        """Of what was observed for all methods, only the steps that this one takes count."""
        skipped = tuple(f"round {number}: " for number in range(self._rounds() + 1, MAX_ROUNDS + 1))
        skipped += () if self._rounds() else ("observation: ", "reformulation: ")
        degraded = tuple(reason for reason in ranking.degraded if not reason.startswith(skipped))
        taken = [
            spent
            for spent in ranking.cost.spending
            if spent.purpose in ("select", "judge") or 1 <= spent.round_number <= self._rounds()
        ]
        return Ranked(
            passages=tuple((passage.passage_key, passage.score) for passage in ranking.passages),
            cost=OutcomeCost(
                model_calls=sum(spent.calls for spent in taken),
                tokens_in=sum(spent.tokens_in for spent in taken),
                tokens_out=sum(spent.tokens_out for spent in taken),
                seconds=seconds,
            ),
            degraded=degraded,
            reason=ranking.reason,
            ranking=replace(ranking, degraded=degraded),
        )

    def _rounds(self) -> int:
        """Rounds that write residual queries."""
        return self.search.rounds if self.search.reformulate != "off" else 0

    def _stages(self) -> set[str]:
        """Stages of the observation that it takes."""
        stages = {"embed", "candidates", "select"}
        if self._rounds() or self.search.set_weight:
            stages |= {"observe", "reformulate"}
        if self._rounds() > 1:
            stages.add("control")
        return stages
