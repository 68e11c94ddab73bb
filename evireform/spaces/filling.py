"""Vectors that a space lacks: made page by page, in memory that does not grow, from the corpus itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evireform.embedding import Encoder, Vectors
from evireform.records import CorpusRow, SpaceRow, with_title
from evireform.store import corpora, writing
from evireform.store.connection import Store, Transaction
from evireform.store.spaces import kept

PAGE = 64
"""Texts that are embedded and written together."""

_UNEMBEDDED = {"proposition": "unembedded_propositions", "passage": "unembedded_passages"}

Progress = Callable[[int, int], None]
"""Called with how many vectors were made since the last call, and how many there are to make in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unembedded:
    """A proposition or passage without a vector, and the hash of its passage when its text was read."""

    item_id: int
    passage_id: int
    content_hash: bytes
    text: str


def fill(
    store: Store,
    corpus: CorpusRow,
    space: SpaceRow,
    encoder: Encoder,
    *,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Make every vector that a space lacks. Resumable; others may write meanwhile. Returns how many it made.

    Args:
        store: The database.
        corpus: The corpus.
        space: Any of its spaces.
        encoder: The model of the space.
        progress: Called with the number of vectors made since the last call.

    Raises:
        CorpusNotFound: it was deleted meanwhile.
        UsageError: the space was dropped meanwhile.
        DatabaseError: the server vanished.
    """
    made, after = 0, 0
    while True:
        with store.transaction(read_only=True) as tx:
            page = unembedded(tx, corpus, space, after=after, fetch=PAGE)
        if not page:
            return made
        vectors = encode(encoder, space, page)
        with kept(store, space), store.transaction() as tx:
            made += _write(tx, corpus, space, page, vectors)
        after = page[-1].item_id
        if progress:
            progress(len(page))


def unembedded(
    tx: Transaction, corpus: CorpusRow, space: SpaceRow, *, after: int, fetch: int
) -> list[Unembedded]:
    """The next items behind an id whose vector a space lacks."""
    rows = tx.run(
        _UNEMBEDDED[space.kind],
        {"corpus_id": space.corpus_id, "space_id": space.space_id, "after": after, "fetch": fetch},
    )
    return [
        Unembedded(
            item_id=row[0],
            passage_id=row[1],
            content_hash=bytes(row[2]),
            text=with_title(row[3], row[4], corpus.titles),
        )
        for row in rows
    ]


def encode(encoder: Encoder, space: SpaceRow, page: Sequence[Unembedded]) -> Vectors:
    """The vectors of a page, shape ``(n, d)``."""
    texts = [item.text for item in page]
    return (encoder.encode_propositions if space.kind == "proposition" else encoder.encode_passages)(texts)


def _write(
    tx: Transaction, corpus: CorpusRow, space: SpaceRow, page: Sequence[Unembedded], vectors: Vectors
) -> int:
    """Write the vectors of texts that are still as they were read, and that nobody else has written."""
    corpora.hold_corpus(tx, corpus.corpus_id)
    passage_ids = sorted({item.passage_id for item in page})
    shared = tx.run("share_passages", {"corpus_id": corpus.corpus_id, "passage_ids": passage_ids})
    hashes = {row[0]: bytes(row[1]) for row in shared}
    unchanged = [row for row, item in enumerate(page) if hashes.get(item.passage_id) == item.content_hash]
    wanted = tx.run(
        "vectors_to_write",
        {
            "corpus_id": space.corpus_id,
            "space_id": space.space_id,
            "kind": space.kind,
            "item_ids": [page[row].item_id for row in unchanged],
        },
    )
    ids = {row[0] for row in wanted}
    rows = [row for row in unchanged if page[row].item_id in ids]
    return write(tx, corpus, space, [page[row] for row in rows], vectors[np.array(rows, dtype=np.int64)])


def write(
    tx: Transaction, corpus: CorpusRow, space: SpaceRow, page: Sequence[Unembedded], vectors: Vectors
) -> int:
    """Write vectors of items that nobody else can change meanwhile and that have none. Returns how many."""
    return writing.fill_vectors(
        tx, space, tenant_id=corpus.tenant_id, item_ids=[item.item_id for item in page], vectors=vectors
    )
