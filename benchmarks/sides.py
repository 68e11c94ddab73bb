"""Several ways to answer the same questions, timed in turns: what the machine does meets all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.compare import Times
from benchmarks.doubles import PreparedQuestion, doors
from evireform.records import Ranking
from evireform.retrieval.pipeline import search
from evireform.settings import SearchSettings
from evireform.store import corpora
from evireform.store.connection import Store

Side = Callable[[PreparedQuestion], Ranking]

ROUNDS = 5
"""Times that each side answers every question; the first answers before that are not counted."""


def searching(store: Store, name: str, questions: Sequence[PreparedQuestion]) -> Side:
    """Searches of one corpus through one store, without the log."""
    with store.transaction(read_only=True) as tx:
        space = corpora.open_space(tx, name, "proposition")[1]
    encoder, language = doors(questions, space)
    settings = SearchSettings(log=False)
    return lambda question: search(
        store, name, [question.text], encoder=encoder, language=language, settings=settings
    )[0]


def alternately(
    sides: Mapping[str, Side], questions: Sequence[PreparedQuestion]
) -> tuple[dict[str, Times], dict[str, list[Ranking]]]:
    """Question by question, one side after the other, in turns. Returns times, and what each side ranked."""
    rankings = {name: [side(question) for question in questions] for name, side in sides.items()}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(ROUNDS):
        for row, question in enumerate(questions):
            names = list(sides)
            for name in names if (turn + row) % 2 else names[::-1]:
                start = time.perf_counter()
                sides[name](question)
                taken[name].append(time.perf_counter() - start)
    times = {}
    for name, seconds in taken.items():
        median, p95 = np.percentile(seconds, [50, 95]) * 1000
        times[name] = Times(median_ms=float(median), p95_ms=float(p95))
    return times, rankings


def table(times: Mapping[str, Times]) -> list[str]:
    """Markdown: each side beside the first."""
    first = next(iter(times.values()))
    return [
        "| side | median ms | p95 ms | median : first | p95 : first |",
        "|---|---|---|---|---|",
        *(
            f"| {name} | {one.median_ms:.1f} | {one.p95_ms:.1f} | {one.median_ms / first.median_ms:.3f} "
            f"| {one.p95_ms / first.p95_ms:.3f} |"
            for name, one in times.items()
        ),
    ]
