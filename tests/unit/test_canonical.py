"""`evireform.canonical`: which surface forms are one entity, and which must never be."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evireform.canonical import canonical


@pytest.mark.parametrize("name", ["東京", "北京大学", "Москва", "Łódź"])
def test_t12_names_in_every_script_survive(name: str) -> None:
    assert canonical(name) == name.casefold()


def test_t12_names_in_every_script_stay_distinct() -> None:
    names = ["東京", "京都", "北京大学", "北京", "Москва", "Łódź", "Lodz", "Łodz"]
    assert len({canonical(name) for name in names}) == len(names)


@pytest.mark.parametrize("name", ["Łódź", "Café", "Ångström", "Việt Nam", "が"])
def test_t12_composed_and_decomposed_forms_meet(name: str) -> None:
    decomposed = unicodedata.normalize("NFD", name)
    assert decomposed != unicodedata.normalize("NFC", name)
    assert canonical(decomposed) == canonical(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Electrons", "electrons"),
        ("МОСКВА", "Москва"),
        ("Straße", "STRASSE"),
        ("ΟΔΥΣΣΕΥΣ", "Οδυσσευς"),
    ],
)
def test_t12_case_folds(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("wide", "plain"), [("ＩＢＭ", "IBM"), ("５０％", "50%"), ("ﾄｳｷｮｳ", "トウキョウ"), ("ﬁlm", "film")]
)
def test_t12_compatibility_forms_fold(wide: str, plain: str) -> None:
    assert canonical(wide) == canonical(plain)


@pytest.mark.parametrize(
    "names",
    [
        ("C", "C++", "C#"),
        ("50", "50%"),
        ("5", "-5", "+5"),
        ("$5", "5"),
        ("F", "F#", "F♯"),
        ("AT&T", "ATT"),
        (".NET", "NET"),
    ],
)
def test_t12_symbols_keep_names_apart(names: tuple[str, ...]) -> None:
    assert len({canonical(name) for name in names}) == len(names)


def test_white_space_of_every_kind_becomes_one_space() -> None:
    assert canonical(" New\t York\u3000\nCity\u00a0") == "new york city"


@pytest.mark.parametrize(
    "quoted",
    [
        '"Aida"',
        "'Aida'",
        "“Aida”",
        "‘Aida’",
        "«Aida»",
        "»Aida«",
        "„Aida“",
        "„Aida”",
        "``Aida''",
        "「Aida」",
        "(Aida)",
        "[Aida]",
        "{Aida}",
        "<Aida>",
        "(“Aida”)",
    ],
)
def test_matched_outer_quotes_and_brackets_go(quoted: str) -> None:
    assert canonical(quoted) == "aida"


@pytest.mark.parametrize(
    "name",
    [
        "f(x)",
        "(a) and (b)",
        '"a" and "b"',
        "((a)",
        "(a",
        "a)",
        "'90s",
        "rock 'n' roll",
        "5'",
        '6"',
        "“a",
        "(a]",
    ],
)
def test_unmatched_or_inner_quotes_and_brackets_stay(name: str) -> None:
    assert canonical(name) == name


@pytest.mark.parametrize(("quoted", "name"), [("‘O’Brien’", "o’brien"), ("'O'Brien'", "o'brien")])
def test_an_apostrophe_does_not_end_a_quotation(quoted: str, name: str) -> None:
    assert canonical(quoted) == name


@pytest.mark.parametrize(
    "written", ["Oslo,", "Oslo;", "Oslo:", "Oslo.", "Oslo.,", "Oslo ...", "“Oslo,”", "(Oslo).", "Oslo。"]
)
def test_trailing_marks_of_a_sentence_go(written: str) -> None:
    assert canonical(written) == "oslo"


@pytest.mark.parametrize("name", ["Yahoo!", "Who?", "50%", "C++", "a-", "#1", "etc…x"])
def test_other_trailing_marks_stay(name: str) -> None:
    assert canonical(name) == unicodedata.normalize("NFKC", name).casefold()


@pytest.mark.parametrize("name", ["U.S.", "Ph.D.", "the U.S.S.R.", "т.е."])
def test_the_full_stop_of_an_initialism_stays(name: str) -> None:
    assert canonical(name) == name.casefold()


@pytest.mark.parametrize(
    ("written", "name"),
    [("C.", "c"), ("vitamin C.", "vitamin c"), ("5.", "5"), ("version 1.2.", "version 1.2")],
)
def test_the_full_stop_after_a_single_letter_or_number_goes(written: str, name: str) -> None:
    assert canonical(written) == name


@pytest.mark.parametrize("nothing", ["", " ", "\u3000", '""', "()", "...", ",", "“ ”", "(.)"])
def test_what_says_nothing_is_empty(nothing: str) -> None:
    assert canonical(nothing) == ""


def test_t11_emoji_keep_their_joiners() -> None:
    family, people = "👨\u200d👩\u200d👧", "👨👩👧"
    assert canonical(family) == family
    assert canonical(family) != canonical(people)


@pytest.mark.parametrize("name", ["ירושלים", "القاهرة", "שלום (עיר)"])
def test_t11_right_to_left_names_survive(name: str) -> None:
    assert canonical(f"({name})") == name


@given(
    st.text(
        alphabet=st.one_of(st.characters(), st.sampled_from(list("()[]\"'`“”„,;:.。 aAİßﬃ\u0301\u0345"))),
        max_size=30,
    )
)
@example("\u0345\u0301x")
@example("''a''.")
def test_t12_folding_twice_changes_nothing(text: str) -> None:
    once = canonical(text)
    assert canonical(once) == once


@given(st.text(alphabet="()[]«»“”'\"ab., ", max_size=12))
def test_folding_keeps_every_letter(text: str) -> None:
    assert [c for c in canonical(text) if c.isalpha()] == [c for c in text if c.isalpha()]
