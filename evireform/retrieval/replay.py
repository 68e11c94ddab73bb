"""Ranking a logged search again from its logged choices: no model, no vector search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evireform.errors import UsageError
from evireform.filters import restored
from evireform.records import CorpusRow, RankedPassage, Seed
from evireform.retrieval.final_set import placed
from evireform.retrieval.scoring import Seeded, score
from evireform.settings import SearchSettings
from evireform.store import corpora, filtering, generations, searching
from evireform.store.connection import Store, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A logged search, ranked over the corpus as it is now.

    ``same`` tells whether keys and scores (to 12 decimals) are those of the log; ``missing`` counts the
    logged seeds whose passage was deleted or whose proposition changed since, or that the search's filter
    excludes by now.
    """

    question: str
    method: str
    passages: tuple[RankedPassage, ...]
    seeds: tuple[Seed, ...]
    logged: tuple[tuple[str, float], ...]
    same: bool
    missing: int


def replay(store: Store, corpus_name: str, log_id: int) -> Replay:
    """Rank a logged search again.

    Raises:
        UsageError: the log of this corpus holds no such entry (the message names the other generation, where
            that holds it), or only its question, for a passage that the search had in hand was deleted.
        CorpusNotFound: no corpus has this name.
    """
    with store.reading(snapshot=True) as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
        entry = searching.question_log_entry(tx, corpus.corpus_id, log_id)
        if entry is None:
            raise _unknown(tx, corpus, log_id)
        question, method, fields, _, selected, residual, ranking, _, forgotten = entry
        if forgotten:
            raise UsageError(
                f"logged question {log_id} cannot be ranked again: a passage that it had in hand was "
                "deleted, and the log keeps the question alone"
            )
        settings = SearchSettings(**{**fields, "where": restored(fields.get("where", ()))})
        hits = [query["hits"] for query in residual]
        logged_places = [_place(seed) for part in (selected, *hits) for seed in part]
        ids = searching.propositions_by_place(tx, corpus.corpus_id, logged_places)
        seeded = Seeded(base=_known(selected, ids), residual=tuple(_known(part, ids) for part in hits))
        allowed = filtering.allowed(tx, corpus.corpus_id, settings.where)
        result = score(tx, corpus.corpus_id, [seeded], settings, allowed=allowed)[0]
    logged = tuple((row["passage_key"], row["score"]) for row in ranking)
    judged = {row["passage_key"]: row["judged"] for row in ranking if row.get("judged")}
    for row in ranking[:1]:  # those beyond the ranking count too
        judged |= {key: place for place, key in enumerate(row.get("listed", ()), start=1)}
    passages = placed(result.passages, judged, settings)
    now = tuple((passage.passage_key, round(passage.score, 12)) for passage in passages)
    return Replay(
        question=question,
        method=method,
        passages=passages,
        seeds=result.seeds,
        logged=logged,
        same=now == tuple((key, round(value, 12)) for key, value in logged),
        missing=len(set(logged_places) - ids.keys()) + result.vanished,
    )


def _unknown(tx: Transaction, corpus: CorpusRow, log_id: int) -> UsageError:
    """The error for a question that a corpus did not log; it says where it was, if that is known."""
    problem = f"corpus {corpus.name!r} has no logged question {log_id}"
    for other in generations.others(tx, corpus):
        if searching.question_log_entry(tx, other.corpus_id, log_id) is not None:
            return UsageError(
                f"{problem}: the other generation, {other.name!r}, answered and logged it; replay it there"
            )
    return UsageError(
        f"{problem}; it may be of another corpus, or of a generation that was dropped since it was logged"
    )


def _place(seed: dict[str, Any]) -> tuple[str, int, str]:
    return seed["passage_key"], seed["ordinal"], seed["text"]


def _known(
    part: Sequence[dict[str, Any]], ids: dict[tuple[str, int, str], int]
) -> tuple[tuple[int, float], ...]:
    return tuple((ids[_place(seed)], seed["similarity"]) for seed in part if _place(seed) in ids)
