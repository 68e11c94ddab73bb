"""Vector spaces: making one with its partition, its index, and what is known of both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from evireform.errors import CorpusNotFound, DatabaseError, DatabaseUnreachable, UsageError
from evireform.records import SpaceReport
from evireform.store import corpora
from evireform.store.statements import WIDEST

if TYPE_CHECKING:
    from evireform.embedding import Encoder
    from evireform.records import CorpusRow, SpaceRow
    from evireform.store.connection import Store, Transaction

Kind = Literal["proposition", "passage"]

INDEX_THRESHOLD = 3_000
"""Vectors from which a space gets its HNSW index: below, the exact scan is as fast (docs/spaces.md)."""

WIDE_FACTOR = 2
"""An index of signs, which brings ten times as many rows to rank, pays from so many times as many vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceCounts:
    """Propositions or passages of a corpus, how many have a vector in a space, and the size of its index."""

    items: int
    vectors: int
    index_bytes: int


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
    """Build the HNSW index of a space that has grown to ``threshold`` vectors; tells whether it did.

    Where it holds signs, as that of wide vectors does, `WIDE_FACTOR` times as many are waited for. The errors
    are those of `kept`.
    """
    if space.indexed:
        return False
    threshold *= wide_factor(space.dimensions)
    parameters = {"corpus_id": space.corpus_id, "space_id": space.space_id}
    with store.transaction() as tx:
        if tx.run("space_size", parameters)[0][0] < threshold:
            return False
    with kept(store, space), store.transaction(statement_timeout_s=0) as tx:
        return bool(tx.run("create_space_index", parameters)[0][0])


def wide_factor(dimensions: int) -> int:
    """`WIDE_FACTOR` for vectors that are too wide to be indexed as they are, else 1."""
    return WIDE_FACTOR if dimensions > WIDEST else 1


@contextmanager
def kept(store: Store, space: SpaceRow) -> Iterator[None]:
    """Whatever the server says about a space that was dropped meanwhile: say that it was.

    Raises:
        CorpusNotFound: its corpus was deleted meanwhile.
        UsageError: it was dropped meanwhile.
        DatabaseError: something else went wrong.
    """
    try:
        yield
    except DatabaseUnreachable:
        raise
    except DatabaseError:
        with store.transaction(read_only=True) as tx:
            require(tx, space)
        raise


def require(tx: Transaction, space: SpaceRow) -> None:
    """Refuse to go on with a space that is gone.

    Raises:
        CorpusNotFound: its corpus was deleted meanwhile.
        UsageError: it was dropped meanwhile.
    """
    if not corpora.is_there(tx, space.corpus_id):
        raise CorpusNotFound("the corpus was deleted meanwhile")
    if space.space_id not in {one.space_id for one in corpora.spaces(tx, space.corpus_id)}:
        raise UsageError(
            f"space {space.space_id} ({space.kind}s, {space.model}) was dropped meanwhile: "
            "`evireform space show` shows those that are left"
        )


def rebuild_index(store: Store, space: SpaceRow) -> None:
    """Build the HNSW index of a space anew. Searches go on with the old one; writers wait meanwhile.

    It is two transactions, and goes on where an interrupted run stopped. The errors are those of `kept`.
    """
    parameters = {"corpus_id": space.corpus_id, "space_id": space.space_id}
    with kept(store, space), store.transaction(statement_timeout_s=0) as tx:
        tx.run("rebuild_space_index", parameters)
    with kept(store, space), store.transaction() as tx:
        tx.run("swap_space_index", parameters)


def counts(tx: Transaction, space: SpaceRow) -> SpaceCounts:
    """What a space should hold, and holds."""
    row = tx.run(
        "space_counts", {"corpus_id": space.corpus_id, "space_id": space.space_id, "kind": space.kind}
    )[0]
    return SpaceCounts(items=row[0], vectors=row[1], index_bytes=row[2])


def save_recall(tx: Transaction, space: SpaceRow, *, recall: float, breadth: int, vectors: int) -> None:
    """Keep what a measurement of the index found."""
    measured = {"recall": recall, "breadth": breadth, "vectors": vectors}
    tx.run("save_recall", {"corpus_id": space.corpus_id, "space_id": space.space_id, **measured})


def reports(tx: Transaction, corpus_id: int) -> list[SpaceReport]:
    """Every space of a corpus with its counts and the last measurement of its index."""
    saved = {row[0]: row[1:] for row in tx.run("saved_recall", {"corpus_id": corpus_id})}
    found = []
    for space in corpora.spaces(tx, corpus_id):
        count = counts(tx, space)
        recall, breadth, measured_at = saved.get(space.space_id, (None, None, None))
        found.append(
            SpaceReport(
                space=space,
                items=count.items,
                vectors=count.vectors,
                index_bytes=count.index_bytes,
                recall=recall,
                breadth=breadth,
                measured_at=measured_at,
            )
        )
    return found
