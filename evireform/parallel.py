"""Many calls at once: a function over a stream of items, with results as they arrive.

The threads are daemons on purpose. `concurrent.futures` joins its threads when the interpreter ends, so that
Ctrl-C would wait for the slowest call; here the process ends at once. After any other exception the calls in
flight are waited for: they are paid, and what records them may be gone when their caller goes on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

_log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
Group = TypeVar("Group")


def completed(
    function: Callable[[Item], Result], items: Iterable[Item], *, at_once: int, ahead: int = 0
) -> Generator[tuple[Item, Result], None, None]:
    """Each item with what the function made of it, in the order in which the calls end.

    See `in_groups`, of which this is the case of one result a group.

    >>> sorted(completed(abs, [-1, -2], at_once=2))
    [(-2, 2), (-1, 1)]
    """
    groups = in_groups(function, items, at_once=at_once, ahead=ahead, size=1, patience_s=0.0)
    with leaving(groups):
        for group in groups:
            yield from group


@contextmanager
def leaving(
    groups: Generator[Group, None, None], *, left: Callable[[Group], object] | None = None
) -> Iterator[None]:
    """Tell the iterator of `in_groups` what its user raises, and close it.

    Args:
        groups: The iterator.
        left: Called where Ctrl-C met its user, with the results that were finished and not handed out yet.
    """
    try:
        yield
    except Exception as error:
        groups.throw(error)
        raise
    except KeyboardInterrupt as error:
        with suppress(KeyboardInterrupt):
            group = groups.throw(error)
            if left is not None:
                left(group)
        raise
    finally:
        groups.close()


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
    can arrive meanwhile. Use it within `leaving`, so that no further call is begun where it is left early.
    After an exception the running calls are waited for; after Ctrl-C, and where it is just closed, they end
    by themselves, and one line of the log says how many Ctrl-C gave up. Either is raised after what was
    finished is handed out.

    Args:
        function: Called from many threads. Its first exception, or that of ``items``, is raised here.
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

    def close() -> None:
        closed.set()
        for _ in threads:
            waiting.put(None)

    def rest() -> list[tuple[Item, Result]]:
        """The results that are finished and not handed out."""
        ended = [finished.get() for _ in range(finished.qsize())]
        return group + [(item, result) for item, result, error in ended if error is None]  # type: ignore[misc]

    source = iter(items)
    more = True
    under_way = 0
    threads: list[threading.Thread] = []
    group: list[tuple[Item, Result]] = []
    deadline = 0.0
    failure: Exception | None = None
    try:
        while more or under_way:
            while more and under_way < at_once + ahead and finished.empty():
                try:
                    waiting.put((next(source),))
                except StopIteration:
                    more = False
                    break
                except Exception as broken:
                    failure = broken
                    break
                under_way += 1
                if len(threads) < min(under_way, at_once):
                    name = f"evireform-{len(threads) + 1}"
                    threads.append(threading.Thread(target=work, name=name, daemon=True))
                    threads[-1].start()
            if not under_way or failure is not None:
                break
            try:
                item, result, error = finished.get(
                    timeout=max(0.0, deadline - time.monotonic()) if group else None
                )
            except Empty:
                full, group = group, []
                yield full
                continue
            under_way -= 1
            if isinstance(error, Exception):
                failure = error
                break
            if error is not None:
                raise error
            if not group:
                deadline = time.monotonic() + patience_s
            group.append((item, result))  # type: ignore[arg-type]
            if len(group) >= size:
                full, group = group, []
                yield full
        if failure is not None:
            close()
            for thread in threads:
                thread.join()
        full, group = rest(), []
        for start in range(0, len(full), size):
            yield full[start : start + size]
        if failure is not None:
            raise failure
    except KeyboardInterrupt:
        if given_up := min(under_way - finished.qsize(), len(threads)):
            _log.warning("calls in flight that are given up: %d", given_up)
        close()
        if full := rest():
            yield full
        raise
    except Exception:
        close()
        for thread in threads:
            thread.join()
        raise
    finally:
        close()


def in_order(function: Callable[[Item], Result], items: Sequence[Item], *, at_once: int) -> list[Result]:
    """What the function made of every item, in the order of the items. See `in_groups`.

    >>> in_order(abs, [-3, -1, -2], at_once=2)
    [3, 1, 2]
    """
    calls = completed(lambda place: function(items[place]), range(len(items)), at_once=at_once)
    results = dict(calls)
    return [results[place] for place in range(len(items))]
