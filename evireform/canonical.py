"""The canonical form of an entity name (SPEC section 1): what makes two mentions one entity."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_PAIRS = (
    ("``", "''"), ("''", "''"), ('"', '"'), ("'", "'"), ("`", "`"),
    ("“", "”"), ("‘", "’"), ("„", "“"), ("„", "”"), ("‚", "‘"), ("‚", "’"), ("”", "”"), ("’", "’"),
    ("«", "»"), ("»", "«"), ("‹", "›"), ("›", "‹"),
    ("(", ")"), ("[", "]"), ("{", "}"), ("<", ">"),
    ("「", "」"), ("『", "』"), ("《", "》"), ("〈", "〉"), ("【", "】"), ("〔", "〕"),
)  # fmt: skip
_SPACE = re.compile(r"\s+")
_FULL_STOPS = ".。۔।"
_INITIALISM = re.compile(r"[^\W\d_]\.[^\W\d_]\.$")
_APOSTROPHE = re.compile(r"(?<=\w)['’](?=\w)")
_LEGAL_FORMS = {
    "inc", "ltd", "llc", "plc", "corp", "co", "company", "gmbh", "ag", "kg", "sa", "spa", "bv", "nv", "ab",
}  # fmt: skip
_MARKS = frozenset(".,:;!'’`´·")
MAX_ENTITY_CHARACTERS = 300
"""Longest canonical form that is taken for a name."""


@lru_cache(maxsize=65_536)
def canonical(surface: str) -> str:
    """Fold a surface form: NFKC, casefold, single spaces, no matched outer quotes, no trailing ``, ; : .``.

    Every other symbol is kept, so ``C``, ``C++`` and ``C#`` stay apart, and ``5`` and ``-5``. The full stop
    of an initialism (``U.S.``, ``Ph.D.``) is kept too, because it ends no sentence; that of a single
    letter (``vitamin C.``) does. Folding what is folded changes nothing.

    Args:
        surface: A mention as it stands in a proposition.

    Returns:
        The canonical form; empty when nothing is left.

    >>> canonical("  “Łódź”, ")
    'łódź'
    >>> canonical("C++"), canonical("C#"), canonical("-5"), canonical("50%")
    ('c++', 'c#', '-5', '50%')
    >>> canonical("The U.S."), canonical("Electrons.")
    ('the u.s.', 'electrons')
    """
    text = _fold(surface)
    while (shorter := _strip_once(text)) != text:
        text = shorter
    return text


def _fold(surface: str) -> str:
    text = unicodedata.normalize("NFKC", surface)
    text = unicodedata.normalize("NFKC", text.casefold())
    return _SPACE.sub(" ", text).strip()


def _strip_once(text: str) -> str:
    """The text without one closing mark or one pair of quotes or brackets; the same text when it has none."""
    if text.endswith((",", ";", ":")):
        return text[:-1].rstrip()
    if text.endswith(tuple(_FULL_STOPS)) and not _INITIALISM.search(text):
        return text[:-1].rstrip()
    for opening, closing in _PAIRS:
        if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening + closing):
            inner = text[len(opening) : len(text) - len(closing)]
            if _closes_itself(inner, opening, closing):
                return inner.strip()
    return text


def _closes_itself(inner: str, opening: str, closing: str) -> bool:
    """Whether every pair opened within closes within, so that the outer two belong together.

    ``(a) and (b)`` without its first and last character does not. An apostrophe is no quote.
    """
    inner = _APOSTROPHE.sub("", inner)
    if opening == closing:
        return opening not in inner
    depth = 0
    for found in re.finditer(f"{re.escape(opening)}|{re.escape(closing)}", inner):
        depth += 1 if found[0] == opening else -1
        if depth < 0:
            return False
    return depth == 0


def likeness(name: str) -> str:
    """A canonical form without what often differs between two spellings of one name.

    Accents, spaces, dashes, brackets, quotes, other marks of a sentence, a leading ``the`` and the legal form
    of a company go; symbols stay. Two names that are alike are probably one, which a person has to say.

    >>> likeness("the coca-cola co."), likeness("coca cola")
    ('cocacola', 'cocacola')
    >>> likeness("café"), likeness("c++"), likeness("c#")
    ('cafe', 'c++', 'c#')
    """
    kept = "".join(
        " " if _separates(character) else character
        for character in unicodedata.normalize("NFKD", name)
        if not unicodedata.combining(character) and character not in _MARKS
    )
    words = kept.split()
    if len(words) > 1 and words[0] == "the":
        words = words[1:]
    if len(words) > 1 and words[-1] in _LEGAL_FORMS:
        words = words[:-1]
    return "".join(words)


def _separates(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) in ("Pd", "Pc", "Ps", "Pe", "Pi", "Pf")
