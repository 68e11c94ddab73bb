"""`extract` by a model: a passage in, its propositions with their places in the text out."""

from __future__ import annotations

import re

from evireform.language.openai.answers import ExtractionAnswer, extraction_schema
from evireform.language.openai.asking import Asking, tokens
from evireform.language.prompts import load
from evireform.records import ExtractedProposition, Extraction, Passage


def extract(asking: Asking, passage: Passage) -> Extraction:
    """The propositions of one passage, or the reason why there are none."""
    prompt = load("extract")
    # Propositions with their entities take about as many tokens as the passage.
    room = (asking.window_tokens - tokens(prompt.text)) // 2
    if (size := tokens(passage.title + passage.text)) > room:
        return Extraction(
            error=f"the passage has about {size} tokens and the model's window has room for {room}: "
            "split it into shorter passages"
        )
    data = {"title": passage.title} if passage.title else {}
    outcome = asking.ask(prompt, data | {"text": passage.text}, ExtractionAnswer, extraction_schema())
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
