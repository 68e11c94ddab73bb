"""Dense passages reranked: a cross-encoder orders the 40 passages of dense search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from evireform import reranking
from evireform.errors import UsageError
from evireform.evaluation.bench import POOL, Bench
from evireform.evaluation.method import Ranked
from evireform.evaluation.records import OutcomeCost
from evireform.records import Question, with_title
from evireform.settings import SearchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseThenCrossEncoder:
    """The pool in the order of a cross-encoder's scores; equal scores stay in the order of the pool."""

    needs_model: ClassVar[bool] = False
    search: ClassVar[None] = None

    model: str = ""
    pool: int = POOL

    def __post_init__(self) -> None:
        if self.pool < 1:
            raise UsageError(f"cross-encoder: pool must be at least 1, not {self.pool}")

    @property
    def settings(self) -> Mapping[str, Any]:
        return asdict(self)

    def models(self, bench: Bench) -> Mapping[str, str]:
        return {"embedding": bench.encoder.model, "cross-encoder": self._encoder(bench).model}

    def rank(self, bench: Bench, questions: Sequence[Question]) -> list[Ranked]:
        encoder = self._encoder(bench)
        found, dense_s = bench.dense(questions, self.pool)
        ranked = []
        for question, hits in zip(questions, found, strict=True):
            with bench.timed() as seconds:
                texts = bench.passages([key for key, _ in hits])
                pool = [texts[key] for key, _ in hits]
                scores = encoder.score(question.text, [with_title(p.title, p.text, "on") for p in pool])
                order = sorted(range(len(hits)), key=lambda row: (-scores[row], row))[: bench.depth]
            ranked.append(
                Ranked(
                    passages=tuple((hits[row][0], float(scores[row])) for row in order),
                    cost=OutcomeCost(seconds=seconds() + dense_s / len(questions)),
                )
            )
        return ranked

    def _encoder(self, bench: Bench) -> reranking.CrossEncoder:
        encoder: reranking.CrossEncoder = bench.once(
            f"cross-encoder {self.model}", lambda: reranking.load(self.model)
        )
        return encoder


def method(_: SearchSettings) -> DenseThenCrossEncoder:
    return DenseThenCrossEncoder()
