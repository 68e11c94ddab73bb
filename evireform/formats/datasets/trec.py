"""TREC topics and qrels over any corpus that we read: ``topics.*``, ``qrels.*``, ``corpus.jsonl`` or such.

Topics are lines of ``number<TAB>text``, or the SGML of the TREC collections (``<top>``, ``<num>``,
``<title>``). Qrels go through ir-measures. White space within a key is written ``%20``, as we write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from evireform.errors import InputError, UsageError
from evireform.formats.datasets.dataset import Dataset, Format, missing_gold
from evireform.formats.datasets.reading import faults_at, lines_of
from evireform.formats.passages import read_passages
from evireform.formats.text import printable, text_problem
from evireform.records import Passage, Question

_QRELS = re.compile(r"qrels([._-].*)?$|.*\.qrels$")
_CORPUS = ("corpus.jsonl", "corpus.csv", "corpus")
_TAG = re.compile(r"<(/?)(top|num|title|desc|narr)>", re.IGNORECASE)
_NUMBER = re.compile(r"^\s*Number:\s*", re.IGNORECASE)


def find(folder: Path) -> list[Path]:
    """The qrels of a folder that holds topics and a corpus."""
    if not _topics_of(folder) or not _corpus_of(folder):
        return []
    return [path for path in sorted(folder.iterdir()) if path.is_file() and _QRELS.match(path.name)]


def read(path: Path) -> Dataset:
    """The topics of a folder as questions, judged by one qrels file.

    A topic that the qrels do not judge above 0 has no gold.

    Raises:
        InputError: a file is missing or cannot be read, or a line is wrong; the line is named.
    """
    folder = path.parent
    topics, corpus = _topics_of(folder), _corpus_of(folder)
    if topics is None or corpus is None:
        wanted = "topics (topics.tsv, topics.txt …)" if topics is None else " or ".join(_CORPUS)
        raise InputError(f"there is no {wanted} beside {printable(path)}", path=folder)
    gold = read_qrels(path)
    questions: dict[str, Question] = {}
    for number, key, text in _topics(topics):
        with faults_at(topics, f"line {number}", number):
            if key in questions:
                raise ValueError(f"the topic {key!r} was given before")
            if problem := text_problem(key + text) or ("" if key and text else "has no number or no text"):
                raise ValueError(f"the topic {problem}")
        relevant = tuple(passage for passage, level in gold.get(key, {}).items() if level > 0)
        questions[key] = Question(key=key, text=text, gold=relevant)
    asked = tuple(questions.values())
    unasked = [key for key in gold if key not in questions]
    notes = [f"the qrels judge {len(unasked)} topics that {topics.name} does not hold"] if unasked else []
    keys = (row.key for row in read_passages([corpus]) if isinstance(row, Passage))
    return Dataset(
        name=folder.resolve().name,
        format=FORMAT.name,
        questions=asked,
        passages=lambda: read_passages([corpus]),
        paths=(path, topics, corpus),
        notes=(*notes, *missing_gold(asked, keys, corpus.name)),
    )


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Question key to passage key to relevance, from TREC qrels.

    Raises:
        InputError: the file cannot be read, or a line is not one of qrels.
        UsageError: ir-measures is not installed.
    """
    try:
        import ir_measures
    except ImportError as error:
        raise UsageError(
            "reading TREC qrels needs the package ir-measures: pip install 'evireform[evaluation]'"
        ) from error
    judged: dict[str, dict[str, int]] = {}
    lines = _Lines(path)
    try:
        for qrel in ir_measures.read_trec_qrels(lines):  # type: ignore[no-untyped-call]
            judged.setdefault(unquote(qrel.query_id), {})[unquote(qrel.doc_id)] = qrel.relevance
    except ValueError as error:
        raise InputError(
            f"{printable(path)} line {lines.number}: 'topic 0 passage relevance' is expected",
            path=path,
            line_number=lines.number,
        ) from error
    return judged


class _Lines:
    """A file's lines for a reader of ours that does not count them."""

    def __init__(self, path: Path) -> None:
        self.number = 0
        self._path = path

    def read(self) -> str:  # what ir-measures takes for a file has this
        return "\n".join(self)

    def __iter__(self) -> Iterator[str]:
        for number, line in lines_of(self._path):
            self.number = number
            yield line


def _topics_of(folder: Path) -> Path | None:
    return next((path for path in sorted(folder.glob("topics*")) if path.is_file()), None)


def _corpus_of(folder: Path) -> Path | None:
    return next((folder / name for name in _CORPUS if (folder / name).exists()), None)


def _topics(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line number, key and text of every topic."""
    lines = lines_of(path)
    first = next(lines, None)
    if first is None:
        return
    rows = [first, *lines]
    if _TAG.search(first[1]):
        yield from _sgml(path, rows)
        return
    for number, line in rows:
        key, tab, text = line.partition("\t")
        with faults_at(path, f"line {number}", number):
            if not tab:
                raise ValueError("'number<TAB>text' is expected, or <top> of a TREC collection")
        yield number, unquote(key.strip()), text.strip()


def _sgml(path: Path, rows: list[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Topics in the SGML of the TREC collections, whose elements but ``<top>`` have no end."""
    start = 0
    fields: dict[str, str] = {}
    current = ""
    for number, line in rows:
        place = 0
        for tag in _TAG.finditer(line):
            _extend(fields, current, line[place : tag.start()])
            place, name = tag.end(), tag[2].lower()
            current = "" if tag[1] or name == "top" else name
            if name == "top" and not tag[1]:
                start, fields = number, {}
            elif name == "top":
                key = _NUMBER.sub("", fields.get("num", "")).strip()
                yield start, unquote(key), " ".join(fields.get("title", "").split())
                start = 0
        _extend(fields, current, line[place:])
    if start:
        raise InputError(f"{printable(path)} line {start}: <top> has no </top>", path=path, line_number=start)


def _extend(fields: dict[str, str], name: str, text: str) -> None:
    if name:
        fields[name] = f"{fields.get(name, '')} {text}"


FORMAT = Format(
    name="trec", about="topics.*, qrels.* and corpus.jsonl, corpus.csv or corpus/", find=find, read=read
)
