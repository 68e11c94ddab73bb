"""A small evaluation set whose rankings can be told by hand, and a language backend that knows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evireform.evaluation.bench import Bench
from evireform.evaluation.method import Ranked, by_name
from evireform.records import Judgement, ObservedPassage, Question, Reformulation, Selection
from evireform.settings import SearchSettings
from evireform.store.connection import Store
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import ingest, passages_of

SCRIPT = {
    "a": [("alpha engine", ["Ada"])],
    "b": [("beta loom", ["Ada", "Card"])],
    "c": [("gamma card", ["Card"])],
    "d": [("delta rain", [])],
    "e": [("epsilon snow", [])],
}
"""Each passage is one proposition; a and b share an entity, b and c another."""

QUESTIONS = (
    Question(key="q1", text="alpha engine", gold=("a", "b"), answers=("Ada",), kind="bridge", hops=2),
    Question(key="q2", text="gamma card", gold=("c", "d"), kind="comparison", hops=2),
    Question(key="q3", text="delta rain"),
)


def language(**options: Any) -> ScriptedLanguage:
    """Selects the best candidate; asks for the card after the first question, else for nothing."""
    return ScriptedLanguage(
        extract=SCRIPT,
        select=lambda *_: Selection(positions=(0,)),
        reformulate=lambda question, _: Reformulation(
            queries=("gamma card",) if question == "alpha engine" else ()
        ),
        **options,
    )


def judging(
    choose: Callable[[Sequence[ObservedPassage]], Sequence[int]], *, degraded: str = ""
) -> Callable[..., Judgement]:
    """A judge that lists positions of the passages that it is shown."""
    return lambda _question, _observed, passages: Judgement(
        positions=tuple(choose(passages)), degraded=degraded
    )


def write_set(folder: Path) -> Path:
    """The set in our own files."""
    corpus = [{"id": p.key, "title": "", "text": p.text} for p in passages_of(SCRIPT)]
    questions = [
        {
            "id": q.key,
            "question": q.text,
            "answers": list(q.answers),
            "gold_passage_ids": list(q.gold),
            "hops": q.hops,
            "type": q.kind,
        }
        for q in QUESTIONS
    ]
    for name, objects in (("corpus.jsonl", corpus), ("questions.jsonl", questions)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in objects), encoding="utf-8")
    return folder


def bench_of(store: Store, name: str, speaking: ScriptedLanguage | None = None, **settings: Any) -> Bench:
    """A bench over the set's passages; exact, one proposition a residual query."""
    ingest(store, name, passages_of(SCRIPT))
    return Bench(
        store,
        name,
        encoder=HashEncoder(),
        language=speaking or language(),
        settings=SearchSettings(**{"k": 20, "exact": True, "hits_per_query": 1, **settings}),
    )


def rank(bench: Bench, method: str, questions: Sequence[Question] = QUESTIONS) -> list[Ranked]:
    """What a method makes of the questions, as one batch of its own."""
    bench.begin()
    return by_name(method, bench.settings).rank(bench, questions)


def keys(ranked: Ranked) -> str:
    """The ranking in letters."""
    return "".join(key for key, _ in ranked.passages)
