"""Vector spaces: making one with its partition, and its index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from evireform.store import corpora

if TYPE_CHECKING:
    from evireform.embedding import Encoder
    from evireform.records import CorpusRow, SpaceRow
    from evireform.store.connection import Store, Transaction

Kind = Literal["proposition", "passage"]


def open_or_create(tx: Transaction, corpus: CorpusRow, kind: Kind, encoder: Encoder) -> SpaceRow:
    """The active space of a kind, made for this encoder where the corpus has none.

    Raises:
        VectorSpaceMismatch: the active space belongs to another model or dimension.
    """
    space = corpora.find_active_space(tx, corpus.corpus_id, kind)
    if space is None:
        space = corpora.create_space(
            tx,
            corpus,
            kind=kind,
            model=encoder.model,
            dimensions=encoder.dimensions,
            prompts=encoder.prompts,
        )
    corpora.check_space(space, model=encoder.model, dimensions=encoder.dimensions, prompts=encoder.prompts)
    return space


def ensure_index(store: Store, space: SpaceRow, *, threshold: int) -> bool:
    """Build the HNSW index of a space that has grown to ``threshold`` vectors; tells whether it did."""
    if space.indexed:
        return False
    parameters = {"corpus_id": space.corpus_id, "space_id": space.space_id}
    with store.transaction() as tx:
        if tx.run("space_size", parameters)[0][0] < threshold:
            return False
    with store.transaction(statement_timeout_s=0) as tx:
        return bool(tx.run("create_space_index", parameters)[0][0])
