"""Whether a text looks like English: what the rules are written for."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[^\W\d_]+")
_FUNCTION_WORDS = (
    "the of and to in a is that for it as was with on by at from he she his her are be an this which or "
    "were has have had not but they their its who been also one after first other into than there would "
    "when where what how i you we can will more about"
)
_COMMON = frozenset(_FUNCTION_WORDS.split())
_LEAST_SHARE = 0.2
_LEAST_WORDS = 12


def looks_english(samples: Iterable[str]) -> bool:
    """Whether at least a fifth of the words are common English function words.

    In English prose about two words of five are; in other languages hardly any. With fewer than 12 words
    there is nothing to judge, and the answer is yes, unless most letters lie outside the Latin script.

    >>> looks_english(["The Eiffel Tower is in Paris, and it was finished by an engineer in 1889."] * 3)
    True
    >>> looks_english(["Der Turm steht in Paris und wurde von einem Ingenieur gebaut."] * 3)
    False
    """
    text = " ".join(samples)
    found = [word.casefold() for word in _WORD.findall(text)]
    if len(found) < _LEAST_WORDS:
        letters = [character for character in text if character.isalpha()]
        return 2 * sum(character < "\u0250" for character in letters) >= len(letters)
    return sum(word in _COMMON for word in found) >= _LEAST_SHARE * len(found)
