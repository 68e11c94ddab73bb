"""`evireform.sample`: the corpus that ships holds together, and its questions need more than one passage."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from evireform.formats.passages import read_passages
from evireform.formats.questions import read_questions
from evireform.records import Passage, Question
from evireform.sample import corpus_path, questions_path

PASSAGES = list(read_passages([corpus_path()]))
QUESTIONS = read_questions(questions_path())
BY_KEY = {passage.key: passage for passage in PASSAGES if isinstance(passage, Passage)}
each_question = pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.key)


def test_every_line_of_the_corpus_is_a_passage() -> None:
    assert [row for row in PASSAGES if not isinstance(row, Passage)] == []


def test_the_corpus_has_60_to_100_passages_and_20_questions() -> None:
    assert 60 <= len(PASSAGES) <= 100
    assert len(QUESTIONS) == 20


def test_titles_are_given_and_differ() -> None:
    titles = Counter(passage.title for passage in BY_KEY.values())
    assert titles[""] == 0
    assert max(titles.values()) == 1


def test_passages_have_two_to_five_sentences() -> None:
    lengths = {key: len(re.findall(r"[.!?](?=\s+[A-Z]|$)", passage.text)) for key, passage in BY_KEY.items()}
    assert {key: length for key, length in lengths.items() if not 2 <= length <= 5} == {}


def test_every_kind_of_question_is_there() -> None:
    assert Counter(question.kind for question in QUESTIONS) == {
        "bridge": 13,
        "comparison": 3,
        "bridge-comparison": 4,
    }
    assert {question.hops for question in QUESTIONS} == {2, 3, 4}


def test_no_passage_of_near_miss_is_gold() -> None:
    """At least half of the corpus answers nothing, so that a ranking can go wrong."""
    gold = {key for question in QUESTIONS for key in question.gold}
    assert len(BY_KEY.keys() - gold) >= len(BY_KEY) // 2


@each_question
def test_gold_passages_exist_and_are_as_many_as_the_hops(question: Question) -> None:
    assert BY_KEY.keys() >= set(question.gold)
    assert len(question.gold) == question.hops
    assert len(question.gold) >= 2


@each_question
def test_no_answer_stands_in_its_question(question: Question) -> None:
    if question.answers not in (("yes",), ("no",)):
        assert [answer for answer in question.answers if answer.casefold() in question.text.casefold()] == []


@each_question
def test_an_answer_stands_in_a_gold_passage(question: Question) -> None:
    if question.answers not in (("yes",), ("no",)):
        texts = [BY_KEY[key].text for key in question.gold]
        assert any(answer in text for answer in question.answers for text in texts)


@each_question
def test_the_answer_of_a_bridge_question_stands_only_in_its_last_passage(question: Question) -> None:
    if question.kind == "bridge":
        holders = [key for key in question.gold if question.answers[0] in BY_KEY[key].text]
        assert holders == [question.gold[-1]]
