"""What a shadow is, beside the corpus that it is to replace."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Literal

from evireform.errors import UsageError
from evireform.records import CorpusRow, CorpusStatus
from evireform.store import corpora, generations, status
from evireform.store.connection import Store, Transaction
from evireform.store.generations import Print

Kind = Literal["missing", "changed", "extra", "failed"]

LISTED = 20
"""Keys of a difference that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Passages in which a shadow differs from the corpus that it is to replace.

    ``missing`` ones are only in the latter, ``extra`` ones only in the shadow; ``changed`` ones have another
    title, text or metadata there; ``failed`` ones could not be extracted for the shadow, and were before.
    ``keys`` holds the first `LISTED` of them.
    """

    kind: Kind
    passages: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A corpus that serves and its shadow.

    ``decisions`` counts what operators decided about entities and only one of both knows, ``waiting`` the
    passages of both that wait for a worker.
    """

    serving: CorpusStatus
    shadow: CorpusStatus
    differences: tuple[Difference, ...]
    decisions: int
    waiting: int

    @property
    def complete(self) -> bool:
        """Whether the shadow has all that it needs to take the other's place."""
        return not self.differences and not self.decisions


def standing(store: Store, name: str) -> Standing:
    """How far the shadow of a corpus is. Reads the texts of both.

    Raises:
        CorpusNotFound: no corpus has this name.
        UsageError: it has no shadow, or is one.
    """
    with store.transaction(read_only=True, snapshot=True) as tx:
        serving, shadow = pair(tx, name)
        return Standing(
            serving=status.corpus_status(tx, serving.name),
            shadow=status.corpus_status(tx, shadow.name),
            differences=differences(tx, serving, shadow),
            decisions=decisions_apart(tx, serving, shadow),
            waiting=sum(generations.waiting(tx, corpus.corpus_id) for corpus in (serving, shadow)),
        )


def pair(tx: Transaction, name: str) -> tuple[CorpusRow, CorpusRow]:
    """The corpus that serves under a name, and its shadow.

    Raises:
        CorpusNotFound: no corpus has this name.
        UsageError: it has no shadow, or is one.
    """
    serving = corpora.get_corpus(tx, name)
    refuse_shadow(tx, serving)
    shadow = generations.find_shadow(tx, serving)
    if shadow is None:
        raise UsageError(f"corpus {name!r} has no other generation: `evireform generation start` makes one")
    return serving, shadow


def refuse_shadow(tx: Transaction, corpus: CorpusRow) -> None:
    """Refuse a corpus that is a shadow itself.

    Raises:
        UsageError: it is.
    """
    if served := generations.find_served(tx, corpus):
        raise UsageError(
            f"corpus {corpus.name!r} is itself the other generation of {served!r}: name that one"
        )


def differences(tx: Transaction, serving: CorpusRow, shadow: CorpusRow) -> tuple[Difference, ...]:
    """Where the passages of a shadow are not those of the corpus that it is to replace."""
    counts: dict[Kind, int] = {}
    keys: dict[Kind, list[str]] = {}
    for kind, key in _differing(
        generations.prints(tx, serving.corpus_id), generations.prints(tx, shadow.corpus_id)
    ):
        counts[kind] = counts.get(kind, 0) + 1
        listed = keys.setdefault(kind, [])
        if len(listed) < LISTED:
            listed.append(key)
    return tuple(
        Difference(kind=kind, passages=count, keys=tuple(keys[kind]))
        for kind, count in sorted(counts.items())
    )


def decisions_apart(tx: Transaction, serving: CorpusRow, shadow: CorpusRow) -> int:
    """How many decisions about entities only one of both knows."""
    first, second = (set(generations.decisions(tx, corpus.corpus_id)) for corpus in (serving, shadow))
    return len(first ^ second)


def _differing(serving: Iterable[Print], shadow: Iterable[Print]) -> Iterator[tuple[Kind, str]]:
    """Keys under which two corpora differ, both read in key order, a page at a time."""
    for key, found in groupby(
        heapq.merge(_of(0, serving), _of(1, shadow), key=itemgetter(0)), key=itemgetter(0)
    ):
        one = {side: printed for _, side, printed in found}
        if len(one) == 1:
            yield "missing" if 0 in one else "extra", key
        elif one[0].content != one[1].content:
            yield "changed", key
        elif one[1].failed and not one[0].failed:
            yield "failed", key


def _of(side: int, prints: Iterable[Print]) -> Iterator[tuple[str, int, Print]]:
    return ((found.passage_key, side, found) for found in prints)
