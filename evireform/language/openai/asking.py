"""One question to a model and a usable answer to it: quoted data in, a checked record or a reason out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from evireform.language.openai.answers import Answer, read
from evireform.language.openai.chat import Chat, ChatReply, Message
from evireform.language.prompts import Prompt
from evireform.records import ModelCall
from evireform.wellformed import well_formed

BYTES_PER_TOKEN = 4
"""Tokens are estimated, for no server says how it counts: four bytes of UTF-8 each, as in English."""

_ANSWER_TOKENS = 1_000
_TOKENS_AROUND_TEXT = 12
_QUOTED_BACK_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Answer]):
    """An answer with what was forgiven, or the reason why there is none; and the calls that it took."""

    answer: Answer | None = None
    forgiven: str = ""
    problem: str = ""
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Asking:
    """A chat model with its context window; what every verb asks through."""

    chat: Chat
    window_tokens: int

    def ask(
        self, prompt: Prompt, data: Mapping[str, Any], shape: type[Answer], schema: Mapping[str, Any]
    ) -> Outcome[Answer]:
        """Ask, and where the answer cannot be used say why and ask once more."""
        messages: list[Message] = [
            {"role": "system", "content": prompt.text},
            {"role": "user", "content": well_formed(json.dumps(data, ensure_ascii=False))},
        ]
        calls: list[ModelCall] = []
        problem = ""
        for _ in range(2):
            reply: ChatReply = self.chat.ask(prompt, messages, schema)
            calls.append(reply.call)
            if reply.call.error:
                problem = reply.call.error
                break
            try:
                answer, forgiven = read(shape, reply.content)
            except ValueError as error:
                objection: str = str(error)
            else:
                return Outcome(answer=answer, forgiven=forgiven, calls=tuple(calls))
            problem = f"the answer cannot be used: {objection}"
            calls[-1] = replace(reply.call, error=problem)
            messages = [*messages[:2], *_objection(reply.content, objection)]
        return Outcome(problem=problem, calls=tuple(calls))

    def within(self, texts: Sequence[str], prompt: Prompt, question: str) -> list[tuple[str, bool]]:
        """The texts that fit the window, each with whether it is whole; the last may be cut from its end."""
        room = self.window_tokens - _ANSWER_TOKENS - tokens(prompt.text) - tokens(question)
        fitting: list[tuple[str, bool]] = []
        for text in texts:
            room -= _TOKENS_AROUND_TEXT
            size = tokens(text)
            if size > room:
                start = well_formed(text).encode()[: max(0, room) * BYTES_PER_TOKEN].decode(errors="ignore")
                return [*fitting, (start, False)] if start else fitting
            fitting.append((text, True))
            room -= size
        return fitting


def tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def label(position: int) -> str:
    """Short name of a candidate: a letter and a digit, two letters from the 261st on.

    >>> [label(position) for position in (0, 9, 10, 259, 260)]
    ['A0', 'A9', 'B0', 'Z9', 'AA0']
    """
    tens, digit = divmod(position, 10)
    letters = ""
    while tens >= 0:
        tens, letter = divmod(tens, 26)
        letters = chr(ord("A") + letter) + letters
        tens -= 1
    return f"{letters}{digit}"


def reasons(*given: str | int) -> str:
    """The reasons that are there, in one line."""
    return "; ".join(str(reason) for reason in given if reason)


def _objection(answer: str, problem: str) -> list[Message]:
    return [
        {"role": "assistant", "content": well_formed(answer[:_QUOTED_BACK_CHARACTERS])},
        {
            "role": "user",
            "content": f"That answer cannot be used: {problem}. "
            "Send the JSON object that was asked for, whole, and nothing else.",
        },
    ]
