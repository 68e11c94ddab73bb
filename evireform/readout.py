"""Readout: from seeds and entity masses to one ranking of passages, and why (SPEC sections 2 and 3).

The readout reads the propagated signal by passage: ``n_je``, the number of propositions of passage ``j``
that name entity ``e``, stands for all of them, so that no proposition outside the seeds is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evireform.propagation import Array, Incidence

Positions = NDArray[np.int64]
Edges = tuple[NDArray[np.integer[Any]], NDArray[np.integer[Any]]]
"""Seed rows and entity rows of an incidence, as ``nonzero`` gives them."""

DECIMALS = 12
"""Scores are compared after rounding to this many decimals; what rounds to zero is not ranked."""


def passage_scores(
    signal: Array,
    loops: Array,
    owner: Positions,
    counts: Incidence,
    mass: Array,
    size: Array,
    *,
    alpha: float,
) -> Array:
    """Score of every passage in reach (equation 15 of EviReform, read by passage and entity).

    ``score_j = |P_j|^(-1/2) [alpha sum_{i in j} s_i + (1-alpha) (sum_e n_je m_e - sum_{i in j} loop_i)]``

    Args:
        signal: Mixed signal ``s`` on the seeds, shape ``(m,)``.
        loops: Self-loops of the seeds, shape ``(m,)`` (see `propagation.self_loop`).
        owner: Row in ``size`` of the passage that owns each seed, shape ``(m,)``.
        counts: Passage x entity, sparse ``n_je``, shape ``(p, e)``.
        mass: Entity masses ``m_e``, shape ``(e,)``.
        size: Propositions of each passage, shape ``(p,)``, at least 1.
        alpha: Share of the direct signal, in [0, 1].

    Returns:
        Shape ``(p,)``.

    Raises:
        ValueError: shapes disagree, or ``alpha`` is outside [0, 1].
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must lie in [0, 1], not {alpha!r}")
    if counts.shape != (size.shape[0], mass.shape[0]) or signal.shape != loops.shape != owner.shape:
        raise ValueError(
            f"counts {counts.shape} do not fit {size.shape[0]} passages, {mass.shape[0]} entities"
        )
    passages = size.shape[0]
    direct = np.bincount(owner, weights=signal, minlength=passages)
    looped = np.bincount(owner, weights=loops, minlength=passages)
    spread = np.asarray(counts @ mass, dtype=np.float64) - looped
    return np.asarray((alpha * direct + (1.0 - alpha) * spread) / np.sqrt(size), dtype=np.float64)


def cut(scores: Array, k: int) -> tuple[float, Positions]:
    """The K-th best positive score, and the rows that could be among the first K, ties included.

    Args:
        scores: Shape ``(p,)``.
        k: Length of the ranking, at least 1.

    Returns:
        The rounded K-th score (0 where fewer than ``k`` are positive), and row positions.

    >>> cut(np.array([0.5, 0.0, 0.2, 0.2]), 2)[1].tolist()
    [0, 2, 3]
    """
    rounded = np.round(scores, DECIMALS)
    positive = np.flatnonzero(rounded > 0)
    if len(positive) < k:
        return 0.0, positive
    kth = float(-np.partition(-rounded[positive], k - 1)[k - 1])
    return kth, positive[rounded[positive] >= kth]


def tied(scores: Array) -> NDArray[np.bool_]:
    """Which passages share their rounded score with another, so that their keys decide. Shape ``(p,)``.

    >>> tied(np.array([0.5, 0.2, 0.5])).tolist()
    [True, False, True]
    """
    _, inverse, counts = np.unique(np.round(scores, DECIMALS), return_inverse=True, return_counts=True)
    return np.asarray(counts[inverse] > 1)


def order(scores: Array, keys: Sequence[str], k: int) -> list[int]:
    """Rows of the first ``k`` passages: by score rounded to 12 decimals, then by key in code-point order.

    Only the keys of `tied` passages are looked at. A score that rounds to zero is not ranked.

    >>> order(np.array([0.5, 0.5, 0.0, 0.7]), ["b", "a", "c", "d"], 3)
    [3, 1, 0]
    """
    rounded = np.round(scores, DECIMALS)
    rows = sorted(np.flatnonzero(rounded > 0).tolist(), key=lambda row: (-rounded[row], keys[row]))
    return rows[:k]


def blended(places: NDArray[np.integer[Any]], *, weight: float) -> Array:
    """Value that each passage of a pool is placed by once a judge has chosen among them.

    ``v_r = (1 - w) (n - r)/n + w (n - t_r + 1)/n``: percentile ranks of the score's order, where passage
    ``r`` stands at place ``r`` from 0, and of the judge's, which gave it place ``t_r`` from 1. What the judge
    did not list shares the lowest percentile rank, ``1/n``. Rounded to 12 decimals: equal values meet.

    Args:
        places: The judge's place of each passage, best score first, 0 where not listed; shape ``(n,)``.
        weight: ``w``, share of the judge, in [0, 1].

    Returns:
        Shape ``(n,)``, in (0, 1].

    Raises:
        ValueError: ``weight`` is outside [0, 1].

    >>> blended(np.array([0, 0, 0, 1]), weight=0.5).tolist()
    [0.625, 0.5, 0.375, 0.625]
    """
    if not 0.0 <= weight <= 1.0:
        raise ValueError(f"weight must lie in [0, 1], not {weight!r}")
    n = len(places)
    by_score = (n - np.arange(n)) / n
    by_judge = np.where(places > 0, np.maximum(n - places + 1, 1), 1) / n
    return np.asarray(np.round((1.0 - weight) * by_score + weight * by_judge, DECIMALS), dtype=np.float64)


def hub_reach(mass: Array, max_weight: Array, *, alpha: float) -> float:
    """Most that the hubs together can add to a passage: ``(1-alpha) sum_e m_e max_j n_je/sqrt|P_j|``.

    Args:
        mass: Masses of the hubs, shape ``(h,)``.
        max_weight: ``max_j n_je / sqrt(|P_j|)`` of each hub, shape ``(h,)``.
        alpha: Share of the direct signal.
    """
    return float((1.0 - alpha) * (mass @ max_weight))


def survivors(scores: Array, reach: float, k: int) -> Positions | None:
    """Rows that can still be among the first ``k`` once the hubs are counted, or None if any passage can.

    ``scores`` leave the hubs out, so they are lower bounds, and a passage that they do not hold has at
    most ``reach``. When the K-th lower bound exceeds that by more than 1e-12, only the rows whose upper
    bound reaches the K-th need their hub counts (the MaxScore idea: Turtle and Flood, 1995, Information
    Processing & Management 31(6)).

    >>> survivors(np.array([0.9, 0.5, 0.1]), 0.05, 2).tolist()
    [0, 1]
    >>> survivors(np.array([0.9, 0.01, 0.0]), 0.05, 2) is None
    True
    """
    margin = 10.0**-DECIMALS
    if len(scores) < k:
        return None
    kth = float(-np.partition(-scores, k - 1)[k - 1])
    if kth - reach <= margin:
        return None
    return np.flatnonzero(scores + reach >= kth - margin)


def trace_terms(
    sources: Array,
    outflows: Array,
    edges: Edges,
    degree: Array,
    owned: NDArray[np.bool_],
    counts: Array,
    size: float,
    *,
    alpha: float,
) -> list[tuple[int, int, int, float]]:
    """The additive terms of one passage's score: (source, seed row, entity row or -1, value), none zero.

    Everything after the choice of seeds is linear, so the score splits by source and seed into the direct
    part ``alpha s_i`` and, through each entity, ``(1-alpha) x_i (n_je - [i in j]) / d_e``, all over
    ``sqrt(|P_j|)``. The values sum to the passage's score.

    Args:
        sources: Masses by source and seed, shape ``(l, m)`` (see `seeds.mix`).
        outflows: ``x`` by source and seed, shape ``(l, m)``.
        edges: Seed rows and entity rows of the incidence, two arrays of shape ``(edges,)``.
        degree: Shape ``(e,)``.
        owned: Whether the passage owns each seed, shape ``(m,)``.
        counts: ``n_je`` of the passage, shape ``(e,)``.
        size: ``|P_j|``.
        alpha: Share of the direct signal.
    """
    scale = 1.0 / np.sqrt(size)
    seed, entity = edges
    direct = alpha * scale * np.where(owned, sources, 0.0)
    through = (1.0 - alpha) * scale * outflows[:, seed] * ((counts[entity] - owned[seed]) / degree[entity])
    terms = [(source, row, -1, float(direct[source, row])) for source, row in np.argwhere(direct).tolist()]
    for source, edge in np.argwhere(through).tolist():
        terms.append((source, int(seed[edge]), int(entity[edge]), float(through[source, edge])))
    return terms
