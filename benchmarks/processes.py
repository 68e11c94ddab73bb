"""Work that several processes begin at the same moment."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import TypeVar

Result = TypeVar("Result")
Ready = Callable[[], None]
"""Called by the work of a process once it has prepared itself; returns when all have."""


def together(works: Sequence[Callable[[Ready], Result]]) -> tuple[list[Result], float]:
    """Run each in a process of its own. Returns what they returned, and the seconds from when all were ready.

    A single one runs in this process. What one of them raises is raised here.
    """
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(len(works))
    if len(works) == 1:
        _meet_at(barrier)
        result, start, end = _run(works[0])
        return [result], end - start
    with ProcessPoolExecutor(len(works), context, initializer=_meet_at, initargs=(barrier,)) as pool:
        runs = [pool.submit(_run, work) for work in works]
        done = [run.result() for run in runs]
    return [result for result, _, _ in done], max(end for _, _, end in done) - min(
        start for _, start, _ in done
    )


_barrier: Barrier


def _meet_at(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def _run(work: Callable[[Ready], Result]) -> tuple[Result, float, float]:
    """The result, with when all were ready and when this one was done, on the clock of the machine."""
    started = [0.0]

    def ready() -> None:
        _barrier.wait()
        started[0] = time.monotonic()

    try:
        result = work(ready)
    except BaseException:
        _barrier.abort()
        raise
    return result, started[0], time.monotonic()
