"""One propagation step through shared entities, from the seeds alone (SPEC section 3).

The graph ``W`` is never built. With ``A`` the incidence of the seeds and ``d_e`` the degree of an entity
(propositions of the whole corpus that name it), the step ``T s`` needs three vectors: what a seed hands
out per unit of edge weight (`outflow`), what an entity passes on (`entity_mass`), and what a seed would
wrongly hand to itself (`self_loop`). Equations 12 to 14 of EviReform.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Incidence = sparse.csr_array


def row_sums(incidence: Incidence, degree: Array) -> Array:
    """Row sums of ``W`` for the seeds: ``w_i = sum_e A_ie * (d_e - 1) / d_e``.

    Args:
        incidence: Seed x entity, sparse 0/1, shape ``(m, e)``; every entity of every seed.
        degree: Propositions of the corpus that name each entity, shape ``(e,)``, at least 1.

    Returns:
        Shape ``(m,)``, zero for a seed that shares no entity with another proposition.

    Raises:
        ValueError: shapes disagree, or a degree is below 1.
    """
    _check(incidence, degree)
    return np.asarray(incidence @ ((degree - 1.0) / degree), dtype=np.float64)


def outflow(signal: Array, incidence: Incidence, degree: Array) -> Array:
    """Signal per unit of edge weight: ``x_i = s_i / w_i``, and 0 where ``w_i = 0``.

    Args:
        signal: Mass on the seeds, shape ``(m,)`` or by source ``(l, m)``, non-negative.
        incidence: As for `row_sums`.
        degree: As for `row_sums`.

    Returns:
        The shape of ``signal``.

    Raises:
        ValueError: shapes disagree, or a degree is below 1.
    """
    weight = row_sums(incidence, degree)
    if signal.shape[-1] != weight.shape[0]:
        raise ValueError(f"signal {signal.shape} does not fit {weight.shape[0]} seeds")
    return np.divide(signal, weight, out=np.zeros(signal.shape), where=weight > 0)


def entity_mass(x: Array, incidence: Incidence, degree: Array) -> Array:
    """Mass that each entity hands to every proposition that names it: ``m_e = (1/d_e) sum_i A_ie x_i``.

    The self-loop is not removed here; see `self_loop`.

    Args:
        x: Outflow of the seeds, shape ``(m,)``.
        incidence: As for `row_sums`.
        degree: As for `row_sums`.

    Returns:
        Shape ``(e,)``; zero for an entity of degree 1 whose only seed has no neighbour.

    >>> A = sparse.csr_array(np.array([[1.0, 1.0]]))
    >>> d = np.array([2.0, 1.0])
    >>> entity_mass(outflow(np.array([1.0]), A, d), A, d).tolist()
    [1.0, 2.0]
    """
    _check(incidence, degree)
    return np.asarray(incidence.T @ x, dtype=np.float64) / degree


def self_loop(x: Array, incidence: Incidence, degree: Array) -> Array:
    """What each seed must not hand to itself: ``x_i * sum_e A_ie / d_e``, shape ``(m,)``."""
    _check(incidence, degree)
    return x * np.asarray(incidence @ (1.0 / degree), dtype=np.float64)


def _check(incidence: Incidence, degree: Array) -> None:
    if incidence.shape[1] != degree.shape[0]:
        raise ValueError(f"incidence {incidence.shape} does not fit {degree.shape[0]} degrees")
    if degree.size and degree.min() < 1:
        raise ValueError(f"degree must be at least 1, not {degree.min()!r}")
