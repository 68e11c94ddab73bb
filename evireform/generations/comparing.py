"""Both generations asked the same questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from evireform import bootstrap
from evireform.evaluation.compare import MeasureChange
from evireform.measures import measure
from evireform.records import Question, Ranking

Search = Callable[[Sequence[str]], list[Ranking]]
Progress = Callable[[int], None]

BATCH = 32
"""Questions that are searched together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCost:
    """What the searches of one generation took. ``degraded`` counts those that fell back somewhere."""

    model_calls: int
    tokens_in: int
    tokens_out: int
    seconds: float
    degraded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankingChange:
    """A question whose first ``k`` passages are not the same, by key.

    ``shared`` is how many of them both have; ``entered`` and ``left`` are the others, best first. All are
    shared, and none entered, where only the order changed.
    """

    question: str
    shared: int
    same_first: bool
    entered: tuple[str, ...]
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationComparison:
    """A corpus that serves (first) and its shadow (second) on the same questions.

    ``measures`` is empty where no question has gold passages; ``judged`` counts those that have. ``shared``
    is the mean share of the first ``k`` passages that both rankings have, in [0, 1]; ``same_first`` and
    ``same`` count the questions with the same first passage, and with the same first ``k`` in the same order.
    """

    serving: str
    shadow: str
    k: int
    questions: int
    judged: int
    measures: tuple[MeasureChange, ...]
    shared: float
    same_first: int
    same: int
    changed: tuple[RankingChange, ...]
    serving_cost: SearchCost
    shadow_cost: SearchCost


def compare(
    names: tuple[str, str],
    questions: Sequence[Question],
    searches: tuple[Search, Search],
    *,
    k: int,
    progress: Progress | None = None,
) -> GenerationComparison:
    """Search both generations and say what is different. Differences are second minus first.

    Args:
        names: Of the corpus that serves, and of its shadow.
        questions: At least one.
        searches: What ranks at least ``k`` passages for each text, for either.
        k: Depth of the comparison.
        progress: Called with the number of questions asked of both since the last call.
    """
    rankings: tuple[list[Ranking], list[Ranking]] = ([], [])
    for start in range(0, len(questions), BATCH):
        batch = questions[start : start + BATCH]
        for found, search in zip(rankings, searches, strict=True):
            found += search([question.text for question in batch])
        if progress:
            progress(len(batch))
    first, second = (
        {
            question.key: [passage.passage_key for passage in ranking.passages[:k]]
            for question, ranking in zip(questions, found, strict=True)
        }
        for found in rankings
    )
    changes = [_change(key, first[key], second[key]) for key in first]
    return GenerationComparison(
        serving=names[0],
        shadow=names[1],
        k=k,
        questions=len(questions),
        judged=sum(bool(question.gold) for question in questions),
        measures=tuple(_measures(names[0], questions, first, second, k)),
        shared=fmean(_share(change, first[change.question], second[change.question]) for change in changes),
        same_first=sum(change.same_first for change in changes),
        same=sum(first[key] == second[key] for key in first),
        changed=tuple(change for change in changes if first[change.question] != second[change.question]),
        serving_cost=_cost(rankings[0]),
        shadow_cost=_cost(rankings[1]),
    )


def _change(question: str, first: list[str], second: list[str]) -> RankingChange:
    return RankingChange(
        question=question,
        shared=len(set(first) & set(second)),
        same_first=first[:1] == second[:1],
        entered=tuple(key for key in second if key not in first),
        left=tuple(key for key in first if key not in second),
    )


def _share(change: RankingChange, first: list[str], second: list[str]) -> float:
    """Of the longer ranking; two empty ones are the same."""
    longest = max(len(first), len(second))
    return change.shared / longest if longest else 1.0


def _measures(
    dataset: str,
    questions: Sequence[Question],
    first: dict[str, list[str]],
    second: dict[str, list[str]],
    k: int,
) -> list[MeasureChange]:
    gold = {question.key: question.gold for question in questions}
    if not any(gold.values()):
        return []
    old, new = (measure(rankings, gold, cutoffs=[k]) for rankings in (first, second))
    changes = []
    for name, values in old.values.items():
        others = new.values[name]
        seed = bootstrap.seed_of(dataset, name)
        interval = bootstrap.paired(others, values, seed=seed)
        changes.append(
            MeasureChange(
                measure=name,
                first=old.means[name],
                second=new.means[name],
                difference=interval.difference,
                low=interval.low,
                high=interval.high,
                better=int((others > values).sum()),
                worse=int((others < values).sum()),
                seed=seed,
            )
        )
    return changes


def _cost(rankings: Sequence[Ranking]) -> SearchCost:
    costs = [ranking.cost for ranking in rankings]
    return SearchCost(
        model_calls=sum(cost.model_calls for cost in costs),
        tokens_in=sum(cost.tokens_in for cost in costs),
        tokens_out=sum(cost.tokens_out for cost in costs),
        seconds=sum(sum(cost.stage_s.values()) / cost.questions for cost in costs),
        degraded=sum(bool(ranking.degraded) for ranking in rankings),
    )
