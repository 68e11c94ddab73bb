"""The file of expected figures, and what counts as a difference from it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from evireform.evaluation.method import by_name
from evireform.settings import SearchSettings
from tests.regressions.checks import ORDER, conditions, differences

CONDITIONS = conditions()


def measured() -> dict[str, dict[str, float]]:
    values = {"full": 0.9, "reformulation": 0.8, "propagation": 0.7, "base": 0.6}
    return {method: {"recall@5": value} for method, value in values.items()}


def expected(**changed: Any) -> dict[str, Any]:
    return {
        "expected": measured(),
        "tolerance": {"recall@5": 0.01},
        "holds": {"recall@5": ["full > reformulation", "reformulation > propagation", "propagation > base"]},
        **changed,
    }


def test_the_same_figures_are_no_difference() -> None:
    assert differences(expected(), measured()) == []


def test_a_figure_may_move_within_its_tolerance() -> None:
    assert differences(expected(), measured() | {"full": {"recall@5": 0.909}}) == []


def test_a_figure_that_moved_further_is_named_with_both_values() -> None:
    assert differences(expected(), measured() | {"full": {"recall@5": 0.88}}) == [
        "full recall@5: expected 90.00, measured 88.00 (-2.00, tolerance 1.00)"
    ]


def test_a_method_that_was_not_measured_is_named() -> None:
    found = {method: values for method, values in measured().items() if method != "base"}
    assert differences(expected(), found) == ["base recall@5: expected 60.00, and it was not measured"]


def test_a_step_that_is_turned_round_is_named() -> None:
    loose = expected(tolerance={"recall@5": 0.05}, expected={})
    turned = measured() | {"propagation": {"recall@5": 0.86}}
    assert differences(loose, turned) == [
        "reformulation > propagation by recall@5: it held, and is turned round by 6.00"
    ]


def test_a_step_that_begins_to_hold_is_named() -> None:
    without = expected(holds={"recall@5": ["full > reformulation", "propagation > base"]})
    assert differences(without, measured()) == [
        "reformulation > propagation by recall@5: it did not hold, and does by 10.00"
    ]


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda c: c["condition"])
def test_a_condition_is_whole(condition: dict[str, Any]) -> None:
    assert condition.keys() == {"condition", "command", "expected", "tolerance", "holds", "moved"}
    words = shlex.split(condition["command"])
    names = words[words.index("--methods") + 1].split(",")
    assert names == list(condition["expected"])
    assert [name for name in names if not by_name(name, SearchSettings())] == []
    assert set(ORDER) <= set(names)
    assert condition["holds"].keys() == condition["tolerance"].keys() == {"recall@5", "chain@5"}


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda c: c["condition"])
def test_what_is_said_to_hold_does_by_the_figures(condition: dict[str, Any]) -> None:
    exact = condition | {"tolerance": {"recall@5": 0.0, "chain@5": 0.0}}
    assert differences(exact, condition["expected"]) == []
