"""The language backend that asks a model: any server that speaks the OpenAI protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Generic

from evireform.language.answers import (
    Answer,
    ExtractionAnswer,
    ReformulationAnswer,
    SelectionAnswer,
    extraction_schema,
    read,
    reformulation_schema,
    selection_schema,
)
from evireform.language.chat import Chat, ChatReply, Message
from evireform.language.prompts import Prompt, load, load_all
from evireform.records import (
    Candidate,
    ExtractedProposition,
    Extraction,
    ModelCall,
    ObservedPassage,
    Passage,
    Reformulation,
    Selection,
)
from evireform.settings import LanguageSettings
from evireform.wellformed import well_formed

BYTES_PER_TOKEN = 4
"""Tokens are estimated, for no server says how it counts: four bytes of UTF-8 each, as in English."""

_ANSWER_TOKENS = 1_000
_TOKENS_AROUND_TEXT = 12
_QUOTED_BACK_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome(Generic[Answer]):
    """An answer with what was forgiven, or the reason why there is none; and the calls that it took."""

    answer: Answer | None = None
    forgiven: str = ""
    problem: str = ""
    calls: tuple[ModelCall, ...] = ()


class OpenAILanguage:
    """`Language` by a chat model, with JSON answers that are checked and never trusted.

    Passages, propositions and questions go into the user message as JSON strings, and the prompt calls
    them quoted data. Candidates carry labels (``A0``, ``A1``, …) that mean nothing outside the call. An
    answer that cannot be used is sent back once with what is wrong about it; after that the verb reports
    ``degraded`` or ``error``, with every call in ``calls``.

    Raises:
        ModelUnavailable: there is no API key.
    """

    def __init__(self, settings: LanguageSettings) -> None:
        self._chat = Chat(settings)
        self._window_tokens = settings.window_tokens
        self._concurrency = settings.concurrency
        versions = "+".join(f"{prompt.purpose}.{prompt.version}" for prompt in load_all())
        self._name = f"openai/{settings.model}/{versions}"

    @property
    def name(self) -> str:
        return self._name

    @property
    def wants_entities(self) -> bool:
        return False

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One call per passage, ``settings.concurrency`` at once; a passage fails alone."""
        if len(passages) == 1:
            return [self._extract_one(passages[0])]
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="evireform-extract") as threads:
            return list(threads.map(self._extract_one, passages))

    def _extract_one(self, passage: Passage) -> Extraction:
        prompt = load("extract")
        # Propositions with their entities take about as many tokens as the passage.
        room = (self._window_tokens - _tokens(prompt.text)) // 2
        if (size := _tokens(passage.title + passage.text)) > room:
            return Extraction(
                error=f"the passage has about {size} tokens and the model's window has room for {room}: "
                "split it into shorter passages"
            )
        data = {"title": passage.title} if passage.title else {}
        outcome = self._ask(prompt, data | {"text": passage.text}, ExtractionAnswer, extraction_schema())
        if outcome.answer is None:
            return Extraction(error=outcome.problem, calls=outcome.calls)
        return Extraction(
            propositions=tuple(
                ExtractedProposition(
                    text=proposition.text,
                    entities=tuple(proposition.entities),
                    span=locate(proposition.text, passage.text),
                )
                for proposition in outcome.answer.propositions
            ),
            calls=outcome.calls,
        )

    def select(self, question: str, candidates: Sequence[Candidate], *, limit: int) -> Selection:
        prompt = load("select")
        texts = [candidate.text for candidate in candidates]
        shown = [text for text, whole in self._within(texts, prompt, question) if whole]
        position_of = {label(position): position for position in range(len(shown))}
        data = {
            "question": question,
            "at_most": limit,
            "candidates": [{"id": name, "text": shown[position]} for name, position in position_of.items()],
        }
        schema = selection_schema(list(position_of), limit)
        outcome = self._ask(prompt, data, SelectionAnswer, schema)
        if outcome.answer is None:
            return Selection(degraded=f"selection failed: {outcome.problem}", calls=outcome.calls)
        chosen = [name.strip() for name in outcome.answer.selected]
        unknown = sum(name not in position_of for name in chosen)
        cut = len(candidates) - len(shown)
        return Selection(
            positions=tuple(position_of[name] for name in chosen if name in position_of),
            degraded=_reasons(
                outcome.forgiven and f"selection: {outcome.forgiven}",
                unknown and f"selection: {unknown} of {len(chosen)} labels name no candidate",
                cut and f"selection: {cut} of {len(candidates)} candidates were cut, the window is full",
            ),
            calls=outcome.calls,
        )

    def reformulate(self, question: str, observed: Sequence[ObservedPassage], *, limit: int) -> Reformulation:
        prompt = load("reformulate")
        shown = self._within([passage.text for passage in observed], prompt, question)
        evidence = [
            ({"title": passage.title} if passage.title else {}) | {"text": text}
            for passage, (text, _) in zip(observed, shown, strict=False)
        ]
        data = {"question": question, "at_most": limit, "evidence": evidence}
        outcome = self._ask(prompt, data, ReformulationAnswer, reformulation_schema(limit))
        cut = len(observed) - sum(whole for _, whole in shown)
        cut_reason = (
            cut and f"reformulation: {cut} of {len(observed)} observed passages were cut, the window is full"
        )
        if outcome.answer is None:
            return Reformulation(
                degraded=_reasons(f"reformulation failed: {outcome.problem}", cut_reason),
                calls=outcome.calls,
            )
        return Reformulation(
            queries=tuple(outcome.answer.queries),
            degraded=_reasons(outcome.forgiven and f"reformulation: {outcome.forgiven}", cut_reason),
            calls=outcome.calls,
        )

    def _ask(
        self, prompt: Prompt, data: Mapping[str, Any], shape: type[Answer], schema: Mapping[str, Any]
    ) -> _Outcome[Answer]:
        """Ask, and where the answer cannot be used say why and ask once more."""
        messages: list[Message] = [
            {"role": "system", "content": prompt.text},
            {"role": "user", "content": well_formed(json.dumps(data, ensure_ascii=False))},
        ]
        calls: list[ModelCall] = []
        problem = ""
        for _ in range(2):
            reply: ChatReply = self._chat.ask(prompt, messages, schema)
            calls.append(reply.call)
            if reply.call.error:
                problem = reply.call.error
                break
            try:
                answer, forgiven = read(shape, reply.content)
            except ValueError as error:
                objection: str = str(error)
            else:
                return _Outcome(answer=answer, forgiven=forgiven, calls=tuple(calls))
            problem = f"the answer cannot be used: {objection}"
            calls[-1] = replace(reply.call, error=problem)
            messages = [*messages[:2], *_objection(reply.content, objection)]
        return _Outcome(problem=problem, calls=tuple(calls))

    def _within(self, texts: Sequence[str], prompt: Prompt, question: str) -> list[tuple[str, bool]]:
        """The texts that fit the window, each with whether it is whole; the last may be cut from its end."""
        room = self._window_tokens - _ANSWER_TOKENS - _tokens(prompt.text) - _tokens(question)
        fitting: list[tuple[str, bool]] = []
        for text in texts:
            room -= _TOKENS_AROUND_TEXT
            size = _tokens(text)
            if size > room:
                start = well_formed(text).encode()[: max(0, room) * BYTES_PER_TOKEN].decode(errors="ignore")
                return [*fitting, (start, False)] if start else fitting
            fitting.append((text, True))
            room -= size
        return fitting


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


def locate(proposition: str, text: str) -> tuple[int, int] | None:
    """Character range of a text where a proposition stands word for word; ``None`` where it does not.

    White space may differ, and the proposition's final full stop may be missing in the text.

    >>> locate("Oslo is a city.", "We say that Oslo is  a city, and so on.")
    (12, 27)
    """
    words = proposition.rstrip(".").split()
    if not words:
        return None
    match = re.search(r"\s+".join(map(re.escape, words)), text)
    if match is None:
        return None
    start, end = match.span()
    stop = proposition.endswith(".") and text[end : end + 1] == "."
    return start, end + stop


def _objection(answer: str, problem: str) -> list[Message]:
    return [
        {"role": "assistant", "content": well_formed(answer[:_QUOTED_BACK_CHARACTERS])},
        {
            "role": "user",
            "content": f"That answer cannot be used: {problem}. "
            "Send the JSON object that was asked for, whole, and nothing else.",
        },
    ]


def _tokens(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def _reasons(*reasons: str | int) -> str:
    """The reasons that are there, in one line."""
    return "; ".join(str(reason) for reason in reasons if reason)
