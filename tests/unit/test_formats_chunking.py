"""`evireform.formats.chunking`: long texts become parts that still know where they stood."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evireform.formats.chunking import split_passages
from evireform.records import Passage, Rejected

LONG = "Łódź ist groß. 東京 is big! 👨\u200d👩\u200d👧 live here.\n\nAnd a second paragraph follows."


def test_a_text_that_fits_stays_as_it_is() -> None:
    passage = Passage(key="a", text="x" * 20, title="T", metadata={"year": 1})
    assert list(split_passages([passage], max_characters=20)) == [passage]


def test_parts_are_numbered_and_keep_title_and_metadata() -> None:
    passage = Passage(key="a", text="One is here. Two is there.", title="T", metadata={"year": 1})
    assert list(split_passages([passage], max_characters=14)) == [
        Passage(
            key="a#1",
            text="One is here.",
            title="T",
            metadata={"year": 1, "source_id": "a", "characters": [0, 12]},
        ),
        Passage(
            key="a#2",
            text="Two is there.",
            title="T",
            metadata={"year": 1, "source_id": "a", "characters": [13, 26]},
        ),
    ]


@given(st.text(alphabet=st.sampled_from(LONG), min_size=1, max_size=200), st.integers(1, 40))
def test_parts_stand_where_they_say_and_only_white_space_is_lost(text: str, limit: int) -> None:
    parts = [
        part for part in split_passages([Passage(key="a", text=text)], max_characters=limit)
        if isinstance(part, Passage)
    ]  # fmt: skip
    if len(text) <= limit:
        return
    places = [tuple(part.metadata["characters"]) for part in parts]
    assert [text[start:end] for start, end in places] == [part.text for part in parts]
    assert all(len(part.text) <= limit for part in parts)
    assert all(before[1] <= after[0] for before, after in pairwise(places))
    assert "".join("".join(part.text.split()) for part in parts) == "".join(text.split())


def test_refusals_pass_in_their_place() -> None:
    refused = Rejected(reason="malformed")
    rows = list(split_passages([refused, Passage(key="a", text="one two")], max_characters=4))
    assert rows[0] is refused
    assert len(rows) == 3


@pytest.mark.parametrize("part_first", [True, False])
def test_a_part_whose_key_another_passage_has_is_refused(part_first: bool) -> None:
    passages = [Passage(key="a", text="one two"), Passage(key="a#1", text="own")]
    rows = list(split_passages(passages if part_first else passages[::-1], max_characters=4))
    assert [row.reason for row in rows if isinstance(row, Rejected)] == [
        "id is also the id of another passage after splitting"
    ]
    assert [row.passage_key for row in rows if isinstance(row, Rejected)] == ["a#1"]


def test_a_part_whose_key_is_too_long_is_refused() -> None:
    rows = list(split_passages([Passage(key="k" * 511, text="one two")], max_characters=4))
    assert [type(row) for row in rows] == [Rejected, Rejected]


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="max_characters must be at least 1, not 0"):
        split_passages([], max_characters=0)
