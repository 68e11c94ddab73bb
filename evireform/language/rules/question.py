"""What a question names and what it asks, by rules on its words. Pure functions."""

from __future__ import annotations

import re
import unicodedata

_IDEOGRAMS = "\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_IDEOGRAMS}]|[^\W{_IDEOGRAMS}]+")
_POSSESSIVE = re.compile(r"['’]s\b|(?<=s)['’](?=\s|$)")

_FUNCTION_WORDS = (
    "a about above after all also an and any are as at be been before being between both but by can "
    "could did do does doing during each either for from had has have having he her hers him his how i "
    "if in into is it its just many me more most much my no nor not of off on one only or other our out "
    "over own same she should so some such than that the their them then there these they this those to "
    "too under until up us very was we were what when where whether which while who whom whose why will "
    "with within without would you your"
)
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())

# Words that ask for one relation in different words: a question says "mother", the evidence "daughter of".
_RELATED = (
    "mother father parent parents son sons daughter daughters child children born",
    "grandfather grandmother grandparent grandson granddaughter son daughter father mother",
    "stepmother stepfather son daughter father mother married widow wife husband remarried",
    "wife husband spouse married marriage widow widower consort wed partner",
    "sibling brother sister siblings brothers sisters half son daughter",
    "uncle aunt nephew niece brother sister cousin",
    "law wife husband married son daughter",
    "director directed directing directs filmmaker directorial",
    "performer performed singer sung sang recorded song single album artist band by released",
    "composer composed music score scored soundtrack wrote written",
    "author writer wrote written writes novel book screenplay",
    "producer produced production",
    "publisher published publishing publication magazine",
    "founder founded established cofounder co-founded created creator",
    "creator created designed invented developer developed",
    "birthplace birth born native birthday hometown",
    "death died dies dead killed buried burial",
    "deathplace died death",
    "star starring stars starred cast played portrayed plays actor actress role voiced",
    "country nationality nation located",
    "located location lies situated county state city town district region province headquartered where",
    "owner owned owns acquired bought purchased subsidiary parent",
    "manufacturer manufactured made built produced",
    "employer employed worked works works professor",
    "educated education studied attended graduated alma university school college",
    "member band group team plays played club football",
    "capital city seat",
    "league division conference team",
    "label record records signed released",
    "leader leads led president head chief",
    "network broadcast aired airs channel television broadcaster",
)
_GROUPS: dict[str, frozenset[int]] = {}
for _number, _line in enumerate(_RELATED):
    for _word in _line.split():
        _GROUPS[_word] = _GROUPS.get(_word, frozenset()) | {_number}


def words(text: str) -> tuple[str, ...]:
    """Folded words without accents and possessive endings: what names and questions are compared by.

    Chinese and Japanese, which put no spaces between words, count by character.

    >>> words("Lothair II's mother, Éva")
    ('lothair', 'ii', 'mother', 'eva')
    >>> words("東京 Tower")
    ('東', '京', 'tower')
    """
    if text.isascii():
        return tuple(_WORD.findall(_POSSESSIVE.sub("", text.casefold())))
    folded = unicodedata.normalize("NFKC", text).casefold()
    decomposed = unicodedata.normalize("NFD", _POSSESSIVE.sub("", folded))
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    return tuple(_WORD.findall(plain))


def content_words(text: str) -> tuple[str, ...]:
    """The words that are not function words, each once, in order."""
    return tuple(dict.fromkeys(word for word in words(text) if word not in STOP_WORDS))


def specific_words(question: str) -> frozenset[str]:
    """The words of names and numbers: those with a capital or a digit beyond the question's first letter.

    >>> sorted(specific_words("When did Boris reign after 1396?"))
    ['1396', 'boris']
    """
    marked = (token for token in question[1:].split() if any(c.isupper() or c.isdigit() for c in token))
    return frozenset(word for token in marked for word in words(token))


def find(name: tuple[str, ...], text: tuple[str, ...]) -> int:
    """Where the words of a name begin in a text, or -1."""
    size = len(name)
    if not size:
        return -1
    for start in range(len(text) - size + 1):
        if text[start : start + size] == name:
            return start
    return -1


def related(left: str, right: str) -> bool:
    """Whether two words ask for or state the same relation: one stem, or one group of kin words.

    >>> related("director", "directed"), related("mother", "daughter"), related("director", "direction")
    (True, True, True)
    """
    if left == right:
        return True
    size = min(len(left), len(right))
    if size >= 5 and left[: max(5, size - 2)] == right[: max(5, size - 2)]:
        return True
    return not _GROUPS.get(left, frozenset()).isdisjoint(_GROUPS.get(right, frozenset()))
