"""Coverage: what the pools C_0 and C_+, which a search has in hand before it ranks, hold of the gold.

``C_0`` is the pool that the question alone gives, ``C_+`` holds what residual queries found as well
(SPEC section 4), so ``C_0 ⊆ C_+``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

Pair = tuple[Collection[str], Collection[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Coverage over questions, and how each went from ``C_0`` to ``C_+``.

    Attributes:
        questions: Number of questions.
        initial: Mean share of the gold passages in ``C_0``.
        expanded: Mean share of the gold passages in ``C_+``.
        initial_chain: Share of questions with ``G ⊆ C_0``.
        expanded_chain: Share of questions with ``G ⊆ C_+``.
        complete: Questions whose gold ``C_0`` held already.
        completed: Questions that became complete.
        improved: Questions that gained gold passages and are still incomplete.
        unchanged: Incomplete questions that gained none. With the three above it makes ``questions``.
        new_gold: Gold passages of all questions that are in ``C_+`` and not in ``C_0``.
    """

    questions: int
    initial: float
    expanded: float
    initial_chain: float
    expanded_chain: float
    complete: int
    completed: int
    improved: int
    unchanged: int
    new_gold: int


def coverage(pools: Sequence[Pair], gold: Sequence[Collection[str]]) -> Coverage:
    """What the pools hold of the gold, as ``|G ∩ C| / |G|`` and as whether ``G ⊆ C``.

    Args:
        pools: ``C_0`` and ``C_+`` of each question, as passage keys.
        gold: Gold passages of each question, at least one.

    Raises:
        ValueError: there is no question, a question has no gold, a ``C_+`` lacks a passage of its ``C_0``,
            or the lengths differ.

    >>> coverage([({"a"}, {"a", "b"})], [{"a", "b"}]).completed
    1
    """
    if len(pools) != len(gold) or not gold:
        raise ValueError(f"there are {len(pools)} pools for {len(gold)} questions: as many, and one at least")
    before, after, sizes = [], [], []
    for (initial, expanded), wanted in zip(pools, gold, strict=True):
        if not wanted:
            raise ValueError("gold must hold at least one passage")
        if not set(initial) <= set(expanded):
            raise ValueError("the expanded pool must hold the initial one")
        sizes.append(len(set(wanted)))
        before.append(len(set(wanted) & set(initial)))
        after.append(len(set(wanted) & set(expanded)))
    rows = list(zip(before, after, sizes, strict=True))
    questions = len(rows)
    return Coverage(
        questions=questions,
        initial=sum(b / size for b, _, size in rows) / questions,
        expanded=sum(a / size for _, a, size in rows) / questions,
        initial_chain=sum(b == size for b, _, size in rows) / questions,
        expanded_chain=sum(a == size for _, a, size in rows) / questions,
        complete=sum(b == size for b, _, size in rows),
        completed=sum(b < a == size for b, a, size in rows),
        improved=sum(b < a < size for b, a, size in rows),
        unchanged=sum(b == a < size for b, a, size in rows),
        new_gold=sum(a - b for b, a, _ in rows),
    )
