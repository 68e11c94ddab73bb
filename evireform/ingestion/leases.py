"""What a worker has in hand of one corpus: on lease, written by who still holds it, or given back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from evireform.records import BatchDone, CorpusRow, Rejected
from evireform.settings import WorkerSettings
from evireform.store import queue, writing
from evireform.store.connection import Store, Transaction
from evireform.store.queue import QueuedPassage
from evireform.store.writing import PreparedPassage, Written

OnBatch = Callable[[BatchDone], None]

_VANISHED = "the worker that had it ended, or lost its lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """A lease: the ticket that was claimed, which attempt it is, and whether it may be tried again."""

    ticket: int
    attempt: int
    last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A batch shared out: what the worker still holds and writes, what goes back, and how much it lost."""

    written: list[PreparedPassage]
    returned: list[PreparedPassage]
    lost: int


@dataclass(slots=True, kw_only=True)
class Leases:
    """The leases of a worker on passages of a corpus; `extend` may be called from another thread.

    Attributes:
        store: The database.
        corpus: The corpus.
        worker_id: The worker's row.
        settings: Batch, length of a lease, attempts.
        on_batch: Told of every transaction that committed.
        done: Told already.
    """

    store: Store
    corpus: CorpusRow
    worker_id: int
    settings: WorkerSettings
    on_batch: OnBatch
    _in_hand: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def claim(self) -> list[QueuedPassage]:
        """The next passages, on lease from now on."""
        with self.store.transaction() as tx:
            claimed = queue.claim_queued(
                tx,
                self.corpus.corpus_id,
                self.worker_id,
                fetch=self.settings.batch,
                lease_s=self.settings.lease_s,
            )
        with self._lock:
            self._in_hand |= {queued.passage.key: queued.ticket for queued in claimed}
        return claimed

    def leased(self, queued: QueuedPassage) -> Leased:
        """The lease on a passage that was claimed."""
        attempt, most = queued.attempts, self.settings.attempts
        return Leased(ticket=queued.ticket, attempt=min(attempt, most), last=attempt >= most)

    def given_up(self, queued: QueuedPassage) -> str:
        """Why a passage is not tried any more; empty where it is."""
        if queued.attempts <= self.settings.attempts:
            return ""
        return _given_up(self.settings.attempts, queued.reason or _VANISHED)

    def extend(self) -> None:
        """Keep everything in hand on lease."""
        with self._lock:
            keys = sorted(self._in_hand)
        if keys:
            with self.store.transaction() as tx:
                queue.extend_leases(
                    tx, self.corpus.corpus_id, self.worker_id, keys, lease_s=self.settings.lease_s
                )

    def share(self, tx: Transaction, batch: Sequence[tuple[Leased, bool, PreparedPassage]]) -> Share:
        """Lock what is still held of a batch, and give back what failed and may be tried again.

        Args:
            tx: The transaction that will write the rest.
            batch: Leases, whether the passage was extracted just now, and what was made of it.
        """
        tickets = {prepared.passage.key: lease.ticket for lease, _, prepared in batch}
        held = queue.lock_held(tx, self.corpus.corpus_id, self.worker_id, tickets)
        share = Share(written=[], returned=[], lost=len(batch) - len(held))
        for lease, extracted, prepared in batch:
            if prepared.passage.key not in held:
                continue
            if prepared.state != "failed" or not extracted:
                share.written.append(prepared)
            elif lease.last:
                reason = _given_up(lease.attempt, prepared.reason)
                share.written.append(replace(prepared, reason=reason))
            else:
                share.returned.append(prepared)
        if share.returned:
            reasons = {p.passage.key: p.reason for p in share.returned}
            queue.return_queued(tx, self.corpus.corpus_id, reasons)
        return share

    def settle(self, tx: Transaction, share: Share, written: Written) -> None:
        """Take what was written out of the queue, in the transaction that wrote it."""
        keys = [prepared.passage.key for prepared in share.written]
        current = {*written.added, *written.changed}
        # Somebody brought these to the same text meanwhile; what the queue says of them besides is newer.
        others = [prepared.passage for prepared in share.written if prepared.passage.key not in current]
        if others:
            writing.relabel_passages(tx, self.corpus.corpus_id, others)
        queue.withdraw_queued(tx, self.corpus.corpus_id, keys)
        failed = sum(prepared.state == "failed" for prepared in share.written)
        queue.count_work(tx, self.worker_id, written=len(keys), failed=failed)

    def close(self, batch: Sequence[PreparedPassage], share: Share) -> None:
        """Forget a batch after its transaction, and tell of it."""
        self._drop([prepared.passage.key for prepared in batch])
        failed = [prepared for prepared in share.written if prepared.state == "failed"]
        self.on_batch(
            BatchDone(
                corpus=self.corpus.name,
                written=len(share.written),
                failed=_reasons(failed),
                returned=_reasons(share.returned),
                lost=share.lost,
            )
        )

    def give_back(self) -> None:
        """Give back everything in hand, as if it had not been taken."""
        with self._lock:
            tickets = dict(sorted(self._in_hand.items()))
        if not tickets:
            return
        with self.store.transaction() as tx:
            queue.give_back_queued(tx, self.corpus.corpus_id, self.worker_id, tickets)
        self._drop(list(tickets))

    def _drop(self, keys: Sequence[str]) -> None:
        with self._lock:
            for key in keys:
                self._in_hand.pop(key, None)


def _given_up(attempts: int, reason: str) -> str:
    return f"given up after {attempts} attempt{'s' if attempts > 1 else ''}: {reason}"


def _reasons(prepared: Sequence[PreparedPassage]) -> tuple[Rejected, ...]:
    return tuple(Rejected(passage_key=one.passage.key, reason=one.reason) for one in prepared)
