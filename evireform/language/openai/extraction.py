"""`extract` by a model: a passage in, its propositions with their places in the text out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from evireform.errors import BudgetSpent
from evireform.language.openai.answers import ExtractionAnswer, extraction_schema
from evireform.language.openai.asking import Asking, reasons
from evireform.language.prompts import load
from evireform.language.tokens import estimated
from evireform.records import ExtractedProposition, Extraction, ModelCall, Passage
from evireform.settings import Unsupported
from evireform.support import Source, source, unsupported

PIECE_TOKENS = 2_000
"""Longest text that is asked about at once, however wide the window: of a longer one models leave much out,
and servers cut an answer that is as long."""

LEAST_TOKENS = 50
"""A text that is not halved any more when the answer to it is cut off: the model does not find an end."""

_TOKENS_AROUND_TEXT = 40
_WINDOW_FULL = re.compile(r"context[ _](?:length|size|window)")


def extract(asking: Asking, passage: Passage, *, on_unsupported: Unsupported = "keep") -> Extraction:
    """The propositions of one passage, or the reason why there are none.

    A long text is asked about piece by piece; so is one to which the answer was cut off. The propositions are
    those of all pieces, in order, exact duplicates once; where a piece fails, the passage does. Where no
    further call can be made, for this passage or another one, the extraction says ``in_vain``.

    Args:
        asking: The model.
        passage: Its title is empty where the corpus does not use titles.
        on_unsupported: See `evireform.settings.LanguageSettings`.
    """
    parts = asked_about(asking, passage)
    if not parts:
        return Extraction(
            error=f"the model's window of {asking.window_tokens} tokens has no room for text "
            "beside the prompt and the title"
        )
    extractor = _Extractor(asking, passage, on_unsupported)
    try:
        for start, text in parts:
            extractor.read(start, text)
    except (_Failed, BudgetSpent) as error:
        in_vain = "budget" if isinstance(error, BudgetSpent) else error.in_vain
        return Extraction(error=str(error), in_vain=in_vain, calls=tuple(extractor.calls))
    return Extraction(
        propositions=tuple(extractor.found.values()),
        degraded=reasons(*extractor.forgiven),
        unsupported=extractor.kept,
        dropped=extractor.dropped,
        calls=tuple(extractor.calls),
    )


def asked_about(asking: Asking, passage: Passage) -> list[tuple[int, str]]:
    """The pieces of a passage that are asked about first, with where each begins; none: there is no room."""
    around = estimated(load("extract").text) + estimated(passage.title) + _TOKENS_AROUND_TEXT
    room = asking.window_tokens - around
    # Propositions with their entities take about as many tokens as the text.
    most = min(room // 2, PIECE_TOKENS)
    return [] if most < LEAST_TOKENS else pieces(passage.text, most)


def data_of(passage: Passage, text: str, made_up: Sequence[str] = ()) -> dict[str, object]:
    """What is sent about a piece of a passage; ``made_up`` lists names of an earlier answer."""
    data: dict[str, object] = {"title": passage.title} if passage.title else {}
    data |= {"text": text}
    return data | {"unsupported": list(made_up)} if made_up else data


def pieces(text: str, most_tokens: int) -> list[tuple[int, str]]:
    """The text in pieces of at most so many tokens, each with where it begins; cut at paragraph, sentence or
    word ends where there are any, and without the white space around the cuts.

    >>> pieces("Oslo is a city. Bergen is another.", 6)
    [(0, 'Oslo is a city.'), (16, 'Bergen is another.')]
    """
    from semantic_text_splitter import TextSplitter

    if estimated(text) <= most_tokens:
        return [(0, text)]
    splitter = TextSplitter.from_callback(estimated, most_tokens)
    window = (
        16 * most_tokens
    )  # at least four pieces; the library takes quadratic time over a text without spaces
    found: list[tuple[int, str]] = []
    start = 0
    while start < len(text):
        chunks = [(start + at, chunk) for at, chunk in splitter.chunk_indices(text[start : start + window])]
        start += window
        if start < len(text) and len(chunks) > 1:
            start = chunks.pop()[0]
        found += chunks
    return found


@dataclass(slots=True)
class _Extractor:
    """Reads a passage piece by piece.

    Attributes:
        found: Propositions so far, by their text.
        calls: What they took.
        forgiven: What was wrong with answers that are used all the same.
        kept, dropped: How many were unsupported and kept, or left out.
        given: What the whole passage supports.
    """

    asking: Asking
    passage: Passage
    on_unsupported: Unsupported
    found: dict[str, ExtractedProposition] = field(default_factory=dict)
    calls: list[ModelCall] = field(default_factory=list)
    forgiven: dict[str, None] = field(default_factory=dict)
    kept: int = 0
    dropped: int = 0
    given: Source = field(init=False)

    def __post_init__(self) -> None:
        self.given = source(self.passage.title, self.passage.text)

    def read(self, start: int, text: str, *, again: bool = False) -> None:
        """Find the propositions of a piece that begins at ``start``, and may have been asked about before.

        Raises:
            _Failed: it has no usable answer.
        """
        try:
            propositions = self._ask(start, text, again=again)
        except _TooLong:
            if estimated(text) <= LEAST_TOKENS:
                raise
            for offset, half in pieces(text, estimated(text) // 2 + 1):
                self.read(start + offset, half, again=True)
            return
        for proposition in self._checked(start, text, propositions):
            earlier = self.found.get(proposition.text, proposition)
            entities = tuple(dict.fromkeys((*earlier.entities, *proposition.entities)))
            self.found[proposition.text] = ExtractedProposition(
                text=earlier.text, entities=entities, span=earlier.span
            )

    def _checked(
        self, start: int, text: str, propositions: Sequence[ExtractedProposition]
    ) -> Sequence[ExtractedProposition]:
        """What to do about propositions that name what the passage does not, and their number."""

        def names(proposition: ExtractedProposition) -> list[str]:
            return unsupported(proposition.text, proposition.entities, self.given)

        missing = list(dict.fromkeys(name for proposition in propositions for name in names(proposition)))
        if not missing:
            return propositions
        if self.on_unsupported == "keep":
            self.kept += sum(bool(names(proposition)) for proposition in propositions)
            return propositions
        if self.on_unsupported == "retry":
            with suppress(_NoAnswer):  # else the first answer stands, without what is unsupported
                propositions = self._ask(start, text, missing, again=True)
        supported = [proposition for proposition in propositions if not names(proposition)]
        self.dropped += len(propositions) - len(supported)
        return supported

    def _ask(
        self, start: int, text: str, made_up: Sequence[str] = (), *, again: bool
    ) -> list[ExtractedProposition]:
        """The propositions of a piece; ``made_up`` lists names of an earlier answer."""
        outcome = self.asking.ask(
            load("extract"),
            data_of(self.passage, text, made_up),
            ExtractionAnswer,
            extraction_schema(),
            answer_tokens=estimated(text),
            passage_key=self.passage.key,
            again=again,
        )
        self.calls += outcome.calls
        if outcome.in_vain:
            raise _InVain(outcome.problem)
        if outcome.answer is None:
            too_long = outcome.truncated or _WINDOW_FULL.search(outcome.problem)
            raise (_TooLong if too_long else _NoAnswer)(outcome.problem)
        self.forgiven |= {outcome.forgiven: None} if outcome.forgiven else {}
        return [
            ExtractedProposition(
                text=proposition.text,
                entities=tuple(proposition.entities),
                span=locate(proposition.text, text, start),
            )
            for proposition in outcome.answer.propositions
        ]


class _Failed(Exception):
    """A piece was not read."""

    in_vain: Literal["", "budget", "server"] = ""


class _InVain(_Failed):
    """The server takes no call at present."""

    in_vain = "server"


class _NoAnswer(_Failed):
    """The model gave no usable answer."""


class _TooLong(_NoAnswer):
    """The answer was cut off, or the window is full: a shorter piece may do."""


def locate(proposition: str, text: str, start: int = 0) -> tuple[int, int] | None:
    """Character range of a text where a proposition stands word for word; ``None`` where it does not.

    White space may differ, and the proposition's final full stop may be missing in the text.

    Args:
        proposition: The words to look for.
        text: A text, or a piece of one that begins at ``start``.
        start: Added to what is found.

    >>> locate("Oslo is a city.", "We say that Oslo is  a city, and so on.")
    (12, 27)
    """
    words = proposition.rstrip(".").split()
    if not words:
        return None
    match = re.search(r"\s+".join(map(re.escape, words)), text)
    if match is None:
        return None
    first, last = match.span()
    stop = proposition.endswith(".") and text[last : last + 1] == "."
    return start + first, start + last + stop
