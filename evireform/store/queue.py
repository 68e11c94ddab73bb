"""The queue of passages, and the workers that drain it. Every function runs in a transaction of a job.

The queue is locked after the corpus and before its passages, in key order; a claim waits for nobody.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evireform.records import (
    CorpusRow,
    ExtractedProposition,
    Extraction,
    Passage,
    QueueProgress,
    Rejected,
    WorkerRow,
)
from evireform.store import corpora

if TYPE_CHECKING:
    from evireform.store.connection import Transaction

ALIVE_S = 60.0
"""Age of its last heartbeat from which a worker is taken for lost; it beats six times as often."""

_FAILURES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedPassage:
    """A passage that a worker took on lease.

    Attributes:
        passage: It.
        extraction: Ready-made, where it came with one.
        ticket: Tells this text from one that replaces it.
        attempts: How often it was taken, this time included.
        reason: Why the last attempt failed; empty where the worker just vanished.
    """

    passage: Passage
    extraction: Extraction | None
    ticket: int
    attempts: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """Keys that are new in the queue, and those that replaced what waited; the rest waited as it is."""

    queued: tuple[str, ...]
    replaced: tuple[str, ...]


def lock_queued(tx: Transaction, corpus_id: int, passage_keys: Sequence[str]) -> dict[str, int]:
    """Lock what waits under some keys, so that no worker writes it before the transaction ends.

    Returns:
        The keys that wait, each with its ticket.
    """
    corpora.hold_corpus(tx, corpus_id)
    return dict(tx.run("lock_queued", {"corpus_id": corpus_id, "passage_keys": list(passage_keys)}))


def enqueue_passages(
    tx: Transaction, corpus: CorpusRow, passages: Mapping[str, tuple[Passage, Extraction | None]]
) -> Enqueued:
    """Let passages wait, each under its key and with its ready-made extraction, where it has one."""
    corpora.hold_corpus(tx, corpus.corpus_id)
    given = [passages[key] for key in sorted(passages)]
    rows = tx.run(
        "enqueue_passages",
        {
            "corpus_id": corpus.corpus_id,
            "tenant_id": corpus.tenant_id,
            "passage_keys": [passage.key for passage, _ in given],
            "titles": [passage.title for passage, _ in given],
            "bodies": [passage.text for passage, _ in given],
            "metadata": [_json(dict(passage.metadata)) for passage, _ in given],
            "extractions": [None if ready is None else _json(_written(ready)) for _, ready in given],
        },
    )
    return Enqueued(
        queued=tuple(key for key, existed in rows if not existed),
        replaced=tuple(key for key, existed in rows if existed),
    )


def withdraw_queued(tx: Transaction, corpus_id: int, passage_keys: Sequence[str]) -> list[str]:
    """Take passages out of the queue, also what workers have on lease. Returns the keys that waited."""
    corpora.hold_corpus(tx, corpus_id)
    rows = tx.run("withdraw_queued", {"corpus_id": corpus_id, "passage_keys": list(passage_keys)})
    return [row[0] for row in rows]


def withdraw_seen(tx: Transaction, corpus_id: int, tickets: Mapping[str, int]) -> None:
    """Take passages out of the queue as they were seen by `lock_queued`, and nothing that came later."""
    if tickets:
        corpora.hold_corpus(tx, corpus_id)
        parameters = {"passage_keys": list(tickets), "tickets": list(tickets.values())}
        tx.run("withdraw_seen", {"corpus_id": corpus_id, **parameters})


def claim_queued(
    tx: Transaction, corpus_id: int, worker_id: int, *, fetch: int, lease_s: float
) -> list[QueuedPassage]:
    """Take the next passages on lease, in the order of their turns; counts as an attempt.

    Raises:
        CorpusNotFound: the corpus was deleted.
    """
    corpora.hold_corpus(tx, corpus_id)
    parameters = {"corpus_id": corpus_id, "worker_id": worker_id, "fetch": fetch, "lease_s": lease_s}
    claimed = [
        QueuedPassage(
            passage=Passage(key=row[0], title=row[1], text=row[2], metadata=row[3]),
            extraction=None if row[4] is None else _read(row[4]),
            ticket=row[5],
            attempts=row[6],
            reason=row[7],
        )
        for row in tx.run("claim_queued", parameters)
    ]
    return sorted(claimed, key=lambda queued: (queued.attempts, queued.ticket))


def extend_leases(
    tx: Transaction, corpus_id: int, worker_id: int, passage_keys: Sequence[str], *, lease_s: float
) -> None:
    """Keep passages on lease, those of them that the worker still holds."""
    parameters = {"corpus_id": corpus_id, "worker_id": worker_id, "lease_s": lease_s}
    tx.run("extend_leases", {**parameters, "passage_keys": list(passage_keys)})


def lock_held(tx: Transaction, corpus_id: int, worker_id: int, tickets: Mapping[str, int]) -> set[str]:
    """Lock passages that a worker is to write; gives those that it still holds.

    Args:
        tx: An open transaction.
        corpus_id: The corpus.
        worker_id: The worker.
        tickets: Key to the ticket that was claimed.
    """
    corpora.hold_corpus(tx, corpus_id)
    parameters = {"passage_keys": list(tickets), "tickets": list(tickets.values())}
    rows = tx.run("lock_held", {"corpus_id": corpus_id, "worker_id": worker_id, **parameters})
    return {row[0] for row in rows}


def return_queued(tx: Transaction, corpus_id: int, reasons: Mapping[str, str]) -> None:
    """Give back passages that `lock_held` locked, each with the reason why the attempt failed."""
    parameters = {"passage_keys": list(reasons), "reasons": list(reasons.values())}
    tx.run("return_queued", {"corpus_id": corpus_id, **parameters})


def give_back_queued(tx: Transaction, corpus_id: int, worker_id: int, tickets: Mapping[str, int]) -> None:
    """Give back what a worker still holds, as if it had not taken it; also while the corpus is locked.

    The arguments are those of `lock_held`.
    """
    parameters = {"passage_keys": list(tickets), "tickets": list(tickets.values())}
    tx.run("give_back_queued", {"corpus_id": corpus_id, "worker_id": worker_id, **parameters})


def queues(tx: Transaction, rows: Sequence[CorpusRow]) -> list[tuple[CorpusRow, bool]]:
    """Which of these corpora have passages waiting, and whether any is to be had now."""
    known = {row.corpus_id: row for row in rows}
    return [(known[row[0]], row[1]) for row in tx.run("queues", {"corpus_ids": list(known)})]


def add_worker(tx: Transaction, tenant_id: int, *, host: str, process: int) -> int:
    """Sign a worker on; gives its id."""
    parameters = {"tenant_id": tenant_id, "host": host, "process": process}
    return int(tx.run("add_worker", parameters)[0][0])


def see_worker(tx: Transaction, worker_id: int) -> None:
    """Write down that a worker is alive."""
    tx.run("see_worker", {"worker_id": worker_id})


def count_work(tx: Transaction, worker_id: int, *, written: int, failed: int) -> None:
    """Write down what a worker writes in this transaction."""
    tx.run("count_work", {"worker_id": worker_id, "written": written, "failed": failed})


def drop_worker(tx: Transaction, tenant_id: int, worker_id: int) -> None:
    """Sign a worker off, and those that were lost a day ago."""
    tx.run("drop_worker", {"tenant_id": tenant_id, "worker_id": worker_id})


def workers(tx: Transaction) -> list[WorkerRow]:
    """Who works on the queue of the current tenant."""
    return [
        WorkerRow(
            worker_id=row[0],
            host=row[1],
            process=row[2],
            started_at=row[3],
            unseen_s=row[4],
            alive=row[4] < ALIVE_S,
            written=row[5],
            failed=row[6],
        )
        for row in tx.run("workers", {"tenant_id": corpora.current_tenant(tx)})
    ]


def progress(tx: Transaction, corpus: CorpusRow) -> QueueProgress:
    """How far the queue of a corpus is."""
    by_id = {"corpus_id": corpus.corpus_id}
    waiting, leased, tried = tx.run("queue_counts", by_id)[0]
    ready, empty, failed, recent, since_s = tx.run("passage_progress", by_id)[0]
    rate = recent / since_s
    failures = tx.run("failed_passages", {**by_id, "fetch": _FAILURES}) if failed else []
    return QueueProgress(
        name=corpus.name,
        waiting=waiting,
        leased=leased,
        tried=tried,
        ready=ready,
        empty=empty,
        failed=failed,
        rate=rate,
        left_s=(waiting + leased) / rate if rate else None,
        failures=tuple(Rejected(passage_key=key, reason=reason) for key, reason in failures),
    )


def _written(extraction: Extraction) -> dict[str, Any]:
    propositions = [{"text": p.text, "entities": list(p.entities)} for p in extraction.propositions]
    return {"propositions": propositions, "error": extraction.error}


def _read(stored: Mapping[str, Any]) -> Extraction:
    return Extraction(
        propositions=tuple(
            ExtractedProposition(text=one["text"], entities=tuple(one["entities"]))
            for one in stored["propositions"]
        ),
        error=stored["error"],
    )


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
