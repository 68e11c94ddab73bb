"""One question to a model and a usable answer to it: quoted data in, a checked record or a reason out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Generic

from evireform.language import Ledger
from evireform.language.openai.answers import Answer, BrokeOff, Read, read
from evireform.language.openai.chat import SHOWN_CHARACTERS, Chat, ChatReply, Message
from evireform.language.openai.turns import one_at_a_time
from evireform.language.prompts import Prompt
from evireform.language.tokens import BYTES_PER_TOKEN, estimated
from evireform.records import CorpusRow, ExpectedCall, ModelCall
from evireform.wellformed import well_formed

REPAIRS = 2
"""How often a model is told what is wrong with its answer before the verb falls back."""

_CUT_OFF = "it was cut off where the server allows no more tokens"
_ANSWER_TOKENS = 1_000
_TOKENS_AROUND_TEXT = 12
_QUOTED_BACK_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Answer]):
    """An answer with what was forgiven, or the reason why there is none; and the calls that it took.

    ``truncated`` says that the last answer broke off. Its whole leading items may still be the ``answer``,
    with ``forgiven`` saying so; one that must be whole is then missing, and a shorter question may help.
    ``in_vain`` says that the server takes no call at present.
    """

    answer: Answer | None = None
    forgiven: str = ""
    problem: str = ""
    truncated: bool = False
    in_vain: bool = False
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Asking:
    """A chat model with its context window and a ledger; what every verb asks through.

    Without a ledger or a corpus nothing is recorded, and no answer comes from an earlier call.
    """

    chat: Chat
    window_tokens: int
    ledger: Ledger | None = None
    corpus: CorpusRow | None = None

    def in_corpus(self, corpus: CorpusRow) -> Asking:
        """The same, with calls recorded for this corpus."""
        return replace(self, corpus=corpus)

    def ask(
        self,
        prompt: Prompt,
        data: Mapping[str, Any],
        shape: type[Answer],
        schema: Mapping[str, Any],
        *,
        answer_tokens: int = 200,
        passage_key: str | None = None,
        round_number: int = 0,
        again: bool = False,
        on_text: Callable[[str], None] | None = None,
    ) -> Outcome[Answer]:
        """Ask; where the answer cannot be used say why and ask again, twice at most.

        An identical question that was answered usably before, by any process, is answered from the ledger;
        while another thread of this process asks it, this one waits for the answer.
        Every answer of the server is recorded as a call of its own as soon as it is there.

        Args:
            prompt: What to do.
            data: What to do it with; goes into the user message as one JSON object.
            shape: What the answer must be.
            schema: The same as a JSON schema, for servers that hold a model to it.
            answer_tokens: About how long the answer will be, for budget and pace.
            passage_key: The passage that is asked about, for the ledger.
            round_number: The round of a search, for the ledger.
            again: Whether the same data was asked about before, which an estimate must not count twice.
            on_text: Called with the model's message so far as it grows (its first 20,000 characters), and
                with an empty text whenever an attempt begins.

        Raises:
            BudgetSpent: the ledger permits no further call.
        """
        messages = _messages(prompt, data)
        key = _key(self.chat, messages, schema)
        calls: list[ModelCall] = []

        def recorded(call: ModelCall, answer: str | None) -> ModelCall:
            new = None if calls or again else sum(len(message["content"].encode()) for message in messages)
            call = replace(call, passage_key=passage_key, round_number=round_number, bytes_sent=new)
            if self.ledger is None or self.corpus is None:
                return call
            return self.ledger.record(self.corpus, call, key=key, answer=answer)

        with self._in_turn(key):
            if known := self._known(key, shape):
                found, content = known
                if on_text is not None:
                    on_text(content[:SHOWN_CHARACTERS])
                call = recorded(replace(self.chat.call(prompt, messages), cached=True), None)
                return Outcome(answer=found.answer, forgiven=found.forgiven, calls=(call,))

            asked = messages
            problem = ""
            truncated = in_vain = False
            for _ in range(1 + REPAIRS):
                expected = sum(estimated(message["content"]) for message in asked) + answer_tokens
                if self.ledger is not None and self.corpus is not None:
                    self.ledger.permit(expected)
                try:
                    reply = self.chat.ask(prompt, asked, schema, expected_tokens=expected, on_text=on_text)
                except BaseException as error:  # Ctrl-C, or the caller's `on_text`
                    call = replace(self.chat.call(prompt, asked), error=f"given up: {type(error).__name__}")
                    recorded(replace(call, attempts=1, tokens_in=None, tokens_out=None), None)
                    raise
                try:
                    found = _usable(reply, shape)
                except _Unusable as error:
                    problem, truncated, in_vain = str(error), error.broke_off, reply.in_vain
                    calls.append(recorded(replace(reply.call, error=problem), None))
                    if error.objection:
                        asked = [*messages, *_objection(reply.content, error.objection)]
                    elif not reply.absent:
                        break
                else:
                    calls.append(recorded(reply.call, None if found.broke_off else reply.content))
                    return Outcome(
                        answer=found.answer,
                        forgiven=found.forgiven,
                        truncated=found.broke_off,
                        calls=tuple(calls),
                    )
            return Outcome(problem=problem, truncated=truncated, in_vain=in_vain, calls=tuple(calls))

    def expected(self, prompt: Prompt, data: Mapping[str, Any], schema: Mapping[str, Any]) -> ExpectedCall:
        """The call that `ask` would begin with, without making it."""
        messages = _messages(prompt, data)
        asked, given = (message["content"].encode() for message in messages)
        return ExpectedCall(
            purpose=prompt.purpose,
            model=self.chat.model,
            prompt_version=prompt.version,
            key=_key(self.chat, messages, schema),
            prompt_bytes=len(asked),
            data_bytes=len(given),
        )

    def within(self, texts: Sequence[str], prompt: Prompt, question: str) -> list[tuple[str, bool]]:
        """The texts that fit the window, each with whether it is whole; the last may be cut from its end."""
        room = self.window_tokens - _ANSWER_TOKENS - estimated(prompt.text) - estimated(question)
        fitting: list[tuple[str, bool]] = []
        for text in texts:
            room -= _TOKENS_AROUND_TEXT
            size = estimated(text)
            if size > room:
                start = well_formed(text).encode()[: max(0, room) * BYTES_PER_TOKEN].decode(errors="ignore")
                return [*fitting, (start, False)] if start else fitting
            fitting.append((text, True))
            room -= size
        return fitting

    def _in_turn(self, key: str) -> AbstractContextManager[None]:
        """Where the ledger answers identical questions, none is asked while another thread asks it."""
        if self.ledger is None or self.corpus is None or not self.ledger.caches:
            return nullcontext()
        return one_at_a_time((self.corpus.tenant_id, key))

    def _known(self, key: str, shape: type[Answer]) -> tuple[Read[Answer], str] | None:
        """The ledger's answer to an identical question, where it can still be read, and its text."""
        if self.ledger is None or self.corpus is None:
            return None
        content = self.ledger.find(self.corpus, key)
        if content is None:
            return None
        try:
            return read(shape, content), content
        except ValueError:
            return None


class _Unusable(Exception):
    """An answer that cannot be used. ``objection`` is what to tell the model; empty where that is no use."""

    def __init__(self, problem: str, *, objection: str = "", broke_off: bool = False) -> None:
        super().__init__(problem)
        self.objection = objection
        self.broke_off = broke_off


def _usable(reply: ChatReply, shape: type[Answer]) -> Read[Answer]:
    if reply.call.error:
        raise _Unusable(reply.call.error, broke_off=reply.truncated)
    if reply.truncated and shape.only_whole:
        raise _Unusable(f"the answer cannot be used: {_CUT_OFF}", broke_off=True)
    try:
        found = read(shape, reply.content)
    except ValueError as error:
        broke_off = reply.truncated or isinstance(error, BrokeOff)
        raise _Unusable(
            f"the answer cannot be used: {error}", objection=str(error), broke_off=broke_off
        ) from error
    if reply.truncated and not found.broke_off:
        return replace(found, forgiven=reasons(found.forgiven, _CUT_OFF), broke_off=True)
    return found


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


def _messages(prompt: Prompt, data: Mapping[str, Any]) -> list[Message]:
    return [
        {"role": "system", "content": prompt.text},
        {"role": "user", "content": well_formed(json.dumps(data, ensure_ascii=False))},
    ]


def _key(chat: Chat, messages: Sequence[Message], schema: Mapping[str, Any]) -> str:
    """Hash of what a question is and whom it is for: not of the format that a server was asked for, which it
    may teach us."""
    question = {
        "server": chat.server,
        "model": chat.model,
        "messages": list(map(dict, messages)),
        "schema": schema,
        "temperature": 0,
    }
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def _objection(answer: str, problem: str) -> list[Message]:
    return [
        {"role": "assistant", "content": well_formed(answer[:_QUOTED_BACK_CHARACTERS])},
        {
            "role": "user",
            "content": f"That answer cannot be used: {problem}. "
            "Send the JSON object that was asked for, whole, and nothing else.",
        },
    ]
