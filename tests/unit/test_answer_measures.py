"""F1 and exact match of answers: by hand, and where the definition of SPEC is easily missed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evireform.measures import answer_f1, answer_tokens, exact_match, measure_answers


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The  Baltic\tSea.", ["baltic", "sea"]),
        ("a man, an ant and the theory", ["man", "ant", "and", "theory"]),
        ("U.S. Navy's", ["us", "navys"]),
        ("A. the-an", ["thean"]),  # punctuation goes before the articles do
        ("Łódź — 東京", ["łódź", "—", "東京"]),  # only ASCII punctuation goes
        ("the", []),
    ],
)
def test_what_answers_are_compared_by(text: str, tokens: list[str]) -> None:
    assert answer_tokens(text) == tokens


@pytest.mark.parametrize(
    ("answer", "reference", "f1"),
    [
        ("Larvik", "Larvik", 1.0),
        ("the Larvik!", "larvik", 1.0),
        ("Larvik in Norway", "Larvik", 0.5),  # p = 1/3, r = 1
        ("Colin Archer", "Archer Colin", 1.0),
        ("new new york", "new york york", 2 / 3),  # common: one new, one york; p = r = 2/3
        ("Oslo", "Bergen", 0.0),
        ("unknown", "Larvik", 0.0),
        ("unknown", "unknown", 1.0),
        ("", "Larvik", 0.0),
        ("the", "a", 0.0),  # nothing in common
    ],
)
def test_f1_by_hand(answer: str, reference: str, f1: float) -> None:
    assert answer_f1(answer, [reference]) == pytest.approx(f1, abs=1e-12)


@pytest.mark.parametrize(
    ("answer", "reference"),
    [("yes", "no"), ("yes it is", "yes"), ("yes", "yes it is"), ("no", "no one"), ("noanswer", "no answer")],
)
def test_a_special_answer_is_right_as_a_whole_or_not_at_all(answer: str, reference: str) -> None:
    assert answer_f1(answer, [reference]) == 0.0


def test_a_special_answer_that_is_right_counts_one() -> None:
    assert answer_f1("Yes.", ["yes"]) == 1.0


@pytest.mark.parametrize(
    ("answer", "references", "matched"),
    [
        ("The Baltic sea", ["Baltic Sea"], 1.0),
        ("Sea Baltic", ["Baltic Sea"], 0.0),
        ("Stanley Hall", ["G. Stanley Hall", "Stanley Hall"], 1.0),
        ("yes", ["no"], 0.0),
    ],
)
def test_exact_match_by_hand(answer: str, references: list[str], matched: float) -> None:
    assert exact_match(answer, references) == matched


def test_of_several_references_the_best_counts() -> None:
    assert answer_f1("G. Stanley Hall", ["Wundt", "Stanley Hall"]) == pytest.approx(0.8)


@pytest.mark.parametrize("function", [answer_f1, exact_match])
def test_without_a_reference_there_is_no_value(function) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="at least one answer"):
        function("Oslo", [])


def test_a_judged_question_without_an_answer_counts_zero_and_one_without_reference_is_left_out() -> None:
    measured = measure_answers({"q1": "Oslo", "q3": "x"}, {"q1": ["Oslo"], "q2": ["Bergen"], "q3": []})
    assert (measured.questions, measured.unjudged) == (("q1", "q2"), 1)
    assert measured.means == {"f1": 0.5, "em": 0.5}


def test_an_answer_to_an_unknown_question_is_refused() -> None:
    with pytest.raises(ValueError, match="'q2'"):
        measure_answers({"q2": "x"}, {"q1": ["x"]})


def test_without_a_judged_question_there_is_no_mean() -> None:
    with pytest.raises(ValueError, match="at least one question"):
        measure_answers({}, {"q": []})


words = st.lists(st.sampled_from(["oslo", "norway", "the", "yes", "no", "1892"]), max_size=5).map(" ".join)


@given(words, st.lists(words, min_size=1, max_size=3))
def test_an_exact_match_with_any_token_has_f1_one(answer: str, references: list[str]) -> None:
    f1, matched = answer_f1(answer, references), exact_match(answer, references)
    assert 0.0 <= f1 <= 1.0
    assert f1 == 1.0 or not (matched and answer_tokens(answer))
