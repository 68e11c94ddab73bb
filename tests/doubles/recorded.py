"""Genuine answers of a real model, recorded once (`make record-llm`); the scripted server plays them back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.doubles.scripted_openai import Reply, Request, ScriptedOpenAI

RECORDED = Path(__file__).parents[1] / "recorded" / "qwen2.5-coder-1.5b-instruct.jsonl"
"""The recording of `tests.llm.trial`, one answer a line."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the model answered to one request, and the tokens that its server counted.

    ``key`` is the hash of what was asked about; see `key_of`.
    """

    purpose: str
    key: str
    content: str
    finish_reason: str
    tokens_in: int
    tokens_out: int

    def reply(self) -> Reply:
        return Reply(
            content=self.content,
            finish_reason=self.finish_reason,
            usage=(self.tokens_in, self.tokens_out),
        )


def key_of(request: Request) -> str:
    """Hash of a request's data: its purpose and every message after the first.

    The first message is the prompt. It is left out so that another wording of it does not ask for a recording
    anew: what comes back is a genuine answer of the model all the same, if not to today's wording.
    """
    data = [request.purpose, *(message["content"] for message in request.messages[1:])]
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]


@dataclass
class Recording:
    """Answers by request. ``missing`` lists the purposes of the requests that no answer was recorded for."""

    answers: dict[str, Answer]
    missing: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path = RECORDED) -> Recording:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        answers = [Answer(**json.loads(line)) for line in lines]
        return cls({answer.key: answer for answer in answers})

    def play(self, server: ScriptedOpenAI, purposes: Sequence[str]) -> None:
        """Have the server answer these purposes from the recording."""
        for purpose in purposes:
            server.on(purpose, self.answer)

    def answer(self, request: Request) -> Reply:
        """The recorded answer; 404 where there is none, which no client tries again."""
        found = self.answers.get(key_of(request))
        if found is None:
            self.missing.append(request.purpose)
            return Reply(status=404, content="this request was not recorded: make record-llm")
        return found.reply()


def write(path: Path, answers: Sequence[Answer]) -> None:
    """The answers as a file that changes little when few of them change."""
    lines = [
        json.dumps(asdict(answer), ensure_ascii=False)
        for answer in sorted(answers, key=lambda answer: (answer.purpose, answer.key))
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
