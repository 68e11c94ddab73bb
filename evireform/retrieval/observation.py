"""The two choices of a search: which propositions are selected, and which residual queries they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evireform import seeds
from evireform.embedding import Encoder, Vectors
from evireform.language import Language
from evireform.records import Candidate, CorpusRow, ModelCall, ObservedPassage, SpaceRow
from evireform.retrieval.clock import Clock
from evireform.settings import SearchSettings
from evireform.store import searching
from evireform.store.connection import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known of a question before anything is ranked.

    ``chosen`` holds positions in ``candidates``; ``queries`` the residual queries, cleaned, and
    ``query_vectors`` their embeddings, shape ``(l, d)``.
    """

    question: str
    question_vector: Vectors
    candidates: tuple[Candidate, ...]
    chosen: tuple[int, ...]
    queries: tuple[str, ...]
    query_vectors: Vectors
    degraded: tuple[str, ...]
    notes: tuple[str, ...]
    calls: tuple[ModelCall, ...]

    @property
    def observed(self) -> tuple[str, ...]:
        """Keys of the observed passages, in the order of selection, each once."""
        return tuple(dict.fromkeys(self.candidates[row].passage_key for row in self.chosen))


def observe(
    store: Store,
    corpus: CorpusRow,
    space: SpaceRow,
    questions: Sequence[str],
    *,
    encoder: Encoder,
    language: Language,
    settings: SearchSettings,
    clock: Clock,
) -> list[Observation]:
    """Search for the questions, select, read the source passages, and write the residual queries."""
    with clock.stage("embed"):
        vectors = encoder.encode_questions(questions)
    with (
        clock.stage("candidates"),
        store.transaction(read_only=True, ef_search=settings.ef_search or None, exact=settings.exact) as tx,
    ):
        lists, repeated = searching.candidates(
            tx, space, vectors,
            limit=settings.candidates, with_entities=language.wants_entities, titles=corpus.titles,
        )  # fmt: skip
        clock.tally(tx)
    notes = ("candidates: the index brought too few, so the exact scan was run",) if repeated else ()
    too_long = set(encoder.truncated(questions))
    with clock.stage("select"):
        observations = [
            _select(
                question,
                vectors[row],
                tuple(found) if question.strip() else (),
                language,
                settings,
                notes,
                ("the question is longer than the embedding model's window and was cut",)
                if row in too_long
                else (),
            )
            for row, (question, found) in enumerate(zip(questions, lists, strict=True))
        ]
    if settings.reformulate == "off":
        return observations
    return _reformulate(store, corpus, observations, encoder, language, settings, clock)


def _select(
    question: str,
    vector: Vectors,
    found: tuple[Candidate, ...],
    language: Language,
    settings: SearchSettings,
    notes: tuple[str, ...],
    degraded: tuple[str, ...],
) -> Observation:
    """Step 2: the selector's choice, made valid."""
    calls: tuple[ModelCall, ...] = ()
    chosen: list[int] = []
    if found:
        selection = language.select(question, found, limit=settings.selected)
        similarity = np.array([candidate.similarity for candidate in found])
        chosen = seeds.choose(selection.positions, similarity, limit=settings.selected)
        calls = selection.calls
        if selection.degraded:
            degraded += (f"selection: {selection.degraded}",)
        elif not set(chosen) & {p for p in selection.positions if type(p) is int}:
            degraded += ("selection: nothing valid was selected; the best candidate stands alone",)
    return Observation(
        question=question,
        question_vector=vector,
        candidates=found,
        chosen=tuple(chosen),
        queries=(),
        query_vectors=np.zeros((0, len(vector)), dtype=np.float32),
        degraded=degraded,
        notes=notes,
        calls=calls,
    )


def _reformulate(
    store: Store,
    corpus: CorpusRow,
    observations: Sequence[Observation],
    encoder: Encoder,
    language: Language,
    settings: SearchSettings,
    clock: Clock,
) -> list[Observation]:
    """Steps 4 and 5: read the source passages of the selected propositions, ask for what is missing."""
    wanted = {o.candidates[row].passage_id for o in observations for row in o.chosen}
    with clock.stage("observe"), store.transaction(read_only=True) as tx:
        passages = searching.observed_passages(
            tx,
            corpus.corpus_id,
            sorted(wanted),
            titles=corpus.titles,
        )
        clock.tally(tx)
    with clock.stage("reformulate"):
        asked = [_ask(o, passages, language, settings) for o in observations]
    with clock.stage("embed"):
        texts = list(dict.fromkeys(query for o in asked for query in o.queries))
        row_of = {text: row for row, text in enumerate(texts)}
        vectors = encoder.encode_questions(texts)
    return [
        replace(o, query_vectors=vectors[[row_of[query] for query in o.queries]]) if o.queries else o
        for o in asked
    ]


def _ask(
    o: Observation,
    passages: dict[int, ObservedPassage],
    language: Language,
    settings: SearchSettings,
) -> Observation:
    selected: dict[int, list[str]] = {}
    for row in o.chosen:
        candidate = o.candidates[row]
        selected.setdefault(candidate.passage_id, []).append(candidate.text)
    observed = [
        replace(passages[passage_id], selected=tuple(texts))
        for passage_id, texts in selected.items()
        if passage_id in passages
    ]
    degraded = o.degraded
    if len(observed) < len(selected):
        degraded += ("observation: a selected passage was deleted meanwhile",)
    if not observed or settings.residual_queries == 0:
        return replace(o, degraded=degraded)
    made = language.reformulate(o.question, observed, limit=settings.residual_queries)
    if made.degraded:
        degraded += (f"reformulation: {made.degraded}",)
    return replace(
        o,
        queries=tuple(seeds.clean_queries(made.queries, o.question, limit=settings.residual_queries)),
        degraded=degraded,
        calls=o.calls + made.calls,
    )
