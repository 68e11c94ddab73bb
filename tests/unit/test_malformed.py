"""T7: hundreds of malformed outputs, each a line of ``malformed/*.jsonl`` with what must become of it.

``content`` is what the model says: a text, or a list of texts and ``{"repeat": text, "times": n}``. A line
with ``failed`` must end in the fall-back with this in its reason; any other lists what is used, and what
``degraded`` must say of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from evireform.language.openai import OpenAILanguage
from evireform.language.openai.answers import (
    ControlAnswer,
    ExtractionAnswer,
    JudgementAnswer,
    ReadingAnswer,
    ReformulationAnswer,
    SelectionAnswer,
    read,
)
from evireform.language.openai.asking import label
from evireform.records import Candidate, ObservedPassage, Passage
from evireform.settings import LanguageSettings
from tests.doubles.scripted_openai import Reply, ScriptedOpenAI

FOLDER = Path(__file__).parent / "malformed"
SHAPES = {
    "control": ControlAnswer,
    "extract": ExtractionAnswer,
    "judge": JudgementAnswer,
    "read": ReadingAnswer,
    "reformulate": ReformulationAnswer,
    "select": SelectionAnswer,
}
CASES = {
    verb: [json.loads(line) for line in (FOLDER / f"{verb}.jsonl").read_text().splitlines()]
    for verb in SHAPES
}

ADA = Passage(key="ada", text="Ada Lovelace was born in London. She knew Charles Babbage.")
OBSERVED = [ObservedPassage(passage_key="ada", title="", text=ADA.text)]
CANDIDATES = [
    Candidate(
        proposition_id=position,
        passage_id=position,
        passage_key=str(position),
        ordinal=0,
        title="",
        text=f"Proposition number {position}.",
        similarity=0.5,
    )
    for position in range(30)
]


def content(case: dict[str, Any]) -> str:
    parts = [case["content"]] if isinstance(case["content"], str) else case["content"]
    return "".join(part if isinstance(part, str) else part["repeat"] * part["times"] for part in parts)


def reply(case: dict[str, Any]) -> Reply:
    return Reply(content=content(case), finish_reason=case.get("finish_reason", "stop"))


def of(verb: str) -> Any:
    """Parametrizes a test by the cases of a verb."""
    return pytest.mark.parametrize("case", CASES[verb], ids=[case["name"] for case in CASES[verb]])


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedOpenAI]:
    with ScriptedOpenAI() as running:
        yield running


@pytest.fixture(scope="module")
def language(server: ScriptedOpenAI) -> Iterator[OpenAILanguage]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "for tests")
        yield OpenAILanguage(LanguageSettings(backend="openai", model="odd", base_url=server.base_url))


def test_t07_there_are_two_hundred_cases() -> None:
    assert sum(map(len, CASES.values())) >= 200


@of("extract")
def test_t07_a_malformed_extraction_fails_or_is_read_exactly(
    server: ScriptedOpenAI, language: OpenAILanguage, case: dict[str, Any]
) -> None:
    server.on("extract", reply(case))
    (extraction,) = language.extract([ADA])
    if "failed" in case:
        assert case["failed"] in extraction.error
        assert extraction.propositions == ()
        assert all(call.error for call in extraction.calls)
    else:
        assert extraction.error == ""
        assert extraction.degraded == case["degraded"]
        assert [
            {"text": proposition.text, "entities": list(proposition.entities)}
            for proposition in extraction.propositions
        ] == case["propositions"]


@of("select")
def test_t07_a_malformed_selection_is_degraded_or_read_exactly(
    server: ScriptedOpenAI, language: OpenAILanguage, case: dict[str, Any]
) -> None:
    server.on("select", reply(case))
    selection = language.select("Who?", CANDIDATES, limit=12)
    if "failed" in case:
        assert selection.positions == ()
        assert case["failed"] in selection.degraded
    else:
        assert [label(position) for position in selection.positions] == case["labels"]
        assert selection.degraded == case["degraded"]


@of("reformulate")
def test_t07_a_malformed_reformulation_is_degraded_or_read_exactly(
    server: ScriptedOpenAI, language: OpenAILanguage, case: dict[str, Any]
) -> None:
    server.on("reformulate", reply(case))
    reformulation = language.reformulate("Who?", OBSERVED, limit=3)
    if "failed" in case:
        assert reformulation.queries == ()
        assert case["failed"] in reformulation.degraded
    else:
        assert list(reformulation.queries) == case["queries"]
        assert reformulation.degraded == case["degraded"]


@of("control")
def test_t07_a_malformed_word_of_the_controller_is_degraded_or_read_exactly(
    server: ScriptedOpenAI, language: OpenAILanguage, case: dict[str, Any]
) -> None:
    server.on("control", reply(case))
    control = language.control("Who?", OBSERVED, limit=3, round_number=2)
    if "failed" in case:
        assert (control.sufficient, control.queries) == (False, ())
        assert control.degraded.startswith("control failed: ")
        assert case["failed"] in control.degraded
    else:
        assert (control.sufficient, list(control.queries)) == (case["sufficient"], case["queries"])
        assert control.degraded == case["degraded"]


@of("judge")
def test_t07_a_malformed_judgement_is_degraded_or_read_exactly(
    server: ScriptedOpenAI, language: OpenAILanguage, case: dict[str, Any]
) -> None:
    server.on("judge", reply(case))
    passages = [ObservedPassage(passage_key=str(place), title="", text="Text.") for place in range(5)]
    judgement = language.judge("Who?", OBSERVED, passages, limit=5)
    if "failed" in case:
        assert judgement.positions == ()
        assert judgement.degraded.startswith("judging failed: ")
        assert case["failed"] in judgement.degraded
    else:
        assert [label(position) for position in judgement.positions] == case["labels"]
        assert judgement.degraded == case["degraded"]


@of("read")
def test_t07_a_malformed_reading_is_degraded_or_read_exactly(
    server: ScriptedOpenAI, language: OpenAILanguage, case: dict[str, Any]
) -> None:
    server.on("read", reply(case))
    passages = [ObservedPassage(passage_key=str(place), title="", text="Text.") for place in range(3)]
    reading = language.read("Where?", passages)
    if "failed" in case:
        assert (reading.text, reading.cited) == ("", ())
        assert case["failed"] in reading.degraded
    else:
        assert reading.text == "London"
        assert [label(position) for position in reading.cited] == case["labels"]
        assert reading.degraded == case["degraded"]


@pytest.mark.parametrize("verb", SHAPES)
def test_t07_no_answer_takes_long_to_read(verb: str) -> None:
    slow = []
    for case in CASES[verb]:
        started = time.process_time()
        with suppress(ValueError):
            read(SHAPES[verb], content(case))
        if time.process_time() - started > 10.0:  # a third of a second; quadratic, it would be hours
            slow.append(case["name"])
    assert slow == []


@pytest.mark.parametrize("verb", SHAPES)
def test_t07_nothing_in_an_answer_is_evaluated(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    evaluated: list[Any] = []
    for place in ("builtins.eval", "builtins.exec", "builtins.compile", "ast.literal_eval", "os.system"):
        monkeypatch.setattr(place, lambda *given, **_: evaluated.append(given))
    monkeypatch.setattr("subprocess.Popen", lambda *given, **_: evaluated.append(given))
    for case in CASES[verb]:
        if isinstance(case["content"], str):
            with suppress(ValueError):
                read(SHAPES[verb], case["content"])
    assert evaluated == []
