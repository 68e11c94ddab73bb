"""Paired differences of outcomes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from evireform import bootstrap
from evireform.evaluation.records import Difference, Outcome

Named = tuple[str, Mapping[str, Outcome]]


def difference(dataset: str, measure: str, method: Named, against: Named) -> Difference:
    """The mean difference of a measure over the questions that both methods have it for, with its interval.

    Args:
        dataset: Name of the question set; with the measure it makes the seed (SPEC section 5).
        measure: ``recall@5`` and so on.
        method: Name, and outcomes by question.
        against: Likewise.

    Raises:
        ValueError: no question has the measure under both.
    """
    pairs = [
        (outcome.measures[measure], other.measures[measure])
        for key, outcome in method[1].items()
        if (other := against[1].get(key)) and measure in outcome.measures and measure in other.measures
    ]
    if not pairs:
        raise ValueError(f"no question has {measure} under both {method[0]} and {against[0]}")
    first, second = np.array(pairs, dtype=np.float64).T
    seed = bootstrap.seed_of(dataset, measure)
    interval = bootstrap.paired(first, second, seed=seed)
    return Difference(
        method=method[0],
        against=against[0],
        measure=measure,
        difference=interval.difference,
        low=interval.low,
        high=interval.high,
        questions=len(pairs),
        better=int((first > second).sum()),
        worse=int((first < second).sum()),
        seed=seed,
    )
