"""Every numbered test stands under a promise, and every promise has tests."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.guarantees import (
    NUMBERS,
    PAGE,
    Kept,
    Outcome,
    numbered_tests,
    outcomes,
    promises,
    with_result,
    with_tests,
)

TEXT = PAGE.read_text(encoding="utf-8")


def test_every_number_has_a_promise() -> None:
    assert {number for number, said in promises(TEXT).items() if len(said) > 60} == set(NUMBERS)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_promise_has_a_test(number: int) -> None:
    assert numbered_tests()[number]


def test_the_page_lists_the_tests_that_there_are() -> None:
    assert with_tests(TEXT, numbered_tests()) == TEXT, "run python -m tests.guarantees"


def test_a_test_that_is_gone_or_new_shows() -> None:
    page = "## T1. A\n\nWe promise.\n\nKept by\n\n- `tests/a.py`: `test_t01_gone`\n\n## T2. B\n\nAnd this.\n"
    filled = with_tests(
        page, {1: [Kept("tests/a.py", "test_t01_new")], 2: [Kept("tests/b.py", "test_t02_b")]}
    )
    assert re.findall(r"test_t\w+", filled) == ["test_t01_new", "test_t02_b"]
    assert promises(filled) == {1: "We promise.", 2: "And this."}


def test_what_a_run_gave_is_counted_by_promise() -> None:
    report = ElementTree.fromstring(
        "<suite><testcase name='test_t01_a[1]' time='1.5'/>"
        "<testcase name='test_t01_b' time='2'><failure/></testcase>"
        "<testcase name='test_t16_c' time='3'><skipped/></testcase>"
        "<testcase name='test_other' time='9'/></suite>"
    )
    found = outcomes(report.iter("testcase"))
    assert found == {
        1: Outcome(tests=2, failed=1, skipped=0, seconds=3.5),
        16: Outcome(tests=1, failed=0, skipped=1, seconds=3.0),
    }
    page = with_result("# Page\n\n## The last long run\n\nold\n", found, minutes=2.0, machine="here")
    assert "| T1 | 2 | 4 | 1 failed |" in page
    assert "| T16 | 1 | 3 | 1 skipped |" in page
    assert "old" not in page
