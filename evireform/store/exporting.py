"""A corpus page by page, as it is written to files: in the order of its keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evireform.records import Passage, PassageState

if TYPE_CHECKING:
    from evireform.records import SpaceRow
    from evireform.store.connection import Transaction

_HALF_HEADER = 4
"""Bytes of a `halfvec` on the wire before its components: dimensions, and nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldProposition:
    """A proposition with its mentions as (form, canonical form of the entity), in the order of the forms."""

    proposition_id: int
    text: str
    span: tuple[int, int] | None
    mentions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPassage:
    """A passage with its propositions in order."""

    passage_id: int
    passage: Passage
    state: PassageState
    reason: str
    content_hash: bytes
    propositions: tuple[HeldProposition, ...]


def passages(tx: Transaction, corpus_id: int, *, after: str, fetch: int) -> list[HeldPassage]:
    """A page of passages, in key order after a key."""
    whose = {"corpus_id": corpus_id}
    rows = tx.run("export_passages", {**whose, "after": after, "fetch": fetch})
    parts = tx.run("export_propositions", {**whose, "passage_ids": [row[0] for row in rows]}) if rows else []
    named = (
        tx.run("export_mentions", {**whose, "proposition_ids": [row[2] for row in parts]}) if parts else []
    )
    mentions: dict[int, list[tuple[str, str]]] = {}
    for proposition_id, form, canonical in named:
        mentions.setdefault(proposition_id, []).append((form, canonical))
    propositions: dict[int, list[HeldProposition]] = {}
    for passage_id, _, proposition_id, text, start, end in parts:
        propositions.setdefault(passage_id, []).append(
            HeldProposition(
                proposition_id=proposition_id,
                text=text,
                span=None if start is None else (start, end),
                mentions=tuple(mentions.get(proposition_id, ())),
            )
        )
    return [
        HeldPassage(
            passage_id=row[0],
            passage=Passage(key=row[1], title=row[2], text=row[3], metadata=row[4]),
            state=row[5],
            reason=row[6],
            content_hash=bytes(row[7]),
            propositions=tuple(propositions.get(row[0], ())),
        )
        for row in rows
    ]


def entities(tx: Transaction, corpus_id: int, *, after: str, fetch: int) -> list[tuple[str, str, int]]:
    """A page of entities as (canonical, display, degree), in canonical order after one."""
    rows = tx.run("export_entities", {"corpus_id": corpus_id, "after": after, "fetch": fetch})
    return [(row[0], row[1], row[2]) for row in rows]


def vectors(
    tx: Transaction, space: SpaceRow, item_ids: Sequence[int]
) -> tuple[NDArray[np.float16], list[int]]:
    """The vectors of some items in their order, shape ``(n, d)``, and the items that have none: NaN there."""
    rows = tx.run(
        "export_vectors",
        {"corpus_id": space.corpus_id, "space_id": space.space_id, "item_ids": list(item_ids)},
    )
    held = {row[0]: _half(row[1]) for row in rows}
    nothing = np.full(space.dimensions, np.nan, dtype="<f2")
    found = [held.get(item_id, nothing) for item_id in item_ids]
    stacked = np.stack(found) if found else np.empty((0, space.dimensions), dtype="<f2")
    return stacked, [item_id for item_id in item_ids if item_id not in held]


def _half(sent: Any) -> NDArray[np.float16]:
    """A `halfvec` as the server sends it, in binary."""
    return np.frombuffer(bytes(sent), dtype=">f2", offset=_HALF_HEADER).astype("<f2")
