"""The calls that `extract` would begin with, for an estimate."""

from __future__ import annotations

from evireform.language.openai.answers import extraction_schema
from evireform.language.openai.asking import Asking
from evireform.language.openai.extraction import asked_about, data_of
from evireform.language.prompts import load
from evireform.records import ExpectedCall, Passage


def expected_calls(asking: Asking, passage: Passage) -> tuple[ExpectedCall, ...]:
    """A call for each piece of the passage; none where the window has no room for any."""
    prompt, schema = load("extract"), extraction_schema()
    return tuple(
        asking.expected(prompt, data_of(passage, text), schema) for _, text in asked_about(asking, passage)
    )
