"""The online path and exact search in memory on the same questions, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.doubles import PreparedQuestion, doors
from benchmarks.memory import Found, MemoryIndex
from evireform.records import Ranking, SpaceRow
from evireform.retrieval.pipeline import search
from evireform.settings import SearchSettings
from evireform.store import corpora, searching
from evireform.store.connection import Store

Answer = TypeVar("Answer")

CHECKED = 10
"""Questions that the database also answers by exact scan."""

ROUNDS = 3
"""Times that each side answers every question, in turn; the first answers before that are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Milliseconds of single searches: the median and the 95th percentile."""

    median_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What one corpus gave. ``recall`` is that of the 100 candidates against exact search; ``agreement`` the
    share of questions with the same ranking on both sides, ``exact_agreement`` that of the first few when the
    database scans every vector, which must be all; ``stage_ms`` holds medians, without the log."""

    corpus: str
    propositions: int
    passages: int
    entities: int
    largest_degree: int
    recall: float
    agreement: float
    exact_agreement: float
    database: Times
    logged: Times
    memory: Times
    statements: float
    rows_median: float
    rows_max: int
    stage_ms: Mapping[str, float]
    arrays_bytes: int


def open_index(store: Store, corpus_name: str) -> tuple[SpaceRow, MemoryIndex]:
    """The proposition space of a corpus, and all of it read into memory."""
    with store.transaction(read_only=True, snapshot=True, statement_timeout_s=0) as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
        space = corpora.active_space(tx, corpus.corpus_id, "proposition")
        return space, MemoryIndex(tx, space)


def compare(
    store: Store,
    corpus_name: str,
    space: SpaceRow,
    index: MemoryIndex,
    questions: Sequence[PreparedQuestion],
    settings: SearchSettings,
) -> Comparison:
    """Answer every question on both sides, a round on one after a round on the other."""
    encoder, language = doors(questions, space)

    def by_database(configuration: SearchSettings) -> Callable[[PreparedQuestion], Ranking]:
        return lambda question: search(
            store, corpus_name, [question.text], encoder=encoder, language=language, settings=configuration
        )[0]

    silent = by_database(replace(settings, log=False))
    logged = by_database(replace(settings, log=True))
    scanned = [by_database(replace(settings, log=False, exact=True))(q) for q in questions[:CHECKED]]
    rankings = [silent(question) for question in questions]
    found = [index.search(question, settings) for question in questions]
    for question in questions:
        logged(question)
    times: dict[str, list[float]] = {"database": [], "logged": [], "memory": []}
    stages: list[Mapping[str, float]] = []
    for _ in range(ROUNDS):
        for question in questions:
            ranking, seconds = _timed(silent, question)
            times["database"].append(seconds)
            stages.append(ranking.cost.stage_s)
        times["logged"] += [_timed(logged, question)[1] for question in questions]
        times["memory"] += [
            _timed(lambda question: index.search(question, settings), question)[1] for question in questions
        ]
    rows = [ranking.cost.rows for ranking in rankings]
    return Comparison(
        corpus=corpus_name,
        propositions=len(index.ids),
        passages=len(index.keys),
        entities=len(index.degree),
        largest_degree=int(index.degree.max()),
        recall=float(np.mean([_recall(r, f) for r, f in zip(rankings, found, strict=True)])),
        agreement=float(np.mean([_agrees(r, f) for r, f in zip(rankings, found, strict=True)])),
        exact_agreement=float(np.mean([_agrees(r, f) for r, f in zip(scanned, found, strict=False)])),
        database=_times(times["database"]),
        logged=_times(times["logged"]),
        memory=_times(times["memory"]),
        statements=float(np.median([ranking.cost.statements for ranking in rankings])),
        rows_median=float(np.median(rows)),
        rows_max=max(rows),
        stage_ms={name: 1000 * float(np.median([s[name] for s in stages])) for name in stages[0]},
        arrays_bytes=index.bytes_held,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breadth:
    """Recall of the index at one ``ef_search``: candidates of the questions, hits of their residual queries.

    The times are medians of the statement alone, for one question and for its residual queries together.
    """

    ef_search: int
    candidates: float
    hits: float
    candidates_ms: float
    hits_ms: float


def sweep(
    store: Store,
    space: SpaceRow,
    index: MemoryIndex,
    questions: Sequence[PreparedQuestion],
    settings: SearchSettings,
    breadths: Sequence[int],
) -> list[Breadth]:
    """Recall against exact search at each breadth of the HNSW search."""
    asked = [question for question in questions if len(question.query_vectors)]
    exact = [_ids(index, question.vector[None], settings.candidates) for question in questions]
    exact_hits = [_ids(index, question.query_vectors, settings.hits_per_query) for question in asked]
    measured = []
    for breadth in breadths:
        shares, hit_shares, seconds, hit_seconds = [], [], [], []
        with store.transaction(read_only=True, ef_search=breadth) as tx:
            for question, expected in zip(questions, exact, strict=True):
                start = time.perf_counter()
                lists, _ = searching.candidates(
                    tx, space, question.vector[None],
                    limit=settings.candidates, with_entities=False, titles="off",
                )  # fmt: skip
                seconds.append(time.perf_counter() - start)
                shares += _shares([[c.proposition_id for c in found] for found in lists], expected)
            for question, expected in zip(asked, exact_hits, strict=True):
                start = time.perf_counter()
                hits, _ = searching.residual_hits(
                    tx, space, question.query_vectors, limit=settings.hits_per_query
                )
                hit_seconds.append(time.perf_counter() - start)
                hit_shares += _shares([[hit.proposition_id for hit in found] for found in hits], expected)
        measured.append(
            Breadth(
                ef_search=breadth,
                candidates=float(np.mean(shares)),
                hits=float(np.mean(hit_shares)),
                candidates_ms=1000 * float(np.median(seconds)),
                hits_ms=1000 * float(np.median(hit_seconds)),
            )
        )
    return measured


def _ids(index: MemoryIndex, vectors: NDArray[np.float32], limit: int) -> list[list[int]]:
    return [index.ids[rows].tolist() for rows, _ in index.nearest(vectors, limit)]


def _shares(found: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> list[float]:
    return [len({*a} & {*b}) / len(b) for a, b in zip(found, expected, strict=True) if b]


def _timed(answer: Callable[[PreparedQuestion], Answer], question: PreparedQuestion) -> tuple[Answer, float]:
    start = time.perf_counter()
    result = answer(question)
    return result, time.perf_counter() - start


def _times(seconds: Sequence[float]) -> Times:
    median, p95 = np.percentile(seconds, [50, 95]) * 1000
    return Times(median_ms=float(median), p95_ms=float(p95))


def _recall(ranking: Ranking, found: Found) -> float:
    return _shares([[c.proposition_id for c in ranking.candidates]], [found.candidate_ids])[0]


def _agrees(ranking: Ranking, found: Found) -> bool:
    """The same passages in the same order with the same scores, as far as a 32-bit similarity tells."""
    ours = [(passage.passage_key, passage.score) for passage in ranking.passages]
    return [key for key, _ in ours] == [key for key, _ in found.ranking] and all(
        abs(a - b) < 1e-5 for (_, a), (_, b) in zip(ours, found.ranking, strict=True)
    )
