"""Retrieval measures over sets of gold passages: Recall@K, Chain@K and Hit@K.

``G`` is the set of gold passages of a question, ``R_K`` that of the first ``K`` passages of its ranking.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CUTOFFS = (1, 5, 10, 20)
"""The K at which rankings are measured; 5 is the primary one."""


def recall_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Share of the gold passages among the first K: ``|G ∩ R_K| / |G|``.

    Args:
        ranking: Passage keys, best first, each once; may be empty.
        gold: Passage keys, at least one.
        k: Depth K, at least 1.

    Raises:
        ValueError: ``gold`` is empty, ``k`` is below 1, or the ranking names a passage twice.

    >>> recall_at(["a", "x", "b"], {"a", "b"}, 2)
    0.5
    """
    found, wanted = _found(ranking, gold, k)
    return found / wanted


def chain_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Whether the first K hold every gold passage: 1 if ``G ⊆ R_K``, else 0.

    Args:
        ranking: Passage keys, best first, each once; may be empty.
        gold: Passage keys, at least one.
        k: Depth K, at least 1.

    Raises:
        ValueError: ``gold`` is empty, ``k`` is below 1, or the ranking names a passage twice.

    >>> chain_at(["a", "x", "b"], {"a", "b"}, 2), chain_at(["a", "x", "b"], {"a", "b"}, 3)
    (0.0, 1.0)
    """
    found, wanted = _found(ranking, gold, k)
    return float(found == wanted)


def hit_at(ranking: Sequence[str], gold: Collection[str], k: int) -> float:
    """Whether the first K hold any gold passage: 1 if ``G ∩ R_K ≠ ∅``, else 0.

    Args:
        ranking: Passage keys, best first, each once; may be empty.
        gold: Passage keys, at least one.
        k: Depth K, at least 1.

    Raises:
        ValueError: ``gold`` is empty, ``k`` is below 1, or the ranking names a passage twice.

    >>> hit_at(["x", "a"], {"a", "b"}, 1), hit_at(["x", "a"], {"a", "b"}, 2)
    (0.0, 1.0)
    """
    found, _ = _found(ranking, gold, k)
    return float(found > 0)


MEASURES: dict[str, Callable[[Sequence[str], Collection[str], int], float]] = {
    "recall": recall_at,
    "chain": chain_at,
    "hit": hit_at,
}
"""Name of a measure to its function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Measures of one method on one set of questions.

    Attributes:
        questions: Keys of the judged questions, in the order of the values.
        values: ``recall@5`` and so on to one value in [0, 1] per judged question, shape ``(n,)``.
        unjudged: Questions without gold, which have no value.
    """

    questions: tuple[str, ...]
    values: Mapping[str, NDArray[np.float64]]
    unjudged: int

    @property
    def means(self) -> dict[str, float]:
        """Mean over the judged questions, by measure."""
        return {name: float(values.mean()) for name, values in self.values.items()}


def measure(
    rankings: Mapping[str, Sequence[str]],
    gold: Mapping[str, Collection[str]],
    *,
    cutoffs: Sequence[int] = CUTOFFS,
) -> Measured:
    """Every measure at every cutoff for every judged question.

    A judged question with an empty ranking, or with none at all, counts 0. A question without gold is not
    judged: it is left out and counted.

    Args:
        rankings: Question key to passage keys, best first.
        gold: Question key to the passages that answer it together, for every question asked.
        cutoffs: Depths K, each at least 1.

    Raises:
        ValueError: no question is judged, a ranking belongs to no question of ``gold``, a ranking names
            a passage twice, or a cutoff is below 1.

    >>> measure({"q1": ["a", "b"]}, {"q1": {"a"}, "q2": {"c"}}, cutoffs=[1]).means
    {'recall@1': 0.5, 'chain@1': 0.5, 'hit@1': 0.5}
    """
    unknown = [question for question in rankings if question not in gold]
    if unknown:
        raise ValueError(f"rankings hold question {unknown[0]!r}, which gold does not")
    judged = tuple(question for question, passages in gold.items() if passages)
    if not judged:
        raise ValueError("gold must name a passage for at least one question")
    values = {
        f"{name}@{k}": np.array(
            [function(rankings.get(question, ()), gold[question], k) for question in judged],
            dtype=np.float64,
        )
        for name, function in MEASURES.items()
        for k in cutoffs
    }
    return Measured(questions=judged, values=values, unjudged=len(gold) - len(judged))


def _found(ranking: Sequence[str], gold: Collection[str], k: int) -> tuple[int, int]:
    """Gold passages among the first K, and gold passages in all."""
    wanted = set(gold)
    if not wanted:
        raise ValueError("gold must hold at least one passage")
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    first = ranking[:k]
    retrieved = set(first)
    if len(retrieved) < len(first):
        raise ValueError("the ranking names a passage twice")
    return len(wanted & retrieved), len(wanted)
