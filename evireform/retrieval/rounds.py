"""The rounds of a search: read what was reached, ask for what is missing, search for it, and read on.

Round 1 reads the source passages of the selected propositions, and the reformulator writes the residual
queries. Each later round reads the passages that the queries of the last one found as well, and a controller
says that the evidence suffices or writes a query for each gap. A round without a new query is the last;
what was asked before is not asked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evireform import parallel, seeds
from evireform.embedding import Encoder, Vectors
from evireform.language import Language
from evireform.records import Candidate, CorpusRow, ModelCall, ObservedPassage, SpaceRow
from evireform.retrieval.clock import Clock
from evireform.settings import SearchSettings
from evireform.store import filtering, searching
from evireform.store.connection import Store, Transaction
from evireform.store.filtering import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round of a question: all evidence that had been read, and the queries that it led to.

    ``vectors`` holds the embeddings of ``queries``, shape ``(l, d)``; ``reached`` the ids of the propositions
    through which the passages were reached.
    """

    number: int
    observed: tuple[ObservedPassage, ...]
    queries: tuple[str, ...]
    vectors: Vectors
    reached: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """A question on its way through the rounds; ``reached`` are the propositions selected or found so far."""

    question: str
    reached: tuple[Candidate, ...]
    rounds: tuple[Round, ...] = ()
    degraded: tuple[str, ...] = ()
    calls: tuple[ModelCall, ...] = ()

    @property
    def goes_on(self) -> bool:
        return bool(self.rounds[-1].queries if self.rounds else self.reached)


def inquire(
    store: Store,
    corpus: CorpusRow,
    space: SpaceRow,
    inquiries: Sequence[Inquiry],
    *,
    encoder: Encoder,
    language: Language,
    settings: SearchSettings,
    clock: Clock,
) -> list[Inquiry]:
    """Take every question through its rounds, all questions of a round together."""
    current = list(inquiries)
    for number in range(1, settings.rounds + 1):
        rows = [row for row, inquiry in enumerate(current) if inquiry.goes_on]
        if not rows:
            break
        going_on = [current[row] for row in rows]
        after = _round(store, corpus, space, going_on, number, encoder, language, settings, clock)
        for row, inquiry in zip(rows, after, strict=True):
            current[row] = inquiry
    return current


def _round(
    store: Store,
    corpus: CorpusRow,
    space: SpaceRow,
    inquiries: Sequence[Inquiry],
    number: int,
    encoder: Encoder,
    language: Language,
    settings: SearchSettings,
    clock: Clock,
) -> list[Inquiry]:
    with (
        clock.stage("observe"),
        store.reading(ef_search=settings.ef_search or None, exact=settings.exact) as tx,
    ):
        if number > 1:
            allowed = filtering.allowed_in_space(tx, space, settings.where)
            inquiries = _reach(tx, corpus, space, inquiries, settings, allowed)
        else:
            allowed = filtering.allowed(tx, corpus.corpus_id, settings.where)
        wanted = {candidate.passage_id for inquiry in inquiries for candidate in inquiry.reached}
        if allowed is not None:  # as they were when they were found, and still are
            wanted = set(allowed.among(wanted).tolist())
        passages = searching.observed_passages(tx, corpus.corpus_id, sorted(wanted), titles=corpus.titles)
        clock.tally(tx)
    with clock.stage("reformulate" if number == 1 else "control"):
        asked = parallel.in_order(
            lambda inquiry: _ask(inquiry, number, passages, language, settings),
            inquiries,
            at_once=language.concurrency,
        )
    with clock.stage("embed"):
        return _embedded(asked, encoder)


def _reach(
    tx: Transaction,
    corpus: CorpusRow,
    space: SpaceRow,
    inquiries: Sequence[Inquiry],
    settings: SearchSettings,
    allowed: Allowed | None,
) -> list[Inquiry]:
    """Add the propositions that the queries of the last round find."""
    vectors = np.concatenate([inquiry.rounds[-1].vectors for inquiry in inquiries])
    lists, _ = searching.candidates(
        tx, space, vectors,
        limit=settings.hits_per_query, with_entities=False, titles=corpus.titles, allowed=allowed,
    )  # fmt: skip
    remaining = iter(lists)
    return [
        replace(
            inquiry,
            reached=inquiry.reached
            + tuple(found for _ in inquiry.rounds[-1].queries for found in next(remaining)),
        )
        for inquiry in inquiries
    ]


def _ask(
    inquiry: Inquiry,
    number: int,
    passages: Mapping[int, ObservedPassage],
    language: Language,
    settings: SearchSettings,
) -> Inquiry:
    """Read the evidence, and write down what is asked next; the queries have no vectors yet."""
    reached = tuple(candidate for candidate in inquiry.reached if candidate.passage_id in passages)
    degraded = inquiry.degraded
    if len(reached) < len(inquiry.reached):
        kind = "a selected passage" if number == 1 else "a passage of the evidence"
        gone = "was deleted meanwhile" if not settings.where else "was deleted or excluded meanwhile"
        degraded += (f"{_place(number, 'observation')}: {kind} {gone}",)
    observed = _observed(reached, passages)
    queries: tuple[str, ...] = ()
    calls = inquiry.calls
    limit = settings.residual_queries if settings.reformulate != "off" else 0
    if observed and limit:
        queries, problem, made = _queries(inquiry, number, observed, language, limit)
        degraded += (f"{_place(number, 'reformulation')}: {problem}",) if problem else ()
        calls += made
    this = Round(
        number=number,
        observed=observed,
        queries=queries,
        vectors=np.zeros((0, 0), dtype=np.float32),
        reached=tuple(candidate.proposition_id for candidate in reached),
    )
    return replace(inquiry, reached=reached, rounds=(*inquiry.rounds, this), degraded=degraded, calls=calls)


def _queries(
    inquiry: Inquiry, number: int, observed: Sequence[ObservedPassage], language: Language, limit: int
) -> tuple[tuple[str, ...], str, tuple[ModelCall, ...]]:
    """What is searched next, what went wrong (empty: nothing), and the calls that it took."""
    question = inquiry.question
    if number == 1:
        made = language.reformulate(question, observed, limit=limit)
        return tuple(seeds.clean_queries(made.queries, question, limit=limit)), made.degraded, made.calls
    said = language.control(question, observed, limit=limit, round_number=number)
    if said.sufficient:
        return (), said.degraded, said.calls
    before = [query for past in inquiry.rounds for query in past.queries]
    queries = tuple(seeds.clean_queries(said.queries, question, limit=limit, asked=before))
    silent = "" if said.queries else "evidence is missing, and no query for it was written"
    return queries, said.degraded or silent, said.calls


def _place(number: int, step: str) -> str:
    """How a fall-back begins: by its step in round 1, which every search has, else by its round."""
    return step if number == 1 else f"round {number}"


def _observed(
    reached: Sequence[Candidate], passages: Mapping[int, ObservedPassage]
) -> tuple[ObservedPassage, ...]:
    """The passages of the propositions, each once, in the order in which they were reached."""
    texts: dict[int, dict[str, None]] = {}
    for candidate in reached:
        texts.setdefault(candidate.passage_id, {})[candidate.text] = None
    return tuple(replace(passages[i], selected=tuple(selected)) for i, selected in texts.items())


def _embedded(asked: Sequence[Inquiry], encoder: Encoder) -> list[Inquiry]:
    """Give the queries of the last round their vectors."""
    texts = list(dict.fromkeys(query for inquiry in asked for query in inquiry.rounds[-1].queries))
    row_of = {text: row for row, text in enumerate(texts)}
    vectors = encoder.encode_questions(texts)
    embedded = []
    for inquiry in asked:
        *earlier, last = inquiry.rounds
        rows = np.array([row_of[query] for query in last.queries], dtype=np.intp)
        embedded.append(replace(inquiry, rounds=(*earlier, replace(last, vectors=vectors[rows]))))
    return embedded
