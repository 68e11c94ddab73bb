"""The passages that a filter allows, as one transaction sees them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evireform.filters import Filter, intervals

if TYPE_CHECKING:
    from evireform.records import SpaceRow
    from evireform.store.connection import Transaction

PassageIds = NDArray[np.int64]

LISTED = 50
"""``LISTED * sqrt(n)`` allowed propositions of ``n`` are compared one by one; of more, the index is searched.

What the former takes grows with the allowed, what the latter takes with ``n`` divided by them (see
docs/filters.md).
"""

UNFILTERED: Mapping[str, Any] = {"item_ids": None, "conditions": None, "intervals": None}
"""Parameters of a vector search without a filter."""


class Allowed:
    """What a filter allows: a list while that is short, else a test of what is at hand.

    Attributes:
        few: Whether all that is allowed is listed.
        most: The most propositions that are listed; None without end.
        breadth: Least rows that an index search should bring, so that its recall is that of one without a
            filter: they come in no strict order once it has gone on beyond its first breadth.
    """

    def __init__(
        self, tx: Transaction, corpus_id: int, where: Filter, *, most: int | None, breadth: int
    ) -> None:
        self._tx = tx
        self._asked = {
            "corpus_id": corpus_id,
            "conditions": len(where),
            "intervals": json.dumps(
                [{name: str(value) for name, value in interval.items()} for interval in intervals(where)]
            ),
        }
        self.most = most
        self.breadth = breadth
        self._list(most)
        self.few = most is None or len(self._propositions) <= most

    @property
    def size(self) -> int:
        """Propositions that are listed."""
        return len(np.unique(self._propositions))

    @property
    def passage_ids(self) -> PassageIds:
        """Every allowed passage that has a proposition, ascending, where they are `few`."""
        return np.unique(self._passages)

    def parameters(self, *, exact: bool) -> Mapping[str, Any]:
        """What confines a vector search: the list, or the test that the index search applies as it goes.

        Args:
            exact: Whether every allowed vector is to be compared, however many there are.
        """
        if not exact:
            return {**self._asked, "item_ids": None}
        if not self.few and not self._whole:
            self._list(None)
        return {**UNFILTERED, "item_ids": np.unique(self._propositions).tolist()}

    def among(self, passage_ids: Iterable[int]) -> PassageIds:
        """The allowed of these passages, ascending."""
        given = np.unique(np.fromiter(passage_ids, dtype=np.int64))
        if self.few:
            return np.intersect1d(given, self._passages)
        rows = self._tx.run("allowed_passages", {**self._asked, "passage_ids": given.tolist()})
        return np.sort(np.array(rows[0][0] or (), dtype=np.int64))

    def _list(self, most: int | None) -> None:
        self._whole = most is None
        fetch = None if most is None else most + 1
        passages, propositions = self._tx.run("allowed_propositions", {**self._asked, "fetch": fetch})[0]
        self._passages = np.array(passages or (), dtype=np.int64)
        self._propositions = np.array(propositions or (), dtype=np.int64)


def allowed_in_space(tx: Transaction, space: SpaceRow, where: Filter) -> Allowed | None:
    """What a filter allows, to search a vector space with; None where there is no filter."""
    if not where:
        return None
    if tx.exact or not space.indexed:
        return Allowed(tx, space.corpus_id, where, most=None, breadth=0)
    row = tx.run("scan_longer", {"corpus_id": space.corpus_id, "space_id": space.space_id})[0]
    breadth, vectors = row[:2]
    most = round(LISTED * math.sqrt(max(vectors, 0)))
    return Allowed(tx, space.corpus_id, where, most=most, breadth=2 * breadth)


def allowed(tx: Transaction, corpus_id: int, where: Filter) -> Allowed | None:
    """What a filter allows, to test passages with; None where there is no filter."""
    return Allowed(tx, corpus_id, where, most=0, breadth=0) if where else None


def allows_any(tx: Transaction, corpus_id: int, where: Filter) -> bool:
    """Whether a filter allows a proposition at all: looks no further than the first."""
    return not Allowed(tx, corpus_id, where, most=0, breadth=0).few


def unmet(tx: Transaction, corpus_id: int, where: Filter) -> list[str]:
    """What is odd about a filter: names under which no passage has a value, or none of the kind asked for."""
    held: dict[str, set[str]] = {condition.name: set() for condition in where}
    for name, kind in tx.run("held_kinds", {"corpus_id": corpus_id, "names": sorted(held)}):
        held[name].add(kind)
    odd = [f"no passage has a value under {name!r}" for name, kinds in sorted(held.items()) if not kinds]
    for one in intervals(where):
        kinds = held[one["name"]]
        if kinds and one["kind"] not in kinds:
            odd.append(f"the values under {one['name']!r} are of the kind {' or '.join(sorted(kinds))}")
    return list(dict.fromkeys(odd))
