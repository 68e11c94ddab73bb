"""Turns for the calls to one server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from evireform.language.openai.pace import Pace

PERIOD_S = 0.3


@pytest.fixture
def begun() -> Iterator[Callable[[Pace, int], threading.Event]]:
    """Begins a call in a thread of its own, which holds its turn until the test ends."""
    with ExitStack() as ends:

        def begin(pace: Pace, tokens: int = 0) -> threading.Event:
            has_turn, over = threading.Event(), threading.Event()

            def call() -> None:
                with pace.turn(tokens):
                    has_turn.set()
                    over.wait(10)

            ends.callback(over.set)
            threading.Thread(target=call, daemon=True).start()
            return has_turn

        yield begin


Begin = Callable[..., threading.Event]


def test_no_more_calls_are_in_flight_than_allowed(begun: Begin) -> None:
    pace = Pace(2)
    calls = [begun(pace) for _ in range(3)]
    time.sleep(0.2)
    assert sum(call.is_set() for call in calls) == 2


def test_a_call_that_ends_gives_its_turn_away(begun: Begin) -> None:
    pace = Pace(1)
    with pace.turn(0):
        waiting = begun(pace)
        assert not waiting.wait(0.1)
    assert waiting.wait(10)


def test_a_call_that_fails_gives_its_turn_away(begun: Begin) -> None:
    pace = Pace(1)
    with pytest.raises(OSError, match="lost"), pace.turn(0):
        raise OSError("lost")
    assert begun(pace).wait(10)


def test_tokens_of_a_period_are_bounded() -> None:
    pace = Pace(8, 100, period_s=PERIOD_S)
    started = time.monotonic()
    for _ in range(5):
        with pace.turn(50):
            pass
    assert time.monotonic() - started >= 2 * PERIOD_S


def test_without_a_bound_tokens_do_not_matter() -> None:
    pace = Pace(8, period_s=60.0)
    started = time.monotonic()
    for _ in range(50):
        with pace.turn(10**9):
            pass
    assert time.monotonic() - started < 30.0


def test_what_a_call_took_replaces_its_estimate() -> None:
    pace = Pace(8, 100, period_s=60.0)
    for _ in range(20):
        with pace.turn(60) as turn:
            turn.tokens = 2
    with pace.turn(60):
        pass


def test_a_call_that_took_more_than_estimated_holds_the_next_back(begun: Begin) -> None:
    pace = Pace(8, 100, period_s=PERIOD_S)
    with pace.turn(10) as turn:
        turn.tokens = 95
    waiting = begun(pace, 10)
    assert not waiting.wait(PERIOD_S / 3)
    assert waiting.wait(10)


def test_a_call_larger_than_the_bound_goes_alone(begun: Begin) -> None:
    pace = Pace(8, 100, period_s=PERIOD_S)
    assert begun(pace, 500).wait(10)
    waiting = begun(pace, 1)
    assert not waiting.wait(PERIOD_S / 3)
    assert waiting.wait(10)


def test_a_pause_holds_every_call_back() -> None:
    pace = Pace(8)
    pace.pause(0.2)
    pace.pause(0.0)
    started = time.monotonic()
    with pace.turn(0):
        pass
    assert time.monotonic() - started >= 0.2
