"""`evireform.formats.questions`: an evaluation set is read whole, or the faulty field and line are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evireform.errors import InputError
from evireform.formats.questions import read_questions
from evireform.records import Question

GOOD: dict[str, Any] = {"id": "q", "question": "Who?", "answers": ["I"], "gold_passage_ids": ["a", "b"]}


def write(folder: Path, *lines: Any) -> Path:
    path = folder / "questions.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_every_field_is_read(tmp_path: Path) -> None:
    path = write(tmp_path, {**GOOD, "hops": 2, "type": "bridge", "level": "hard"}, "", {**GOOD, "id": 7})
    assert read_questions(path) == [
        Question(key="q", text="Who?", answers=("I",), gold=("a", "b"), hops=2, kind="bridge"),
        Question(key="7", text="Who?", answers=("I",), gold=("a", "b")),
    ]


def test_gold_may_be_numbers_and_counts_once(tmp_path: Path) -> None:
    assert read_questions(write(tmp_path, {**GOOD, "gold_passage_ids": [3, "3", "a"]}))[0].gold == ("3", "a")


def test_a_question_without_gold_or_answers_is_a_question(tmp_path: Path) -> None:
    [question] = read_questions(write(tmp_path, {**GOOD, "gold_passage_ids": [], "answers": []}))
    assert (question.gold, question.answers) == ((), ())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": None}, "id: text or a whole number is expected, not null"),
        ({"id": " "}, "id: text or a whole number is expected, not empty text"),
        ({"question": ""}, "question: text is expected, not empty text"),
        ({"question": ["Who?"]}, "question: text is expected, not a list"),
        ({"question": "a\0b"}, "question: holds a NUL character"),
        ({"answers": "I"}, "answers: a list is expected, not text"),
        ({"answers": [None]}, "answers: each must be text or a whole number, not null"),
        ({"gold_passage_ids": {}}, "gold_passage_ids: a list is expected, not an object"),
        ({"gold_passage_ids": [1.5]}, "gold_passage_ids: each must be text or a whole number, not a number"),
        ({"hops": "2"}, "hops: a whole number is expected, not text"),
        ({"hops": True}, "hops: a whole number is expected, not true or false"),
        ({"type": 3}, "type: text is expected, not a number"),
    ],
)
def test_a_wrong_field_is_named_with_its_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write(tmp_path, GOOD, {**GOOD, "id": "r", **change})
    with pytest.raises(InputError) as caught:
        read_questions(path)
    assert str(caught.value) == f"{path} line 2: {message}"
    assert (caught.value.path, caught.value.line_number) == (path, 2)


def test_answers_may_be_left_out(tmp_path: Path) -> None:
    [question] = read_questions(write(tmp_path, {name: GOOD[name] for name in GOOD if name != "answers"}))
    assert question.answers == ()


@pytest.mark.parametrize("field", ["id", "question", "gold_passage_ids"])
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    with pytest.raises(InputError, match=f"line 1: {field}: .* not a missing field"):
        read_questions(write(tmp_path, {name: value for name, value in GOOD.items() if name != field}))


@pytest.mark.parametrize("line", ["{", "[]", "null"])
def test_a_line_that_is_no_object_is_an_error(tmp_path: Path, line: str) -> None:
    with pytest.raises(InputError, match="line 2: "):
        read_questions(write(tmp_path, GOOD, line))


def test_a_second_use_of_an_id_names_the_first_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 3: id: already given on line 1"):
        read_questions(write(tmp_path, GOOD, "", GOOD))


def test_a_file_without_questions_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no question"):
        read_questions(write(tmp_path, "\n\n"))


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_questions(tmp_path / "none.jsonl")
