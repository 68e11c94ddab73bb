"""A served model for the session, the trial that every test looks at, and its report at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import evireform
from evireform.embedded import default_home
from evireform.settings import Settings
from tests.llm import kit, trial
from tests.llm.report import report

_trials = pytest.StashKey[trial.Trial]()

HOME = Path(os.environ.get("EVIREFORM_HOME") or default_home().with_name("evireform-real-model"))
"""The embedded server that keeps what is in, and the ledger that answers what was paid for already."""


@pytest.fixture(scope="session")
def model_url() -> Iterator[str]:
    """Base URL of the served model; the tests are skipped where there is none to be had."""
    try:
        with kit.serving() as url:
            yield url
    except kit.Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def tried(model_url: str, pytestconfig: pytest.Config) -> trial.Trial:
    """The trial, with the default embedding model. What an earlier run finished is not done again."""
    os.environ.setdefault("OPENAI_API_KEY", "none")
    settings = Settings(
        schema="real_model", language=replace(trial.LANGUAGE, base_url=model_url), search=trial.SEARCH
    )
    with evireform.connect(home=HOME, settings=settings) as database:
        done = trial.run(database)
    pytestconfig.stash[_trials] = done
    return done


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What came of it, good or bad."""
    if done := config.stash.get(_trials, None):
        terminalreporter.section("a small real model on the sample corpus")
        terminalreporter.write_line(report(done))
