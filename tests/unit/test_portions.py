"""The sizes in which passages travel."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evireform.ingestion.portions import CHARACTERS, portions

SIZES = st.lists(st.integers(0, 2 * CHARACTERS), max_size=40)


@given(SIZES, st.integers(1, 10))
def test_portions_keep_all_in_order_and_within_their_bounds(sizes: list[int], most: int) -> None:
    found = list(portions(sizes, most=most, length=lambda size: size))
    assert [size for portion in found for size in portion] == sizes
    assert all(0 < len(portion) <= most for portion in found)
    assert all(sum(portion) <= CHARACTERS or len(portion) == 1 for portion in found)


def test_what_comes_before_a_huge_one_does_not_wait_for_it() -> None:
    assert list(portions([1, 1, CHARACTERS + 1, 1], most=64, length=lambda size: size)) == [
        [1, 1], [CHARACTERS + 1], [1],
    ]  # fmt: skip
