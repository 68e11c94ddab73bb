"""Sets in which every question comes with its own paragraphs: the corpus is all of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evireform.formats.datasets.dataset import Dataset, Row
from evireform.formats.datasets.reading import faults_at, passage_key
from evireform.formats.text import printable
from evireform.records import Passage, Question, Rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """A paragraph of a question, and whether the answer rests on it."""

    title: str
    text: str
    gold: bool

    @property
    def key(self) -> str:
        return passage_key(self.title, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One record of the file. ``place`` says where it stood; ``left_out`` why it is not asked, if so."""

    place: str
    key: str
    question: str
    answers: tuple[str, ...]
    kind: str
    hops: int | None
    paragraphs: tuple[Paragraph, ...]
    left_out: str = ""


def read_entries(path: Path, entries: Callable[[], Iterable[Entry]], *, format_name: str) -> Dataset:
    """A set from its records, which are read twice: for the questions now, for the passages when asked.

    A paragraph that several questions bring, with the same title and text, is one passage.

    Args:
        path: The file.
        entries: Opens the file anew and gives its records.
        format_name: Name of the format.

    Raises:
        InputError: a record is wrong, or two have one key.
    """
    questions: list[Question] = []
    brings: dict[str, tuple[str, ...]] = {}
    places: dict[str, str] = {}
    left_out: dict[str, int] = {}
    for entry in entries():
        if entry.left_out:
            left_out[entry.left_out] = left_out.get(entry.left_out, 0) + 1
            continue
        with faults_at(path, entry.place):
            if entry.key in places:
                raise ValueError(f"id: already given by {places[entry.key]}")
        places[entry.key] = entry.place
        gold = dict.fromkeys(item.key for item in entry.paragraphs if item.gold)
        brings[entry.key] = tuple(dict.fromkeys(item.key for item in entry.paragraphs if item.text))
        questions.append(
            Question(
                key=entry.key,
                text=entry.question,
                gold=tuple(gold),
                answers=entry.answers,
                kind=entry.kind,
                hops=entry.hops,
            )
        )
    return Dataset(
        name=path.stem,
        format=format_name,
        questions=tuple(questions),
        passages=lambda: _passages(path, entries()),
        brings=brings,
        paths=(path,),
        notes=tuple(f"{count} questions were left out: {reason}" for reason, count in left_out.items()),
    )


def _passages(path: Path, entries: Iterable[Entry]) -> Iterator[Row]:
    """Every paragraph once. Only the keys are kept in memory."""
    seen: set[str] = set()
    for entry in entries:
        if entry.left_out:
            continue
        for number, paragraph in enumerate(entry.paragraphs, start=1):
            key = paragraph.key
            if key in seen:
                continue
            seen.add(key)
            if paragraph.text:
                yield Passage(key=key, title=paragraph.title, text=paragraph.text)
            else:
                reason = f"{entry.place}: paragraph {number} ({printable(paragraph.title)}) has no text"
                yield Rejected(reason=reason, path=printable(path), passage_key=key)
