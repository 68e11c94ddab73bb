"""A real corpus: 2WikiMultihopQA through evireform's own ingestion, with what its models say prepared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.doubles import PreparedQuestion
from evireform.database import Database
from evireform.formats.passages import read_passages
from evireform.formats.questions import read_questions
from evireform.retrieval.clock import Clock
from evireform.retrieval.observation import observe
from evireform.retrieval.pipeline import BATCH, open_space


def ingest(db: Database, folder: Path) -> str:
    """Bring in what is missing of ``folder/corpus.jsonl``; minutes the first time. Returns its name."""
    name = f"{folder.name}-rules-titles-on"
    db.corpus(name, create=True, titles="on").ingest(read_passages([folder / "corpus.jsonl"]))
    return name


def prepare(db: Database, corpus_name: str, folder: Path, *, count: int) -> Sequence[PreparedQuestion]:
    """The first questions of ``folder/questions.jsonl`` with their vectors, selections and residual queries.

    Observed once by exact search, with the models of the database.
    """
    settings = replace(db.settings.search, exact=True)
    clock = Clock()
    corpus, space = open_space(db.store, corpus_name, db.encoder, clock)
    texts = list(dict.fromkeys(q.text for q in read_questions(folder / "questions.jsonl")))[:count]
    prepared = []
    for start in range(0, len(texts), BATCH):
        observations = observe(
            db.store, corpus, space, texts[start : start + BATCH],
            encoder=db.encoder, language=db.language, settings=settings, clock=clock,
        )  # fmt: skip
        prepared += [
            PreparedQuestion(
                text=o.question,
                vector=o.question_vector,
                positions=o.chosen,
                queries=first.queries,
                query_vectors=first.vectors,
            )
            for o in observations
            for first in o.rounds[:1]
        ]
    return prepared
