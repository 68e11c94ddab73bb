"""Statements that change the index. Every function runs inside the transaction that a job opened.

All writers lock in one order: passages by key, then entities by canonical form. That is why none waits for
another in a circle, and why degrees and counts can be kept by difference.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evireform.records import Passage, PassageState
from evireform.store import corpora, entities, queue
from evireform.store.vectors import half_vectors

if TYPE_CHECKING:
    from evireform.records import CorpusRow, SpaceRow
    from evireform.store.connection import Transaction


AFTER_LOCKS = frozenset(
    (
        "insert_propositions",
        "insert_mentions",
        "insert_passage_entities",
        "settle_entities",
        "drop_unused_forms",
        "drop_unused_entities",
    )
)
"""Statements of `write_passages` that run when it has every lock: what takes them long is the rows."""

ON_VECTORS = frozenset(("retract_passages", "insert_embeddings"))
"""Those that take long for their rows, or for an index that is being built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedProposition:
    """A proposition ready to be written: its text, its place, and its mentions as (form, canonical)."""

    text: str
    span: tuple[int, int] | None
    mentions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPassage:
    """A passage ready to be written, with the vectors of its propositions, shape ``(n, d)``."""

    passage: Passage
    content_hash: bytes
    state: PassageState
    reason: str
    propositions: tuple[PreparedProposition, ...]
    vectors: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPassage:
    """What the corpus already holds under a key; ``relabelled`` where title or metadata are given anew."""

    content_hash: bytes
    state: PassageState
    relabelled: bool

    def is_current(self, content_hash: bytes) -> bool:
        """Whether its propositions are those of a content with this hash."""
        return self.state != "failed" and self.content_hash == content_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Keys that a write added and changed; keys in neither were brought up to date by somebody else."""

    added: tuple[str, ...]
    changed: tuple[str, ...]


def known_passages(tx: Transaction, corpus_id: int, passages: Sequence[Passage]) -> dict[str, KnownPassage]:
    """What the corpus holds under the keys of these passages."""
    rows = tx.run("known_passages", {"corpus_id": corpus_id, **_labels(passages)})
    return {row[0]: KnownPassage(content_hash=bytes(row[1]), state=row[2], relabelled=row[3]) for row in rows}


def failed_texts(tx: Transaction, corpus_id: int, *, after: str, fetch: int) -> list[tuple[Passage, bytes]]:
    """A page of the passages whose extraction failed, in key order after a key, each with its hash."""
    rows = tx.run("failed_texts", {"corpus_id": corpus_id, "after": after, "fetch": fetch})
    return [(Passage(key=row[0], title=row[1], text=row[2], metadata=row[3]), bytes(row[4])) for row in rows]


def lock_failed_passages(tx: Transaction, corpus_id: int, hashes: Mapping[str, bytes]) -> set[str]:
    """Lock passages that are to be written again; gives those that nobody else brought up to date meanwhile.

    Args:
        tx: An open transaction.
        corpus_id: The corpus.
        hashes: Keys of failed passages, each with the content hash under which it failed.
    """
    corpora.hold_corpus(tx, corpus_id)
    parameters = {"passage_keys": sorted(hashes), "hashes": list(hashes.values())}
    return {row[0] for row in tx.run("lock_failed_passages", {"corpus_id": corpus_id, **parameters})}


def relabel_passages(tx: Transaction, corpus_id: int, passages: Sequence[Passage]) -> None:
    """Give passages of unchanged text their new titles and metadata."""
    corpora.hold_corpus(tx, corpus_id)
    ordered = sorted(passages, key=lambda passage: passage.key)
    rows = tx.run("relabel_passages", {"corpus_id": corpus_id, **_labels(ordered)})
    derive_metadata(tx, corpus_id, [row[0] for row in rows])


def write_passages(
    tx: Transaction, corpus: CorpusRow, space: SpaceRow, batch: Sequence[PreparedPassage]
) -> Written:
    """Add or replace passages with everything that derives from them, all or none.

    Args:
        tx: An open transaction.
        corpus: The corpus.
        space: Its active proposition space.
        batch: Passages with distinct keys.

    Returns:
        Which were new and which replaced an older text.

    Raises:
        CorpusSwitched: another generation has the name of the corpus by now.
        VectorSpaceMismatch: the corpus was switched to another embedding model meanwhile.
    """
    corpora.hold_named(tx, corpus, writing_to=space)
    batch = sorted(batch, key=lambda prepared: prepared.passage.key)
    rows = tx.run(
        "upsert_passages",
        {
            "corpus_id": corpus.corpus_id,
            "tenant_id": corpus.tenant_id,
            "passage_keys": [p.passage.key for p in batch],
            "titles": [p.passage.title for p in batch],
            "bodies": [p.passage.text for p in batch],
            "hashes": [p.content_hash for p in batch],
            "metadata": [_json(p.passage.metadata) for p in batch],
            "states": [p.state for p in batch],
            "reasons": [p.reason for p in batch],
            "counts": [len(p.propositions) for p in batch],
        },
    )
    ids = {row[0]: row[1] for row in rows}
    replaced = {row[0] for row in rows if row[2]}
    if replaced or any(prepared.passage.metadata for prepared in batch):
        derive_metadata(tx, corpus.corpus_id, list(ids.values()))
    batch = entities.resolved(
        tx, corpus.corpus_id, [prepared for prepared in batch if prepared.passage.key in ids]
    )
    canonicals = {
        canonical
        for prepared in batch
        for proposition in prepared.propositions
        for _, canonical in proposition.mentions
    }
    entity_ids = entities.claim_entities(tx, corpus, canonicals, [ids[key] for key in replaced])
    differences = Counter[int]()
    if replaced:
        differences.subtract(_retract(tx, corpus.corpus_id, [ids[key] for key in replaced]))
    _insert_parts(tx, corpus, space, batch, ids, entity_ids)
    differences.update(_count_entities(tx, corpus, batch, ids, entity_ids))
    entities.settle_entities(tx, corpus.corpus_id, differences)
    return Written(added=tuple(key for key in ids if key not in replaced), changed=tuple(sorted(replaced)))


def delete_passages(
    tx: Transaction, corpus_id: int, passage_keys: Sequence[str], *, keep_log: bool = False
) -> list[str]:
    """Take passages out of the index, with everything that derives from them, and out of the queue.

    A worker that has one on lease has lost it, and does not write it. What their model calls cost stays in
    the ledger; what models answered goes, also for a key without a passage, because the database refused it.

    Args:
        tx: An open transaction.
        corpus_id: The corpus.
        passage_keys: Passages, and keys that have none any more.
        keep_log: Leave logged searches that had them in hand whole, and what models answered in searches.

    Returns:
        The keys that existed, in the index or in the queue.
    """
    corpora.hold_corpus(tx, corpus_id)
    waiting = queue.withdraw_queued(tx, corpus_id, passage_keys)
    rows = tx.run("lock_passages", {"corpus_id": corpus_id, "passage_keys": sorted(set(passage_keys))})
    passage_ids = [row[0] for row in rows]
    if passage_ids:
        tx.run(
            "lock_entities",
            {"corpus_id": corpus_id, "canonicals": [], "passage_ids": passage_ids},
        )
        differences = Counter[int]()
        differences.subtract(_retract(tx, corpus_id, passage_ids))
        tx.run("delete_passages", {"corpus_id": corpus_id, "passage_ids": passage_ids})
        entities.settle_entities(tx, corpus_id, differences)
    entities.forget_decisions(tx, corpus_id, passage_keys)
    _forget(tx, corpus_id, passage_keys, keep_log=keep_log)
    return sorted({*waiting, *(row[1] for row in rows)})


def derive_metadata(tx: Transaction, corpus_id: int, passage_ids: Sequence[int] | None) -> None:
    """Make what passages can be filtered by follow from their metadata; of the whole corpus for None."""
    parameters = {"passage_ids": None if passage_ids is None else list(passage_ids)}
    tx.run("derive_metadata", {"corpus_id": corpus_id, **parameters})


def insert_vectors(
    tx: Transaction,
    space: SpaceRow,
    *,
    tenant_id: int,
    item_ids: Sequence[int],
    vectors: NDArray[np.float32],
) -> None:
    """Vectors of new items into a space."""
    _insert(tx, "insert_embeddings", space, tenant_id, item_ids, vectors)


def fill_vectors(
    tx: Transaction,
    space: SpaceRow,
    *,
    tenant_id: int,
    item_ids: Sequence[int],
    vectors: NDArray[np.float32],
) -> int:
    """Vectors of items that have none yet, while others may fill the space too. Returns how many went in."""
    return len(_insert(tx, "fill_embeddings", space, tenant_id, item_ids, vectors))


def _insert(
    tx: Transaction,
    statement: str,
    space: SpaceRow,
    tenant_id: int,
    item_ids: Sequence[int],
    vectors: NDArray[np.float32],
) -> list[tuple[Any, ...]]:
    if len(item_ids) != len(vectors):
        raise ValueError(f"{len(item_ids)} item_ids for {len(vectors)} vectors")
    if not item_ids:
        return []
    ((type_oid,),) = tx.run("vector_type", {})
    return tx.run(
        statement,
        {
            "corpus_id": space.corpus_id,
            "space_id": space.space_id,
            "tenant_id": tenant_id,
            "item_ids": list(item_ids),
            "vectors": half_vectors(vectors, type_oid=type_oid),
        },
    )


def _forget(tx: Transaction, corpus_id: int, passage_keys: Sequence[str], *, keep_log: bool) -> None:
    """Empty what quotes passages beyond the index: answers of models, and the log of searches.

    A search or a call that is under way writes down what it read either before this, and it is found here, or
    after it: then it sees that something was deleted.
    """
    parameters = {"corpus_id": corpus_id, "passage_keys": list(passage_keys)}
    tx.run("close_log", {"corpus_id": corpus_id})
    tx.run("count_deletion", {"corpus_id": corpus_id})
    tx.run("forget_passages", parameters)
    if not keep_log:
        tx.run("forget_questions", parameters)
        tx.run("forget_unlogged", {"corpus_id": corpus_id})


def _retract(tx: Transaction, corpus_id: int, passage_ids: Sequence[int]) -> dict[int, int]:
    rows = tx.run("retract_passages", {"corpus_id": corpus_id, "passage_ids": list(passage_ids)})
    return {row[0]: row[1] for row in rows}


def _insert_parts(
    tx: Transaction,
    corpus: CorpusRow,
    space: SpaceRow,
    batch: Sequence[PreparedPassage],
    ids: Mapping[str, int],
    entity_ids: Mapping[str, int],
) -> None:
    """Propositions, their vectors, mentions, forms and incidence."""
    parts = [
        (ids[prepared.passage.key], ordinal, proposition)
        for prepared in batch
        for ordinal, proposition in enumerate(prepared.propositions)
    ]
    if not parts:
        return
    rows = tx.run(
        "insert_propositions",
        {
            "corpus_id": corpus.corpus_id,
            "tenant_id": corpus.tenant_id,
            "passage_ids": [passage_id for passage_id, _, _ in parts],
            "ordinals": [ordinal for _, ordinal, _ in parts],
            "bodies": [proposition.text for _, _, proposition in parts],
            "span_starts": [p.span[0] if p.span else None for _, _, p in parts],
            "span_ends": [p.span[1] if p.span else None for _, _, p in parts],
        },
    )
    place = {(row[0], row[1]): row[2] for row in rows}
    proposition_ids = [place[passage_id, ordinal] for passage_id, ordinal, _ in parts]
    vectors = np.concatenate([prepared.vectors for prepared in batch if prepared.propositions])
    insert_vectors(tx, space, tenant_id=corpus.tenant_id, item_ids=proposition_ids, vectors=vectors)
    mentions = [
        (proposition_id, form, entity_ids[canonical])
        for proposition_id, (_, _, proposition) in zip(proposition_ids, parts, strict=True)
        for form, canonical in proposition.mentions
    ]
    if mentions:
        tx.run(
            "insert_mentions",
            {
                "corpus_id": corpus.corpus_id,
                "tenant_id": corpus.tenant_id,
                "proposition_ids": [mention[0] for mention in mentions],
                "forms": [mention[1] for mention in mentions],
                "entity_ids": [mention[2] for mention in mentions],
            },
        )


def _count_entities(
    tx: Transaction,
    corpus: CorpusRow,
    batch: Sequence[PreparedPassage],
    ids: Mapping[str, int],
    entity_ids: Mapping[str, int],
) -> Counter[int]:
    """Write ``n_je`` of the passages; returns how many propositions each entity gained."""
    counts: Counter[tuple[int, int, int]] = Counter()
    for prepared in batch:
        passage_id, size = ids[prepared.passage.key], len(prepared.propositions)
        for proposition in prepared.propositions:
            for canonical in {canonical for _, canonical in proposition.mentions}:
                counts[entity_ids[canonical], passage_id, size] += 1
    gained: Counter[int] = Counter()
    for (entity_id, _, _), count in counts.items():
        gained[entity_id] += count
    if counts:
        tx.run(
            "insert_passage_entities",
            {
                "corpus_id": corpus.corpus_id,
                "tenant_id": corpus.tenant_id,
                "entity_ids": [entity_id for entity_id, _, _ in counts],
                "passage_ids": [passage_id for _, passage_id, _ in counts],
                "counts": list(counts.values()),
                "sizes": [size for _, _, size in counts],
            },
        )
    return gained


def _labels(passages: Sequence[Passage]) -> dict[str, list[str]]:
    return {
        "passage_keys": [passage.key for passage in passages],
        "titles": [passage.title for passage in passages],
        "metadata": [_json(passage.metadata) for passage in passages],
    }


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
