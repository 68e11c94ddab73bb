"""Propositions written per second beside a raw COPY of their vectors: ``python -m benchmarks.ingestion``."""

from __future__ import annotations

from benchmarks import environment

if __name__ == "__main__":
    environment.require("benchmarks.ingestion")

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from unittest.mock import patch

import psycopg

from benchmarks import machine
from benchmarks.copying import as_copy
from benchmarks.loads import synthetic_load
from benchmarks.processes import Ready, together
from benchmarks.synthetic import DIMENSIONS, MODEL, SyntheticCorpus
from evireform.embedding import Vectors
from evireform.store import corpora, spaces

CORPUS = "ingestion-benchmark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """What one process writes: a part of a synthetic corpus, so many passages in a call of ``ingest``."""

    propositions: int
    seed: int
    part: int = 0
    of: int = 1
    passages_a_call: int = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """What one way of writing took."""

    way: str
    propositions: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.propositions / self.seconds


def measure(url: str, *, propositions: int, added: int, writers: Sequence[int], indexed: bool) -> list[Rate]:
    """Write the same synthetic corpus in several ways, one after another, the raw COPYs first.

    Args:
        url: A database with evireform's tables.
        propositions: Size of the corpus that is written in bulk.
        added: Propositions that are then added a passage a call, and as many ten passages a call.
        writers: How many processes write in bulk together: each number is a way.
        indexed: Write once more into a space that has its HNSW index already, and time building one.
    """
    rates = [copied(url, propositions, binary=False), copied(url, propositions, binary=True)]
    for count in writers:
        with _corpus(url):
            parts = [Writer(propositions=propositions, seed=1, part=part, of=count) for part in range(count)]
            rates.append(_written(url, f"bulk, {count} writer{'s' * (count > 1)}", parts))
            if count == 1:
                rates += _added(url, added, "")
                if indexed:
                    rates.append(_built(url, propositions + 2 * added))
                    rates += _added(url, added, ", HNSW there")
    if indexed:
        with _corpus(url):
            _built(url, 0)
            parts = [Writer(propositions=propositions, seed=1)]
            rates.append(_written(url, "bulk, 1 writer, HNSW there", parts))
    return rates


def copied(url: str, propositions: int, *, binary: bool) -> Rate:
    """The vectors alone into one table without keys or indexes, by one COPY that is then committed."""
    blocks = list(SyntheticCorpus(propositions=propositions, seed=1).vectors())
    streams = [
        as_copy(corpus_id=1, space_id=1, tenant_id=1, item_ids=range(len(block)), vectors=block)
        if binary
        else _as_text(block)
        for block in blocks
    ]
    columns = "corpus_id bigint, space_id bigint, item_id bigint, tenant_id bigint"
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE raw_copy ({columns}, embedding halfvec({DIMENSIONS}))".encode())
        connection.execute("ALTER TABLE raw_copy ALTER COLUMN embedding SET STORAGE PLAIN")
        start = time.perf_counter()
        for stream in streams:
            with connection.cursor().copy(_COPY[binary]) as copy:
                copy.write(stream)
        connection.commit()
        seconds = time.perf_counter() - start
        connection.execute("DROP TABLE raw_copy")
    return Rate(way=RAW[binary], propositions=propositions, seconds=seconds)


RAW = {False: "raw COPY of the vectors as text", True: "raw COPY of the vectors, binary"}
_COPY = {False: b"COPY raw_copy FROM STDIN", True: b"COPY raw_copy FROM STDIN (FORMAT binary)"}


def _as_text(vectors: Vectors) -> str:
    rows = (f"1\t1\t{row}\t1\t[{','.join(map(repr, one))}]\n" for row, one in enumerate(vectors.tolist()))
    return "".join(rows)


def _added(url: str, propositions: int, suffix: str) -> Iterator[Rate]:
    for passages in (1, 10):
        seed = len(suffix) + passages + 1
        writer = Writer(propositions=propositions, seed=seed, passages_a_call=passages)
        yield _written(url, f"added, {passages} passage{'s' * (passages > 1)} a call{suffix}", [writer])


def _written(url: str, way: str, writers: Sequence[Writer]) -> Rate:
    """Processes of their own write together; the time runs from when all are ready until the last is done."""
    counts, seconds = together([partial(_write, url, writer) for writer in writers])
    return Rate(way=way, propositions=sum(counts), seconds=seconds)


def _write(url: str, writer: Writer, ready: Ready) -> int:
    """The work of one process; returns how many propositions it wrote."""
    load = synthetic_load(writer.propositions, seed=writer.seed, part=writer.part, of=writer.of)
    with machine.opened(url) as store, patch.object(spaces, "ensure_index", lambda *_, **__: False):
        with store.transaction():  # connects
            pass
        ready()
        for start in range(0, len(load.passages), writer.passages_a_call):
            load.ingest(store, CORPUS, load.passages[start : start + writer.passages_a_call])
    return load.propositions


def _built(url: str, propositions: int) -> Rate:
    """The HNSW index over what is there."""
    with machine.opened(url) as store:
        start = time.perf_counter()
        with store.transaction(statement_timeout_s=0) as tx:
            space = corpora.open_space(tx, CORPUS, "proposition")[1]
            tx.run("create_space_index", {"corpus_id": space.corpus_id, "space_id": space.space_id})
        seconds = time.perf_counter() - start
    return Rate(way="HNSW built over all of it", propositions=propositions, seconds=seconds)


@contextmanager
def _corpus(url: str) -> Iterator[None]:
    """An empty corpus with its vector space, which is gone afterwards."""
    with machine.opened(url) as store:
        with store.transaction() as tx:
            row = corpora.create_corpus(tx, CORPUS, titles="off")
            if corpora.find_active_space(tx, row.corpus_id, "proposition") is None:
                corpora.create_space(
                    tx, row, kind="proposition", model=MODEL, dimensions=DIMENSIONS, prompts={}
                )
        try:
            yield
        finally:
            with store.transaction(statement_timeout_s=0) as tx:
                corpora.delete_corpus(tx, CORPUS)


def table(rates: Sequence[Rate]) -> list[str]:
    """Markdown: every way with its share of the rate of both raw COPYs."""
    text, binary = (next(r.per_second for r in rates if r.way == RAW[kind]) for kind in (False, True))
    return [
        "| way of writing | propositions | seconds | per second | of COPY as text | of binary COPY |",
        "|---|---|---|---|---|---|",
        *(
            f"| {rate.way} | {rate.propositions:,} | {rate.seconds:.2f} | {rate.per_second:,.0f} "
            f"| {rate.per_second / text:.3f} | {rate.per_second / binary:.3f} |"
            for rate in rates
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingestion", description=__doc__)
    parser.add_argument("--propositions", type=int, default=100_000, help="written in bulk (100000)")
    parser.add_argument("--added", type=int, default=2_000, help="added a few passages a call (2000)")
    parser.add_argument(
        "--writers",
        type=lambda text: [int(count) for count in text.split(",")],
        default=[1, 4],
        help="processes that write in bulk together (1,4)",
    )
    parser.add_argument(
        "--index", action=argparse.BooleanOptionalAction, default=True, help="also with an HNSW index"
    )
    parser.add_argument("--home", type=Path, help="folder of the embedded server")
    options = parser.parse_args()
    with machine.database(options.home) as url:
        rates = measure(
            url,
            propositions=options.propositions,
            added=options.added,
            writers=options.writers,
            indexed=options.index,
        )
        print("\n".join(table(rates)))


if __name__ == "__main__":
    main()
