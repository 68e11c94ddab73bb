"""The sizes in which passages travel: neither many at once nor a huge one together with others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from evireform.records import Passage, Rejected

Item = TypeVar("Item")

CHARACTERS = 50_000
"""Most text that is read, extracted or written together; a passage that is longer goes alone."""


def portions(items: Iterable[Item], *, most: int, length: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Runs of items, in order, of at most ``most`` and `CHARACTERS` each; an item that is longer is alone.

    Args:
        items: Read one ahead.
        most: Items of a run, at least 1.
        length: Characters of an item.

    >>> list(portions(["a", "b", "c" * 60_000, "d", "e", "f"], most=2, length=len)) == [
    ...     ["a", "b"], ["c" * 60_000], ["d", "e"], ["f"]]
    True
    """
    run: list[Item] = []
    characters = 0
    for item in items:
        size = length(item)
        if run and characters + size > CHARACTERS:
            yield run
            run, characters = [], 0
        run.append(item)
        characters += size
        if len(run) == most:
            yield run
            run, characters = [], 0
    if run:
        yield run


def text_length(item: Passage | Rejected) -> int:
    """Characters of a passage's text; 0 of what is none."""
    return len(item.text) if isinstance(item, Passage) and isinstance(item.text, str) else 0
