"""Why a gold passage was missed: how far it came before the ranking, and where it ended.

A search has passages in hand at four points: the sources of its candidates (of which the first 20 are the
initial pool C_0), the observed ones, those that residual queries found, and the ranking, into which
propagation may bring passages that were none of these. A *path* says at which of them a gold passage was
seen; a *funnel* counts the paths of many questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from evireform.evaluation.records import Outcome, Pools

PRIMARY_K = 5
"""A gold passage below this rank is missed."""

Reached = Literal["selection", "residual query", "propagation", "nothing"]
"""What put a passage into the ranking; `propagation` is propagation alone."""

FATES = {
    "unseen": "no candidate, found by no residual query, reached by no propagation",
    "not selected": "a candidate, but not selected, not found and not reached",
    "unranked": "selected or found, but below the depth of the run",
    "low, by propagation": "ranked too low; reached by propagation alone",
    "low, by residual query": "ranked too low; found by a residual query, not selected",
    "low, by selection": "ranked too low, though selected",
}
"""How a missed gold passage can end, from the earliest loss to the latest."""

STAGES = {
    "gold": "gold passages",
    "candidates": "among the sources of the candidates",
    "initial": "in the initial pool C_0",
    "observed": "observed",
    "in hand": "observed, or found by a residual query",
    "propagation": "reached by propagation alone",
    "ranked": "ranked at all",
    "first": f"ranked in the first {PRIMARY_K}",
}
"""What a funnel counts, in the order in which it is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldPath:
    """How one gold passage fared. ``rank`` counts from 1; None is below the depth of the run."""

    passage_key: str
    candidate: bool
    initial: bool
    observed: bool
    found: bool
    rank: int | None

    @property
    def reached(self) -> Reached:
        """What put it into the ranking, or would have."""
        if self.observed:
            return "selection"
        if self.found:
            return "residual query"
        return "nothing" if self.rank is None else "propagation"

    @property
    def missed(self) -> bool:
        return self.rank is None or self.rank > PRIMARY_K

    @property
    def words(self) -> str:
        """Where it ended, as one reads it: the rank and what brought it there, or where it was lost."""
        return self.fate if self.rank is None else f"rank {self.rank} by {self.reached}"

    @property
    def fate(self) -> str:
        """A key of `FATES` where it is missed, else empty."""
        if not self.missed:
            return ""
        if self.rank is not None:
            return f"low, by {self.reached}"
        if self.reached != "nothing":
            return "unranked"
        return "not selected" if self.candidate else "unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Funnel:
    """Counts over the gold passages of many questions: of `STAGES`, and of the missed by `FATES`."""

    stages: dict[str, int]
    fates: dict[str, int]

    @property
    def missed(self) -> int:
        return sum(self.fates.values())


def gold_paths(pools: Pools, ranking: Sequence[str], gold: Sequence[str]) -> tuple[GoldPath, ...]:
    """How every gold passage of a question fared.

    Args:
        pools: What the search had in hand before propagation.
        ranking: Passage keys, best first.
        gold: Passage keys.

    >>> pools = Pools(candidates=("a", "b"), observed=("a",), found=("c",))
    >>> [(path.reached, path.fate) for path in gold_paths(pools, ["a", "d"], ["a", "b", "c", "d", "e"])]
    ... # doctest: +NORMALIZE_WHITESPACE
    [('selection', ''), ('nothing', 'not selected'), ('residual query', 'unranked'), ('propagation', ''),
     ('nothing', 'unseen')]
    """
    rank = {key: position for position, key in enumerate(ranking, start=1)}
    return tuple(
        GoldPath(
            passage_key=key,
            candidate=key in pools.candidates,
            initial=key in pools.initial,
            observed=key in pools.observed,
            found=key in pools.found,
            rank=rank.get(key),
        )
        for key in gold
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Where a gold passage ended, in words. ``path`` is None for a method that searches no propositions."""

    passage_key: str
    missed: bool
    words: str
    path: GoldPath | None


def endings(outcome: Outcome, gold: Sequence[str]) -> tuple[Ending, ...]:
    """Where every gold passage of an outcome ended, whatever the method."""
    if outcome.pools is not None:
        return tuple(
            Ending(passage_key=path.passage_key, missed=path.missed, words=path.words, path=path)
            for path in of_outcome(outcome, gold)
        )
    rank = {key: position for position, (key, _) in enumerate(outcome.passages, start=1)}
    return tuple(
        Ending(
            passage_key=key,
            missed=rank.get(key, PRIMARY_K + 1) > PRIMARY_K,
            words=f"rank {rank[key]}" if key in rank else "not ranked",
            path=None,
        )
        for key in gold
    )


def of_outcome(outcome: Outcome, gold: Sequence[str]) -> tuple[GoldPath, ...]:
    """How the gold of an outcome fared; empty for a method that searches no propositions."""
    if outcome.pools is None:
        return ()
    return gold_paths(outcome.pools, [key for key, _ in outcome.passages], gold)


def summed(paths: Iterable[GoldPath]) -> Funnel:
    """The funnel of many gold passages."""
    stages, fates = dict.fromkeys(STAGES, 0), dict.fromkeys(FATES, 0)
    for path in paths:
        stages["gold"] += 1
        stages["candidates"] += path.candidate
        stages["initial"] += path.initial
        stages["observed"] += path.observed
        stages["in hand"] += path.observed or path.found
        stages["propagation"] += path.reached == "propagation"
        stages["ranked"] += path.rank is not None
        stages["first"] += not path.missed
        if path.missed:
            fates[path.fate] += 1
    return Funnel(stages=stages, fates=fates)
