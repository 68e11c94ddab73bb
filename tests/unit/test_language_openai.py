"""The openai language backend against a scripted server over real HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from evireform.errors import ModelUnavailable
from evireform.language.openai import OpenAILanguage
from evireform.language.openai.asking import label
from evireform.language.openai.extraction import locate
from evireform.language.prompts import load, load_all
from evireform.records import Candidate, ExtractedProposition, ObservedPassage, Passage
from evireform.settings import LanguageSettings
from tests.doubles.scripted_openai import Reply, Request, ScriptedOpenAI

Backend = Callable[..., OpenAILanguage]

ADA = Passage(
    key="ada", title="Ada Lovelace", text="Ada Lovelace was born in London. She knew Charles Babbage."
)
BORN = {"text": "Ada Lovelace was born in London.", "entities": ["Ada Lovelace", "London"]}
KNEW = {"text": "Ada Lovelace knew Charles Babbage.", "entities": ["Ada Lovelace", "Charles Babbage"]}


def candidate(position: int, text: str) -> Candidate:
    return Candidate(
        proposition_id=9_000_000 + position,
        passage_id=8_000_000 + position,
        passage_key=f"key-{position}",
        ordinal=0,
        title="",
        text=text,
        similarity=1.0 - position / 1000,
    )


CANDIDATES = [candidate(position, f"Proposition number {position}.") for position in range(30)]
OBSERVED = [ObservedPassage(passage_key="ada", title="Ada Lovelace", text=ADA.text)]


def user_data(request: Request) -> dict[str, Any]:
    return json.loads(request.messages[1]["content"])


# Extraction


def test_extract_gives_propositions_with_entities(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("extract", {"propositions": [BORN, KNEW]})
    (extraction,) = backend().extract([ADA])
    assert extraction.error == ""
    assert extraction.propositions == (
        ExtractedProposition(text=BORN["text"], entities=("Ada Lovelace", "London"), span=(0, 32)),
        ExtractedProposition(text=KNEW["text"], entities=("Ada Lovelace", "Charles Babbage"), span=None),
    )


def test_extract_sends_title_and_text_as_json_data(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("extract", {"propositions": []})
    backend().extract([ADA])
    (request,) = server.requests
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert request.messages[0]["content"] == load("extract").text
    assert user_data(request) == {"title": "Ada Lovelace", "text": ADA.text}
    assert request.body["temperature"] == 0


def test_extract_leaves_an_empty_title_out(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("extract", {"propositions": []})
    backend().extract([Passage(key="a", text="Text.")])
    assert user_data(server.requests[0]) == {"text": "Text."}


def test_t11_text_that_json_or_utf8_cannot_hold_is_sent_and_answered(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    server.on("extract", {"propositions": [BORN]})
    texts = ["a\0b", "half \ud800 character", "東京 👩‍👩‍👧 שלום", "x"]
    extractions = backend(concurrency=1).extract(
        [Passage(key=str(i), text=text) for i, text in enumerate(texts)]
    )
    assert [extraction.error for extraction in extractions] == [""] * 4
    assert [user_data(request)["text"] for request in server.requests] == [
        "a\0b",
        "half \ufffd character",
        "東京 👩‍👩‍👧 שלום",
        "x",
    ]


def test_a_passage_fails_alone(server: ScriptedOpenAI, backend: Backend) -> None:
    def answer(request: Request) -> Any:
        bad = user_data(request)["text"] == "bad"
        return Reply(status=403, content="not this one") if bad else {"propositions": [BORN]}

    server.on("extract", answer)
    good, bad = backend().extract([Passage(key="1", text="good"), Passage(key="2", text="bad")])
    assert good.error == ""
    assert "not this one" in bad.error


@pytest.mark.parametrize(
    ("proposition", "text", "span"),
    [
        ("Oslo is a city.", "Oslo is a city. It rains.", (0, 15)),
        ("Oslo is a city.", "First: Oslo  is\na city, they say.", (7, 22)),
        ("Oslo is a city", "Oslo is a city.", (0, 14)),
        ("What is (this)?", "Well. What is (this)? A test.", (6, 21)),
        ("Oslo was a city.", "Oslo is a city.", None),
        ("...", "...", None),
    ],
)
def test_locate(proposition: str, text: str, span: tuple[int, int] | None) -> None:
    assert locate(proposition, text) == span


# Selection


def test_select_maps_labels_back_to_positions(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", {"selected": ["C9", "A0", "B3"]})
    selection = backend().select("Who?", CANDIDATES, limit=12)
    assert selection.positions == (29, 0, 13)
    assert selection.degraded == ""


def test_select_shows_labels_and_texts_and_no_database_ids(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", {"selected": []})
    backend().select("Who?", CANDIDATES, limit=12)
    (request,) = server.requests
    data = user_data(request)
    assert data["question"] == "Who?"
    assert data["at_most"] == 12
    assert data["candidates"][13] == {"id": "B3", "text": "Proposition number 13."}
    assert not any(str(number) in json.dumps(request.body) for number in (9_000_013, 8_000_013))


def test_select_constrains_the_answer_to_the_labels(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", {"selected": []})
    backend().select("Who?", CANDIDATES[:3], limit=2)
    asked = server.requests[0].body["response_format"]["json_schema"]
    assert asked["strict"] is True
    assert asked["schema"]["additionalProperties"] is False
    assert asked["schema"]["properties"]["selected"] == {
        "type": "array",
        "items": {"type": "string", "enum": ["A0", "A1", "A2"]},
        "maxItems": 2,
    }


def test_candidates_beyond_the_window_are_cut_and_reported(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", {"selected": ["A1"]})
    long = [candidate(position, "word " * 400) for position in range(5)]
    selection = backend(window_tokens=3_000).select("Who?", long, limit=12)
    assert len(user_data(server.requests[0])["candidates"]) == 3
    assert selection.positions == (1,)
    assert selection.degraded == "2 of 5 candidates were cut, the window is full"


def test_labels_are_distinct() -> None:
    labels = [label(position) for position in range(10_000)]
    assert labels[:11] == ["A0", "A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "B0"]
    assert len(set(labels)) == 10_000


# Reformulation


def test_reformulate_gives_the_queries(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("reformulate", {"queries": ["Charles Babbage birthplace", ""]})
    reformulation = backend().reformulate("Where was Ada's friend born?", OBSERVED, limit=3)
    assert reformulation.queries == ("Charles Babbage birthplace", "")
    assert reformulation.degraded == ""
    assert user_data(server.requests[0]) == {
        "question": "Where was Ada's friend born?",
        "at_most": 3,
        "evidence": [{"title": "Ada Lovelace", "text": ADA.text}],
    }


def test_observed_passages_beyond_the_window_are_cut_from_the_end(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    server.on("reformulate", {"queries": ["next"]})
    observed = [
        ObservedPassage(passage_key=str(position), title="", text=f"{position}" * 4_000)
        for position in range(4)
    ]
    reformulation = backend(window_tokens=3_000).reformulate("Who?", observed, limit=3)
    shown = [passage["text"] for passage in user_data(server.requests[0])["evidence"]]
    assert shown[0] == "0" * 4_000
    assert 0 < len(shown[1]) < 4_000
    assert set(shown[1]) == {"1"}
    assert len(shown) == 2
    assert reformulation.queries == ("next",)
    assert reformulation.degraded == ("3 of 4 observed passages were cut, the window is full")


# The backend


def test_the_name_carries_model_and_prompt_versions(backend: Backend) -> None:
    versions = "+".join(f"{prompt.purpose}.{prompt.version}" for prompt in load_all())
    assert backend(model="m").name == f"openai/m/{versions}"


def test_what_extractions_depend_on_is_model_and_prompt(backend: Backend) -> None:
    assert backend(model="m").extractor == f"openai/m/extract.{load('extract').version}"


def test_without_a_key_the_backend_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY"):
        OpenAILanguage(LanguageSettings(backend="openai", model="m"))


def test_openai_base_url_counts(server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for tests")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    server.on("reformulate", {"queries": ["found"]})
    language = OpenAILanguage(LanguageSettings(backend="openai", model="by-environment"))
    assert language.reformulate("Who?", OBSERVED, limit=3).queries == ("found",)


def test_importing_the_package_loads_no_model_library() -> None:
    code = (
        "import sys, evireform.language, evireform.embedding\n"
        "print([name for name in ('torch', 'onnxruntime', 'spacy', 'openai') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
