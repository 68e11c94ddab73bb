"""Names and numbers that a text does not have."""

from __future__ import annotations

import pytest

from evireform.support import source, unsupported

PASSAGE = source(
    "Oslo",
    "Oslo is the Norwegian capital. In 1,952 halls, twenty-three choirs sang Beyoncé's songs; "
    "the second prize went to Łódź's team. He lived from 17111772. 東京は日本の首都である。",
)


@pytest.mark.parametrize(
    "text",
    [
        "Oslo is the capital.",
        "The capital of Norway is OSLO.",
        "Everybody sang.",
        "There were 1952 halls.",
        "There were 1,952 halls.",
        "23 choirs sang.",
        "A song by Beyonce.",
        "A song of Beyoncé’s.",
        "It went to Łódź.",
        "It took the 2nd prize.",
        "He died in 1772, and was born in 1711.",
        "The team of Oslo's choir.",
    ],
)
def test_what_the_source_says_in_another_form_is_supported(text: str) -> None:
    assert unsupported(text, [], PASSAGE) == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("Oslo and Bergen are cities.", ["Bergen"]),
        ("There were 1953 halls.", ["1953"]),
        ("There were 952 halls.", ["952"]),
        ("There were 19.52 halls.", ["19.52"]),
        ("It was in 1998, on 4 May 1998.", ["1998", "4", "May"]),
        ("5 choirs sang.", ["5"]),
        ("A song of Norah.", ["Norah"]),
    ],
)
def test_what_the_source_does_not_have_is_named(text: str, missing: list[str]) -> None:
    assert unsupported(text, [], PASSAGE) == missing


def test_the_word_that_begins_a_statement_may_have_its_capital_from_there() -> None:
    assert unsupported("Yesterday Oslo sang.", [], PASSAGE) == []


def test_an_entity_counts_wherever_it_stands() -> None:
    assert unsupported("Bergen sang.", ["Bergen"], PASSAGE) == ["Bergen"]


def test_a_lower_case_entity_is_no_name() -> None:
    assert unsupported("They sang.", ["a small crowd"], PASSAGE) == []


@pytest.mark.parametrize(("entity", "missing"), [("東京", []), ("大阪", ["大阪"])])
def test_names_without_capitals_are_looked_for_in_the_running_text(entity: str, missing: list[str]) -> None:
    assert unsupported("x", [entity], PASSAGE) == missing


def test_full_width_forms_and_accents_in_pieces_are_the_same() -> None:
    assert unsupported("The Ｏｓｌｏ of Beyonce\u0301 in １９５２.", [], PASSAGE) == []


def test_without_a_source_every_name_is_missing() -> None:
    assert unsupported("The Oslo of 1952.", [], source("")) == ["Oslo", "1952"]
