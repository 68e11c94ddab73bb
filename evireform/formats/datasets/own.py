"""Our own files: ``corpus.jsonl`` and ``questions.jsonl``."""

from __future__ import annotations

from pathlib import Path

from evireform.errors import InputError
from evireform.formats.datasets.dataset import Dataset, Format, missing_gold
from evireform.formats.passages import read_passages
from evireform.formats.questions import read_questions
from evireform.records import Passage

_CORPUS, _QUESTIONS = "corpus.jsonl", "questions.jsonl"


def find(folder: Path) -> list[Path]:
    """The questions of a folder that holds both files."""
    both = all((folder / name).is_file() for name in (_CORPUS, _QUESTIONS))
    return [folder / _QUESTIONS] if both else []


def read(path: Path) -> Dataset:
    """The questions of a file, with the corpus beside it.

    Raises:
        InputError: a file is missing or malformed; line and field are named.
    """
    corpus = path.with_name(_CORPUS)
    if not corpus.is_file():
        raise InputError(f"there is no {_CORPUS} in {path.parent}: evaluate needs it", path=corpus)
    questions = tuple(read_questions(path))
    keys = (row.key for row in read_passages([corpus]) if isinstance(row, Passage))
    return Dataset(
        name=path.parent.resolve().name,
        format=FORMAT.name,
        questions=questions,
        passages=lambda: read_passages([corpus]),
        paths=(path, corpus),
        notes=missing_gold(questions, keys, _CORPUS),
    )


FORMAT = Format(name="jsonl", about=f"{_CORPUS} and {_QUESTIONS}", find=find, read=read)
