"""One search, from left to right: observe, search the residual queries, score, choose the final set, log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from evireform.embedding import Encoder, Vectors
from evireform.errors import CorpusNotFound, DatabaseError, PermissionMissing
from evireform.language import Language
from evireform.records import CorpusRow, Ranking, ResidualQuery, SpaceRow
from evireform.retrieval.clock import Clock
from evireform.retrieval.final_set import settle
from evireform.retrieval.observation import Observation, observe
from evireform.retrieval.scoring import Scored, Seeded, score
from evireform.settings import SearchSettings
from evireform.store import calls, corpora, filtering, searching
from evireform.store.connection import EF_SEARCH, READS_ONLY, Store
from evireform.wellformed import well_formed

BATCH = 32
"""Questions that share one pass of statements; what a search holds in memory grows with it."""

_READER = "not logged: the database role only reads"
_FORGOTTEN = "logged without its passages: one of them was deleted meanwhile"


def search(
    store: Store,
    corpus_name: str,
    questions: Sequence[str],
    *,
    encoder: Encoder,
    language: Language,
    settings: SearchSettings,
    method: str = "full",
) -> list[Ranking]:
    """Rank passages for each question.

    Args:
        store: The database.
        corpus_name: The corpus, looked up anew so that a recreated one is found.
        questions: Texts; an empty one gives an empty ranking with a reason.
        encoder: Must be the model of the corpus's active proposition space.
        language: Selects, reformulates, controls further rounds and judges the final set.
        settings: The configuration.
        method: Name under which the ranking is recorded.

    Raises:
        CorpusNotFound: no corpus has this name.
        VectorSpaceMismatch: the corpus was embedded with another model.
        DatabaseError: the server refused a statement or timed out.
    """
    rankings: list[Ranking] = []
    for start in range(0, len(questions), BATCH):
        batch = questions[start : start + BATCH]
        clock = Clock()
        corpus, space = open_space(store, corpus_name, encoder, clock)
        speaking = language.in_corpus(corpus)
        observations = observe(
            store, corpus, space, batch, encoder=encoder, language=speaking, settings=settings, clock=clock
        )  # fmt: skip
        ranked = rank(store, corpus, space, observations, settings=settings, clock=clock, method=method)
        settled, observations = settle(
            ranked, observations, language=speaking, titles=corpus.titles, settings=settings, clock=clock
        )
        if settings.log:
            settled = log(store, corpus, settled, observations, settings, pools=ranked)
        rankings += settled
    return rankings


def open_space(store: Store, corpus_name: str, encoder: Encoder, clock: Clock) -> tuple[CorpusRow, SpaceRow]:
    """The corpus and its active proposition space, checked against the encoder."""
    with clock.stage("open"), store.reading() as tx:
        corpus, space = corpora.open_space(tx, corpus_name, "proposition")
        corpora.check_space(
            space, model=encoder.model, dimensions=encoder.dimensions, prompts=encoder.prompts
        )
        clock.tally(tx)
    return corpus, space


def rank(
    store: Store,
    corpus: CorpusRow,
    space: SpaceRow,
    observations: Sequence[Observation],
    *,
    settings: SearchSettings,
    clock: Clock,
    method: str,
) -> list[Ranking]:
    """Steps 6 to 9 for questions whose choices are made: one snapshot, a handful of statements.

    The rankings are ``settings.depth`` passages long; `final_set.settle` cuts them to ``k``.
    """
    searches = [_searches(o, settings) for o in observations]
    vectors = [vector for of_question in searches for _, vector in of_question]
    with (
        clock.stage("search"),
        store.reading(
            snapshot=True,
            ef_search=(settings.ef_search or EF_SEARCH) // 2,  # see "breadth" in docs/benchmarks.md
            exact=settings.exact,
        ) as tx,
    ):
        allowed = filtering.allowed_in_space(tx, space, settings.where)
        hits: list[list[searching.Hit]] = []
        repeated = False
        if vectors:
            hits, repeated = searching.residual_hits(
                tx, space, np.stack(vectors), limit=settings.hits_per_query, allowed=allowed
            )
        remaining = iter(hits)
        residual = [[_with_hits(query, next(remaining)) for query, _ in found] for found in searches]
        seeded = [_seeded(o, found) for o, found in zip(observations, residual, strict=True)]
        with clock.stage("score"):
            scored = score(tx, corpus.corpus_id, seeded, settings, allowed=allowed)
        clock.tally(tx)
    clock.stage_s["search"] -= clock.stage_s["score"]
    notes = ("residual queries: the index brought too few, so the exact scan was run",) if repeated else ()
    return [
        _ranking(o, found, result, notes, settings, clock, len(observations), method)
        for o, found, result in zip(observations, residual, scored, strict=True)
    ]


def _searches(o: Observation, settings: SearchSettings) -> list[tuple[ResidualQuery, Vectors]]:
    """What is searched besides the question: its residual queries of all rounds, or itself as often."""
    if settings.reformulate == "off":
        return []
    repeat = settings.reformulate == "repeat-question"
    return [
        (
            ResidualQuery(text=o.question if repeat else text, round_number=one.number),
            o.question_vector if repeat else vector,
        )
        for one in o.within(settings)
        for text, vector in list(zip(one.queries, one.vectors, strict=True))[: settings.residual_queries]
    ]


def _seeded(o: Observation, found: Sequence[ResidualQuery]) -> Seeded:
    chosen = [o.candidates[row] for row in o.chosen]
    return Seeded(
        base=tuple((candidate.proposition_id, candidate.similarity) for candidate in chosen),
        residual=tuple(query.hits for query in found),
    )


def _with_hits(query: ResidualQuery, hits: Sequence[searching.Hit]) -> ResidualQuery:
    return replace(query, hits=tuple((hit.proposition_id, hit.similarity) for hit in hits))


def _ranking(
    o: Observation,
    found: Sequence[ResidualQuery],
    result: Scored,
    notes: tuple[str, ...],
    settings: SearchSettings,
    clock: Clock,
    batch: int,
    method: str,
) -> Ranking:
    degraded = o.degraded
    if result.vanished:
        gone = "deleted" if not settings.where else "deleted or excluded"
        degraded += (f"seeds: {result.vanished} were {gone} between selection and ranking",)
    reason = ""
    if not o.question.strip():
        reason = "the question is empty"
    elif o.reason:
        reason = o.reason
    elif not o.candidates:
        searched = "that the filter allows" if settings.where else "of the corpus"
        reason = f"no proposition {searched} has positive similarity to the question"
    elif not result.seeds:
        gone = "deleted" if not settings.where else "deleted or excluded"
        reason = f"every selected proposition was {gone} meanwhile"
    elif not result.passages:
        reason = "no passage has a score above zero"
    return Ranking(
        question=o.question,
        method=method,
        passages=result.passages,
        candidates=o.candidates,
        selected=tuple(o.candidates[row].proposition_id for row in o.chosen),
        observed=o.observed(settings),
        residual_queries=tuple(found),
        seeds=result.seeds,
        degraded=degraded,
        notes=o.notes + notes + result.notes,
        reason=reason,
        cost=clock.cost(o.calls, questions=batch),
        where=settings.where,
    )


def log(
    store: Store,
    corpus: CorpusRow,
    rankings: Sequence[Ranking],
    observations: Sequence[Observation],
    settings: SearchSettings,
    *,
    pools: Sequence[Ranking],
) -> list[Ranking]:
    """Log rankings and link their model calls to them; where that is refused, the ranking says so.

    Args:
        store: The database.
        corpus: The corpus as it was when the searches began.
        rankings: What is logged.
        observations: What led to each of them.
        settings: The configuration.
        pools: The rankings as they were before a final set was chosen, which may be longer.
    """
    logged: list[Ranking] = []
    for ranking, o, pool in zip(rankings, observations, pools, strict=True):
        if logged and logged[-1].notes[-1:] == (_READER,):
            logged.append(replace(ranking, notes=(*ranking.notes, _READER)))
            continue
        try:
            with store.transaction() as tx:
                log_id, forgotten = searching.insert_question_log(
                    tx,
                    corpus,
                    _entry(ranking, settings),
                    passage_keys=_in_hand(pool, o),
                    proposition_ids=_found(pool, o),
                )
                calls.link_calls(tx, o.calls, log_id)
        except (DatabaseError, CorpusNotFound) as error:
            reader = isinstance(error, PermissionMissing) and error.sqlstate == READS_ONLY
            note = _READER if reader else f"not logged: {error}"
            logged.append(replace(ranking, notes=(*ranking.notes, note)))
        else:
            notes = (_FORGOTTEN,) if forgotten else ()
            logged.append(replace(ranking, log_id=log_id, notes=ranking.notes + notes))
    return logged


def _in_hand(ranking: Ranking, o: Observation) -> list[str]:
    """Keys of every passage that a search read or ranked: what it wrote may quote any of them."""
    keys = {passage.passage_key for one in o.rounds for passage in one.observed}
    keys |= {candidate.passage_key for candidate in o.candidates}
    keys |= {seed.passage_key for seed in ranking.seeds}
    return sorted(keys | {passage.passage_key for passage in ranking.passages})


def _found(ranking: Ranking, o: Observation) -> list[int]:
    """Every proposition through which a search came by those passages."""
    ids = {proposition_id for one in o.rounds for proposition_id in one.reached}
    ids |= {candidate.proposition_id for candidate in o.candidates}
    ids |= {seed.proposition_id for seed in ranking.seeds}
    return sorted(ids | {p.proposition_id for passage in ranking.passages for p in passage.propositions})


def _entry(ranking: Ranking, settings: SearchSettings) -> dict[str, Any]:
    """A row of `question_log`: places instead of ids, so that it outlives a re-ingestion."""
    places = {
        seed.proposition_id: {
            "passage_key": seed.passage_key,
            "ordinal": seed.ordinal,
            "text": seed.text,
        }
        for seed in ranking.seeds
    }
    similarity = {c.proposition_id: c.similarity for c in ranking.candidates}
    return {
        "question": _kept(ranking.question),
        "method": ranking.method,
        "settings": asdict(settings),
        "candidates": [
            {"passage_key": c.passage_key, "ordinal": c.ordinal, "similarity": c.similarity}
            for c in ranking.candidates
        ],
        "selected": [{**places[i], "similarity": similarity[i]} for i in ranking.selected if i in places],
        "residual_queries": [
            {
                "text": _kept(query.text),
                "round": query.round_number,
                "hits": [{**places[i], "similarity": u} for i, u in query.hits if i in places],
            }
            for query in ranking.residual_queries
        ],
        "ranking": [
            {
                "rank": passage.rank,
                "passage_key": passage.passage_key,
                "score": passage.score,
                "judged": passage.judged,
                "blended": passage.blended,
                "trace": [asdict(term) for term in passage.trace],
                **({"listed": ranking.judged} if passage.rank == 1 and ranking.judged else {}),
            }
            for passage in ranking.passages
        ],
        "degraded": [_kept(reason) for reason in ranking.degraded],
        "seconds": sum(ranking.cost.stage_s.values()),
    }


def _kept(text: str) -> str:
    """Text from outside as the log can hold it: what it cannot stands as U+FFFD."""
    return well_formed(text.replace("\0", "\ufffd"))
