"""Text that every encoder of bytes accepts: no lone surrogates."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """The text with each lone surrogate as U+FFFD; surrogate pairs become the character that they stand for.

    JSON and broken decoders give such halves of characters, and tokenizers and servers refuse them.

    >>> well_formed("a\\ud800b"), well_formed("\\ud83d\\ude00"), well_formed("東京")
    ('a\ufffdb', '😀', '東京')
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
