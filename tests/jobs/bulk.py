"""Corpora of many vectors, written without ingesting anything."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evireform.records import SpaceRow
from evireform.store import corpora, spaces, writing
from evireform.store.connection import Store

Vectors = NDArray[np.float32]

_PROPOSITIONS = """
WITH made AS (
    INSERT INTO passage (corpus_id, tenant_id, passage_key, body, content_hash, state, proposition_count)
    SELECT corpus_id, tenant_id, 'p', 'text', '', 'ready', %(count)s FROM corpus WHERE name = %(name)s
    RETURNING corpus_id, tenant_id, passage_id
)
INSERT INTO proposition (corpus_id, tenant_id, passage_id, ordinal, body)
SELECT corpus_id, tenant_id, passage_id, ordinal, 'text ' || ordinal
FROM made CROSS JOIN generate_series(0, %(count)s - 1) AS ordinal
ORDER BY ordinal
"""


def clustered(count: int, dimensions: int, *, seed: int) -> Vectors:
    """Vectors as models make them: in clusters, all near a common direction, with some noise in each."""
    random = np.random.default_rng(seed)
    inner = min(32, dimensions)
    frame = np.random.default_rng(0).standard_normal((inner, dimensions)) / np.sqrt(inner)
    centres = np.random.default_rng(1).standard_normal((50, inner))
    common = np.random.default_rng(2).standard_normal(dimensions)
    points = centres[random.integers(0, 50, count)] + random.standard_normal((count, inner))
    lifted = np.tanh(points @ frame) + common + 0.5 * random.standard_normal((count, dimensions))
    vectors: Vectors = (lifted / np.linalg.norm(lifted, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def corpus_of(store: Store, name: str, vectors: Vectors, *, model: str = "bulk") -> SpaceRow:
    """A corpus of one passage with a proposition for each vector, and an index where it is large enough."""
    with store.transaction() as tx:
        corpus = corpora.create_corpus(tx, name, titles="on")
        space = corpora.create_space(
            tx, corpus, kind="proposition", model=model, dimensions=vectors.shape[1], prompts={}
        )
        tx.driver.execute(_PROPOSITIONS.encode(), {"name": name, "count": len(vectors)})
        ids = [
            row[0]
            for row in tx.driver.execute(
                "SELECT proposition_id FROM proposition WHERE corpus_id = %s ORDER BY ordinal",
                (corpus.corpus_id,),
            )
        ]
        for start in range(0, len(ids), 1_000):
            writing.insert_vectors(
                tx,
                space,
                tenant_id=corpus.tenant_id,
                item_ids=ids[start : start + 1_000],
                vectors=vectors[start : start + 1_000],
            )
    spaces.ensure_index(store, space, threshold=spaces.INDEX_THRESHOLD)
    with store.transaction(read_only=True) as tx:
        return corpora.active_space(tx, space.corpus_id, "proposition")
