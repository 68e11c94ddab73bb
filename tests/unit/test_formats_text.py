"""`evireform.formats.text`: what a database can hold, and what a terminal can show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evireform.formats.text import json_problem, parse_object, printable, storable, text_problem

anything = st.text(alphabet=st.one_of(st.characters(), st.characters(categories=["Cs"]), st.just("\0")))


@given(anything)
def test_what_has_no_problem_is_utf8_without_nul(text: str) -> None:
    encodable = not any("\ud800" <= character <= "\udfff" for character in text)
    assert (text_problem(text) == "") == (encodable and "\0" not in text)


@given(anything)
def test_t11_storable_text_has_no_problem(text: str) -> None:
    assert text_problem(storable(text)) == ""


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0")))
def test_storable_changes_nothing_that_can_be_held(text: str) -> None:
    assert storable(text) == text


@given(anything)
def test_printable_text_shows_no_control_character(text: str) -> None:
    assert printable(text).isprintable()


def test_printable_text_stays_as_it_is() -> None:
    assert printable("data/東京 Łódź.jsonl") == "data/東京 Łódź.jsonl"


def test_json_values_of_every_kind_can_be_held() -> None:
    assert json_problem({"a": [1, 2.5, None, True, "x", {}], "b": {"c": []}}) == ""


def test_a_number_of_too_many_digits_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"^a number has more than 4,000 digits"):
        parse_object('{"n": -' + "9" * 5000 + "}")
    assert parse_object('{"n": -' + "9" * 4000 + "}") == {"n": 1 - 10**4000}
