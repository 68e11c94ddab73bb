"""`evireform.formats.extractions`: real model output goes in; what is malformed is reported."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from evireform.errors import InputError
from evireform.formats.extractions import Extractions, read_extractions, with_spans
from evireform.records import ExtractedProposition, Extraction

DATA = Path(os.environ.get("EVIREFORM_DATA", Path(__file__).parents[3] / "shared" / "data"))


def read_lines(folder: Path, *lines: Any) -> Extractions:
    path = folder / "extractions.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return read_extractions(path)


def problems(extractions: Extractions) -> list[tuple[int | None, str, str]]:
    return [(row.line_number, row.passage_key, row.reason) for row in extractions.rejected]


GOOD = {"text": "It rains.", "entities": ["rain"]}


def test_propositions_and_entities_are_read_in_order(tmp_path: Path) -> None:
    read = read_lines(
        tmp_path,
        {
            "passage_id": "b",
            "propositions": [{"text": " Two. ", "entities": ["x", "y"], "kind": "other"}, GOOD],
        },
        {"passage_id": 1, "propositions": []},
    )
    assert read == {
        "b": Extraction(
            propositions=(
                ExtractedProposition(text="Two.", entities=("x", "y")),
                ExtractedProposition(text="It rains.", entities=("rain",)),
            )
        ),
        "1": Extraction(),
    }
    assert read.rejected == ()


def test_an_entity_may_be_an_object_with_a_name_or_a_number(tmp_path: Path) -> None:
    entities = [{"name": "rain", "type": "weather"}, 1903, 2.5, "fog"]
    read = read_lines(tmp_path, {"passage_id": "a", "propositions": [{"text": "A.", "entities": entities}]})
    assert read["a"].propositions[0].entities == ("rain", "1903", "2.5", "fog")


def test_a_malformed_entity_is_left_out_and_reported(tmp_path: Path) -> None:
    entities = ["rain", None, ["fog"], {"type": "x"}, "nul\0", "half \ud83d"]
    read = read_lines(tmp_path, {"passage_id": "a", "propositions": [{"text": "A.", "entities": entities}]})
    assert read["a"].propositions == (ExtractedProposition(text="A.", entities=("rain",)),)
    assert [reason for _, _, reason in problems(read)] == [
        "proposition 1: an entity must be text or have a name, not null",
        "proposition 1: an entity must be text or have a name, not a list",
        "proposition 1: an entity must be text or have a name, not an object",
        "proposition 1: an entity holds a NUL character",
        "proposition 1: an entity holds a lone surrogate, which is half of a character",
    ]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("It rains.", "an object is expected, not text"),
        ({"entities": []}, "text must be text, not null"),
        ({"text": " ", "entities": []}, "text is empty"),
        ({"text": "a\0b", "entities": []}, "text holds a NUL character"),
        ({"text": "A."}, "entities must be a list, not null"),
        ({"text": "A.", "entities": "rain"}, "entities must be a list, not text"),
    ],
)
def test_a_malformed_proposition_is_left_out_and_reported(tmp_path: Path, item: Any, reason: str) -> None:
    read = read_lines(tmp_path, {"passage_id": "a", "propositions": [item, GOOD]})
    assert [proposition.text for proposition in read["a"].propositions] == ["It rains."]
    assert problems(read) == [(1, "a", f"proposition 1: {reason}")]


def test_t06_a_passage_of_which_nothing_is_usable_fails(tmp_path: Path) -> None:
    read = read_lines(tmp_path, {"passage_id": "a", "propositions": [{"text": ""}]})
    assert read["a"].propositions == ()
    assert read["a"].error.endswith("line 1: no usable proposition (proposition 1: text is empty)")


@pytest.mark.parametrize("propositions", [None, {}, "text"])
def test_t06_propositions_that_are_no_list_fail_the_passage(tmp_path: Path, propositions: Any) -> None:
    read = read_lines(tmp_path, {"passage_id": "a", "propositions": propositions})
    assert "propositions must be a list" in read["a"].error
    assert len(read.rejected) == 1


@pytest.mark.parametrize(
    "line", ['{"passage_id": "x"', "[]", '{"propositions": []}', '{"passage_id": "", "propositions": []}']
)
def test_a_line_without_a_passage_is_reported_and_its_neighbours_go_in(tmp_path: Path, line: str) -> None:
    read = read_lines(
        tmp_path,
        {"passage_id": "a", "propositions": [GOOD]},
        line,
        {"passage_id": "b", "propositions": [GOOD]},
    )
    assert list(read) == ["a", "b"]
    assert [number for number, _, _ in problems(read)] == [2]


def test_the_first_of_two_lines_for_one_passage_counts(tmp_path: Path) -> None:
    read = read_lines(
        tmp_path, {"passage_id": "a", "propositions": [GOOD]}, "", {"passage_id": "a", "propositions": []}
    )
    assert len(read["a"].propositions) == 1
    assert problems(read) == [(3, "a", "duplicate passage_id: already given on line 1")]


def test_python_code_in_a_line_is_not_run(tmp_path: Path) -> None:
    read = read_lines(
        tmp_path, "__import__('pathlib').Path('ran').touch()", "{'passage_id': 'a', 'propositions': []}"
    )
    assert read == {}
    assert [reason.split(":")[0] for _, _, reason in problems(read)] == ["malformed JSON", "malformed JSON"]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_extractions(tmp_path / "none.jsonl")


def test_spans_are_found_where_the_text_stands_verbatim() -> None:
    extraction = Extraction(
        propositions=(ExtractedProposition(text="東京 is big."), ExtractedProposition(text="It is large."))
    )
    spans = [item.span for item in with_spans(extraction, "😀 東京 is big.").propositions]
    assert spans == [(2, 12), None]


@pytest.mark.skipif(not DATA.is_dir(), reason="the measuring data is not here (EVIREFORM_DATA)")
@pytest.mark.parametrize(
    ("name", "passages", "propositions"),
    [("musique_train100", 1890, 17_234), ("graphrag_bench_medical", 199, 4_742)],
)
def test_real_model_output_is_read_whole(name: str, passages: int, propositions: int) -> None:
    read = read_extractions(DATA / name / "extractions.jsonl")
    assert len(read) == passages
    assert sum(len(extraction.propositions) for extraction in read.values()) == propositions
    assert read.rejected == ()
