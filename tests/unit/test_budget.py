"""Budgets as people write them, and the meter that holds a run to one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from evireform.budget import Budget, Meter, parse_budget
from evireform.errors import BudgetSpent, UsageError

TOKENS = Budget(limit=Decimal(1_000), unit="tokens")
MONEY = Budget(limit=Decimal("0.01"), unit="money")


@pytest.mark.parametrize(
    ("text", "limit", "unit"),
    [
        ("200k", 200_000, "tokens"),
        ("2M tokens", 2_000_000, "tokens"),
        ("1.5m", 1_500_000, "tokens"),
        ("500 tokens", 500, "tokens"),
        ("1 token", 1, "tokens"),
        ("1.50", Decimal("1.50"), "money"),
        (" 3 ", 3, "money"),
    ],
)
def test_a_budget_is_tokens_or_money(text: str, limit: Decimal, unit: str) -> None:
    assert parse_budget(text) == Budget(limit=Decimal(limit), unit=unit)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["0", "0k", "-1", "1e9", "many", "$5", "2 G", "k", "", "nan", "٣"])
def test_anything_else_is_no_budget(text: str) -> None:
    with pytest.raises(UsageError, match="a budget must be tokens, such as 200k or 2M tokens, or money"):
        parse_budget(text)


def test_calls_are_permitted_up_to_the_budget() -> None:
    meter = Meter(TOKENS)
    for _ in range(2):
        meter.reserve(500)
        meter.settle(tokens=500, money=None)
    with pytest.raises(BudgetSpent):
        meter.reserve(1)


def reserved_elsewhere(meter: Meter, tokens: int) -> threading.Event:
    """Reserve in another thread, which settles for a sixth of it once the event is set."""
    reserved, landed = threading.Event(), threading.Event()

    def call() -> None:
        meter.reserve(tokens)
        reserved.set()
        landed.wait(timeout=10)
        meter.settle(tokens=tokens // 6, money=None)

    threading.Thread(target=call).start()
    assert reserved.wait(timeout=10)
    return landed


def test_a_refusal_says_what_is_spent_and_what_was_asked() -> None:
    meter = Meter(TOKENS)
    meter.reserve(700)
    meter.settle(tokens=650, money=None)
    with pytest.raises(
        BudgetSpent,
        match="the budget of 1,000 tokens has no room for the next model call: 650 tokens are spent, "
        "and it may take 400 tokens; what was done is kept: raise the budget",
    ):
        meter.reserve(400)


def test_a_refused_call_takes_nothing_of_the_budget() -> None:
    meter = Meter(TOKENS)
    with pytest.raises(BudgetSpent):
        meter.reserve(1_001)
    meter.reserve(1_000)


def test_what_a_call_took_counts_in_place_of_what_was_reserved() -> None:
    meter = Meter(TOKENS)
    meter.reserve(900)
    meter.settle(tokens=100, money=None)
    meter.reserve(900)


def test_a_call_that_nobody_counted_counts_as_reserved() -> None:
    meter = Meter(TOKENS)
    meter.reserve(900)
    meter.settle(tokens=None, money=None)
    with pytest.raises(BudgetSpent, match="900 tokens are spent"):
        meter.reserve(101)


def test_a_thread_that_asks_again_gives_up_what_it_had_reserved() -> None:
    meter = Meter(TOKENS)
    for _ in range(3):
        meter.reserve(900)


def test_a_call_waits_for_those_in_flight_that_take_its_room() -> None:
    meter = Meter(TOKENS)
    landed = reserved_elsewhere(meter, 600)
    threading.Timer(0.1, landed.set).start()
    meter.reserve(900)
    assert landed.is_set()
    meter.settle(tokens=900, money=None)
    with pytest.raises(BudgetSpent, match="1,000 tokens are spent"):
        meter.reserve(1)


def test_what_a_thread_reserved_that_ended_without_settling_is_spent() -> None:
    meter = Meter(TOKENS)
    other = threading.Thread(target=meter.reserve, args=(600,))
    other.start()
    other.join()
    with pytest.raises(BudgetSpent, match="600 tokens are spent"):
        meter.reserve(500)


def test_a_call_that_what_is_spent_leaves_no_room_for_waits_for_nobody() -> None:
    meter = Meter(TOKENS)
    meter.reserve(500)
    meter.settle(tokens=500, money=None)
    landed = reserved_elsewhere(meter, 300)
    with pytest.raises(BudgetSpent, match="500 tokens are spent, and it may take 501 tokens"):
        meter.reserve(501)
    assert not landed.is_set()
    landed.set()


def test_money_is_reserved_at_the_dearest_rate_and_settled_as_it_cost() -> None:
    meter = Meter(MONEY, per_token=Decimal("0.00001"))
    meter.reserve(1_000)
    meter.settle(tokens=1_000, money=Decimal("0.002"))
    meter.reserve(800)
    with pytest.raises(BudgetSpent, match=r"the budget of 0\.0100 .*: 0\.0020 are spent"):
        meter.reserve(801)


def test_many_threads_never_spend_more_than_the_budget() -> None:
    meter, spent, lock = Meter(TOKENS), [], threading.Lock()

    def call(_: int) -> bool:
        try:
            meter.reserve(30)
        except BudgetSpent:
            return False
        with lock:
            spent.append(30)
        meter.settle(tokens=30, money=None)
        return True

    with ThreadPoolExecutor(8) as threads:
        permitted = sum(threads.map(call, range(500)))
    assert sum(spent) == 30 * permitted
    assert 1_000 - 30 < sum(spent) <= 1_000
