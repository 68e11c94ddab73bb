"""The studies: one file each, whose name is that of the file and whose ``PLAN`` says what it is made of."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING

from evireform.errors import UsageError

if TYPE_CHECKING:
    from evireform.evaluation.plan import Plan

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
"""Every study."""


def load(name: str) -> Plan:
    """The study of a name.

    Raises:
        UsageError: there is none.
    """
    if name not in NAMES:
        raise UsageError(f"no study is called {name!r}; there are {', '.join(NAMES)}")
    plan: Plan = import_module(f"{__name__}.{name}").PLAN
    return plan
