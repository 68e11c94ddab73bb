"""HotpotQA as published (Yang et al., 2018, EMNLP): one JSON array, each question with its paragraphs.

The distractor files hold every gold paragraph; the fullwiki files may not, and are refused at the first
question that lacks one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from evireform.formats.datasets.dataset import Dataset, Format
from evireform.formats.datasets.paragraphs import Entry, Paragraph, read_entries
from evireform.formats.datasets.reading import (
    Filled,
    Key,
    Record,
    Text,
    faults_at,
    first_record,
    json_records,
)


class Sample(Record):
    """A question of HotpotQA, and of 2WikiMultiHopQA, which has the same fields."""

    key: Key = Field(alias="_id")
    question: Filled
    answer: Text | None = None
    kind: Text = Field(default="", alias="type")
    supporting_facts: list[tuple[Text, int]] | None = None
    context: list[tuple[Text, list[Text]]]


def paragraphs_of(sample: Sample, separator: str) -> tuple[Paragraph, ...]:
    """The paragraphs of a question; gold are those whose title a supporting fact names.

    Args:
        sample: The question. Without an answer it is of a hidden test set, and may have no supporting facts.
        separator: What stands between sentences.

    Raises:
        ValueError: there is an answer and no supporting fact, or one that no paragraph has the title of.
    """
    if sample.answer and not sample.supporting_facts:
        raise ValueError("supporting_facts: at least one is expected where there is an answer")
    gold = {title for title, _ in sample.supporting_facts or ()}
    absent = sorted(gold - {title for title, _ in sample.context})
    if absent:
        raise ValueError(
            f"supporting_facts: no paragraph of the context is called {absent[0]!r} "
            "(the files of the fullwiki setting lack gold paragraphs: take the distractor ones)"
        )
    return tuple(
        Paragraph(title=title.strip(), text=separator.join(sentences).strip(), gold=title in gold)
        for title, sentences in sample.context
    )


def find(folder: Path) -> list[Path]:
    """The files of a folder that look like HotpotQA."""
    return [
        path
        for path in sorted(folder.glob("*.json"))
        if (first := first_record(path)) and {"_id", "context", "question"} <= first.keys()
        if not {"evidences", "evidences_id"} & first.keys()
    ]


def read(path: Path) -> Dataset:
    """The questions and paragraphs of one file.

    Raises:
        InputError: the file cannot be read, or a record is wrong; record and field are named.
    """
    return read_entries(path, lambda: entries(path, separator=""), format_name=FORMAT.name)


def entries(path: Path, *, separator: str) -> Iterator[Entry]:
    """The records of a file whose fields are those of `Sample`."""
    for number, sample in json_records(path, Sample):
        place = f"record {number}"
        with faults_at(path, place):
            paragraphs = paragraphs_of(sample, separator)
        yield Entry(
            place=place,
            key=sample.key,
            question=sample.question,
            answers=(sample.answer,) if sample.answer else (),
            kind=sample.kind,
            hops=len({item.title for item in paragraphs if item.gold}) or None,
            paragraphs=paragraphs,
        )


FORMAT = Format(name="hotpotqa", about="hotpot_*_distractor_v1.json", find=find, read=read)
