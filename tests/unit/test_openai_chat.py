"""The door to the server: formats, faults, retries, streams and counts, over real HTTP."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from evireform.errors import UsageError
from evireform.language.openai import OpenAILanguage, chat
from evireform.language.openai.answers import SelectionAnswer, selection_schema
from evireform.language.openai.breaker import Breaker, HeldBack
from evireform.language.openai.chat import SHOWN_CHARACTERS
from evireform.language.prompts import load
from evireform.records import Candidate, ModelCall, ObservedPassage, Passage, Selection
from evireform.settings import LanguageSettings
from tests.doubles.scripted_openai import Reply, Request, ScriptedOpenAI

Backend = Callable[..., OpenAILanguage]

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
OBSERVED = [ObservedPassage(passage_key="ada", title="", text="Ada Lovelace was born in London.")]
A1 = {"selected": ["A1"]}
NO_WAIT = {"Retry-After": "0"}
ASKED = [{"role": "system", "content": load("select").text}, {"role": "user", "content": "{}"}]


def formats(server: ScriptedOpenAI) -> list[str]:
    return [request.body.get("response_format", {}).get("type", "text") for request in server.requests]


# Formats


def test_a_server_without_json_schema_is_asked_for_a_json_object(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    server.refused_formats = {"json_schema"}
    server.on("select", {"selected": ["A1"]})
    selection = backend().select("Who?", CANDIDATES, limit=12)
    assert selection.positions == (1,)
    assert selection.degraded == ""
    assert [request.body["response_format"]["type"] for request in server.requests] == [
        "json_schema",
        "json_object",
    ]


def test_a_server_without_json_is_asked_for_plain_text(server: ScriptedOpenAI, backend: Backend) -> None:
    server.refused_formats = {"json_schema", "json_object"}
    server.on("select", {"selected": ["A1"]})
    assert backend().select("Who?", CANDIDATES, limit=12).positions == (1,)
    assert "response_format" not in server.requests[-1].body


def test_the_format_that_a_server_takes_is_remembered(server: ScriptedOpenAI, backend: Backend) -> None:
    server.refused_formats = {"json_schema"}
    server.on("select", {"selected": ["A1"]})
    server.on("reformulate", {"queries": []})
    backend().select("Who?", CANDIDATES, limit=12)
    server.requests.clear()
    backend().reformulate("Who?", OBSERVED, limit=3)
    (request,) = server.requests
    assert request.body["response_format"] == {"type": "json_object"}


def test_a_server_that_ignores_the_schema_is_asked_for_a_json_object_from_then_on(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    language = backend()
    server.on("select", "I would take A1.", A1)
    assert language.select("Who?", CANDIDATES, limit=12).positions == (1,)
    language.select("Who else?", CANDIDATES, limit=12)
    assert formats(server) == ["json_schema", "json_object", "json_object"]


def test_an_answer_in_a_fence_is_used_and_shows_that_the_schema_is_ignored(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    language = backend()
    server.on("select", '```json\n{"selected": ["A1"]}\n```', A1)
    assert language.select("Who?", CANDIDATES, limit=12).positions == (1,)
    assert language.select("Who else?", CANDIDATES, limit=12).degraded == ""
    assert formats(server) == ["json_schema", "json_object"]


def test_a_truncated_answer_says_nothing_about_the_format(server: ScriptedOpenAI, backend: Backend) -> None:
    language = backend()
    server.on("select", Reply(content='{"selected": ["A1", "A', finish_reason="length"), A1)
    language.select("Who?", CANDIDATES, limit=12)
    language.select("Who else?", CANDIDATES, limit=12)
    assert formats(server) == ["json_schema", "json_schema"]


def test_json_that_is_not_what_was_asked_for_says_nothing_about_the_format(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    server.on("extract", {"propositions": [{"text": "", "entities": []}]}, {"propositions": []})
    backend().extract([Passage(key="a", text="Text.")])
    assert formats(server) == ["json_schema", "json_schema"]


def test_a_model_without_temperature_is_asked_without(server: ScriptedOpenAI, backend: Backend) -> None:
    def answer(request: Request) -> Any:
        if "temperature" in request.body:
            return Reply(status=400, content="Unsupported value: 'temperature' does not support 0")
        return {"selected": ["A1"]}

    server.on("select", answer)
    assert backend().select("Who?", CANDIDATES, limit=12).positions == (1,)
    assert server.requests[-1].body["response_format"]["type"] == "json_schema"


def test_a_400_about_something_else_is_reported_as_it_was(server: ScriptedOpenAI, backend: Backend) -> None:
    def answer(request: Request) -> Reply:
        return Reply(
            status=400, content=f"too long for {request.body.get('response_format', {}).get('type')}"
        )

    server.on("select", answer)
    selection = backend().select("Who?", CANDIDATES, limit=12)
    assert "too long for json_schema" in selection.degraded
    server.on("select", {"selected": ["A1"]})
    backend().select("Who?", CANDIDATES, limit=12)
    assert server.requests[-1].body["response_format"]["type"] == "json_schema"


# Faults


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_passing_failure_is_repeated(server: ScriptedOpenAI, backend: Backend, status: int) -> None:
    busy = Reply(status=status, content="busy", headers={"Retry-After": "0"})
    server.on("select", busy, busy, {"selected": ["A1"]})
    selection = backend().select("Who?", CANDIDATES, limit=12)
    assert selection.positions == (1,)
    assert selection.degraded == ""
    assert selection.calls[0].attempts == 3


def test_retry_after_is_waited_for(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on(
        "select",
        Reply(status=429, content="busy", headers={"Retry-After-Ms": "300"}),
        {"selected": ["A1"]},
    )
    started = time.perf_counter()
    backend().select("Who?", CANDIDATES, limit=12)
    assert time.perf_counter() - started >= 0.3


def test_a_wait_that_is_no_number_leaves_the_back_off(
    server: ScriptedOpenAI, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[object] = []
    monkeypatch.setattr(chat, "_BACK_OFF", lambda state: float(bool(waits.append(state))))
    server.on("select", Reply(status=429, content="busy", headers={"Retry-After": "nan"}), A1)
    selection = backend().select("Who?", CANDIDATES, limit=12)
    assert (selection.calls[0].attempts, len(waits)) == (2, 1)


def test_attempts_are_bounded(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", Reply(status=503, content="down for today", headers={"Retry-After": "0"}))
    selection = backend(attempts=3).select("Who?", CANDIDATES, limit=12)
    assert len(server.requests) == 3
    assert "down for today" in selection.degraded
    assert selection.calls[0].attempts == 3


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=401, content="wrong key"),
        Reply(status=429, content="wait an hour", headers={"Retry-After": "3600"}),
    ],
    ids=["wrong key", "wait too long"],
)
def test_what_waiting_cannot_mend_is_not_repeated(
    server: ScriptedOpenAI, backend: Backend, reply: Reply
) -> None:
    server.on("select", reply)
    selection = backend().select("Who?", CANDIDATES, limit=12)
    assert len(server.requests) == 1
    assert reply.content in selection.degraded


def test_a_timeout_is_reported(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", Reply(content={"selected": ["A1"]}, delay_s=0.5))
    selection = backend(timeout_s=0.1, attempts=1).select("Who?", CANDIDATES, limit=12)
    assert "APITimeoutError" in selection.degraded


def unreachable(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> OpenAILanguage:
    monkeypatch.setenv("OPENAI_API_KEY", "for tests")
    base_url = "http://ada:secret@127.0.0.1:9/v1?key=secret"
    return OpenAILanguage(LanguageSettings(backend="openai", model="m", base_url=base_url, **settings))


def ask(language: OpenAILanguage) -> Selection:
    return language.select("Who?", CANDIDATES, limit=12)


GONE = "http://127.0.0.1:9/v1 does not answer (language.base_url)"


def test_a_server_that_is_gone_is_named_with_its_setting_and_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert ask(unreachable(monkeypatch, attempts=1)).degraded == GONE


def test_once_a_server_is_gone_further_calls_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    language = unreachable(monkeypatch, attempts=1)
    calls = [ask(language).calls[0] for _ in range(6)]
    assert [(call.attempts, call.tokens_in) for call in calls] == [(1, None)] * 4 + [(0, 0)] * 2
    assert {call.error for call in calls} == {GONE}


def test_one_call_with_all_its_attempts_shows_that_a_server_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_BACK_OFF", lambda _: 0.0)
    language = unreachable(monkeypatch, attempts=4)
    assert [ask(language).calls[0].attempts for _ in range(2)] == [4, 0]


@pytest.mark.parametrize(
    ("status", "settings"),
    [(401, "OPENAI_API_KEY, language.base_url"), (404, "language.base_url, language.model")],
)
def test_a_server_that_never_answered_and_refuses_key_or_address_is_asked_once(
    server: ScriptedOpenAI, backend: Backend, status: int, settings: str
) -> None:
    server.on("select", Reply(status=status, content="no, for tests"))
    language = backend()
    reasons = {ask(language).degraded for _ in range(3)}
    assert len(server.requests) == 1
    (reason,) = reasons
    assert reason.startswith(server.base_url)
    assert f"({settings}): HTTP {status}, no, …" in reason


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_has_answered_is_given_up_after_four_refusals_in_a_row(
    server: ScriptedOpenAI, backend: Backend, status: int
) -> None:
    no = Reply(status=status, content="no")
    server.on("select", A1, no, no, no, A1, no)
    language = backend()
    for _ in range(12):
        ask(language)
    assert len(server.requests) == 1 + 3 + 1 + 4


@pytest.mark.parametrize("status", [400, 500])
def test_other_failures_hold_no_call_back(server: ScriptedOpenAI, backend: Backend, status: int) -> None:
    server.refused_formats = {"json_schema", "json_object"}
    server.on("select", Reply(status=status, content="no"))
    language = backend(attempts=1)
    assert [ask(language).calls[0].attempts > 0 for _ in range(8)] == [True] * 8


def test_a_server_that_was_given_up_is_asked_again_after_a_rest() -> None:
    breaker = Breaker(rest_s=0.05)
    breaker.missed(refused=True)
    assert breaker.gave_up("gone", certain=True)
    with pytest.raises(HeldBack, match="gone"):
        breaker.check()
    time.sleep(0.06)
    breaker.check()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b"<html>Bad gateway</html>",
        b'{"choices": [',
        b'{"choices": []}',
        b'{"choices": null}',
        b'{"choices": {"0": 1}}',
        b'{"choices": [7]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": {"selected": ["A1"]}}}]}',
        b'{"choices": [{"message": {"content": null}, "finish_reason": "length"}], "usage": 5}',
    ],
)
def test_t07_an_answer_outside_the_protocol_is_reported(
    server: ScriptedOpenAI, backend: Backend, body: bytes
) -> None:
    server.on("select", Reply(raw=body))
    selection = backend(attempts=1).select("Who?", CANDIDATES, limit=12)
    assert selection.positions == ()
    assert selection.degraded


def test_t07_odd_token_counts_are_unknown(server: ScriptedOpenAI, backend: Backend) -> None:
    message = {"content": '{"selected": ["A1"]}'}
    usage = {"prompt_tokens": "many", "completion_tokens": -3}
    body = json.dumps({"choices": [{"message": message}], "usage": usage}).encode()
    server.on("select", Reply(raw=body))
    selection = backend().select("Who?", CANDIDATES, limit=12)
    assert selection.positions == (1,)
    assert (selection.calls[0].tokens_in, selection.calls[0].tokens_out) == (None, None)


@pytest.mark.parametrize("drop", ["before", "within"])
def test_a_connection_that_breaks_is_tried_again(server: ScriptedOpenAI, backend: Backend, drop: Any) -> None:
    server.on("select", Reply(content=A1, drop=drop), A1)
    selection = backend().select("Who?", CANDIDATES, limit=12)
    assert selection.positions == (1,)
    assert selection.degraded == ""
    assert [call.attempts for call in selection.calls] == [2]


def test_an_answer_without_a_message_is_asked_for_again(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", Reply(no_choice=True), Reply(content=""), A1)
    selection = backend().select("Who?", CANDIDATES, limit=12)
    assert selection.positions == (1,)
    assert formats(server) == ["json_schema"] * 3
    assert [call.error for call in selection.calls] == ["the server's answer holds no message"] * 2 + [""]
    assert len({json.dumps(request.messages) for request in server.requests}) == 1


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(refusal="I must not."), "the model refused: I must not."),
        (
            Reply(content=A1, finish_reason="content_filter"),
            "the server's content filter withheld the answer",
        ),
        (
            Reply(content="", finish_reason="length"),
            "the server allowed no tokens for the answer (finish reason: length)",
        ),
    ],
    ids=["refusal", "content filter", "no room"],
)
def test_t07_a_withheld_answer_is_not_asked_for_again(
    server: ScriptedOpenAI, backend: Backend, reply: Reply, reason: str
) -> None:
    server.on("select", reply)
    selection = backend().select("Who?", CANDIDATES, limit=12)
    assert selection.degraded == f"{reason}"
    assert len(server.requests) == 1


def test_a_long_error_page_is_reported_in_short(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", Reply(status=403, content="no\0 \ud800" * 100_000))
    (call,) = backend().select("Who?", CANDIDATES, limit=12).calls
    assert "no" in call.error
    assert len(call.error) <= 500
    assert "\0" not in call.error
    call.error.encode()


@pytest.mark.parametrize(
    "reply",
    [
        Reply(content=A1, delay_s=30.0),
        Reply(status=429, content="busy", headers={"Retry-After": "30"}),
        Reply(status=503, content="down"),
    ],
    ids=["while the model writes", "while the server asks to wait", "while backing off"],
)
def test_ctrl_c_ends_a_call_at_once(server: ScriptedOpenAI, reply: Reply) -> None:
    asked = threading.Event()

    def answer(_: Request) -> Reply:
        asked.set()
        return reply

    server.on("reformulate", answer)
    code = (
        "from evireform.language.openai import OpenAILanguage\n"
        "from evireform.settings import LanguageSettings\n"
        f"url = {server.base_url!r}\n"
        "settings = LanguageSettings(backend='openai', model='m', base_url=url, attempts=20)\n"
        "OpenAILanguage(settings).reformulate('Who?', [], limit=1)\n"
    )
    environ = os.environ | {
        "OPENAI_API_KEY": "for tests",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    with subprocess.Popen([sys.executable, "-c", code], env=environ, stderr=subprocess.PIPE) as process:
        assert asked.wait(30)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)  # the next attempt would come half a minute later
    assert b"KeyboardInterrupt" in errors


# Streams


def read_aloud(language: OpenAILanguage) -> tuple[list[str], Any]:
    """What was shown while `select`'s question was answered through `Asking`, and the outcome."""
    shown: list[str] = []
    outcome = language._asking.ask(
        load("select"),
        {"question": "Who?"},
        SelectionAnswer,
        selection_schema(["A1"], 1),
        on_text=shown.append,
    )
    return shown, outcome


def test_an_answer_is_shown_as_it_arrives(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", A1)
    shown, outcome = read_aloud(backend())
    assert shown == ["", '{"select', '{"selected": ["A', '{"selected": ["A1"]}']
    assert outcome.answer.selected == ["A1"]


def test_a_streamed_answer_is_counted(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", Reply(content=A1, cached=3))
    _, outcome = read_aloud(backend())
    (call,) = outcome.calls
    assert (call.tokens_in, call.tokens_out, call.tokens_cached) == (server.tokens_in, server.tokens_out, 3)


@pytest.mark.parametrize("streaming", ["refused", "ignored"])
def test_a_server_that_does_not_stream_shows_the_answer_at_once(
    server: ScriptedOpenAI, backend: Backend, streaming: Any
) -> None:
    server.streaming = streaming
    server.on("select", A1)
    language = backend()
    shown, outcome = read_aloud(language)
    assert [text for text in shown if text] == ['{"selected": ["A1"]}']
    assert outcome.answer.selected == ["A1"]
    server.requests.clear()
    read_aloud(language)
    assert [request.body.get("stream") for request in server.requests] == [None]


def test_a_server_that_streams_without_counting_is_not_asked_to_stream_again(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    server.streaming = "uncounted"
    server.on("select", A1)
    language = backend()
    _, first = read_aloud(language)
    _, second = read_aloud(language)
    assert first.answer.selected == ["A1"]
    assert [call.tokens_in is None for call in (*first.calls, *second.calls)] == [True, False]


def test_a_stream_that_breaks_begins_anew(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", Reply(content=A1, drop="within"), A1)
    shown, outcome = read_aloud(backend())
    assert shown[0] == ""
    assert shown[-4:] == ["", '{"select', '{"selected": ["A', '{"selected": ["A1"]}']
    assert outcome.answer.selected == ["A1"]
    assert outcome.calls[0].attempts == 2


def test_a_stream_that_ends_in_the_middle_is_no_answer(server: ScriptedOpenAI, backend: Backend) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": '{"selected": ["A1"]}'}, "finish_reason": None}]}
    raw = f"data: {json.dumps(chunk)}\n\n".encode()
    server.on("select", Reply(raw=raw))
    _, outcome = read_aloud(backend(attempts=1))
    assert outcome.answer is None
    assert "the stream ended in the middle" in outcome.problem


def test_an_error_in_the_middle_of_a_stream_is_repeated(server: ScriptedOpenAI, backend: Backend) -> None:
    event = f"data: {json.dumps({'error': {'message': 'overloaded', 'type': 'server_error'}})}\n\n"
    server.on("select", Reply(raw=event.encode()), A1)
    _, outcome = read_aloud(backend(attempts=2))
    assert (outcome.answer.selected, outcome.calls[0].attempts) == (["A1"], 2)


def test_a_server_that_is_down_is_asked_to_stream_again(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", Reply(status=503, content="down"), A1)
    language = backend(attempts=1)
    read_aloud(language)
    read_aloud(language)
    assert [request.body["stream"] for request in server.requests] == [True, True]


def test_a_refusal_in_a_stream_is_one(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", Reply(refusal="I must not."))
    shown, outcome = read_aloud(backend())
    assert outcome.problem == "the model refused: I must not."
    assert shown == [""]


def test_no_more_than_the_beginning_of_a_long_answer_is_shown(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    server.on("select", {"selected": ["x" * 30_000]})
    shown, outcome = read_aloud(backend())
    assert max(map(len, shown)) == SHOWN_CHARACTERS
    assert len(shown) <= 1 + SHOWN_CHARACTERS // 8
    assert outcome.answer.selected == ["x" * 30_000]


# Counts


def test_every_call_is_recorded(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", {"selected": ["A1"]})
    (call,) = backend(model="recorded").select("Who?", CANDIDATES, limit=12).calls
    messages = json.dumps(server.requests[0].messages, sort_keys=True)
    assert (call.purpose, call.model, call.prompt_version) == ("select", "recorded", load("select").version)
    assert call.prompt_hash == hashlib.sha256(messages.encode()).hexdigest()
    assert (call.tokens_in, call.tokens_out) == (server.tokens_in, server.tokens_out)
    assert call.tokens_in > 0
    assert call.latency_s > 0
    assert (call.attempts, call.error) == (1, "")


def test_what_was_sent_beside_the_messages_is_recorded(server: ScriptedOpenAI, backend: Backend) -> None:
    server.refused_formats = {"json_schema"}
    server.on("select", A1)
    (call,) = backend().select("Who?", CANDIDATES, limit=12).calls
    assert call.parameters == {"temperature": 0, "response_format": "json_object"}


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 5}}, 5),
        ({"prompt_cache_hit_tokens": 7}, 7),
        ({"prompt_tokens_details": None}, None),
        ({"prompt_tokens_details": {"cached_tokens": "all"}}, None),
        ({}, None),
    ],
    ids=["OpenAI", "DeepSeek", "null", "odd", "unknown"],
)
def test_tokens_that_the_server_had_in_its_cache_are_counted(
    server: ScriptedOpenAI, backend: Backend, usage: dict[str, Any], cached: int | None
) -> None:
    choice = {"message": {"content": '{"selected": ["A1"]}'}, "finish_reason": "stop"}
    body = {"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 2} | usage}
    server.on("select", Reply(raw=json.dumps(body).encode()))
    (call,) = backend().select("Who?", CANDIDATES, limit=12).calls
    assert (call.tokens_in, call.tokens_out, call.tokens_cached) == (10, 2, cached)


def test_t08_every_answer_is_counted_to_the_token(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on(
        "select",
        Reply(status=429, content="busy", headers=NO_WAIT),
        Reply(no_choice=True),
        "prose",
        Reply(status=500, content="down", headers=NO_WAIT),
        A1,
    )
    calls: tuple[ModelCall, ...] = backend().select("Who?", CANDIDATES, limit=12).calls
    assert [(bool(call.error), call.attempts) for call in calls] == [(True, 2), (True, 1), (False, 2)]
    assert sum(call.tokens_in or 0 for call in calls) == server.tokens_in > 0
    assert sum(call.tokens_out or 0 for call in calls) == server.tokens_out > 0


# what a server may do with the body of an answer, and the caller with its pieces


@pytest.mark.parametrize("streamed", [False, True])
def test_a_server_that_dribbles_does_not_hold_a_call_for_ever(
    server: ScriptedOpenAI, backend: Backend, streamed: bool
) -> None:
    server.on("select", Reply(content=A1, dribble_s=0.2))
    asking = backend(timeout_s=1.0, attempts=1)._asking
    started = time.monotonic()
    shown: list[str] = []
    reply = asking.chat.ask(load("select"), ASKED, {}, on_text=shown.append if streamed else None)
    assert reply.call.error.startswith(("APITimeoutError", "ReadTimeout"))
    assert time.monotonic() - started < 20.0  # whole, the answer would take a minute


def test_an_endless_answer_is_given_up(
    server: ScriptedOpenAI, backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evireform.language.openai.chat.MAX_BODY_BYTES", 100_000)
    server.on("select", Reply(content="x" * 200_000))
    reply = backend(attempts=1)._asking.chat.ask(load("select"), ASKED, {})
    assert reply.content == ""
    assert reply.call.error


def test_a_body_nested_too_deeply_is_an_error_of_the_call(server: ScriptedOpenAI, backend: Backend) -> None:
    server.on("select", Reply(raw=b"[" * 100_000))
    reply = backend(attempts=1)._asking.chat.ask(load("select"), ASKED, {})
    assert reply.call.error


@pytest.mark.parametrize("status", [401, 400, 500])
def test_neither_key_nor_password_is_in_an_error_that_quotes_them(
    server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
    base_url = server.base_url.replace("http://", "http://me:hunter2@")
    server.on("select", Reply(status=status, content="no: Bearer sk-hidden at http://me:hunter2@host"))
    settings = LanguageSettings(backend="openai", model=f"quoting {status}", base_url=base_url, attempts=1)
    error = OpenAILanguage(settings)._asking.chat.ask(load("select"), ASKED, {}).call.error
    assert "no: Bearer" in error
    assert "sk-hidden" not in error
    assert "hunter2" not in error


def test_a_server_that_quotes_the_request_keeps_its_temperature(
    server: ScriptedOpenAI, backend: Backend
) -> None:
    def answer(request: Request) -> Reply:
        if "response_format" in request.body:
            return Reply(status=400, content=f"response_format is not supported: {request.body}")
        return Reply(content=A1)

    server.on("select", answer)
    backend().select("Who?", CANDIDATES, limit=2)
    assert server.requests[-1].body["temperature"] == 0
    assert "response_format" not in server.requests[-1].body


@pytest.mark.parametrize("error", [BrokenPipeError("gone"), ValueError("mine"), KeyError("mine")])
def test_what_the_caller_raises_while_a_message_arrives_is_the_callers(
    server: ScriptedOpenAI, backend: Backend, error: Exception
) -> None:
    def on_text(text: str) -> None:
        if text:
            raise error

    server.on("select", A1)
    chat = backend()._asking.chat
    with pytest.raises(type(error)):
        chat.ask(load("select"), ASKED, {}, on_text=on_text)
    assert len(server.requests) == 1


@pytest.mark.parametrize("count", [2**31, 10**30, -1, "many", 1.5, None])
def test_an_absurd_count_is_unknown(server: ScriptedOpenAI, backend: Backend, count: Any) -> None:
    server.on("select", Reply(content=A1, usage=(count, 3)))
    call = backend()._asking.chat.ask(load("select"), ASKED, {}).call
    assert (call.tokens_in, call.tokens_out) == (None, 3)


def test_a_proxy_that_cannot_be_used_is_named_as_such(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://127.0.0.1:1")
    with pytest.raises(UsageError, match="a proxy of the environment"):
        backend()


def test_an_address_that_is_none_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for tests")
    with pytest.raises(UsageError, match=r"language\.base_url"):
        OpenAILanguage(LanguageSettings(backend="openai", model="m", base_url="\0"))
