"""Indexes of vector spaces: built where they are missing, built anew, and measured against exact search."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from evireform.embedding import Vectors
from evireform.records import IndexReport, SpaceReport, SpaceRow
from evireform.spaces.filling import Progress
from evireform.store import corpora, searching
from evireform.store import spaces as store_spaces
from evireform.store.connection import EF_SEARCH, Store, Transaction
from evireform.store.searching import Row

LIMIT = 100
"""Neighbours of each sampled item: recall is measured among so many."""

_BATCH = 8
"""Items whose neighbours are looked for in one statement, by exact scan too."""


def index(
    store: Store,
    corpus_name: str,
    *,
    rebuild: bool = False,
    sample: int = 100,
    ef_search: int = 0,
    progress: Progress | None = None,
) -> list[IndexReport]:
    """Build the indexes that spaces of a corpus lack, and measure what each finds of what exact search finds.

    Args:
        store: The database.
        corpus_name: The corpus.
        rebuild: Build those that are there anew; searches go on, writers wait.
        sample: Items of each space whose neighbours are looked for; 0 measures nothing.
        ef_search: Breadth of the search; 0 takes the default of `evireform.store`.
        progress: Called with the number of items measured since the last call, and how many there are.

    Raises:
        CorpusNotFound: no corpus has this name, or it was deleted meanwhile.
        UsageError: one of its spaces was dropped meanwhile.
    """
    with store.transaction(read_only=True) as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
        spaces = corpora.spaces(tx, corpus.corpus_id)
    return [_index(store, space, rebuild, sample, ef_search, progress) for space in spaces]


def reports(store: Store, corpus_name: str) -> list[SpaceReport]:
    """Every space of a corpus with its counts and the last measurement of its index.

    Raises:
        CorpusNotFound: no corpus has this name.
    """
    with store.reading() as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
        return store_spaces.reports(tx, corpus.corpus_id)


def _index(
    store: Store,
    space: SpaceRow,
    rebuild: bool,
    sample: int,
    ef_search: int,
    progress: Progress | None,
) -> IndexReport:
    started = time.perf_counter()
    action: Literal["built", "rebuilt", "kept", "none"] = "kept" if space.indexed else "none"
    if space.indexed and rebuild:
        store_spaces.rebuild_index(store, space)
        action = "rebuilt"
    elif store_spaces.ensure_index(store, space, threshold=store_spaces.INDEX_THRESHOLD):
        action = "built"
    build_s = time.perf_counter() - started if action in ("built", "rebuilt") else 0.0
    shares: list[float] = []
    if action != "none" and sample:
        space = replace(space, indexed=True)
        shares = _recalls(store, space, sample, ef_search, progress)
    with store.transaction() as tx:
        if shares:
            store_spaces.save_recall(
                tx,
                space,
                recall=sum(shares) / len(shares),
                breadth=ef_search or EF_SEARCH,
                vectors=store_spaces.counts(tx, space).vectors,
            )
        found = store_spaces.reports(tx, space.corpus_id)
        store_spaces.require(tx, space)  # so it was there a moment ago too
    return IndexReport(
        report=next(one for one in found if one.space.space_id == space.space_id),
        action=action,
        build_s=build_s,
        sampled=len(shares),
        worst=min(shares, default=None),
    )


def _recalls(
    store: Store, space: SpaceRow, sample: int, ef_search: int, progress: Progress | None
) -> list[float]:
    """For items of the space, the share of their true `LIMIT` nearest others that a search by index finds."""
    parameters = {"corpus_id": space.corpus_id, "space_id": space.space_id}
    with store.transaction(read_only=True) as tx:
        ids = [row[0] for row in tx.run("sampled_items", {**parameters, "fetch": sample})]
    shares: list[float] = []
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        with store.transaction(read_only=True, snapshot=True, ef_search=ef_search or EF_SEARCH) as tx:
            rows = tx.run("stored_vectors", {**parameters, "item_ids": batch})
            vectors = np.array([row[1] for row in rows], dtype=np.float32).reshape(-1, space.dimensions)
            by_index = _nearest(tx, space, vectors)
            tx.exact = True
            by_scan = _nearest(tx, space, vectors)
        for (item_id, _), found, true in zip(rows, by_index, by_scan, strict=True):
            shares.append(recall(_others(found, item_id), _others(true, item_id)))
        if progress:
            progress(len(batch), len(ids))
    return shares


def _nearest(tx: Transaction, space: SpaceRow, vectors: Vectors) -> list[list[Row]]:
    """One more than `LIMIT` rows for each vector, since its own item is its nearest."""
    return searching.nearest(
        tx, "nearest_items", space, vectors, limit=LIMIT + 1, order=lambda row: (row[1],)
    ).rows


def _others(rows: Sequence[Row], item_id: int) -> list[float]:
    return [similarity for _, other, similarity in rows if other != item_id][:LIMIT]


def recall(found: Sequence[float], true: Sequence[float]) -> float:
    """Share of the true nearest that was found; what is as near as the last of them counts as one of them.

    Args:
        found: Similarities of what the index found, at most as many as ``true``.
        true: Similarities of what exact search found, best first.

    >>> recall([0.9, 0.5, 0.5], [0.9, 0.7, 0.5])
    1.0
    >>> recall([0.9, 0.5, 0.4], [0.9, 0.7, 0.5])
    0.6666666666666666
    """
    return sum(similarity >= true[-1] for similarity in found) / len(true) if true else 1.0
