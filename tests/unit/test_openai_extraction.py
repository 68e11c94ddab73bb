"""Extraction by a model: long passages, answers that are cut off, and names that it made up."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from evireform.language.openai import OpenAILanguage, extraction
from evireform.language.openai.extraction import LEAST_TOKENS, PIECE_TOKENS, pieces
from evireform.language.prompts import load
from evireform.language.tokens import estimated
from evireform.records import Extraction, Passage
from evireform.support import Source, source
from tests.doubles.scripted_openai import Reply, Request, ScriptedOpenAI

Backend = Callable[..., OpenAILanguage]

LONG = " ".join(f"Sentence number {number} names Oslo and Bergen, as all do." for number in range(600))


def data(request: Request) -> dict[str, Any]:
    return json.loads(request.messages[1]["content"])


def sentences(request: Request) -> dict[str, Any]:
    """Every sentence of the text as a proposition, and one that each piece repeats."""
    found = re.findall(r"[^.]+\.", data(request)["text"])
    texts = [sentence.strip() for sentence in found] + ["Oslo is named."]
    return {"propositions": [{"text": text, "entities": ["Oslo"]} for text in texts]}


def extract(backend: OpenAILanguage, text: str, **passage: Any) -> Extraction:
    (extraction,) = backend.extract([Passage(key="p", text=text, **passage)])
    return extraction


# Long passages


@pytest.mark.parametrize("window", [32_000, 1_000, 512])
def test_a_long_passage_is_asked_about_in_pieces_within_the_window(
    server: ScriptedOpenAI, backend: Backend, window: int
) -> None:
    server.on("extract", sentences)
    extraction = extract(backend(window_tokens=window), LONG)
    sent = [data(request)["text"] for request in server.requests]
    room = window - estimated(load("extract").text)
    assert len(sent) > 1
    assert max(map(estimated, sent)) <= min(PIECE_TOKENS, room // 2)
    assert [p.text for p in extraction.propositions if p.text != "Oslo is named."] == re.findall(
        r"Sentence[^.]+\.", LONG
    )


def test_what_a_long_passage_supports_is_looked_up_once(
    server: ScriptedOpenAI, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[tuple[str, ...]] = []

    def counted(*texts: str) -> Source:
        looked_at.append(texts)
        return source(*texts)

    monkeypatch.setattr(extraction, "source", counted)
    server.on("extract", sentences)
    extract(backend(window_tokens=1_000), LONG)
    assert len(server.requests) > 5
    assert looked_at == [("", LONG)]


def test_pieces_end_where_sentences_do(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("extract", sentences)
    extract(backend(), LONG)
    assert {data(request)["text"][-1] for request in server.requests} == {"."}


def test_places_are_those_in_the_whole_text(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("extract", sentences)
    propositions = extract(backend(), LONG).propositions
    placed = [(p.text, LONG[slice(*p.span)]) for p in propositions if p.span]
    assert len(placed) == 600
    assert all(text == there for text, there in placed)


def test_a_proposition_of_several_pieces_is_one_with_all_its_entities(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    def numbered(request: Request) -> dict[str, Any]:
        first = re.findall(r"\d+", data(request)["text"])[0]
        return {"propositions": [{"text": "Oslo is named.", "entities": ["Oslo", f"number {first}"]}]}

    server.on("extract", numbered)
    (proposition,) = extract(backend(), LONG).propositions
    assert proposition.entities[:2] == ("Oslo", "number 0")
    assert len(proposition.entities) == len(server.requests) + 1


def test_every_piece_comes_with_the_title(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("extract", sentences)
    extract(backend(), LONG, title="Cities")
    assert {data(request)["title"] for request in server.requests} == {"Cities"}


def test_a_piece_that_fails_fails_the_passage(server: ScriptedOpenAI, backend: Backend) -> None:
    def refuse(request: Request) -> Any:
        last = "number 599 " in data(request)["text"]
        return Reply(status=403, content="not this one") if last else sentences(request)

    server.on("extract", refuse)
    extraction = extract(backend(), LONG)
    assert "not this one" in extraction.error
    assert extraction.propositions == ()
    assert len(extraction.calls) == len(server.requests)


def test_a_window_that_prompt_and_title_fill_is_an_error_and_no_call(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    extraction = extract(backend(window_tokens=512), "Oslo is a city.", title="x" * 400)
    assert "window of 512 tokens has no room" in extraction.error
    assert server.requests == []


def test_t11_five_megabytes_without_a_space_are_cut_in_time() -> None:
    found = pieces("x" * 5_000_000, PIECE_TOKENS)
    assert "".join(text for _, text in found) == "x" * 5_000_000
    assert max(estimated(text) for _, text in found) <= PIECE_TOKENS


@pytest.mark.parametrize(
    "text", [LONG, "東京は日本の首都である。" * 300, " \n" * 4_000 + "Oslo." + "\n" * 9_000]
)
def test_pieces_are_the_text_but_for_white_space_between_them(text: str) -> None:
    found = pieces(text, 60)
    assert all(text[start : start + len(piece)] == piece for start, piece in found)
    assert re.sub(r"\s", "", "".join(piece for _, piece in found)) == re.sub(r"\s", "", text)


# Answers that are cut off


def cut_above(limit: int) -> Callable[[Request], Any]:
    """A server that cuts its answer where the text is longer."""

    def answer(request: Request) -> Any:
        if len(data(request)["text"]) > limit:
            return Reply(content='{"propositions": [{"text": "Oslo', finish_reason="length")
        return sentences(request)

    return answer


def test_a_piece_whose_answer_is_cut_off_is_halved_and_asked_again(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    server.on("extract", cut_above(700))
    extraction = extract(backend(), LONG[:2_600])
    assert extraction.error == ""
    lengths = [len(data(request)["text"]) for request in server.requests]
    assert lengths[0] == 2_600
    assert sum(length for length in lengths if length <= 700) > 2_500
    assert [p.text for p in extraction.propositions if p.text != "Oslo is named."] == [
        sentence.strip() for sentence in re.findall(r"[^.]+\.", LONG[:2_600])
    ]


def test_an_answer_that_never_ends_fails_the_passage_after_few_calls(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    server.on("extract", cut_above(0))
    extraction = extract(backend(), LONG)
    assert "cut off" in extraction.error
    assert estimated(data(server.requests[-1])["text"]) <= LEAST_TOKENS
    assert len(server.requests) < 10


@pytest.mark.parametrize(
    "complaint",
    [
        "This model's maximum context length is 512 tokens",
        "the request exceeds the available context size, try increasing it",
    ],
)
def test_a_piece_that_the_server_finds_too_long_is_halved(
    server: ScriptedOpenAI, backend: Backend, complaint: str
) -> None:
    def answer(request: Request) -> Any:
        long = len(data(request)["text"]) > 1_500
        return Reply(status=400, content=complaint) if long else sentences(request)

    server.on("extract", answer)
    assert extract(backend(), LONG[:2_600]).error == ""


# Names that the passage does not have

TRUE = {"text": "Oslo is a city.", "entities": ["Oslo"]}
FALSE = {"text": "Oslo was founded in 1048.", "entities": ["Oslo", "1048"]}
CORRECTED = {"text": "Oslo was founded.", "entities": ["Oslo"]}
TEXT = "Oslo is a city, founded long ago."


def texts(extraction: Extraction) -> list[str]:
    return [proposition.text for proposition in extraction.propositions]


def test_unsupported_propositions_are_kept_and_counted(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("extract", {"propositions": [TRUE, FALSE]})
    extraction = extract(backend(), TEXT)
    assert texts(extraction) == [TRUE["text"], FALSE["text"]]
    assert (extraction.unsupported, extraction.dropped) == (1, 0)


def test_unsupported_propositions_are_dropped_and_counted(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("extract", {"propositions": [TRUE, FALSE]})
    extraction = extract(backend(unsupported="drop"), TEXT)
    assert texts(extraction) == [TRUE["text"]]
    assert (extraction.unsupported, extraction.dropped) == (0, 1)


def test_a_model_is_asked_once_more_with_what_is_unsupported(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    server.on("extract", {"propositions": [TRUE, FALSE]}, {"propositions": [TRUE, CORRECTED]})
    extraction = extract(backend(unsupported="retry"), TEXT)
    assert data(server.requests[1]) == {"text": TEXT, "unsupported": ["1048"]}
    assert texts(extraction) == [TRUE["text"], CORRECTED["text"]]
    assert (extraction.unsupported, extraction.dropped, len(extraction.calls)) == (0, 0, 2)


def test_what_stays_unsupported_is_dropped(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("extract", {"propositions": [TRUE, FALSE]})
    extraction = extract(backend(unsupported="retry"), TEXT)
    assert (texts(extraction), extraction.dropped, len(server.requests)) == ([TRUE["text"]], 1, 2)


def test_where_asking_again_fails_the_rest_of_the_first_answer_stands(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    server.on("extract", {"propositions": [TRUE, FALSE]}, Reply(status=403, content="no"))
    extraction = extract(backend(unsupported="retry"), TEXT)
    assert (extraction.error, texts(extraction), extraction.dropped) == ("", [TRUE["text"]], 1)


def test_what_the_title_says_is_supported(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("extract", {"propositions": [FALSE]})
    assert extract(backend(), TEXT, title="Oslo in 1048").unsupported == 0
