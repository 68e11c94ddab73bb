"""When to ask a server no more: it does not answer, or it refuses whatever it is asked."""

from __future__ import annotations

import threading
import time

ENOUGH = 4
"""Attempts in a row, of all threads together, that show that the fault is not that of a call."""

REST_S = 30.0
"""How long calls are held back before the server is asked again."""


class HeldBack(Exception):
    """The call is not sent; the message says why."""


class Breaker:
    """Holds calls back while a server is known not to take them; shared by all threads that ask it.

    Attempts that met nobody, or a refusal, are counted until one is answered. A call that ends so after
    `ENOUGH` of them in a row holds back all others; with a refusal of the key or the address the first does,
    where the server has never answered a call.

    Args:
        rest_s: How long it holds them back.
    """

    def __init__(self, *, rest_s: float = REST_S) -> None:
        self._rest_s = rest_s
        self._in_a_row = 0
        self._proven = False
        self._reason = ""
        self._until_s = 0.0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Let a call pass.

        Raises:
            HeldBack: it would be in vain.
        """
        with self._lock:
            if time.monotonic() < self._until_s:
                raise HeldBack(self._reason)

    def answered(self) -> None:
        """The server has answered a call."""
        with self._lock:
            self._in_a_row, self._proven, self._until_s = 0, True, 0.0

    def missed(self, *, refused: bool) -> None:
        """An attempt has failed; ``refused`` where nobody answered, or calls of any content are refused."""
        with self._lock:
            self._in_a_row = self._in_a_row + 1 if refused else 0

    def gave_up(self, reason: str, *, certain: bool) -> bool:
        """A call has ended so, for good; ``certain`` where its content cannot be to blame.

        Returns:
            Whether calls are held back now.
        """
        with self._lock:
            now = time.monotonic()
            if self._in_a_row >= ENOUGH or (certain and not self._proven):
                self._reason, self._until_s = reason, now + self._rest_s
            return now < self._until_s
