"""Paired bootstrap over questions: how sure a difference between two methods is (SPEC section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

RESAMPLES = 10_000
BASE_SEED = 202707
PERCENTILES = (2.5, 97.5)
_DRAWN_AT_ONCE = 2_000_000
"""Positions that are drawn together: what bounds the memory, whatever the number of questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean difference with the 2.5th and 97.5th percentiles of its bootstrap distribution."""

    difference: float
    low: float
    high: float


def seed_of(dataset: str, measure: str) -> int:
    """Seed of a comparison: 202707 plus the CRC32 of ``dataset/measure``.

    >>> seed_of("musique", "recall@5")
    656689258
    """
    return BASE_SEED + crc32(f"{dataset}/{measure}".encode())


def paired(first: Array, second: Array, *, seed: int, resamples: int = RESAMPLES) -> Interval:
    """Percentile interval of the mean of ``first - second`` (Efron and Tibshirani 1993, chapter 13).

    Each resample draws as many questions as there are, with replacement, and keeps both values of a question
    together. The same seed gives the same interval to the last bit.

    Args:
        first: One value a question, shape ``(n,)``.
        second: Of the same questions in the same order, shape ``(n,)``.
        seed: See `seed_of`.
        resamples: Number of resamples, at least 1.

    Raises:
        ValueError: the shapes differ, there is no question, a value is NaN, or ``resamples`` is below 1.

    >>> paired(np.array([1.0, 1.0]), np.array([0.5, 0.5]), seed=1)
    Interval(difference=0.5, low=0.5, high=0.5)
    """
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(f"first {first.shape} and second {second.shape} do not belong to the same questions")
    if not len(first):
        raise ValueError("there must be at least one question")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    differences = first - second
    if np.isnan(differences).any():
        raise ValueError("first and second must be numbers, and a difference is NaN")
    questions = len(differences)
    generator = np.random.Generator(np.random.PCG64(seed))
    block = max(1, _DRAWN_AT_ONCE // questions)
    means = np.empty(resamples)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        drawn = generator.integers(questions, size=(size, questions))
        means[start : start + size] = differences[drawn].mean(axis=1)
    low, high = np.percentile(means, PERCENTILES)
    return Interval(difference=float(differences.mean()), low=float(low), high=float(high))
