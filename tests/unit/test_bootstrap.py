"""`evireform.bootstrap`: closed form, a second implementation, and the same bytes again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from evireform import bootstrap


def values(questions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Recall-like values of two methods that differ by about a tenth."""
    generator = np.random.default_rng(seed)
    first = generator.choice([0.0, 0.5, 1.0], size=questions, p=[0.1, 0.3, 0.6])
    worse = generator.random(questions) < 0.2
    return first, np.where(worse, np.maximum(first - 0.5, 0.0), first)


def test_a_difference_that_all_questions_share_has_no_width() -> None:
    interval = bootstrap.paired(np.array([1.0, 0.5, 0.75]), np.array([0.5, 0.0, 0.25]), seed=1)
    assert interval == bootstrap.Interval(difference=0.5, low=0.5, high=0.5)


def test_one_of_two_questions_differs() -> None:
    # Means of two draws from {1, 0}: 0, 1/2 and 1, with 1/4, 1/2 and 1/4 of the resamples.
    interval = bootstrap.paired(np.array([1.0, 0.0]), np.array([0.0, 0.0]), seed=1)
    assert interval == bootstrap.Interval(difference=0.5, low=0.0, high=1.0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_interval_is_that_of_scipy_within_monte_carlo_error(seed: int) -> None:
    first, second = values(400, seed)
    ours = bootstrap.paired(first, second, seed=seed)
    theirs = stats.bootstrap(
        (first, second),
        lambda a, b, axis: (a - b).mean(axis=axis),
        paired=True,
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(seed + 100),
    )
    # A percentile of 10,000 resamples has a standard error of sqrt(p (1 - p) / n) / density.
    deviation = float(theirs.standard_error)
    density = stats.norm.pdf(stats.norm.ppf(0.025)) / deviation
    error = np.sqrt(0.025 * 0.975 / 10_000) / density
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=6 * error)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=6 * error)


def test_the_same_seed_gives_the_same_interval_to_the_last_bit() -> None:
    first, second = values(334, 5)
    assert bootstrap.paired(first, second, seed=9) == bootstrap.paired(first, second, seed=9)


def test_another_seed_gives_another_one() -> None:
    first, second = np.random.default_rng(5).random((2, 334))
    assert bootstrap.paired(first, second, seed=9) != bootstrap.paired(first, second, seed=10)


def test_how_many_are_drawn_together_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = values(100, 6)
    whole = bootstrap.paired(first, second, seed=3)
    monkeypatch.setattr(bootstrap, "_DRAWN_AT_ONCE", 7_000)
    assert bootstrap.paired(first, second, seed=3) == whole


def test_swapping_the_methods_mirrors_the_interval() -> None:
    first, second = values(200, 7)
    there, back = (bootstrap.paired(a, b, seed=4) for a, b in ((first, second), (second, first)))
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=1e-12)


def test_the_seed_is_the_base_plus_the_checksum_of_data_and_measure() -> None:
    checksum = 0xFFFFFFFF  # CRC-32 of b"a/b", bit by bit
    for byte in b"a/b":
        checksum ^= byte
        for _ in range(8):
            checksum = (checksum >> 1) ^ (0xEDB88320 if checksum & 1 else 0)
    assert bootstrap.seed_of("a", "b") == 202707 + (checksum ^ 0xFFFFFFFF) == 133650415


def test_values_of_other_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="do not belong to the same questions"):
        bootstrap.paired(np.zeros(3), np.zeros(4), seed=1)


def test_no_question_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one question"):
        bootstrap.paired(np.zeros(0), np.zeros(0), seed=1)


def test_a_value_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="a difference is NaN"):
        bootstrap.paired(np.array([1.0, np.nan]), np.array([0.5, 0.5]), seed=1)
