"""How many tokens a text has for a model: counted by its tokenizer where that is at hand, else estimated.

Tokenizers of OpenAI's models come with semantic-text-splitter, offline. It does not count, but it tells
whether a text fits, from which the count follows. A model of another maker has a tokenizer of its own, which
no server tells over the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter

BYTES_PER_TOKEN = 4
"""Of UTF-8, as an estimate: in English prose a seventh more than the tokenizers of OpenAI's models count."""

_SLICE_CHARACTERS = 2_000


def estimated(text: str) -> int:
    """About how many tokens a text has: a quarter of its bytes, rounded up.

    >>> estimated("Oslo is the capital of Norway.")
    8
    """
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Counts tokens. ``model`` names one of OpenAI's tokenizers; empty estimates.

    >>> Tokenizer().name
    'estimated, 4 bytes a token'
    """

    model: str = ""

    @property
    def name(self) -> str:
        """What counted, for a result to say so."""
        return f"tokenizer of {self.model}" if self.model else f"estimated, {BYTES_PER_TOKEN} bytes a token"

    def count_within(self, text: str, room: int) -> int | None:
        """Tokens of a text, or None where it has more than ``room``.

        A text above 2,000 characters is counted in slices: now and then a token more than in one piece.

        Args:
            text: The text.
            room: Tokens that there is room for, at least 0.

        >>> Tokenizer("gpt-4o").count_within("Oslo is the capital of Norway.", 100)
        8
        >>> Tokenizer("gpt-4o").count_within("Oslo is the capital of Norway.", 7) is None
        True
        """
        if not self.model:
            size = estimated(text)
            return size if size <= room else None
        text = text.encode(errors="replace").decode()
        counted = start = 0
        while start < len(text) and counted <= room:
            end = start + _SLICE_CHARACTERS
            space = text.rfind(" ", start + 1, end) if end < len(text) else -1
            end = space if space > 0 else end  # a token begins with its space
            counted += _tokens(self.model, text[start:end])
            start = end
        return counted if counted <= room else None


@cache
def tokenizer_of(model: str) -> Tokenizer:
    """The tokenizer of a model: its own where it is one of OpenAI's, else an estimate.

    >>> tokenizer_of("gpt-5-mini").name, tokenizer_of("qwen3:8b").name
    ('tokenizer of gpt-5-mini', 'estimated, 4 bytes a token')
    """
    try:
        _splitter(model, 1)
    except Exception as error:  # the library raises nothing narrower for a model that it does not know
        if "No tokenizer found" not in str(error):
            raise
        return Tokenizer()
    return Tokenizer(model)


def _tokens(model: str, text: str) -> int:
    """The least capacity at which the text is one chunk, by bisection."""
    low, high = 0, len(text.encode())
    while low < high:
        middle = (low + high) // 2
        if middle and len(_splitter(model, middle).chunks(text)) <= 1:
            high = middle
        else:
            low = middle + 1
    return low


@lru_cache(maxsize=8_192)
def _splitter(model: str, capacity: int) -> TextSplitter:
    from semantic_text_splitter import TextSplitter

    return TextSplitter.from_tiktoken_model(model, capacity, trim=False)
