"""A ledger that keeps its calls in a list."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

from evireform.errors import BudgetSpent
from evireform.records import CorpusRow, ModelCall


@dataclass
class MemoryLedger:
    """`Ledger` without a database.

    Attributes:
        calls: What was recorded, in order.
        answers: Corpus id and key to a usable answer.
        permitted: Estimates that were asked leave for.
        budget: Tokens that are permitted together; None is without end.
    """

    caches = True
    budget: int | None = None
    calls: list[ModelCall] = field(default_factory=list)
    answers: dict[tuple[int, str], str] = field(default_factory=dict)
    permitted: list[int] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, corpus: CorpusRow, key: str) -> str | None:
        return self.answers.get((corpus.corpus_id, key))

    def permit(self, tokens: int) -> None:
        with self._lock:
            if self.budget is not None and sum(self.permitted) + tokens > self.budget:
                raise BudgetSpent
            self.permitted.append(tokens)

    def record(self, corpus: CorpusRow, call: ModelCall, *, key: str, answer: str | None) -> ModelCall:
        with self._lock:
            call = replace(call, call_id=len(self.calls) + 1)
            self.calls.append(call)
            if answer is not None:
                self.answers[corpus.corpus_id, key] = answer
            return call
