"""Dense propositions: a passage is as similar to the question as the most similar of its propositions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from evireform.evaluation.bench import Bench
from evireform.evaluation.method import Ranked
from evireform.evaluation.records import OutcomeCost
from evireform.records import Candidate, Question
from evireform.settings import SearchSettings
from evireform.store import searching


@dataclass(frozen=True, slots=True, kw_only=True)
class DensePropositions:
    """``score(d) = max h_i . h_q`` over the propositions of ``d``.

    The candidates that the search itself starts from are read first. Where they belong to fewer passages than
    are ranked, the nearest propositions are fetched, four times as many each time.
    """

    needs_model: ClassVar[bool] = False

    search: SearchSettings

    @property
    def settings(self) -> Mapping[str, Any]:
        return {}

    def models(self, bench: Bench) -> Mapping[str, str]:
        return {"embedding": bench.encoder.model}

    def rank(self, bench: Bench, questions: Sequence[Question]) -> list[Ranked]:
        observed = bench.observations(questions, self.search)
        stages = observed.stage_s
        shared = (stages["embed"] + stages["candidates"]) / len(questions)
        ranked = []
        for o in observed.observations:
            with bench.timed() as seconds:
                found, limit = o.candidates, self.search.candidates
                while len(_best(found)) < bench.depth and len(found) == limit:
                    limit *= 4
                    with bench.store.transaction(read_only=True, exact=True) as tx:
                        (more,), _ = searching.candidates(
                            tx, bench.space, o.question_vector[None],
                            limit=limit, with_entities=False, titles=bench.corpus.titles,
                        )  # fmt: skip
                    found = tuple(more)
                best = _best(found)
                order = sorted(best, key=lambda key: (-best[key], key))[: bench.depth]
            ranked.append(
                Ranked(
                    passages=tuple((key, best[key]) for key in order),
                    cost=OutcomeCost(seconds=shared + seconds()),
                )
            )
        return ranked


def _best(found: Sequence[Candidate]) -> dict[str, float]:
    """The highest similarity of each passage."""
    best: dict[str, float] = {}
    for candidate in found:
        best[candidate.passage_key] = max(best.get(candidate.passage_key, 0.0), candidate.similarity)
    return best


def method(settings: SearchSettings) -> DensePropositions:
    return DensePropositions(search=replace(settings, reformulate="off"))
