"""The vectors of whole passages, which only baselines need: made once a corpus, where they are missing."""

from __future__ import annotations

from collections.abc import Callable

from evireform.embedding import Encoder
from evireform.records import SpaceRow
from evireform.spaces import fill
from evireform.store import corpora, spaces
from evireform.store.connection import Store


def ensure_passage_space(
    store: Store,
    corpus_name: str,
    encoder: Encoder,
    *,
    progress: Callable[[int], None] | None = None,
) -> SpaceRow:
    """Embed the passages that the passage space does not hold yet; resumable, idempotent.

    Raises:
        CorpusNotFound: no corpus has this name.
        VectorSpaceMismatch: the passages were embedded with another model.
    """
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
        space = spaces.open_or_create(tx, corpus, "passage", encoder)
    fill(store, corpus, space, encoder, progress=progress)
    spaces.ensure_index(store, space, threshold=spaces.INDEX_THRESHOLD)
    with store.transaction(read_only=True) as tx:
        return corpora.active_space(tx, corpus.corpus_id, "passage")
