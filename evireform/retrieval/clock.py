"""What a search takes: seconds by stage, statements and rows, model calls and tokens."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from evireform.records import Cost, ModelCall, Spending
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

    def cost(self, calls: Sequence[ModelCall], *, questions: int) -> Cost:
        """What one of the ``questions`` of a batch took, which made these calls."""
        by_step: dict[tuple[int, str], list[ModelCall]] = {}
        for call in calls:
            by_step.setdefault((call.round_number, call.purpose), []).append(call)
        return Cost(
            statements=self.statements,
            rows=self.rows,
            model_calls=len(calls),
            tokens_in=sum(call.tokens_in or 0 for call in calls),
            tokens_out=sum(call.tokens_out or 0 for call in calls),
            stage_s=dict(self.stage_s),
            questions=questions,
            spending=tuple(
                Spending(
                    purpose=purpose,
                    round_number=round_number,
                    calls=len(of_step),
                    tokens_in=sum(call.tokens_in or 0 for call in of_step),
                    tokens_out=sum(call.tokens_out or 0 for call in of_step),
                )
                for (round_number, purpose), of_step in by_step.items()
            ),
        )
