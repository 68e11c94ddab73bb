"""Many calls at once: a function over a stream of items, with results as they arrive.

The threads are daemons on purpose. `concurrent.futures` joins its threads when the interpreter ends, so that
Ctrl-C would wait for the slowest call; here the process ends at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def completed(
    function: Callable[[Item], Result], items: Iterable[Item], *, at_once: int, ahead: int = 0
) -> Generator[tuple[Item, Result], None, None]:
    """Each item with what the function made of it, in the order in which the calls end.

    See `in_groups`, of which this is the case of one result a group.

    >>> sorted(completed(abs, [-1, -2], at_once=2))
    [(-2, 2), (-1, 1)]
    """
    for group in in_groups(function, items, at_once=at_once, ahead=ahead, size=1, patience_s=0.0):
        yield from group


def in_groups(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    at_once: int,
    ahead: int = 0,
    size: int,
    patience_s: float,
) -> Generator[list[tuple[Item, Result]], None, None]:
    """Results in groups, each handed out when it is full or its first member has waited long enough.

    Items are read in the caller's thread, at most ``at_once + ahead`` before their results are handed out.
    With one call at once the caller's thread makes it, and every result is a group of its own: nothing else
    can arrive meanwhile. Close the iterator (`contextlib.closing`) where it is left early: no further call
    is begun then, and the running ones end by themselves.

    Args:
        function: Called from many threads. Its first exception, or that of ``items``, is raised here, after
            what was finished is handed out.
        items: Read as calls end.
        at_once: Most calls in flight, at least 1.
        ahead: Items that wait for a thread beside those in flight; they keep the threads busy while the
            caller is.
        size: Most results of a group.
        patience_s: Longest time that a finished result waits for others.
    """
    if at_once == 1:
        for item in items:
            yield [(item, function(item))]
        return
    waiting: SimpleQueue[tuple[Item] | None] = SimpleQueue()
    finished: SimpleQueue[tuple[Item, Result | None, BaseException | None]] = SimpleQueue()
    closed = threading.Event()

    def work() -> None:
        while (taken := waiting.get()) is not None and not closed.is_set():
            try:
                finished.put((taken[0], function(taken[0]), None))
            except BaseException as error:
                finished.put((taken[0], None, error))

    source = iter(items)
    more = True
    under_way = threads = 0
    group: list[tuple[Item, Result]] = []
    deadline = 0.0
    try:
        while more or under_way:
            while more and under_way < at_once + ahead and finished.empty():
                try:
                    waiting.put((next(source),))
                except StopIteration:
                    more = False
                    break
                except Exception:
                    if group:
                        yield group
                    raise
                under_way += 1
                if threads < min(under_way, at_once):
                    threads += 1
                    threading.Thread(target=work, name=f"evireform-{threads}", daemon=True).start()
            if not under_way:
                break
            try:
                item, result, error = finished.get(
                    timeout=max(0.0, deadline - time.monotonic()) if group else None
                )
            except Empty:
                yield group
                group = []
                continue
            under_way -= 1
            if error is not None:
                if group:
                    yield group
                raise error
            if not group:
                deadline = time.monotonic() + patience_s
            group.append((item, result))  # type: ignore[arg-type]
            if len(group) >= size:
                yield group
                group = []
        if group:
            yield group
    finally:
        closed.set()
        for _ in range(threads):
            waiting.put(None)


def in_order(function: Callable[[Item], Result], items: Sequence[Item], *, at_once: int) -> list[Result]:
    """What the function made of every item, in the order of the items. See `in_groups`.

    >>> in_order(abs, [-3, -1, -2], at_once=2)
    [3, 1, 2]
    """
    calls = completed(lambda place: function(items[place]), range(len(items)), at_once=at_once)
    results = dict(calls)
    return [results[place] for place in range(len(items))]
