"""`tests.doubles.recorded` and `tests.llm.record`: what is recorded is what is played back."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from evireform.language.prompts import load
from tests.doubles.recorded import Answer, Recording, write
from tests.doubles.scripted_openai import Reply, ScriptedOpenAI
from tests.llm.record import Recorder

DATA = json.dumps({"question": "Where was Ada born?"})


def ask(server: ScriptedOpenAI, system: str, user: str = DATA) -> dict[str, Any]:
    body = {
        "model": "m",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
    }
    request = urllib.request.Request(
        f"{server.base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A recording of one question, made by the recorder from a server that answers it."""
    system = load("select").text
    with ScriptedOpenAI() as real, ScriptedOpenAI() as between:
        real.on("select", Reply(content='{"selected": ["Ä0"]}', usage=(321, 7), finish_reason="length"))
        recorder = Recorder(real.base_url, tmp_path / "kept")
        between.on("select", recorder.reply)
        ask(between, system)
        ask(between, system)
        assert len(real.requests) == 1
    write(tmp_path / "recording.jsonl", list(recorder.answers.values()))
    return tmp_path / "recording.jsonl"


def test_an_answer_comes_back_as_the_model_gave_it(recorded: Path) -> None:
    with ScriptedOpenAI() as server:
        Recording.read(recorded).play(server, ["select"])
        answer = ask(server, load("select").text)
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == '{"selected": ["Ä0"]}'
    assert choice["finish_reason"] == "length"
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (321, 7)


def test_another_wording_of_the_prompt_gets_the_same_answer(recorded: Path) -> None:
    with ScriptedOpenAI() as server:
        Recording.read(recorded).play(server, ["select"])
        answer = ask(server, load("select").text + "\n\nOne more sentence.")
    assert answer["choices"][0]["message"]["content"] == '{"selected": ["Ä0"]}'


def test_a_question_that_was_not_recorded_is_refused_and_noted(recorded: Path) -> None:
    recording = Recording.read(recorded)
    with ScriptedOpenAI() as server:
        recording.play(server, ["select"])
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(server, load("select").text, "another question")
    assert recording.missing == ["select"]


def test_a_recording_is_in_order_whatever_order_it_was_made_in(tmp_path: Path) -> None:
    answers = [
        Answer(purpose=p, key=k, content="", finish_reason="stop", tokens_in=1, tokens_out=1)
        for p, k in (("select", "b"), ("extract", "c"), ("select", "a"))
    ]
    write(tmp_path / "one", answers)
    write(tmp_path / "two", answers[::-1])
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert [line[:20] for line in (tmp_path / "one").read_text().splitlines()] == [
        '{"purpose": "extract', '{"purpose": "select"', '{"purpose": "select"',
    ]  # fmt: skip
