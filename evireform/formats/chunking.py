"""Optional splitting of long texts into passages that a model can read whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from semantic_text_splitter import TextSplitter

from evireform.formats.text import key_problem
from evireform.records import Passage, Rejected

_PART_KEY = re.compile(r"#[0-9]+$")


def split_passages(
    rows: Iterable[Passage | Rejected], *, max_characters: int
) -> Iterator[Passage | Rejected]:
    """Split every text that is too long at paragraph, sentence or word ends; all else passes unchanged.

    The parts of passage ``k`` have the keys ``k#1``, ``k#2``, …, its title and its metadata, to which
    ``source_id`` (``k``) and ``characters`` (``[start, end)`` in the text of ``k``) are added. White space
    between parts belongs to none. A part whose key another passage already has is refused.

    Args:
        rows: Passages and refusals, as `read_passages` gives them.
        max_characters: Longest part, at least 1.

    Raises:
        ValueError: ``max_characters`` is below 1.

    >>> [part] = split_passages([Passage(key="a", text="Short.")], max_characters=20)
    >>> part.key
    'a'
    >>> parts = list(split_passages([Passage(key="a", text="One is here. Two is there.")], max_characters=14))
    >>> [(part.key, part.text, part.metadata["characters"]) for part in parts]
    [('a#1', 'One is here.', [0, 12]), ('a#2', 'Two is there.', [13, 26])]
    """
    if max_characters < 1:
        raise ValueError(f"max_characters must be at least 1, not {max_characters}")
    return _split_all(rows, TextSplitter(max_characters), max_characters)


def _split_all(
    rows: Iterable[Passage | Rejected], splitter: TextSplitter, max_characters: int
) -> Iterator[Passage | Rejected]:
    # Whole keys are unique already: only those that look like the key of a part can meet one.
    part_keys: set[str] = set()
    for row in rows:
        if isinstance(row, Rejected):
            yield row
            continue
        parts = [row] if len(row.text) <= max_characters else _split(row, splitter)
        for part in parts:
            problem = key_problem(part.key)
            if _PART_KEY.search(part.key):
                if part.key in part_keys:
                    problem = "is also the id of another passage"
                part_keys.add(part.key)
            if problem:
                yield Rejected(reason=f"id {problem} after splitting", passage_key=part.key)
            else:
                yield part


def _split(passage: Passage, splitter: TextSplitter) -> Iterator[Passage]:
    for number, (start, text) in enumerate(splitter.chunk_indices(passage.text), start=1):
        place = {"source_id": passage.key, "characters": [start, start + len(text)]}
        yield Passage(
            key=f"{passage.key}#{number}",
            text=text,
            title=passage.title,
            metadata={**passage.metadata, **place},
        )
