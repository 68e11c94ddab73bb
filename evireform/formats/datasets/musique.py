"""MuSiQue as published (Trivedi et al., 2022, TACL): JSONL, each question with its paragraphs.

The "full" files pair every question with one that cannot be answered, under the same id; these are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, StrictBool

from evireform.formats.datasets.dataset import Dataset, Format
from evireform.formats.datasets.paragraphs import Entry, Paragraph, read_entries
from evireform.formats.datasets.reading import (
    Filled,
    Key,
    Record,
    Text,
    faults_at,
    first_record,
    jsonl_records,
)


class _Paragraph(Record):
    title: Text
    text: Text = Field(alias="paragraph_text")
    is_supporting: StrictBool | None = None


class Sample(Record):
    """A question of MuSiQue."""

    key: Key = Field(alias="id")
    question: Filled
    answer: Text | None = None
    answer_aliases: list[Text] = Field(default=[])
    answerable: StrictBool = True
    paragraphs: list[_Paragraph]
    steps: list[object] = Field(default=[], alias="question_decomposition")


def find(folder: Path) -> list[Path]:
    """The files of a folder that look like MuSiQue."""
    return [path for path in sorted(folder.glob("*.jsonl")) if "paragraphs" in first_record(path)]


def read(path: Path) -> Dataset:
    """The questions and paragraphs of one file.

    Raises:
        InputError: the file cannot be read, or a record is wrong; line and field are named.
    """
    return read_entries(path, lambda: _entries(path), format_name=FORMAT.name)


def _entries(path: Path) -> Iterator[Entry]:
    for number, sample in jsonl_records(path, Sample):
        place = f"line {number}"
        paragraphs = tuple(
            Paragraph(title=item.title.strip(), text=item.text.strip(), gold=bool(item.is_supporting))
            for item in sample.paragraphs
        )
        with faults_at(path, place, number):
            if sample.answer and sample.answerable and not any(item.gold for item in paragraphs):
                raise ValueError("paragraphs: one with is_supporting is expected where there is an answer")
        yield Entry(
            place=place,
            key=sample.key,
            question=sample.question,
            answers=tuple(dict.fromkeys([sample.answer, *sample.answer_aliases])) if sample.answer else (),
            # Ids begin with the shape of the question: 2hop, 3hop1, 4hop2 …
            kind=sample.key.partition("__")[0] if "__" in sample.key else "",
            hops=len(sample.steps) or None,
            paragraphs=paragraphs,
            left_out="" if sample.answerable else "they cannot be answered (answerable: false)",
        )


FORMAT = Format(name="musique", about="musique_*.jsonl", find=find, read=read)
