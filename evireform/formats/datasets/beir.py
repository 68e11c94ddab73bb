"""BEIR as published (Thakur et al., 2021, NeurIPS): ``corpus.jsonl``, ``queries.jsonl``, ``qrels/SPLIT.tsv``.

As in BEIR's own loader, the questions are those that the qrels of the split judge; gold is what they judge
above 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import Field

from evireform.errors import InputError
from evireform.formats.datasets.dataset import Dataset, Format, Row, missing_gold
from evireform.formats.datasets.reading import (
    Filled,
    Key,
    Record,
    Text,
    faults_at,
    jsonl_records,
    lines_of,
)
from evireform.formats.text import printable
from evireform.records import Passage, Question, Rejected

_HEADER = ["query-id", "corpus-id", "score"]


class _Passage(Record):
    key: Key = Field(alias="_id")
    title: Text | None = None
    text: Text


class _Query(Record):
    key: Key = Field(alias="_id")
    text: Filled


def find(folder: Path) -> list[Path]:
    """The qrels of a folder that holds a corpus and queries, or of its own folder ``qrels``."""
    if folder.name == "qrels":
        folder = folder.parent
    if not all((folder / name).is_file() for name in ("corpus.jsonl", "queries.jsonl")):
        return []
    return sorted((folder / "qrels").glob("*.tsv"))


def read(path: Path) -> Dataset:
    """The questions that one qrels file judges, with corpus and queries of the folder above it.

    Raises:
        InputError: a file is missing or cannot be read, or a line is wrong; line and field are named.
    """
    folder = path.parent.parent
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    gold = _qrels(path)
    questions: dict[str, Question] = {}
    for number, query in jsonl_records(queries, _Query):
        with faults_at(queries, f"line {number}", number):
            if query.key in questions:
                raise ValueError("_id: already given on an earlier line")
        if query.key in gold:
            relevant = tuple(passage for passage, score in gold[query.key][1].items() if score > 0)
            questions[query.key] = Question(key=query.key, text=query.text, gold=relevant)
    for key, (number, _) in gold.items():
        if key not in questions:
            raise InputError(
                f"{printable(path)} line {number}: query-id: {key!r} is not in {printable(queries)}",
                path=path,
                line_number=number,
            )
    asked = tuple(questions.values())
    keys = (passage.key for _, passage in jsonl_records(corpus, _Passage))
    return Dataset(
        name=f"{folder.resolve().name}-{path.stem}",
        format=FORMAT.name,
        questions=asked,
        passages=lambda: _passages(corpus),
        paths=(path, queries, corpus),
        notes=missing_gold(asked, keys, "corpus.jsonl"),
    )


def _qrels(path: Path) -> dict[str, tuple[int, dict[str, int]]]:
    """Question key to the line that it first stands on, and to the passages judged for it."""
    judged: dict[str, tuple[int, dict[str, int]]] = {}
    header: list[str] = []
    for number, line in lines_of(path):
        columns = line.split("\t")
        with faults_at(path, f"line {number}", number):
            if not header:
                header = columns
                if header != _HEADER:
                    raise ValueError("the header 'query-id corpus-id score', separated by tabs, is expected")
                continue
            if len(columns) != len(_HEADER):
                raise ValueError(f"three columns separated by tabs are expected, not {len(columns)}")
            try:
                score = int(columns[2])
            except ValueError as error:
                raise ValueError(f"score: a whole number is expected, not {columns[2]!r}") from error
        judged.setdefault(columns[0], (number, {}))[1][columns[1]] = score
    return judged


def _passages(corpus: Path) -> Iterator[Row]:
    for number, passage in jsonl_records(corpus, _Passage):
        if passage.text.strip():
            yield Passage(key=passage.key, title=passage.title or "", text=passage.text)
        else:
            yield Rejected(
                reason="text is empty", path=printable(corpus), line_number=number, passage_key=passage.key
            )


FORMAT = Format(
    name="beir",
    about="corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv",
    find=find,
    read=read,
    default="test.tsv",
)
