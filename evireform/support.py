"""Whether the names and numbers of a statement stand in the text that it was taken from."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

_WORD = re.compile(r"\d+(?:\.\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*")
_POSSESSIVE = re.compile(r"(?:['’]s|(?<=s)['’])$")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_LONG_RUN = re.compile(r"\d{5,}")
_STEM = 4
_ENDING = 5

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth"
_IN_WORDS = {
    word: step * number
    for words, step, first in ((_ONES, 1, 0), (_TENS, 10, 2), (_ORDINALS, 1, 0))
    for number, word in enumerate(words.split(), start=first)
}


@dataclass(frozen=True, slots=True)
class Source:
    """What a text offers to lean on; made by `source`, once a text.

    Attributes:
        words: Its words and numbers, folded.
        stems: The first letters of its words, each with the lengths that words with them have.
        runs: Digits that stand together, five and more, as where a dash was lost (``17111772``).
        folded: The whole text, for scripts without spaces between words.
    """

    words: frozenset[str]
    stems: frozenset[tuple[str, int]]
    runs: tuple[str, ...]
    folded: str


def source(*texts: str) -> Source:
    """What texts offer together, for example a passage and its title."""
    text = "\n".join(texts)
    words = [_folded(word) for word in _words(text)]
    numbers = [_IN_WORDS.get(word, -1) for word in words]
    spelled = {str(number) for number in numbers if number >= 0}
    spelled |= {
        str(tens + ones)
        for tens, ones in pairwise(numbers)
        if tens in range(20, 100, 10) and ones in range(1, 10)
    }
    return Source(
        words=frozenset(words) | spelled,
        stems=frozenset(
            (word[:end], len(word))
            for word in words
            for end in range(max(_STEM, len(word) - _ENDING), len(word) + 1)
            if not word[0].isdigit()
        ),
        runs=tuple(_LONG_RUN.findall(text)),
        folded=_folded(text),
    )


def unsupported(text: str, entities: Iterable[str], given: Source) -> list[str]:
    """The names and numbers of a statement that do not stand in its source.

    Looked at are numbers, capitalised words (but for the one that begins the statement), and in entities also
    words of scripts without capitals. Case, width, accents, thousands separators and a possessive ``'s`` do
    not matter; a number may be written in words; and a name may end otherwise (``Canada`` where the source
    says ``Canadian``): such a check should seldom cry wolf, and so it misses a false name that resembles a
    true one.

    Args:
        text: The statement.
        entities: Surface forms of what it names.
        given: The source.

    Returns:
        The words that nothing supports, in order, each once; empty where all is supported.

    >>> passage = source("Oslo", "The Norwegian city had 709,037 inhabitants, and two mayors.")
    >>> unsupported("Oslo in Norway had 709037 inhabitants.", ["Oslo", "Norway"], passage)
    []
    >>> unsupported("Oslo's 2 mayors met in Bergen in 1998.", ["Oslo", "Bergen"], passage)
    ['Bergen', '1998']
    """
    looked_at = [word for word in _words(text)[1:] if word[0].isdigit() or word[0].isupper()]
    looked_at += [word for word in _words(text)[:1] if word[0].isdigit()]
    for entity in entities:
        looked_at += [word for word in _words(entity) if not word[0].islower()]
    return [word for word in dict.fromkeys(looked_at) if not _stands_in(word, given)]


def _stands_in(word: str, given: Source) -> bool:
    folded = _folded(word)
    if folded in given.words:
        return True
    if folded.isdigit():
        return any(run.startswith(folded) or run.endswith(folded) for run in given.runs)
    if folded[0].isdigit():
        return False
    if folded == folded.upper():
        return folded in given.folded
    return any(
        (folded[:end], length) in given.stems
        for end in range(max(_STEM, len(folded) - _ENDING), len(folded) + 1)
        for length in range(end, end + _ENDING + 1)
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(_THOUSANDS.sub("", unicodedata.normalize("NFKC", text)))


def _folded(word: str) -> str:
    """Without case, accents and a possessive ending."""
    plain = unicodedata.normalize("NFKD", _POSSESSIVE.sub("", word).casefold())
    return "".join(character for character in plain if not unicodedata.combining(character))
