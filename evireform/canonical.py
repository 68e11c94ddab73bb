"""The canonical form of an entity name (SPEC section 1): what makes two mentions one entity."""

from __future__ import annotations

import re
import unicodedata

_PAIRS = {
    '"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "«": "»", "„": "“", "‹": "›",
    "(": ")", "[": "]", "{": "}", "<": ">", "「": "」", "『": "』", "《": "》",
}  # fmt: skip
_SPACE = re.compile(r"\s+")
_INITIALISM = re.compile(r"(?:^|[\s.])\w\.$")
MAX_ENTITY_CHARACTERS = 300


def canonical(surface: str) -> str:
    """Fold a surface form: NFKC, casefold, single spaces, no matched outer quotes, no trailing ``, ; : .``.

    Every other symbol is kept, so ``C``, ``C++`` and ``C#`` stay apart, and ``5`` and ``-5``. A final full
    stop is kept in an initialism (``U.S.``, ``John F.``), where it is part of the name.

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
    text = unicodedata.normalize("NFKC", surface)
    text = unicodedata.normalize("NFKC", text.casefold())
    text = _SPACE.sub(" ", text).strip()
    while text:
        shorter = _strip_once(text)
        if shorter == text:
            return text
        text = shorter
    return text


def _strip_once(text: str) -> str:
    if text[-1] in ",;:":
        return text[:-1].rstrip()
    if text[-1] == "." and not _INITIALISM.search(text):
        return text[:-1].rstrip()
    closing = _PAIRS.get(text[0])
    if closing and text[-1] == closing and len(text) > 1 and _is_one_pair(text, closing):
        return text[1:-1].strip()
    return text


def _is_one_pair(text: str, closing: str) -> bool:
    """Whether the first character is closed by the last one, and not earlier: ``(a) and (b)`` is not."""
    if text[0] == closing:
        return closing not in text[1:-1]
    depth = 0
    for position, character in enumerate(text):
        depth += (character == text[0]) - (character == closing)
        if depth == 0:
            return position == len(text) - 1
    return False
