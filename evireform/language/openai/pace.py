"""How fast a server is asked: calls in flight, tokens a minute, and its own wish to be left alone."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Turn:
    """A call that has its turn. Set ``tokens`` to what it took, where the server tells."""

    started_s: float
    tokens: int


class Pace:
    """Turns for the calls to one server; shared by all threads that ask it.

    A sliding window keeps the tokens of every period of ``period_s`` within the bound. A call is entered
    with an estimate, which its true count replaces; one that is larger than the bound goes alone.

    Args:
        concurrency: Most calls in flight, at least 1.
        tokens: Most tokens in a period; 0 is without bound.
        period_s: Length of the period: a minute, but for tests.
    """

    def __init__(self, concurrency: int, tokens: int = 0, *, period_s: float = 60.0) -> None:
        self._free = concurrency
        self._tokens = tokens
        self._period_s = period_s
        self._recent: deque[Turn] = deque()
        self._not_before_s = 0.0
        self._changed = threading.Condition()

    @contextmanager
    def turn(self, tokens: int) -> Iterator[Turn]:
        """Wait for a turn for a call of about this many tokens, and hold it."""
        with self._changed:
            while (wait_s := self._wait_s(tokens)) != 0.0:
                self._changed.wait(wait_s)
            turn = Turn(time.monotonic(), tokens)
            self._free -= 1
            if self._tokens:
                self._recent.append(turn)
        try:
            yield turn
        finally:
            with self._changed:
                self._free += 1
                self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Let no call begin for this long."""
        with self._changed:
            self._not_before_s = max(self._not_before_s, time.monotonic() + seconds)

    def _wait_s(self, tokens: int) -> float | None:
        """Seconds until it is worth looking again; 0 is now, None when another call ends."""
        if self._free == 0:
            return None
        now = time.monotonic()
        if now < self._not_before_s:
            return self._not_before_s - now
        while self._recent and self._recent[0].started_s + self._period_s <= now:
            self._recent.popleft()
        if self._recent and sum(turn.tokens for turn in self._recent) + tokens > self._tokens:
            return self._recent[0].started_s + self._period_s - now
        return 0.0
