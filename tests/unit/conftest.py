"""A scripted server, and the model backend that asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from evireform.language import Ledger
from evireform.language.openai import OpenAILanguage
from evireform.settings import LanguageSettings
from tests.doubles.scripted_openai import ScriptedOpenAI

Backend = Callable[..., OpenAILanguage]


@pytest.fixture
def server() -> Iterator[ScriptedOpenAI]:
    with ScriptedOpenAI() as running:
        yield running


@pytest.fixture
def backend(
    server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Backend:
    """Builds a backend on the server. The model's name is the test's, so that no test remembers another's."""
    monkeypatch.setenv("OPENAI_API_KEY", "for tests")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    def build(*, ledger: Ledger | None = None, **settings: Any) -> OpenAILanguage:
        given = {"model": request.node.name, "base_url": server.base_url, **settings}
        return OpenAILanguage(LanguageSettings(backend="openai", **given), ledger)

    return build
