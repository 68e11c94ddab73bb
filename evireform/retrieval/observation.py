"""What is known of a question before anything is ranked: its candidates, the selection, and its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evireform import parallel, seeds
from evireform.embedding import Encoder, Vectors
from evireform.filters import Filter
from evireform.language import Language
from evireform.records import Candidate, CorpusRow, ModelCall, SpaceRow
from evireform.retrieval.clock import Clock
from evireform.retrieval.rounds import Inquiry, Round, inquire
from evireform.settings import SearchSettings
from evireform.store import filtering, searching
from evireform.store.connection import Store
from evireform.store.filtering import Allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is known of a question before anything is ranked.

    ``chosen`` holds positions in ``candidates``. ``rounds`` is empty where no source passage was read.
    ``reason`` says why nothing could be found, where that was clear before anything was searched.
    """

    question: str
    question_vector: Vectors
    candidates: tuple[Candidate, ...]
    chosen: tuple[int, ...]
    rounds: tuple[Round, ...]
    degraded: tuple[str, ...]
    notes: tuple[str, ...]
    calls: tuple[ModelCall, ...]
    reason: str = ""

    def within(self, settings: SearchSettings) -> tuple[Round, ...]:
        """The rounds that these settings allow; more may have been observed, for other settings."""
        most = settings.rounds if settings.reformulate != "off" else 1
        return self.rounds[:most]

    def observed(self, settings: SearchSettings) -> tuple[str, ...]:
        """Keys of the observed passages, in the order in which they were reached, each once."""
        if rounds := self.within(settings):
            return tuple(passage.passage_key for passage in rounds[-1].observed)
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
    """Search for the questions, select, and take each through the rounds that write its residual queries."""
    if settings.where and (barred := _barred(store, space, settings.where, clock)):
        return [_nothing(question, barred) for question in questions]
    with clock.stage("embed"):
        vectors = encoder.encode_questions(questions)
    with (
        clock.stage("candidates"),
        store.reading(ef_search=settings.ef_search or None, exact=settings.exact) as tx,
    ):
        allowed = filtering.allowed_in_space(tx, space, settings.where)
        lists, repeated = searching.candidates(
            tx, space, vectors,
            limit=settings.candidates, with_entities=language.wants_entities, titles=corpus.titles,
            allowed=allowed,
        )  # fmt: skip
        clock.tally(tx)
    notes: tuple[str, ...] = () if allowed is None else (_filtered(settings.where, allowed),)
    if repeated:
        notes += ("candidates: the index brought too few, so the exact scan was run",)
    too_long = set(encoder.truncated(questions))
    with clock.stage("select"):
        observations = parallel.in_order(
            lambda row: _select(
                questions[row],
                vectors[row],
                tuple(lists[row]) if questions[row].strip() else (),
                language,
                settings,
                notes,
                ("the question is longer than the embedding model's window and was cut",)
                if row in too_long
                else (),
            ),
            range(len(questions)),
            at_once=language.concurrency,
        )
    if settings.reformulate == "off" and not settings.set_weight:
        return observations
    inquiries = [
        Inquiry(question=o.question, reached=tuple(o.candidates[row] for row in o.chosen))
        for o in observations
    ]
    inquired = inquire(
        store, corpus, space, inquiries, encoder=encoder, language=language, settings=settings, clock=clock
    )
    return [
        replace(o, rounds=after.rounds, degraded=o.degraded + after.degraded, calls=o.calls + after.calls)
        for o, after in zip(observations, inquired, strict=True)
    ]


def _barred(store: Store, space: SpaceRow, where: Filter, clock: Clock) -> str:
    """Why a filter allows no proposition at all; empty where it allows one."""
    with clock.stage("filter"), store.reading() as tx:
        nothing = not filtering.allows_any(tx, space.corpus_id, where)
        odd = filtering.unmet(tx, space.corpus_id, where) if nothing else []
        clock.tally(tx)
    if not nothing:
        return ""
    why = f": {'; '.join(odd)}" if odd else ""
    return f"the filter {_said(where)} allows no proposition of the corpus{why}"


def _nothing(question: str, reason: str) -> Observation:
    return Observation(
        question=question,
        question_vector=np.zeros(0, dtype=np.float32),
        candidates=(),
        chosen=(),
        rounds=(),
        degraded=(),
        notes=(),
        calls=(),
        reason=reason,
    )


def _filtered(where: Filter, allowed: Allowed) -> str:
    """What a filter allows, and how it was searched."""
    if allowed.few:
        return f"filter: {_said(where)} allows {allowed.size} propositions; each was compared"
    return f"filter: {_said(where)} allows more than {allowed.most} propositions; the index was searched"


def _said(where: Filter) -> str:
    return " and ".join(condition.brief() for condition in where)


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
        rounds=(),
        degraded=degraded,
        notes=notes,
        calls=calls,
    )
