"""A small corpus with multi-hop questions that ships with the package, for a first look and for tests.

The texts are our own; each passage says a few checkable things, and passages share people, places and
works, so that every question needs two to four of them.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def corpus_path() -> Path:
    """The file of passages, ``{"id", "title", "text"}`` a line.

    >>> corpus_path().name
    'corpus.jsonl'
    """
    return Path(str(files(__name__) / "corpus.jsonl"))


def questions_path() -> Path:
    """The file of questions, ``{"id", "question", "answers", "gold_passage_ids", "hops", "type"}`` a line.

    >>> questions_path().name
    'questions.jsonl'
    """
    return Path(str(files(__name__) / "questions.jsonl"))
