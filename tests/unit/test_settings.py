"""Settings refuse what cannot be meant, when they are built."""

from __future__ import annotations

from typing import Any

import pytest

from evireform.errors import UsageError
from evireform.settings import (
    AnswerSettings,
    EmbeddingSettings,
    LanguageSettings,
    SearchSettings,
    Settings,
    WorkerSettings,
)

NAN = float("nan")
INFINITE = float("inf")


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (SearchSettings, "k", 1.5),
        (SearchSettings, "k", "5"),
        (SearchSettings, "k", True),
        (SearchSettings, "k", 0),
        (SearchSettings, "alpha", NAN),
        (SearchSettings, "alpha", "half"),
        (SearchSettings, "beta", 1.01),
        (Settings, "statement_timeout_s", NAN),
        (Settings, "statement_timeout_s", INFINITE),
        (Settings, "statement_timeout_s", -1),
        (Settings, "statement_timeout_s", 0.0001),
        (Settings, "pool_size", 0),
        (EmbeddingSettings, "timeout_s", -1),
        (LanguageSettings, "timeout_s", NAN),
        (AnswerSettings, "context_tokens", 0),
        (WorkerSettings, "batch", 0),
        (WorkerSettings, "lease_s", 0.0),
        (WorkerSettings, "attempts", 1.5),
        (WorkerSettings, "poll_s", NAN),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_name(kind: Any, name: str, value: object) -> None:
    with pytest.raises(UsageError, match=name):
        kind(**{name: value})


def test_no_time_limit_is_zero() -> None:
    assert Settings(statement_timeout_s=0).statement_timeout_s == 0


def test_an_answer_is_strict_or_direct() -> None:
    with pytest.raises(UsageError, match="not both"):
        AnswerSettings(strict=True, direct=True)
