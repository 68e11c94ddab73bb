"""What an ingestion has done so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from evireform.records import Extraction, IngestionSummary, Rejected
from evireform.store.writing import PreparedPassage, Written


@dataclass(slots=True)
class Tally:
    """Counts in passages unless they say otherwise; `summary` gives them out.

    Attributes:
        begun: Passages that were handed on to be extracted.
        finished: Those of them that are written, refused, or left to another writer.
        stopped: Why the job ended early; empty while it goes on.
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
    truncated: int = 0
    begun: int = 0
    finished: int = 0
    stopped: str = ""
    start: float = field(default_factory=time.perf_counter)

    @property
    def written(self) -> int:
        return self.added + self.changed

    def count_extraction(self, extraction: Extraction) -> None:
        """Count what the extractor said about its own work."""
        self.unsupported += extraction.unsupported
        self.dropped_propositions += extraction.dropped
        if extraction.degraded:
            self.notes[f"extraction: {extraction.degraded}"] = None

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

    def summary(self) -> IngestionSummary:
        """The counts as a record."""
        return IngestionSummary(
            added=self.added,
            changed=self.changed,
            unchanged=self.unchanged,
            empty=self.empty,
            failed=tuple(self.failed),
            rejected=tuple(self.rejected),
            notes=tuple(self.notes),
            propositions=self.propositions,
            unsupported=self.unsupported,
            dropped_propositions=self.dropped_propositions,
            dropped_entities=self.dropped_entities,
            truncated=self.truncated,
            stopped=self.stopped,
            not_done=self.begun - self.finished,
            seconds=time.perf_counter() - self.start,
        )
