"""Searches per second while a writer ingests, and without one: ``python -m benchmarks.concurrency``."""

from __future__ import annotations

from benchmarks import environment

if __name__ == "__main__":
    environment.require("benchmarks.concurrency")

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine, synthetic
from benchmarks.compare import open_index
from benchmarks.doubles import PreparedQuestion, doors
from benchmarks.loads import synthetic_load
from benchmarks.processes import Ready, together
from evireform import ingestion
from evireform.retrieval.pipeline import search
from evireform.settings import SearchSettings
from evireform.store import corpora
from evireform.store.connection import Store

A_CALL = 10
"""Passages that the writer puts into one call."""

SEED = 99
"""Of what the writer writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """Searches of some clients within some time; ``written`` are the propositions a second beside them."""

    clients: int
    written: float
    per_second: float
    median_ms: float
    p95_ms: float


def corpus(store: Store, propositions: int) -> str:
    """The synthetic corpus of this size, made where it is missing, and ready to be written to; its name."""
    name = f"synthetic-{propositions}"
    with store.transaction() as tx:
        there = corpora.find_corpus(tx, name)
    if there is None:
        synthetic.load(store, name, synthetic.SyntheticCorpus(propositions=propositions))
    with store.transaction(statement_timeout_s=0) as tx:
        for table in ("passage", "proposition", "entity"):  # its rows were copied in with their ids
            sequence = f"pg_get_serial_sequence('{table}', '{table}_id')"
            tx.driver.execute(f"SELECT setval({sequence}, max({table}_id)) FROM {table}".encode())
    return name


def measure(
    url: str, name: str, questions: Sequence[PreparedQuestion], *, clients: Sequence[int], seconds: float
) -> list[Searched]:
    """For each number of clients first an idle database, then one into whose corpus a process writes."""
    measured = []
    for count in clients:
        for writes in (False, True):
            works: list[Callable[[Ready], Any]] = [
                partial(_search, url, name, questions, seconds, number) for number in range(count)
            ]
            works += [partial(_write, url, name, seconds)] * writes
            try:
                results, _ = together(works)
            finally:
                _take_back(url, name, seconds)
            taken = np.concatenate(results[:count])
            measured.append(
                Searched(
                    clients=count,
                    written=results[count] / seconds if writes else 0.0,
                    per_second=len(taken) / seconds,
                    median_ms=1000 * float(np.percentile(taken, 50)),
                    p95_ms=1000 * float(np.percentile(taken, 95)),
                )
            )
    return measured


def _search(
    url: str,
    name: str,
    questions: Sequence[PreparedQuestion],
    seconds: float,
    number: int,
    ready: Ready,
) -> list[float]:
    """Ask one question after the other until the time is up; the seconds that each search took."""
    with machine.opened(url) as store:
        with store.transaction(read_only=True) as tx:
            space = corpora.open_space(tx, name, "proposition")[1]
        encoder, language = doors(questions, space)
        taken: list[float] = []
        order = np.random.default_rng(number).permutation(len(questions)).tolist()

        def ask(turn: int) -> None:
            text = questions[order[turn % len(order)]].text
            search(
                store, name, [text], encoder=encoder, language=language, settings=SearchSettings(log=False)
            )

        ask(0)
        ready()
        until = time.perf_counter() + seconds
        while (start := time.perf_counter()) < until:
            ask(len(taken))
            taken.append(time.perf_counter() - start)
    return taken


def _write(url: str, name: str, seconds: float, ready: Ready) -> int:
    """Ingest passages until the time is up; how many propositions went in."""
    load = synthetic_load(_most(seconds), seed=SEED)
    written = 0
    with machine.opened(url) as store:
        with store.transaction():  # connects
            pass
        ready()
        until = time.perf_counter() + seconds
        for start in range(0, len(load.passages), A_CALL):
            if time.perf_counter() > until:
                return written
            some = load.passages[start : start + A_CALL]
            load.ingest(store, name, some)
            written += sum(len(load.extractions[passage.key].propositions) for passage in some)
    raise RuntimeError(f"the writer ran out of passages after {written} propositions")


def _most(seconds: float) -> int:
    """More propositions than a writer can write in the time."""
    return max(1_000, round(5_000 * seconds))


def _take_back(url: str, name: str, seconds: float) -> None:
    """Delete what the writer wrote."""
    sizes = synthetic.SyntheticCorpus(propositions=_most(seconds), seed=SEED).sizes
    with machine.opened(url) as store:
        ingestion.delete(store, name, [f"{SEED}-{row:08d}" for row in range(len(sizes))])


def table(measured: Sequence[Searched]) -> list[str]:
    """Markdown: for each number of clients the idle database and the one that is written to."""
    rows = []
    for idle, busy in zip(measured[::2], measured[1::2], strict=True):
        rows += [
            f"| {one.clients} | {one.written:,.0f} | {one.per_second:.0f} | {one.median_ms:.0f} "
            f"| {one.p95_ms:.0f} | {one.p95_ms / idle.p95_ms:.2f} |"
            for one in (idle, busy)
        ]
    return [
        "| clients | propositions written a second | searches a second | median ms | p95 ms | p95 : idle |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.concurrency", description=__doc__)
    parser.add_argument("--propositions", type=int, default=100_000, help="of the corpus (100000)")
    parser.add_argument(
        "--clients",
        type=lambda text: [int(count) for count in text.split(",")],
        default=[1, 4, 16],
        help="processes that search (1,4,16)",
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="for each row (20)")
    parser.add_argument("--home", type=Path, help="folder of the embedded server that keeps the corpora")
    options = parser.parse_args()
    with machine.database(options.home) as url:
        with machine.opened(url) as store:
            name = corpus(store, options.propositions)
            questions = synthetic.questions(open_index(store, name)[1].vectors, 100)
        measured = measure(url, name, questions, clients=options.clients, seconds=options.seconds)
        print("\n".join(table(measured)))


if __name__ == "__main__":
    main()
