"""GraphRAG-Bench as published (Xiang et al., 2025): ``Corpus/NAME.json``, ``Questions/NAME_questions.json``.

Its corpora are whole books and manuals, which are split into passages here; its questions name no passage, so
only answers can be measured on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from evireform.errors import InputError
from evireform.formats.chunking import split_passages
from evireform.formats.datasets.dataset import Dataset, Format, Row
from evireform.formats.datasets.reading import Filled, Key, Record, Text, faults_at, json_records
from evireform.formats.text import printable
from evireform.records import Passage, Question

PASSAGE_CHARACTERS = 2_000
"""Longest passage that a text is split into."""

_SUFFIX = "_questions"
_FOLDERS = (Path(), Path("Questions"), Path("Datasets", "Questions"))


class _Text(Record):
    corpus_name: Key
    context: Filled


class Sample(Record):
    """A question; ``source`` names the text of the corpus that it is about."""

    key: Key = Field(alias="id")
    question: Filled
    answer: Text
    source: Text = ""
    kind: Text = Field(default="", alias="question_type")


def find(folder: Path) -> list[Path]:
    """The question files of a folder (or of its ``Questions``) that have a corpus."""
    return [
        path
        for place in _FOLDERS
        for path in sorted((folder / place).glob(f"*{_SUFFIX}.json"))
        if _corpus_of(path).is_file()
    ]


def read(path: Path) -> Dataset:
    """The questions of one file, with its corpus.

    Raises:
        InputError: a file cannot be read, or a record is wrong; record and field are named.
    """
    corpus = _corpus_of(path)
    questions: dict[str, Question] = {}
    for number, sample in json_records(path, Sample):
        with faults_at(path, f"record {number}"):
            if sample.key in questions:
                raise ValueError("id: already given by an earlier record")
        questions[sample.key] = Question(
            key=sample.key,
            text=sample.question,
            answers=(sample.answer,) if sample.answer else (),
            kind=sample.kind,
        )
    if not corpus.is_file():
        raise InputError(f"{printable(path)} has no corpus: {printable(corpus)} is missing", path=corpus)
    return Dataset(
        name=path.stem.removesuffix(_SUFFIX),
        format=FORMAT.name,
        questions=tuple(questions.values()),
        passages=lambda: split_passages(_texts(corpus), max_characters=PASSAGE_CHARACTERS),
        paths=(path, corpus),
        notes=(
            f"texts were split into passages of at most {PASSAGE_CHARACTERS} characters",
            "the questions name no gold passage: rankings cannot be measured, answers can",
        ),
    )


def _corpus_of(path: Path) -> Path:
    """``../Corpus/NAME.json`` as published, or the file beside the questions."""
    name = f"{path.stem.removesuffix(_SUFFIX)}.json"
    published = path.parent.parent / "Corpus" / name
    return published if published.is_file() else path.with_name(name)


def _texts(corpus: Path) -> Iterator[Row]:
    """The texts of a corpus: one object, or an array of them; one text is in memory at a time."""
    for _, text in json_records(corpus, _Text):
        yield Passage(key=text.corpus_name, title=text.corpus_name, text=text.context)


FORMAT = Format(
    name="graphrag-bench",
    about="Questions/NAME_questions.json with Corpus/NAME.json",
    find=find,
    read=read,
)
