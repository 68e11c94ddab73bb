"""How long the tests of promises run: short in `make test`, long in `make test-long`."""

from __future__ import annotations

import os
from typing import TypeVar

LONG = os.environ.get("EVIREFORM_TEST_LONG") == "1"

T = TypeVar("T")


def scaled(short: T, long: T) -> T:
    """The size of a test: ``short`` in `make test`, ``long`` in `make test-long`."""
    return long if LONG else short
