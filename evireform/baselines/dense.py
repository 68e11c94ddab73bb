"""Dense passages: the similarity of a passage's whole text to the question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from evireform.evaluation.bench import POOL, Bench
from evireform.evaluation.method import Ranked
from evireform.evaluation.records import OutcomeCost
from evireform.records import Question
from evireform.settings import SearchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class DensePassages:
    """One vector a passage, searched with the question's."""

    needs_model: ClassVar[bool] = False
    search: ClassVar[None] = None

    @property
    def settings(self) -> Mapping[str, Any]:
        return {}

    def models(self, bench: Bench) -> Mapping[str, str]:
        return {"embedding": bench.encoder.model}

    def rank(self, bench: Bench, questions: Sequence[Question]) -> list[Ranked]:
        found, seconds = bench.dense(questions, max(POOL, bench.depth))
        cost = OutcomeCost(seconds=seconds / len(questions))
        return [Ranked(passages=tuple(hits[: bench.depth]), cost=cost) for hits in found]


def method(_: SearchSettings) -> DensePassages:
    return DensePassages()
