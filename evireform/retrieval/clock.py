"""What a search takes: seconds by stage, statements and rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from evireform.store.connection import Transaction


class Clock:
    """Adds up the stages of one search; a stage that is entered twice adds."""

    def __init__(self) -> None:
        self.stage_s: dict[str, float] = {}
        self.statements = 0
        self.rows = 0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stage_s[name] = self.stage_s.get(name, 0.0) + time.perf_counter() - start

    def tally(self, tx: Transaction) -> None:
        """Count what a transaction ran."""
        self.statements += tx.tally.statements
        self.rows += tx.tally.rows
