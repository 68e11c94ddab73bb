"""A worker: takes passages from the queue on lease, extracts and writes them, and waits for more."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from evireform.errors import CorpusNotFound, EvireformError, ExtractorMismatch, VectorSpaceMismatch
from evireform.ingestion.job import Job
from evireform.ingestion.leases import Leases, OnBatch
from evireform.records import BatchDone, CorpusRow, IngestionSummary, WorkerSummary
from evireform.settings import WorkerSettings
from evireform.store import corpora, queue
from evireform.store.connection import Store

TURN = 1_000
"""About as many passages of a corpus are taken before it is looked up again, and others have their turn."""

_BEATS = 3
"""Heartbeats in the length of a lease."""

_LONGEST_BEAT_S = 10.0
_FIRST_PAUSE_S = 0.1
_NAP_S = 0.1

OpenJob = Callable[[str], Job]
"""Opens a job on a corpus by name (see `evireform.ingestion`)."""

_log = logging.getLogger(__name__)


class Worker:
    """Drains the queue of one corpus, or of all, as one of any number of workers.

    A passage is extracted at least once: again, where the worker that had it vanished. It is written exactly
    once: in one transaction with its removal from the queue, by who still holds its lease.

    Args:
        store: The database.
        open_job: Opens a job on a corpus.
        settings: Batch, leases, attempts.
        corpus: Name of the only corpus to work on; None works on every one.
        on_batch: Told of everything that was written.
    """

    def __init__(
        self,
        store: Store,
        *,
        open_job: OpenJob,
        settings: WorkerSettings,
        corpus: str | None = None,
        on_batch: OnBatch | None = None,
    ) -> None:
        self._store = store
        self._open_job = open_job
        self._settings = settings
        self._corpus = corpus
        self._on_batch = on_batch
        self._summary = WorkerSummary()
        self._started = time.perf_counter()
        self._stopping = False
        self._worker_id = 0
        self._job: Job | None = None
        self._leases: Leases | None = None
        self._refused: set[int] = set()

    def stop(self) -> None:
        """Take nothing more and end when the calls in flight have; what was not begun is given back.

        May be called from a signal handler and from any thread.
        """
        self._stopping = True
        if (job := self._job) is not None:
            job.tally.stop("the worker was stopped", "interrupted")

    def summary(self) -> WorkerSummary:
        """What it has done so far."""
        return replace(self._summary, seconds=time.perf_counter() - self._started)

    def run(self, *, drain: bool = False) -> WorkerSummary:
        """Work until `stop` is called, or no model call can be made; then all that is in hand is given back.

        Args:
            drain: End as soon as the queue is empty: when nothing waits and no other worker has anything.

        Raises:
            CorpusNotFound: the corpus is not there.
            VectorSpaceMismatch, ExtractorMismatch: the corpus was embedded with another model, or is a shadow
                that another one extracts. One of all corpora is left to other workers then, and noted.
            DatabaseError: the server vanished or refused a whole batch, or others had locked for too long
                what it was to write; what was in hand is given back.
            KeyboardInterrupt: Ctrl-C; what was finished is written, and the rest given back, by then.
        """
        self._started = time.perf_counter()
        with self._signed_on():
            pause_s = _FIRST_PAUSE_S
            while not self._stopping:
                waiting = self._waiting()
                taken = [self._turn(corpus) for corpus, to_be_had in waiting if to_be_had]
                if any(taken):
                    pause_s = _FIRST_PAUSE_S
                elif drain and not waiting:
                    break
                else:
                    self._wait(pause_s)
                    pause_s = min(2 * pause_s, self._settings.poll_s)
        return self.summary()

    def _waiting(self) -> list[tuple[CorpusRow, bool]]:
        """The corpora with something in their queue, and whether it is to be had."""
        with self._store.transaction(read_only=True) as tx:
            if self._corpus is not None:
                rows = [corpora.get_corpus(tx, self._corpus)]
            else:
                rows = [row for row in corpora.list_corpora(tx) if row.corpus_id not in self._refused]
            return queue.queues(tx, rows)

    def _turn(self, corpus: CorpusRow) -> bool:
        """Work on one corpus for a while; tells whether anything was to be had."""
        if self._stopping:
            return False
        try:
            job = self._open_job(corpus.name)
            self._work(job)
        except CorpusNotFound:
            if self._corpus is not None:
                raise
            return True
        except (VectorSpaceMismatch, ExtractorMismatch) as error:
            if self._corpus is not None:
                raise
            self._refused.add(corpus.corpus_id)
            refused = f"corpus {corpus.name!r} is left to other workers: {error}"
            self._summary = replace(self._summary, refused=(*self._summary.refused, refused))
            return True
        return bool(job.tally.begun)

    def _work(self, job: Job) -> None:
        leases = Leases(
            store=self._store,
            corpus=job.corpus,
            worker_id=self._worker_id,
            settings=self._settings,
            on_batch=self._count,
        )
        job.leases = leases
        self._leases, self._job = leases, job
        if self._stopping:
            self.stop()
        try:
            summary = job.run(job.queued(leases, most=TURN))
        finally:
            self._leases = self._job = None
            self._add(job.tally.summary())
            try:
                leases.give_back()
            except EvireformError as error:
                _log.warning("what was in hand is not given back before its lease ends: %s", error)
        # Where another generation has the corpus's name by now, its queue is looked at next.
        if summary.stopped and not self._stopping and summary.stopped_by != "switched":
            self._stopping = True
            self._summary = replace(self._summary, reason=summary.stopped)

    def _count(self, done: BatchDone) -> None:
        so_far = self._summary
        self._summary = replace(
            so_far,
            written=so_far.written + done.written,
            failed=so_far.failed + len(done.failed),
            returned=so_far.returned + len(done.returned),
            lost=so_far.lost + done.lost,
        )
        if self._on_batch:
            self._on_batch(done)

    def _add(self, done: IngestionSummary) -> None:
        """Add what the calls of a job took, and what it noted."""
        so_far = self._summary
        self._summary = replace(
            so_far,
            model_calls=so_far.model_calls + done.model_calls,
            cached=so_far.cached + done.cached,
            tokens_in=_sum(so_far.tokens_in, done.tokens_in),
            tokens_out=_sum(so_far.tokens_out, done.tokens_out),
            cost=_sum(so_far.cost, done.cost),
        )
        for text in done.notes:
            self._note(text)

    def _note(self, text: str) -> None:
        self._summary = replace(self._summary, notes=tuple(dict.fromkeys((*self._summary.notes, text))))

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP_S))

    @contextmanager
    def _signed_on(self) -> Iterator[None]:
        """A row of the worker's own, kept fresh together with its leases by a thread."""
        with self._store.transaction() as tx:
            tenant_id = corpora.current_tenant(tx)
            self._worker_id = queue.add_worker(tx, tenant_id, host=socket.gethostname(), process=os.getpid())
        ended = threading.Event()
        beating = threading.Thread(target=self._beat, args=(ended,), name="evireform-heartbeat", daemon=True)
        beating.start()
        try:
            yield
        finally:
            ended.set()
            with suppress(EvireformError), self._store.transaction() as tx:
                queue.drop_worker(tx, tenant_id, self._worker_id)

    def _beat(self, ended: threading.Event) -> None:
        """Keep leases and row fresh, in transactions of their own: neither waits for the other."""
        while not ended.wait(min(self._settings.lease_s / _BEATS, _LONGEST_BEAT_S)):
            try:
                if (leases := self._leases) is not None:
                    leases.extend()
                with self._store.transaction() as tx:
                    queue.see_worker(tx, self._worker_id)
            except EvireformError as error:
                _log.warning("a heartbeat is missing: %s", error)


def _sum(so_far: Any, more: Any) -> Any:
    """None where either is not known."""
    return None if so_far is None or more is None else so_far + more
