"""A synthetic corpus of any size: vectors as hard to search as real ones, entities by Zipf's law.

Vectors. A proposition is ``h = normalise(mean + groups + own)``: one mean direction for all (text embeddings
are far from centred), a centre for its passage and for each of the nested groups of 8, 64 and 512 passages
that it belongs to, and a part of its own. All but the mean are Gaussian with the variance of axis ``i``
proportional to ``1 / (i + 1)``. The shares of the squared norm were set so that the mean similarity of random
pairs (0.41) and of nearest neighbours (0.80), the local intrinsic dimension (about 28) and, what counts, the
recall of HNSW at 100,000 vectors are those of bge-small-en-v1.5 on propositions of Wikipedia. Without the
nested groups, or with a flatter spectrum, HNSW finds much less than it does in real vectors.

Entities. Ranks are drawn with probability proportional to ``1 / (rank + 2.7)`` (Mandelbrot's form of Zipf's
law). A passage draws a pool of eight, each of its propositions names one to five of them (three on average),
so that propositions of a passage share entities, and the first ranks are hubs.

Everything follows from the seed and the number of propositions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from benchmarks.doubles import PreparedQuestion
from evireform.embedding import Vectors
from evireform.records import CorpusRow, SpaceRow
from evireform.store import corpora, writing
from evireform.store.connection import Store, Transaction

Ids = NDArray[np.int64]

DIMENSIONS = 384
MODEL = "synthetic"
PASSAGE_SIZE = 5
_BLOCK = 2_000
"""Passages whose vectors are drawn together."""

_MEAN = 0.41
_GROUPS = {1: 0.17, 8: 0.06, 64: 0.06, 512: 0.05}
"""Passages in a group to the share of its centre in the squared norm."""
_OWN = 0.25
_POOL = 8
_SHIFT = 2.7


@dataclass(frozen=True, kw_only=True)
class SyntheticCorpus:
    """The rows of a corpus. Passages, propositions and entities are numbered from 0.

    Args:
        propositions: How many; the last passage is cut to meet it.
        seed: Of every random number.
    """

    propositions: int
    seed: int = 202707

    @cached_property
    def sizes(self) -> Ids:
        """Propositions of each passage: 1 to 9, five on average."""
        draws = 1 + self._random(0).binomial(8, (PASSAGE_SIZE - 1) / 8, self.propositions)
        ends = np.cumsum(draws)
        count = int(np.searchsorted(ends, self.propositions)) + 1
        sizes = draws[:count].astype(np.int64)
        sizes[-1] -= ends[count - 1] - self.propositions
        return sizes

    @cached_property
    def starts(self) -> Ids:
        """The first proposition of each passage."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    @cached_property
    def owner(self) -> Ids:
        """The passage of each proposition."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def incidence(self) -> tuple[Ids, Ids]:
        """Propositions and the entities that they name, pair by pair, sorted, each pair once."""
        random = self._random(1)
        ranks = self.propositions
        cumulative = np.cumsum(1.0 / (np.arange(ranks) + 1 + _SHIFT))
        drawn = np.searchsorted(cumulative / cumulative[-1], random.random((len(self.sizes), _POOL)))
        pools = np.minimum(drawn, ranks - 1)
        named = 1 + random.binomial(4, 0.5, self.propositions)
        slots = np.argsort(random.random((self.propositions, _POOL)), axis=1)[:, :5]
        kept = np.arange(5) < named[:, None]
        entities = np.take_along_axis(pools[self.owner], slots, axis=1)[kept]
        pairs = np.unique(np.repeat(np.arange(self.propositions), named) * ranks + entities)
        return pairs // ranks, pairs % ranks

    @cached_property
    def counts(self) -> tuple[Ids, Ids, Ids]:
        """Entities, passages, and how many propositions of the passage name the entity; sorted."""
        propositions, entities = self.incidence
        passages = len(self.sizes)
        pairs, counts = np.unique(entities * passages + self.owner[propositions], return_counts=True)
        return pairs // passages, pairs % passages, counts

    def vectors(self) -> Iterator[Vectors]:
        """The vectors of the propositions in order, float32, norm 1, block by block."""
        mean = _gaussian(self._random(2), 1)[0]
        shuffled = self._random(3).permutation(len(self.sizes))
        groups = {
            size: _gaussian(self._random(4, size), len(self.sizes) // size + 1)
            for size in _GROUPS
            if size > 1
        }
        for block, first in enumerate(range(0, len(self.sizes), _BLOCK)):
            sizes = self.sizes[first : first + _BLOCK]
            place = shuffled[first : first + _BLOCK]
            random = self._random(5, block)
            centres = np.sqrt(_MEAN) * mean / np.linalg.norm(mean) + np.sqrt(_GROUPS[1]) * _gaussian(
                random, len(sizes)
            )
            for size, of_group in groups.items():
                centres += np.sqrt(_GROUPS[size]) * of_group[place // size]
            own = np.sqrt(_OWN) * _gaussian(random, int(sizes.sum()))
            yield _normalised(np.repeat(centres, sizes, axis=0) + own)

    def body(self, proposition: int, entities: Iterable[int]) -> str:
        """A text of the usual length."""
        named = ", ".join(f"Entity {entity}" for entity in entities)
        return (
            f"Statement {proposition} relates {named} in a sentence of about the length that sentences have."
        )

    def _random(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.propositions, *purpose])


def questions(vectors: Vectors, count: int, *, seed: int = 1) -> list[PreparedQuestion]:
    """Questions about pairs of propositions, each with three residual queries near other propositions.

    A question points between two propositions, nearer to the first, and away from both by noise. The five
    best candidates are selected.

    Args:
        vectors: Of all propositions, shape ``(n, d)``.
        count: How many.
        seed: Of every random number.
    """
    random = np.random.default_rng([seed, len(vectors)])
    prepared = []
    for number in range(count):
        rows = random.integers(0, len(vectors), 5)
        first, second, *bridges = vectors[rows]
        noise = _gaussian(random, 4)
        prepared.append(
            PreparedQuestion(
                text=f"Question {number}?",
                vector=_normalised((first + 0.4 * second + 0.6 * noise[0])[None])[0],
                positions=(0, 1, 2, 3, 4),
                queries=tuple(f"Residual query {number}.{row}" for row in range(3)),
                query_vectors=_normalised(np.stack(bridges) + 0.5 * noise[1:]),
            )
        )
    return prepared


def load(store: Store, name: str, corpus: SyntheticCorpus) -> None:
    """Write the corpus in one transaction by COPY, then build its HNSW index and gather statistics."""
    with store.transaction(statement_timeout_s=0) as tx:
        tx.driver.execute("SET LOCAL session_replication_role = replica")  # foreign keys: see `disagreements`
        row = corpora.create_corpus(tx, name, titles="off")
        space = corpora.create_space(
            tx, row, kind="proposition", model=MODEL, dimensions=DIMENSIONS, prompts={}
        )
        _copy_rows(tx, row, corpus)
        _copy_vectors(tx, row, space, corpus)
    with store.transaction(statement_timeout_s=0) as tx:
        tx.driver.execute("SET LOCAL maintenance_work_mem = '2GB'")
        tx.run("create_space_index", {"corpus_id": row.corpus_id, "space_id": space.space_id})
    with store.transaction(statement_timeout_s=0) as tx:
        tx.run("analyze_corpus_tables", {})
        tx.driver.execute("ANALYZE embedding")


def _copy_rows(tx: Transaction, row: CorpusRow, corpus: SyntheticCorpus) -> None:
    """Every table but `embedding`. Ids are numbers plus one, which is unique within the corpus."""
    propositions, entities = corpus.incidence
    of_entity, of_passage, counts = corpus.counts
    sizes = corpus.sizes
    degree = np.bincount(entities, minlength=corpus.propositions)
    weight = np.zeros(corpus.propositions)
    np.maximum.at(weight, of_entity, counts / np.sqrt(sizes[of_passage]))
    ends = np.searchsorted(propositions, np.arange(corpus.propositions + 1)).tolist()
    named = entities.tolist()
    bodies = [corpus.body(i, named[ends[i] : ends[i + 1]]) for i in range(corpus.propositions)]
    starts = [*corpus.starts.tolist(), corpus.propositions]
    key = f"{row.corpus_id}\t{row.tenant_id}"
    _copy(
        tx,
        "passage (corpus_id, tenant_id, passage_id, passage_key, body, content_hash, state,"
        " proposition_count)",
        (
            f"{key}\t{j + 1}\tp{j:08d}\t{' '.join(bodies[starts[j] : starts[j + 1]])}\t\\\\x00\tready\t{size}"
            for j, size in enumerate(sizes.tolist())
        ),
    )
    _copy(
        tx,
        "proposition (corpus_id, tenant_id, proposition_id, passage_id, ordinal, body)",
        (
            f"{key}\t{i + 1}\t{j + 1}\t{i - starts[j]}\t{bodies[i]}"
            for i, j in enumerate(corpus.owner.tolist())
        ),
    )
    used = [(e, d, w) for e, (d, w) in enumerate(zip(degree.tolist(), weight.tolist(), strict=True)) if d]
    _copy(
        tx,
        "entity (corpus_id, tenant_id, entity_id, canonical, display, degree, max_weight)",
        (f"{key}\t{e + 1}\tentity {e}\tEntity {e}\t{d}\t{w!r}" for e, d, w in used),
    )
    _copy(
        tx,
        "entity_form (corpus_id, tenant_id, entity_id, form, mention_count)",
        (f"{key}\t{e + 1}\tEntity {e}\t{d}" for e, d, _ in used),
    )
    pairs = list(zip(propositions.tolist(), named, strict=True))
    _copy(
        tx,
        "mention (corpus_id, tenant_id, proposition_id, entity_id, form)",
        (f"{key}\t{i + 1}\t{e + 1}\tEntity {e}" for i, e in pairs),
    )
    _copy(
        tx,
        "incidence (corpus_id, tenant_id, proposition_id, entity_id)",
        (f"{key}\t{i + 1}\t{e + 1}" for i, e in pairs),
    )
    _copy(
        tx,
        "passage_entity (corpus_id, tenant_id, entity_id, passage_id, proposition_count, passage_size)",
        (
            f"{key}\t{e + 1}\t{j + 1}\t{n}\t{size}"
            for e, j, n, size in zip(
                of_entity.tolist(),
                of_passage.tolist(),
                counts.tolist(),
                sizes[of_passage].tolist(),
                strict=True,
            )
        ),
    )


def _copy(tx: Transaction, into: str, lines: Iterable[str]) -> None:
    """Rows in the text format of COPY."""
    remaining = iter(lines)
    with tx.driver.cursor().copy(f"COPY {into} FROM STDIN".encode()) as copy:
        while some := list(islice(remaining, 10_000)):
            copy.write("\n".join(some) + "\n")


def _copy_vectors(tx: Transaction, row: CorpusRow, space: SpaceRow, corpus: SyntheticCorpus) -> None:
    first = 1
    for block in corpus.vectors():
        item_ids = range(first, first + len(block))
        writing.insert_vectors(tx, space, tenant_id=row.tenant_id, item_ids=item_ids, vectors=block)
        first += len(block)


def disagreements(tx: Transaction, corpus_id: int) -> dict[str, int]:
    """Rows of each derived table that differ from what the mentions say; all zero in a sound corpus."""
    found = {}
    for table, query in _DERIVED.items():
        (count,) = tx.driver.execute(query.encode(), {"c": corpus_id}).fetchone() or (0,)
        found[table] = int(count)
    return found


_DERIVED = {
    "incidence": """
        WITH derived AS (SELECT DISTINCT proposition_id, entity_id FROM mention WHERE corpus_id = %(c)s),
             stored AS (SELECT proposition_id, entity_id FROM incidence WHERE corpus_id = %(c)s)
        SELECT (SELECT count(*) FROM (TABLE derived EXCEPT TABLE stored) AS missing)
             + (SELECT count(*) FROM (TABLE stored EXCEPT TABLE derived) AS wrong)""",
    "passage_entity": """
        WITH derived AS (SELECT mention.entity_id, proposition.passage_id,
                                count(DISTINCT mention.proposition_id) AS proposition_count
                         FROM mention JOIN proposition USING (corpus_id, proposition_id)
                         WHERE corpus_id = %(c)s GROUP BY 1, 2),
             sized AS (SELECT passage_id, count(*) AS passage_size
                       FROM proposition WHERE corpus_id = %(c)s GROUP BY 1),
             expected AS (SELECT * FROM derived JOIN sized USING (passage_id)),
             stored AS (SELECT passage_id, entity_id, proposition_count::bigint, passage_size::bigint
                        FROM passage_entity WHERE corpus_id = %(c)s)
        SELECT (SELECT count(*) FROM (TABLE expected EXCEPT TABLE stored) AS missing)
             + (SELECT count(*) FROM (TABLE stored EXCEPT TABLE expected) AS wrong)""",
    "entity": """
        WITH derived AS (SELECT entity_id, count(DISTINCT proposition_id) AS degree
                         FROM mention WHERE corpus_id = %(c)s GROUP BY 1),
             heaviest AS (SELECT entity_id, max(weight) AS max_weight
                          FROM passage_entity WHERE corpus_id = %(c)s GROUP BY 1)
        SELECT count(*) FROM (SELECT * FROM entity WHERE corpus_id = %(c)s) AS entity
        FULL JOIN derived USING (entity_id) FULL JOIN heaviest USING (entity_id)
        WHERE entity.degree IS DISTINCT FROM derived.degree
           OR abs(entity.max_weight - heaviest.max_weight) < 1e-12 IS NOT TRUE""",
    "entity_form": """
        WITH derived AS (SELECT entity_id, form, count(*) AS mention_count
                         FROM mention WHERE corpus_id = %(c)s GROUP BY 1, 2),
             stored AS (SELECT entity_id, form, mention_count::bigint
                        FROM entity_form WHERE corpus_id = %(c)s)
        SELECT (SELECT count(*) FROM (TABLE derived EXCEPT TABLE stored) AS missing)
             + (SELECT count(*) FROM (TABLE stored EXCEPT TABLE derived) AS wrong)""",
    "passage": """
        SELECT count(*) FROM passage
        WHERE corpus_id = %(c)s AND proposition_count <> (
            SELECT count(*) FROM proposition
            WHERE proposition.corpus_id = passage.corpus_id
              AND proposition.passage_id = passage.passage_id)""",
    "embedding": """
        SELECT count(*) FROM (SELECT item_id FROM embedding WHERE corpus_id = %(c)s) AS stored
        FULL JOIN (SELECT proposition_id FROM proposition WHERE corpus_id = %(c)s) AS proposition
               ON stored.item_id = proposition.proposition_id
        WHERE stored.item_id IS NULL OR proposition.proposition_id IS NULL""",
}
"""Derived table to a count of the rows that are missing, superfluous or wrong."""


def _gaussian(random: np.random.Generator, rows: int) -> Vectors:
    """Directions of about norm 1, the variance of axis ``i`` falling like ``1 / (i + 1)``."""
    drawn: Vectors = random.standard_normal((rows, DIMENSIONS), dtype=np.float32)
    drawn *= _SPREAD
    return drawn


def _normalised(vectors: Vectors) -> Vectors:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


_VARIANCE = 1.0 / (np.arange(DIMENSIONS) + 1.0)
_SPREAD = np.sqrt(_VARIANCE / _VARIANCE.sum()).astype(np.float32)
