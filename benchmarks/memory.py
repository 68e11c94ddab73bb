"""The other side of the comparison: the whole corpus in this process, searched exactly with numpy and scipy.

It does what the pipeline does (SPEC section 2, steps 1 to 9, without the trace) by the dense definition in
sparse form, for all propositions and all passages at once. What it holds was read from the same database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from benchmarks.doubles import PreparedQuestion
from evireform import seeds
from evireform.embedding import Vectors
from evireform.readout import DECIMALS
from evireform.records import SpaceRow
from evireform.settings import SearchSettings
from evireform.store.connection import Transaction

Rows = NDArray[np.int64]
Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One search: candidate ids and texts, texts of the observed passages, and the ranking."""

    candidate_ids: tuple[int, ...]
    candidates: tuple[str, ...]
    observed: tuple[str, ...]
    ranking: tuple[tuple[str, float], ...]


class MemoryIndex:
    """A corpus in arrays. Rows are propositions by (passage key, ordinal), so that a smaller row wins a tie.

    Args:
        tx: A transaction that sees one snapshot.
        space: The active proposition space of the corpus.
    """

    def __init__(self, tx: Transaction, space: SpaceRow) -> None:
        c = {"c": space.corpus_id, "s": space.space_id}
        rows = tx.driver.execute(_PROPOSITIONS, c).fetchall()
        self.ids = np.array([row[0] for row in rows], dtype=np.int64)
        self.texts = [row[1] for row in rows]
        passages = tx.driver.execute(_PASSAGES, c).fetchall()
        self.keys = [row[1] for row in passages]
        self.bodies = [row[2] for row in passages]
        self.owner = np.searchsorted(
            np.cumsum([row[3] for row in passages]), np.arange(len(rows)), side="right"
        )
        self.size = np.array([row[3] for row in passages], dtype=np.float64)

        by_id = np.argsort(self.ids)
        item_ids, vectors = _vectors(tx, space)
        ordered = np.empty_like(vectors)
        ordered[by_id[np.searchsorted(self.ids[by_id], item_ids)]] = vectors
        self.columns = np.ascontiguousarray(ordered.T)

        pairs = _bigints(tx, _INCIDENCE, c, columns=2)
        row = by_id[np.searchsorted(self.ids[by_id], pairs[:, 0])]
        entity_ids, column = np.unique(pairs[:, 1], return_inverse=True)
        self.incidence = sparse.csr_array(
            (np.ones(len(pairs)), (row, column)), shape=(len(rows), len(entity_ids))
        )
        self.transposed = self.incidence.T.tocsr()
        self.degree = np.bincount(column, minlength=len(entity_ids)).astype(np.float64)
        self.weight = np.asarray(self.incidence @ ((self.degree - 1.0) / self.degree))
        self.loop = np.asarray(self.incidence @ (1.0 / self.degree))

    @property
    def vectors(self) -> Vectors:
        """Of all propositions, shape ``(n, d)``."""
        return self.columns.T

    @property
    def bytes_held(self) -> int:
        """Bytes of the arrays, without the texts."""
        graphs = (self.incidence, self.transposed)
        arrays = [self.columns, *(part for g in graphs for part in (g.data, g.indices, g.indptr))]
        return sum(array.nbytes for array in arrays)

    def search(self, question: PreparedQuestion, settings: SearchSettings) -> Found:
        """Everything from the question's vector to the ranking, with the prepared choices."""
        found, similarity = self.nearest(question.vector[None], settings.candidates)[0]
        candidates = tuple(self.texts[row] for row in found.tolist())
        chosen = seeds.choose(question.positions, similarity, limit=settings.selected)
        observed = dict.fromkeys(self.owner[found[chosen]].tolist())
        bodies = tuple(self.bodies[j] for j in observed)

        signal = np.zeros(len(self.ids))
        signal[found[chosen]] = seeds.normalised(similarity[chosen])
        if len(question.query_vectors):
            residual = np.zeros(len(self.ids))
            parts = self.nearest(question.query_vectors, settings.hits_per_query)
            valid = [(rows, u) for rows, u in parts if len(rows)]
            for rows, u in valid:
                residual[rows] += seeds.normalised(u) / len(valid)
            if valid:
                signal = settings.beta * signal + (1.0 - settings.beta) * residual
        scores = self.scores(signal, alpha=settings.alpha)
        return Found(
            candidate_ids=tuple(self.ids[found].tolist()),
            candidates=candidates,
            observed=bodies,
            ranking=self.first(scores, settings.k),
        )

    def nearest(self, vectors: Vectors, limit: int) -> list[tuple[Rows, Array]]:
        """Rows and similarities of the best propositions with positive similarity, for each vector."""
        found = []
        for vector in vectors.astype(np.float16).astype(np.float32):  # rounded as the database rounds them
            of_vector = vector @ self.columns  # one at a time over columns: the fastest of numpy's ways
            kept = min(limit, len(of_vector))
            worst = np.partition(of_vector, len(of_vector) - kept)[len(of_vector) - kept]
            rows = np.flatnonzero(of_vector >= max(worst, np.finfo(np.float32).tiny))
            rows = rows[np.lexsort((rows, -of_vector[rows]))][:kept]
            found.append((rows, of_vector[rows].astype(np.float64)))
        return found

    def scores(self, signal: Array, *, alpha: float) -> Array:
        """Score of every passage: ``z = alpha s + (1 - alpha) T s`` over all propositions, read out."""
        x = np.divide(signal, self.weight, out=np.zeros_like(signal), where=self.weight > 0)
        spread = self.incidence @ ((self.transposed @ x) / self.degree) - x * self.loop
        z = alpha * signal + (1.0 - alpha) * spread
        return np.asarray(np.bincount(self.owner, weights=z, minlength=len(self.size)) / np.sqrt(self.size))

    def first(self, scores: Array, k: int) -> tuple[tuple[str, float], ...]:
        """The first ``k`` passages in the order of `evireform.readout.order`."""
        rounded = np.round(scores, DECIMALS)
        kept = min(k, len(rounded))
        worst = np.partition(rounded, len(rounded) - kept)[len(rounded) - kept]
        rows = np.flatnonzero((rounded >= worst) & (rounded > 0)).tolist()
        rows.sort(key=lambda row: (-rounded[row], self.keys[row]))
        return tuple((self.keys[row], float(scores[row])) for row in rows[:k])


def _vectors(tx: Transaction, space: SpaceRow) -> tuple[Rows, Vectors]:
    """Item ids and vectors of a space, by the binary format of COPY: every row has the same length."""
    row = np.dtype(
        [
            ("fields", ">i2"), ("item_bytes", ">i4"), ("item", ">i8"), ("vector_bytes", ">i4"),
            ("dimensions", ">i2"), ("unused", ">i2"), ("vector", ">f2", (space.dimensions,)),
        ]
    )  # fmt: skip
    rows = _copied(tx, _EMBEDDINGS, {"c": space.corpus_id, "s": space.space_id}, row)
    return rows["item"].astype(np.int64), rows["vector"].astype(np.float32)


def _bigints(tx: Transaction, query: bytes, parameters: dict[str, int], *, columns: int) -> Rows:
    """Rows of bigints, shape ``(n, columns)``."""
    row = np.dtype([("fields", ">i2"), ("cells", [("bytes", ">i4"), ("value", ">i8")], (columns,))])
    return _copied(tx, query, parameters, row)["cells"]["value"].astype(np.int64)


def _copied(tx: Transaction, query: bytes, parameters: dict[str, int], row: np.dtype[Any]) -> NDArray[Any]:
    """The rows of a binary COPY, between its header of 19 bytes and its trailer of 2."""
    with tx.driver.cursor().copy(query, parameters) as copy:
        data = b"".join(bytes(part) for part in copy)
    return np.frombuffer(data, dtype=row, offset=19, count=(len(data) - 21) // row.itemsize)


_PROPOSITIONS = b"""
    SELECT proposition_id, proposition.body
    FROM proposition JOIN passage USING (corpus_id, passage_id)
    WHERE corpus_id = %(c)s ORDER BY passage_key, ordinal"""
_PASSAGES = b"""
    SELECT passage_id, passage_key, body, proposition_count
    FROM passage WHERE corpus_id = %(c)s AND state = 'ready' ORDER BY passage_key"""
_EMBEDDINGS = b"""
    COPY (SELECT item_id, embedding FROM embedding WHERE corpus_id = %(c)s AND space_id = %(s)s)
    TO STDOUT (FORMAT binary)"""
_INCIDENCE = b"""
    COPY (SELECT proposition_id, entity_id FROM incidence WHERE corpus_id = %(c)s)
    TO STDOUT (FORMAT binary)"""
