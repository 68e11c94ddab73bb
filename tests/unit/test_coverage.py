"""`evireform.coverage` by hand."""

from __future__ import annotations

import pytest

from evireform.coverage import Coverage, coverage

POOLS = [
    ({"a", "b"}, {"a", "b"}),  # complete from the start
    ({"a"}, {"a", "b"}),  # became complete: one new passage
    ({"x"}, {"x", "a", "b"}),  # gained two of three
    ({"a", "x"}, {"a", "x", "y"}),  # gained nothing
]
GOLD = [{"a", "b"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b"}]


def test_toy_questions() -> None:
    assert coverage(POOLS, GOLD) == Coverage(
        questions=4,
        initial=(1 + 1 / 2 + 0 + 1 / 2) / 4,
        expanded=(1 + 1 + 2 / 3 + 1 / 2) / 4,
        initial_chain=1 / 4,
        expanded_chain=2 / 4,
        complete=1,
        completed=1,
        improved=1,
        unchanged=1,
        new_gold=3,
    )


def test_the_four_transitions_make_all_questions() -> None:
    found = coverage(POOLS * 3, GOLD * 3)
    assert found.complete + found.completed + found.improved + found.unchanged == found.questions == 12


def test_gold_named_twice_counts_once() -> None:
    assert coverage([(["a"], ["a"])], [["a", "a"]]).initial == 1.0


@pytest.mark.parametrize(
    ("pools", "gold", "message"),
    [
        ([], [], "one at least"),
        ([({"a"}, {"a"})], [], "one at least"),
        ([({"a"}, {"a"})], [set()], "gold must hold"),
        ([({"a"}, {"b"})], [{"a"}], "must hold the initial one"),
    ],
)
def test_what_makes_no_sense_is_refused(pools: list, gold: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coverage(pools, gold)
