"""Many calls at once: how many, in which threads, and what ends them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from evireform.parallel import completed, in_groups, leaving


def wait_for(event: threading.Event) -> None:
    assert event.wait(timeout=10)


@pytest.mark.parametrize("at_once", [1, 2, 8])
def test_every_item_comes_back_once_with_its_result(at_once: int) -> None:
    results = completed(lambda number: number * number, range(100), at_once=at_once)
    assert sorted(results) == [(number, number * number) for number in range(100)]


@pytest.mark.parametrize("at_once", [1, 3])
def test_no_items_give_no_results(at_once: int) -> None:
    assert list(completed(abs, [], at_once=at_once)) == []


def test_one_call_at_once_is_made_by_the_caller() -> None:
    results = completed(lambda _: threading.current_thread(), range(3), at_once=1)
    assert {thread for _, thread in results} == {threading.current_thread()}


def test_so_many_calls_are_in_flight_and_no_more() -> None:
    together = threading.Barrier(3)
    lock = threading.Lock()
    flying = most = 0

    def call(_: int) -> None:
        nonlocal flying, most
        with lock:
            flying += 1
            most = max(most, flying)
        together.wait(timeout=10)
        with lock:
            flying -= 1

    assert len(list(completed(call, range(9), at_once=3, ahead=4))) == 9
    assert most == 3


def test_a_result_does_not_wait_for_a_slow_call() -> None:
    released = threading.Event()

    def call(item: str) -> None:
        if item == "slow":
            wait_for(released)

    with closing(completed(call, ["slow", "a", "b", "c"], at_once=2)) as results:
        assert [next(results)[0] for _ in range(3)] == ["a", "b", "c"]
        released.set()
        assert [item for item, _ in results] == ["slow"]


@pytest.mark.parametrize(("ahead", "read"), [(0, 2), (5, 7)])
def test_reading_ahead_is_bounded(ahead: int, read: int) -> None:
    released = threading.Event()
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(50):
            taken.append(number)
            yield number

    def call(number: int) -> int:
        if number:
            wait_for(released)
        return number

    with closing(completed(call, items(), at_once=2, ahead=ahead)) as results:
        assert next(results)[0] == 0
        assert len(taken) <= read + 1
        released.set()


def test_the_first_exception_ends_it() -> None:
    called: list[int] = []

    def call(number: int) -> int:
        called.append(number)
        if number == 3:
            raise KeyError(number)
        return number

    with pytest.raises(KeyError):
        list(completed(call, range(10_000), at_once=2))
    assert len(called) < 100


@pytest.mark.parametrize("raised", ["by a call", "by the items", "by the user"])
def test_an_exception_waits_for_the_calls_in_flight(raised: str) -> None:
    begun, ended = threading.Event(), threading.Event()

    def call(item: str) -> None:
        if item == "slow":
            begun.set()
            time.sleep(0.2)
            ended.set()
        else:
            wait_for(begun)
            if raised == "by a call":
                raise KeyError(item)

    def items() -> Iterator[str]:
        yield from ("slow", "quick")
        if raised == "by the items":
            wait_for(begun)
            raise KeyError("items")

    def take() -> None:
        groups = in_groups(call, items(), at_once=2, ahead=1, size=1, patience_s=0.0)
        with leaving(groups):
            for _ in groups:
                if raised == "by the user":
                    raise KeyError("user")

    with pytest.raises(KeyError):
        take()
    assert ended.is_set()


@pytest.mark.parametrize(("pressed", "given_up"), [("in the items", 3), ("in the user", 2)])
def test_ctrl_c_gives_the_calls_in_flight_up_and_says_how_many_in_one_line(
    pressed: str, given_up: int, caplog: pytest.LogCaptureFixture
) -> None:
    together = threading.Barrier(3)
    released = threading.Event()

    def call(number: int) -> None:
        together.wait(timeout=10)
        if number or pressed == "in the items":
            wait_for(released)

    def items() -> Iterator[int]:
        yield from range(3)
        if pressed == "in the items":
            raise KeyboardInterrupt

    def take() -> None:
        groups = in_groups(call, items(), at_once=3, ahead=1, size=1, patience_s=0.0)
        with leaving(groups):
            for _ in groups:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take()
    assert not released.is_set()
    assert caplog.messages == [f"calls in flight that are given up: {given_up}"]
    released.set()


def test_what_was_finished_comes_before_the_exception() -> None:
    first = threading.Event()

    def call(number: int) -> int:
        if number == 1:
            wait_for(first)
            time.sleep(0.05)
            raise KeyError(number)
        first.set()
        return number

    groups = in_groups(call, [0, 1], at_once=2, size=10, patience_s=60.0)
    assert next(groups) == [(0, 0)]
    with pytest.raises(KeyError):
        next(groups)


@pytest.mark.parametrize("at_once", [1, 2])
def test_an_exception_of_the_items_is_the_callers(at_once: int) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise KeyError("reading")

    with pytest.raises(KeyError, match="reading"):
        list(completed(abs, items(), at_once=at_once))


def test_no_call_is_begun_after_it_is_closed() -> None:
    released = threading.Event()
    called: list[int] = []

    def call(number: int) -> int:
        called.append(number)
        if number:
            wait_for(released)
        return number

    results = completed(call, range(50), at_once=2, ahead=40)
    next(results)
    results.close()
    released.set()
    time.sleep(0.05)
    assert len(called) <= 3


def test_groups_are_full_where_results_come_fast() -> None:
    groups = in_groups(abs, range(10), at_once=2, size=4, patience_s=60.0)
    assert [len(group) for group in groups] == [4, 4, 2]


def test_a_group_is_handed_out_when_its_first_result_has_waited() -> None:
    released = threading.Event()

    def call(number: int) -> int:
        if number == 0:
            wait_for(released)
        return number

    with closing(in_groups(call, [0, 1, 2], at_once=2, size=10, patience_s=0.05)) as groups:
        first = next(groups)
        released.set()
        assert {item for item, _ in first} <= {1, 2}
        assert 0 in {item for group in groups for item, _ in group}


def test_one_call_at_once_hands_out_each_result_by_itself() -> None:
    groups = in_groups(abs, range(3), at_once=1, size=10, patience_s=60.0)
    assert [len(group) for group in groups] == [1, 1, 1]


def test_the_process_ends_without_waiting_for_a_call() -> None:
    program = (
        "import time\n"
        "from evireform.parallel import completed\n"
        "results = completed(lambda n: time.sleep(60 * n), [0, 1], at_once=2)\n"
        "next(results)\n"
        "raise KeyboardInterrupt\n"
    )
    started = time.monotonic()
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30)
    assert finished.returncode != 0
    assert time.monotonic() - started < 10


def failing_items(after: int) -> Iterator[int]:
    yield from range(after)
    raise RuntimeError("no more")


@pytest.mark.parametrize("at_once", [1, 4])
@pytest.mark.parametrize("size", [1, 3, 64])
def test_an_error_of_the_items_comes_after_every_result_of_a_call_that_began(at_once: int, size: int) -> None:
    begun: list[int] = []
    out: list[int] = []

    def call(item: int) -> int:
        begun.append(item)
        time.sleep(0.02)
        return item

    def take() -> None:
        groups = in_groups(call, failing_items(10), at_once=at_once, size=size, patience_s=60)
        with leaving(groups):
            for group in groups:
                assert len(group) <= size
                out.extend(result for _, result in group)

    with pytest.raises(RuntimeError, match="no more"):
        take()
    assert sorted(out) == sorted(begun) != []


def test_an_error_of_a_call_comes_after_the_results_of_those_in_flight() -> None:
    together = threading.Barrier(3, timeout=10)
    out: list[int] = []

    def call(item: int) -> int:
        together.wait()
        if item == 0:
            raise RuntimeError("zero")
        time.sleep(0.05)
        return item

    def take() -> None:
        for item, _ in completed(call, range(3), at_once=3):
            out.append(item)

    with pytest.raises(RuntimeError, match="zero"):
        take()
    assert sorted(out) == [1, 2]


def test_ctrl_c_of_the_user_leaves_what_is_finished_to_be_taken() -> None:
    left: list[int] = []
    together = threading.Barrier(4, timeout=10)

    def call(item: int) -> int:
        together.wait()
        return item

    def take() -> None:
        groups = in_groups(call, range(4), at_once=4, size=1, patience_s=60)
        with leaving(groups, left=lambda group: left.extend(item for item, _ in group)):
            left.extend(item for item, _ in next(groups))
            time.sleep(0.2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        take()
    assert sorted(left) == [0, 1, 2, 3]


def test_ctrl_c_while_waiting_hands_out_what_is_finished_first() -> None:
    released = threading.Event()

    def items() -> Iterator[int]:
        yield from range(3)
        time.sleep(0.1)
        raise KeyboardInterrupt

    def call(item: int) -> int:
        if item == 2:
            wait_for(released)
        return item

    groups = in_groups(call, items(), at_once=3, ahead=3, size=64, patience_s=60)
    out = [item for item, _ in next(groups)]
    with pytest.raises(KeyboardInterrupt):
        next(groups)
    released.set()
    assert sorted(out) == [0, 1]
