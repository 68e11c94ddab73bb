"""Measured figures against the expected ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("expected.yaml")
ORDER = ("full", "reformulation", "propagation", "base")
"""What the paper finds, best first."""

Measured = Mapping[str, Mapping[str, float]]


def conditions() -> list[dict[str, Any]]:
    """Every condition of the file, in order."""
    found: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def differences(expected: Mapping[str, Any], measured: Measured) -> list[str]:
    """What moved beyond its tolerance, in points; empty where nothing did.

    Args:
        expected: One condition of the file.
        measured: Method to measures, as shares of 1.
    """
    found = []
    for method, figures in expected["expected"].items():
        for measure, figure in figures.items():
            got = measured.get(method, {}).get(measure)
            if got is None:
                found.append(f"{method} {measure}: expected {100 * figure:.2f}, and it was not measured")
            elif abs(got - figure) > expected["tolerance"][measure]:
                found.append(
                    f"{method} {measure}: expected {100 * figure:.2f}, measured {100 * got:.2f} "
                    f"({100 * (got - figure):+.2f}, tolerance {100 * expected['tolerance'][measure]:.2f})"
                )
    return found + _turned(expected, measured)


def _turned(expected: Mapping[str, Any], measured: Measured) -> list[str]:
    """Steps of the order that hold and should not, or the other way about."""
    found = []
    for measure, holding in expected["holds"].items():
        for step, ahead in steps(measured, measure):
            tolerance = expected["tolerance"][measure]
            if step in holding and ahead < -tolerance:
                found.append(f"{step} by {measure}: it held, and is turned round by {-100 * ahead:.2f}")
            elif step not in holding and ahead > tolerance:
                found.append(f"{step} by {measure}: it did not hold, and does by {100 * ahead:.2f}")
    return found


def steps(measured: Measured, measure: str) -> Sequence[tuple[str, float]]:
    """Each step of the order, with how far the first is ahead."""
    return [
        (f"{first} > {second}", measured[first][measure] - measured[second][measure])
        for first, second in pairwise(ORDER)
        if first in measured and second in measured
    ]
