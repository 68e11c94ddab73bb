"""Running methods: questions in batches, every method in turn, each outcome kept as it is made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evireform import answering, parallel
from evireform.embedding import Encoder
from evireform.evaluation.bench import Bench
from evireform.evaluation.files import file_name
from evireform.evaluation.keeping import Kept
from evireform.evaluation.method import Method, Ranked
from evireform.evaluation.records import (
    Outcome,
    OutcomeCost,
    Pools,
    Trace,
    TracedPassage,
    TracedQuery,
    TracedSeed,
    TracedTerm,
)
from evireform.measures import CUTOFFS, measure, measure_answers
from evireform.records import Question, Ranking
from evireform.retrieval.pipeline import BATCH
from evireform.settings import AnswerSettings
from evireform.version import __version__

MISSED_AT = 5
"""Depth within which a question that lacks a gold passage counts as a miss, and keeps its trace."""

ANSWER = "answer: "
"""How a fall-back of the reader begins."""

Progress = Callable[[str, int, int], None]
"""Called with the stage, what is done since the last call, and the total (0 where it is not known)."""


def run(
    bench: Bench,
    methods: Mapping[str, Method],
    questions: Sequence[Question],
    *,
    corpus_digest: str,
    answers: AnswerSettings | None = None,
    answered: Collection[str] = (),
    directory: Path | None = None,
    label: str = "",
    progress: Progress | None = None,
) -> dict[str, dict[str, Outcome]]:
    """Outcomes by method and question, those that ``directory`` holds included, without traces and pools.

    Args:
        bench: The index.
        methods: Name to method.
        questions: All of them; keys are unique.
        corpus_digest: Of the index as it is; outcomes of another do not count.
        answers: How questions are answered from the rankings; None answers none.
        answered: Methods that are answered from; empty is all of them.
        directory: Folder of the study; None keeps nothing.
        label: The condition.
        progress: Told of every batch.
    """
    kept = {}
    for name, method in methods.items():
        path = directory / outcomes_file(name, label) if directory else None
        reading = answers if name in (answered or methods) else None
        kept[name] = Kept(path, _made_of(bench, name, method, corpus_digest, reading), questions)
    bench.expect([method.search for method in methods.values() if method.search is not None])
    stage = f"search {label}".strip()
    for start in range(0, len(questions), BATCH):
        batch = questions[start : start + BATCH]
        bench.begin()
        for name, method in methods.items():
            if new := kept[name].missing(batch):
                ranked = method.rank(bench, new)
                if answers is not None and name in (answered or methods):
                    ranked = _answered(bench, new, ranked, answers)
                kept[name].add([_outcome(q, one) for q, one in zip(new, ranked, strict=True)])
            if progress:
                progress(stage, len(batch), len(questions) * len(methods))
    return {
        name: {question.key: one.outcomes[question.key] for question in questions}
        for name, one in kept.items()
    }


def embedding(encoder: Encoder) -> dict[str, Any]:
    """All that tells the vectors of one embedding model from those of another."""
    return {
        "model": encoder.model,
        "dimensions": encoder.dimensions,
        "prompts": dict(encoder.prompts),
    }


def outcomes_file(method: str, label: str) -> str:
    """Where the outcomes of a method are, relative to the study's folder."""
    return "/".join(["outcomes", *([file_name(label)] if label else []), f"{file_name(method)}.jsonl"])


def _made_of(
    bench: Bench, name: str, method: Method, corpus_digest: str, answers: AnswerSettings | None
) -> dict[str, Any]:
    """Everything that an outcome depends on, beside its question."""
    return {
        "method": name,
        "settings": method.settings,
        "models": method.models(bench),
        "embedding": embedding(bench.encoder),
        "corpus": corpus_digest,
        "extractor": bench.corpus.extractor,
        "titles": bench.corpus.titles,
        "depth": bench.depth,
        "answers": None if answers is None else asdict(answers),
        "version": __version__,
    }


def _answered(
    bench: Bench, questions: Sequence[Question], ranked: Sequence[Ranked], settings: AnswerSettings
) -> list[Ranked]:
    """Let the reader answer from the rankings, where a question has reference answers and no answer yet."""

    def answered(row: int) -> Ranked:
        one = ranked[row]
        if one.answer is not None or not questions[row].answers:
            return one
        passages = one.ranking.passages if one.ranking else ()
        said = answering.from_passages(
            bench.store,
            bench.corpus.name,
            questions[row].text,
            [key for key, _ in one.passages],
            language=bench.language,
            settings=settings,
            earned={p.passage_key: [earning.text for earning in p.propositions] for p in passages},
        )
        return replace(
            one,
            answer=said.text,
            degraded=one.degraded + tuple(f"{ANSWER}{reason}" for reason in said.degraded),
            cost=OutcomeCost(
                model_calls=one.cost.model_calls + said.cost.model_calls,
                tokens_in=one.cost.tokens_in + said.cost.tokens_in,
                tokens_out=one.cost.tokens_out + said.cost.tokens_out,
                seconds=one.cost.seconds + sum(said.cost.stage_s.values()),
            ),
        )

    return parallel.in_order(answered, range(len(ranked)), at_once=bench.language.concurrency)


def _outcome(question: Question, ranked: Ranked) -> Outcome:
    keys = [key for key, _ in ranked.passages]
    ranking = ranked.ranking
    measures: dict[str, float] = {}
    if question.gold and (keys or ranked.answer is None or ranking is not None):
        measures |= measure({question.key: keys}, {question.key: question.gold}, cutoffs=CUTOFFS).means
    if question.answers and ranked.answer is not None:
        measures |= measure_answers(
            {question.key: ranked.answer}, {question.key: list(question.answers)}
        ).means
    missed = bool(question.gold) and not set(question.gold) <= set(keys[:MISSED_AT])
    return Outcome(
        question=question.key,
        passages=ranked.passages,
        measures=measures,
        cost=ranked.cost,
        degraded=ranked.degraded,
        reason=ranked.reason,
        answer=ranked.answer,
        pools=_pools(ranking) if ranking else None,
        trace=_trace(ranking, question) if ranking and missed else None,
    )


def _pools(ranking: Ranking) -> Pools:
    owner = {seed.proposition_id: seed.passage_key for seed in ranking.seeds}
    found = (owner[i] for query in ranking.residual_queries for i, _ in query.hits if i in owner)
    return Pools(
        candidates=tuple(dict.fromkeys(candidate.passage_key for candidate in ranking.candidates)),
        observed=ranking.observed,
        found=tuple(dict.fromkeys(found)),
    )


def _trace(ranking: Ranking, question: Question) -> Trace:
    place = {seed.proposition_id: row for row, seed in enumerate(ranking.seeds)}
    owner = {seed.proposition_id: seed.passage_key for seed in ranking.seeds}
    shown = [p for p in ranking.passages if p.rank <= MISSED_AT or p.passage_key in question.gold]
    return Trace(
        seeds=tuple(
            TracedSeed(passage_key=s.passage_key, ordinal=s.ordinal, text=s.text, mass=s.mass)
            for s in ranking.seeds
        ),
        queries=tuple(
            TracedQuery(
                text=query.text,
                round_number=query.round_number,
                passages=tuple(dict.fromkeys(owner[i] for i, _ in query.hits if i in owner)),
            )
            for query in ranking.residual_queries
        ),
        passages=tuple(
            TracedPassage(
                passage_key=passage.passage_key,
                rank=passage.rank,
                score=passage.score,
                terms=tuple(
                    TracedTerm(query=t.query, seed=place[t.seed_id], entity=t.entity, value=t.value)
                    for t in passage.trace
                ),
            )
            for passage in shown
        ),
    )
