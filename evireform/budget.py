"""A budget for model calls, in tokens or in money, and the meter that holds a run to it."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from evireform.errors import BudgetSpent, UsageError

_BUDGET = re.compile(r"(?P<number>\d+(?:\.\d+)?) ?(?P<scale>[kKmM]?)(?P<tokens> ?tokens?)?", re.ASCII)
_LOOK_AGAIN_S = 1.0
_SCALES = {"": 1, "k": 1_000, "m": 1_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that a run may spend on model calls."""

    limit: Decimal
    unit: Literal["tokens", "money"]

    def shown(self, amount: Decimal) -> str:
        """An amount in the budget's unit, for people."""
        return f"{amount:,.0f} tokens" if self.unit == "tokens" else f"{amount:,.4f}"


def parse_budget(text: str) -> Budget:
    """A budget as people write it: tokens with a ``k``, an ``M`` or the word behind them, else money.

    Raises:
        UsageError: it is neither, or nothing.

    >>> parse_budget("200k"), parse_budget("1.50").unit
    (Budget(limit=Decimal('200000'), unit='tokens'), 'money')
    """
    match = _BUDGET.fullmatch(text.strip())
    if match is None or not (number := Decimal(match["number"])):
        raise UsageError(
            f"a budget must be tokens, such as 200k or 2M tokens, or money, such as 1.50, not {text!r}"
        )
    in_tokens = bool(match["scale"] or match["tokens"])
    return Budget(limit=number * _SCALES[match["scale"].lower()], unit="tokens" if in_tokens else "money")


class Meter:
    """What a run has spent and what its calls in flight may take, against its budget.

    A call is reserved before and settled after it, in its own thread; a thread has one call in flight.
    What a thread had reserved that ended without settling counts as spent.

    Args:
        budget: The budget.
        per_token: What a token may take of it at most: 1 of a budget in tokens, its price of one in money.
    """

    def __init__(self, budget: Budget, *, per_token: Decimal = Decimal(1)) -> None:
        self._budget = budget
        self._per_token = per_token
        self._spent = Decimal(0)
        self._reserved: dict[int, Decimal] = {}
        self._settled = threading.Condition()

    def reserve(self, tokens: int) -> None:
        """Take leave for a call of about this many tokens.

        Where calls in flight stand in its way, it waits for them: they mostly take less than was reserved.

        Raises:
            BudgetSpent: with what is spent, it would go beyond the budget.
        """
        amount, thread = tokens * self._per_token, threading.get_ident()
        with self._settled:
            if self._reserved.pop(thread, None) is not None:
                self._settled.notify_all()
            while self._spent + amount + sum(self._reserved.values()) > self._budget.limit:
                if self._spent + amount > self._budget.limit:
                    shown = self._budget.shown
                    raise BudgetSpent(
                        f"the budget of {shown(self._budget.limit)} has no room for the next model call: "
                        f"{shown(self._spent)} are spent, and it may take {shown(amount)}; "
                        "what was done is kept: raise the budget and run it again"
                    )
                self._settled.wait(_LOOK_AGAIN_S)
                self._settle_for_the_dead()
            self._reserved[thread] = amount

    def settle(self, *, tokens: int | None, money: Decimal | None) -> None:
        """Count what the thread's call took; where that is unknown, what was reserved for it."""
        spent = tokens if self._budget.unit == "tokens" else money
        with self._settled:
            reserved = self._reserved.pop(threading.get_ident(), Decimal(0))
            self._spent += reserved if spent is None else spent
            self._settled.notify_all()

    def _settle_for_the_dead(self) -> None:
        alive = {thread.ident for thread in threading.enumerate()}
        for thread in self._reserved.keys() - alive:
            self._spent += self._reserved.pop(thread)
