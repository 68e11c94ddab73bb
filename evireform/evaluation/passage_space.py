"""The vectors of whole passages, which only baselines need: made once a corpus, where they are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evireform.embedding import Encoder, Vectors
from evireform.records import CorpusRow, SpaceRow, with_title
from evireform.store import corpora, spaces, writing
from evireform.store.connection import Store

BATCH = 64
INDEX_THRESHOLD = 3_000


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
    after = ""
    while True:
        with store.transaction(read_only=True) as tx:
            rows = tx.run(
                "missing_passage_vectors",
                {
                    "corpus_id": corpus.corpus_id,
                    "space_id": space.space_id,
                    "after": after,
                    "fetch": BATCH,
                },
            )
        if not rows:
            break
        missing = [row for row in rows if not row[4]]
        vectors = encoder.encode_passages([with_title(row[2], row[3], corpus.titles) for row in missing])
        _write(store, corpus, space, [row[1] for row in missing], vectors)
        after = rows[-1][0]
        if progress:
            progress(len(rows))
    spaces.ensure_index(store, space, threshold=INDEX_THRESHOLD)
    with store.transaction(read_only=True) as tx:
        return corpora.active_space(tx, corpus.corpus_id, "passage")


def _write(
    store: Store, corpus: CorpusRow, space: SpaceRow, passage_ids: Sequence[int], vectors: Vectors
) -> None:
    """Vectors of the passages that still exist and that no other process has written meanwhile."""
    parameters = {"corpus_id": corpus.corpus_id, "space_id": space.space_id}
    with store.transaction() as tx:
        corpora.hold_corpus(tx, corpus.corpus_id)
        alive = {
            row[0]
            for row in tx.run(
                "lock_passage_ids", {"corpus_id": corpus.corpus_id, "passage_ids": list(passage_ids)}
            )
        }
        there = {row[0] for row in tx.run("existing_vectors", {**parameters, "item_ids": list(passage_ids)})}
        rows = [row for row, i in enumerate(passage_ids) if i in alive and i not in there]
        writing.insert_vectors(
            tx,
            space,
            tenant_id=corpus.tenant_id,
            item_ids=[passage_ids[row] for row in rows],
            vectors=vectors[rows],
        )
