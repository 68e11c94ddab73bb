"""Seeds: which propositions carry the signal, and how much of it (SPEC section 2, steps 2 to 7).

Pure functions on lists and arrays. A *source* is the question (row 0) or a residual query (rows 1..):
the mixed signal is the sum of the source rows, so that a trace can tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def choose(positions: Sequence[object], similarity: Array, *, limit: int) -> list[int]:
    """The selected candidates: what the selector said, made valid.

    Positions that are not integers, lie outside the candidates, repeat, or name a candidate without
    positive similarity are ignored; of the rest the first ``limit`` count. When none is left, the
    positive candidate with the highest similarity stands alone (the first of equals).

    Args:
        positions: What the selector returned; anything is tolerated.
        similarity: Similarity of each candidate, shape ``(n,)``, best first.
        limit: Most positions that count, at least 1.

    Returns:
        Candidate positions in the order of selection; empty only when no similarity is positive.

    >>> choose([2, 2, 9, "x", 0], np.array([0.9, 0.8, 0.7]), limit=12)
    [2, 0]
    >>> choose([], np.array([0.9, 0.8]), limit=12)
    [0]
    """
    chosen = [
        position for position in valid_positions(positions, len(similarity)) if similarity[position] > 0
    ]
    if not chosen and len(similarity) and similarity.max() > 0:
        chosen.append(int(similarity.argmax()))
    return chosen[:limit]


def valid_positions(positions: Sequence[object], size: int) -> list[int]:
    """The positions that are integers from 0 to ``size - 1``, each once, in order.

    >>> valid_positions([2, 2, 9, -1, "x", True, 0], 3)
    [2, 0]
    """
    integers = (p for p in positions if isinstance(p, int | np.integer) and not isinstance(p, bool))
    return list(dict.fromkeys(int(p) for p in integers if 0 <= p < size))


def clean_queries(
    queries: Sequence[object], question: str, *, limit: int, asked: Sequence[str] = ()
) -> list[str]:
    """Residual queries worth a search: trimmed, not empty, no repeats of each other or of what was asked.

    Repeats are found without regard to case. What is not a string is ignored.

    Args:
        queries: What the reformulator or the controller wrote; anything is tolerated.
        question: The question.
        limit: Most queries that are kept.
        asked: Queries of earlier rounds.

    >>> clean_queries([" Who? ", "who?", "", "Where?"], "WHERE?", limit=3)
    ['Who?']
    """
    seen = {text.strip().casefold() for text in (question, *asked)}
    kept: list[str] = []
    for query in queries:
        text = query.strip() if isinstance(query, str) else ""
        if text and text.casefold() not in seen:
            seen.add(text.casefold())
            kept.append(text)
    return kept[:limit]


def normalised(similarity: Array) -> Array:
    """``max(0, u) / sum max(0, u)``: a signal of mass 1, or all zeros where nothing is positive.

    Args:
        similarity: Inner products, shape ``(n,)``.

    Returns:
        Non-negative masses, shape ``(n,)``.

    >>> normalised(np.array([0.6, 0.2, -1.0])).round(6).tolist()
    [0.75, 0.25, 0.0]
    """
    positive = np.maximum(np.asarray(similarity, dtype=np.float64), 0.0)
    total = positive.sum()
    return positive / total if total > 0 else np.zeros_like(positive)


def mix(base: Array, residual: Array, *, beta: float) -> Array:
    """Split the mixed signal ``s = beta * b + (1 - beta) * mean(r over valid)`` by source.

    Args:
        base: Signal ``b`` of the question, shape ``(m,)``, mass 1.
        residual: Signal of each residual query, shape ``(l, m)``; a row is valid when it has mass.
        beta: Share of the question, in [0, 1].

    Returns:
        Masses by source and seed, shape ``(1 + l, m)``; the column sums are ``s``. Without a valid
        residual query row 0 is ``b`` whatever ``beta`` is.

    Raises:
        ValueError: shapes disagree, or ``beta`` is outside [0, 1].

    >>> mix(np.array([1.0, 0.0]), np.array([[0.0, 1.0], [0.0, 0.0]]), beta=0.5).sum(axis=0).tolist()
    [0.5, 0.5]
    """
    if not 0.0 <= beta <= 1.0:
        raise ValueError(f"beta must lie in [0, 1], not {beta!r}")
    if residual.ndim != 2 or base.ndim != 1 or residual.shape[1] != base.shape[0]:
        raise ValueError(f"base {base.shape} and residual {residual.shape} do not fit together")
    valid = residual.sum(axis=1) > 0
    if not valid.any():
        return np.vstack([base, np.zeros_like(residual)])
    share = (1.0 - beta) / int(valid.sum())
    return np.vstack([beta * base, share * residual])
