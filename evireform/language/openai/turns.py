"""Identical calls of a process one after the other: the second then finds what the first was answered."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Turn:
    """``users`` counts the threads that hold ``lock`` or wait for it."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    users: int = 0


_guard = threading.Lock()
_turns: dict[Hashable, _Turn] = {}


@contextmanager
def one_at_a_time(key: Hashable) -> Iterator[None]:
    """Wait until no other thread of the process is inside with an equal key. A thread may enter twice."""
    with _guard:
        turn = _turns.setdefault(key, _Turn())
        turn.users += 1
    try:
        with turn.lock:
            yield
    finally:
        with _guard:
            turn.users -= 1
            if not turn.users:
                del _turns[key]
