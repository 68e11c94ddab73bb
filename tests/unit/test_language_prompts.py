"""The prompt files of the language verbs."""

from __future__ import annotations

import pytest

from evireform.language.prompts import load, load_all

PURPOSES = ["control", "direct", "extract", "judge", "read", "reformulate", "select"]


def test_there_is_one_prompt_for_each_verb() -> None:
    assert [prompt.purpose for prompt in load_all()] == PURPOSES


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_prompt_has_a_version_that_is_no_part_of_its_text(purpose: str) -> None:
    prompt = load(purpose)
    assert prompt.version.isdigit()
    assert "version" not in prompt.text.splitlines()[0]


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_prompt_calls_what_follows_quoted_data(purpose: str) -> None:
    assert "quoted data" in load(purpose).text


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_prompt_asks_for_json_by_name(purpose: str) -> None:
    """Servers with the json_object format refuse messages that do not say so."""
    assert "JSON object" in load(purpose).text
