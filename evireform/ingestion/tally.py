"""What an ingestion has done so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeVar

from evireform.ingestion.preparing import MOST_ENTITIES, MOST_PROPOSITIONS, LeftOut
from evireform.records import Extraction, IngestionSummary, ModelCall, Rejected, StoppedBy
from evireform.store.writing import PreparedPassage, Written

Amount = TypeVar("Amount", int, Decimal)


@dataclass(slots=True)
class Tally:
    """Counts in passages unless they say otherwise; `summary` gives them out.

    Attributes:
        begun: Passages that were handed on to be extracted.
        finished: Those of them that are written, refused, or left to another writer.
        stopped: Why the job ended early; empty while it goes on.
        stopped_by: Of which kind that is.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    empty: int = 0
    failed: list[Rejected] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    propositions: int = 0
    unsupported: int = 0
    dropped_propositions: int = 0
    dropped_entities: int = 0
    excess_propositions: int = 0
    excess_entities: int = 0
    truncated: int = 0
    begun: int = 0
    finished: int = 0
    stopped: str = ""
    stopped_by: StoppedBy = ""
    model_calls: int = 0
    cached: int = 0
    tokens_in: int | None = 0
    tokens_out: int | None = 0
    cost: Decimal | None = Decimal(0)
    start: float = field(default_factory=time.perf_counter)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def written(self) -> int:
        return self.added + self.changed

    def stop(self, reason: str, by: StoppedBy) -> None:
        """Let the job end early; from any thread, and from a signal handler. The first reason counts."""
        with self.lock:
            if not self.stopped:
                self.stopped, self.stopped_by = reason, by

    def count_calls(self, calls: Sequence[ModelCall]) -> None:
        """Count what an extraction asked; from any thread. A call that nobody answered took nothing."""
        with self.lock:
            for call in calls:
                self.model_calls += 1
                self.cached += call.cached
                if call.error and call.tokens_in is None and call.tokens_out is None:
                    continue
                self.tokens_in = _sum(self.tokens_in, call.tokens_in)
                self.tokens_out = _sum(self.tokens_out, call.tokens_out)
                self.cost = _sum(self.cost, call.cost)

    def count_extraction(self, extraction: Extraction) -> None:
        """Count what the extractor said about its own work."""
        self.unsupported += extraction.unsupported
        self.dropped_propositions += extraction.dropped
        if extraction.degraded:
            self.notes[f"extraction: {extraction.degraded}"] = None

    def count_left_out(self, left_out: LeftOut) -> None:
        """Count what a passage has to do without."""
        self.dropped_entities += left_out.names
        self.excess_propositions += left_out.propositions
        self.excess_entities += left_out.entities

    def count_written(self, batch: list[PreparedPassage], written: Written) -> None:
        """Count a batch that the database took."""
        self.added += len(written.added)
        self.changed += len(written.changed)
        current = {*written.added, *written.changed}
        self.unchanged += len(batch) - len(current)
        for prepared in batch:
            if prepared.passage.key not in current:
                continue
            self.propositions += len(prepared.propositions)
            if prepared.state == "empty":
                self.empty += 1
            elif prepared.state == "failed":
                self.failed.append(Rejected(reason=prepared.reason, passage_key=prepared.passage.key))

    def _excess(self) -> tuple[str, ...]:
        """What was left out for its sheer number, in words."""
        counts = (
            (self.excess_propositions, "propositions", MOST_PROPOSITIONS, "passage"),
            (self.excess_entities, "entity names", MOST_ENTITIES, "proposition"),
        )
        return tuple(
            f"{number:,} {what} were left out: more than {most:,} in one {where} are not taken"
            for number, what, most, where in counts
            if number
        )

    def summary(self) -> IngestionSummary:
        """The counts as a record."""
        return IngestionSummary(
            added=self.added,
            changed=self.changed,
            unchanged=self.unchanged,
            empty=self.empty,
            failed=tuple(self.failed),
            rejected=tuple(self.rejected),
            notes=(*self.notes, *self._excess()),
            propositions=self.propositions,
            unsupported=self.unsupported,
            dropped_propositions=self.dropped_propositions,
            dropped_entities=self.dropped_entities,
            truncated=self.truncated,
            stopped=self.stopped,
            stopped_by=self.stopped_by,
            not_done=self.begun - self.finished,
            model_calls=self.model_calls,
            cached=self.cached,
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cost=self.cost,
            seconds=time.perf_counter() - self.start,
        )


def _sum(so_far: Amount | None, more: Amount | None) -> Amount | None:
    """None where either is not known."""
    return None if so_far is None or more is None else so_far + more
