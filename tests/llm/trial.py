"""What a small model is tried on: twenty passages of the sample corpus and five of its questions.

The first five questions, the passages that answer them, and the first other passages of the file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evireform.database import Database
from evireform.formats.passages import read_passages
from evireform.formats.questions import read_questions
from evireform.measures import answer_f1, recall_at
from evireform.records import Answer, CorpusStatus, CostRow, IngestionSummary, Passage, Question, Ranking
from evireform.sample import corpus_path, questions_path
from evireform.settings import EmbeddingSettings, LanguageSettings, SearchSettings, Settings
from tests.llm.kit import MODEL

CORPUS = "sample"
QUESTIONS: Sequence[Question] = read_questions(questions_path())[:5]

LANGUAGE = LanguageSettings(
    backend="openai", model=MODEL, timeout_s=3_600, attempts=1, concurrency=1, window_tokens=7_000
)
"""A slow server that takes one request at a time."""

SEARCH = SearchSettings(candidates=30)
"""About as many candidates as a small model can tell apart."""

MORE = replace(SEARCH, rounds=2, set_weight=0.5, set_pool=8)
"""A second round and a final set, so that the controller and the judge are heard as well."""


def recorded_settings(base_url: str) -> Settings:
    """The trial on a scripted server, which embeds with the hash encoder."""
    return Settings(
        embedding=EmbeddingSettings(backend="openai", model="hash", base_url=base_url),
        language=replace(LANGUAGE, base_url=base_url),
        search=SEARCH,
    )


def passages() -> list[Passage]:
    """The twenty, in the order of the file."""
    gold = {key for question in QUESTIONS for key in question.gold}
    everything = [p for p in read_passages([corpus_path()]) if isinstance(p, Passage)]
    others = [p.key for p in everything if p.key not in gold][: 20 - len(gold)]
    return [p for p in everything if p.key in gold or p.key in others]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One question with what was answered."""

    question: Question
    answer: Answer
    seconds: float

    @property
    def ranked(self) -> list[str]:
        """Keys of the ranked passages, best first."""
        return [p.passage_key for p in self.answer.ranking.passages] if self.answer.ranking else []

    @property
    def recall_at_5(self) -> float:
        return recall_at(self.ranked, self.question.gold, 5)

    @property
    def f1(self) -> float:
        return answer_f1(self.answer.text, self.question.answers)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of it.

    ``judged`` is the ranking of the second question with `MORE`; ``costs`` the ledger of the corpus by
    purpose, earlier runs included.
    """

    ingestion: IngestionSummary
    status: CorpusStatus
    asked: tuple[Asked, ...]
    judged: Ranking
    costs: tuple[CostRow, ...]

    @property
    def recall_at_5(self) -> float:
        return sum(asked.recall_at_5 for asked in self.asked) / len(self.asked)


def run(database: Database) -> Trial:
    """Ingest what is not in yet, ask every question, and one of them with `MORE`."""
    corpus = database.corpus(CORPUS, create=True)
    summary = corpus.ingest(passages())
    asked = []
    for question in QUESTIONS:
        started = time.perf_counter()
        answer = corpus.answer(question.text)
        asked.append(Asked(question=question, answer=answer, seconds=time.perf_counter() - started))
    more = Database(
        database.store, settings=replace(database.settings, search=MORE), encoder=database.encoder
    )
    judged = more.corpus(CORPUS).search(QUESTIONS[1].text)
    return Trial(
        ingestion=summary,
        status=corpus.status(),
        asked=tuple(asked),
        judged=judged,
        costs=database.cost(corpus=CORPUS, by="purpose").rows,
    )
