"""Direct inference: the model answers from what it knows; nothing is ranked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from evireform import parallel
from evireform.answering import answer_directly
from evireform.evaluation.bench import Bench
from evireform.evaluation.method import Ranked
from evireform.evaluation.records import OutcomeCost
from evireform.records import Question
from evireform.settings import SearchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Direct:
    """An answer without any passage: what retrieval has to beat."""

    needs_model: ClassVar[bool] = True
    search: ClassVar[None] = None

    @property
    def settings(self) -> Mapping[str, Any]:
        return {}

    def models(self, bench: Bench) -> Mapping[str, str]:
        return {"language": bench.language.name}

    def rank(self, bench: Bench, questions: Sequence[Question]) -> list[Ranked]:
        return parallel.in_order(
            lambda question: self._answered(bench, question), questions, at_once=bench.language.concurrency
        )

    def _answered(self, bench: Bench, question: Question) -> Ranked:
        said = answer_directly(bench.store, bench.corpus.name, question.text, language=bench.language)
        return Ranked(
            answer=said.text,
            degraded=said.degraded,
            reason="the method answers without ranking",
            cost=OutcomeCost(
                model_calls=said.cost.model_calls,
                tokens_in=said.cost.tokens_in,
                tokens_out=said.cost.tokens_out,
                seconds=sum(said.cost.stage_s.values()),
            ),
        )


def method(_: SearchSettings) -> Direct:
    return Direct()
