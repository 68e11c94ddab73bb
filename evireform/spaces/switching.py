"""Another embedding model for a corpus: its spaces are built beside the active ones, and take their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evireform.embedding import Encoder
from evireform.errors import DatabaseError, UsageError, VectorSpaceMismatch
from evireform.records import CorpusRow, SpaceRow
from evireform.spaces.filling import PAGE, Progress, encode, fill, unembedded, write
from evireform.store import corpora
from evireform.store import spaces as store_spaces
from evireform.store.connection import Store, Transaction

ATTEMPTS = 20
"""How often a switch embeds what was added meanwhile, before it gives up on writers that are faster."""


def build(store: Store, corpus_name: str, *, encoder: Encoder, progress: Progress | None = None) -> int:
    """Embed a corpus with another model beside the active spaces, one for each kind of vectors that it has.

    Nothing is extracted, searches and writers go on with the active spaces, and what was made before an
    interruption is not made again. Returns how many vectors were made.

    Args:
        store: The database.
        corpus_name: The corpus.
        encoder: The other model.
        progress: Called with the number of vectors made since the last call, and how many there are to make.

    Raises:
        CorpusNotFound: no corpus has this name, or it was deleted meanwhile.
        UsageError: the corpus holds no vectors yet, or the new space was dropped meanwhile.
    """
    with store.transaction() as tx:
        corpus = corpora.find_locked(tx, corpus_name)
        for active in _active(tx, corpus):
            if _of_model(tx, corpus, active, encoder) is None:
                corpora.add_space(
                    tx,
                    corpus,
                    kind=active.kind,
                    model=encoder.model,
                    dimensions=encoder.dimensions,
                    prompts=encoder.prompts,
                )
        spaces = _spaces_of_model(tx, corpus, encoder)
    return _complete(store, corpus, spaces, encoder, progress)


def switch(store: Store, corpus_name: str, *, encoder: Encoder, progress: Progress | None = None) -> int:
    """Make the spaces of a model the active ones, after what they lack was embedded. Returns how much it was.

    The last few vectors are made, all are counted, and the one statement that switches is run while no writer
    is in the corpus; searches go on, and each uses the spaces that it began with.

    Args:
        store: The database.
        corpus_name: The corpus.
        encoder: The model to which it switches.
        progress: As for `build`.

    Raises:
        CorpusNotFound: no corpus has this name, or it was deleted meanwhile.
        UsageError: the corpus holds no vectors yet, or none of this model, or those were dropped meanwhile.
        DatabaseError: writers add more than can be embedded meanwhile.
    """
    for _ in range(ATTEMPTS):
        with store.transaction(read_only=True) as tx:
            corpus = corpora.get_corpus(tx, corpus_name)
            spaces = _spaces_of_model(tx, corpus, encoder)
        made = _complete(store, corpus, spaces, encoder, progress)
        with store.transaction() as tx:
            corpus = corpora.find_locked(tx, corpus_name)
            spaces = _spaces_of_model(tx, corpus, encoder)
            rest = [(space, unembedded(tx, corpus, space, after=0, fetch=PAGE + 1)) for space in spaces]
            if all(len(page) <= PAGE for _, page in rest):
                for space, page in rest:
                    write(tx, corpus, space, page, encode(encoder, space, page))
                    _require_complete(tx, space)
                corpora.point_at_spaces(tx, corpus.corpus_id, {s.kind: s.space_id for s in spaces})
                return made + sum(len(page) for _, page in rest)
    raise DatabaseError(
        "more passages are added to the corpus than can be embedded meanwhile",
        remedy="repeat it while less is added",
    )


def drop(store: Store, corpus_name: str, space_id: int) -> SpaceRow:
    """Drop a space that searches do not use, with its vectors. Waits for the searches under way. Returns it.

    Raises:
        CorpusNotFound: no corpus has this name.
        UsageError: the corpus has no such space, or it is an active one.
    """
    with store.transaction() as tx:
        corpus = corpora.find_locked(tx, corpus_name)
        spaces = {space.space_id: space for space in corpora.spaces(tx, corpus.corpus_id)}
        space = spaces.get(space_id)
        if space is None:
            there = ", ".join(f"{one.space_id} ({one.kind}s, {one.model})" for one in spaces.values())
            raise UsageError(
                f"corpus {corpus_name!r} has no space of the number {space_id}; it has {there or 'none'}"
            )
        if space.active:
            raise UsageError(
                f"space {space_id} of {space.model} is active: switch to another model before you drop it"
            )
        parameters = {"corpus_id": corpus.corpus_id, "space_id": space_id}
        tx.run("delete_space", parameters)
        tx.run("drop_space_partition", parameters)
    return space


def _complete(
    store: Store,
    corpus: CorpusRow,
    spaces: Sequence[SpaceRow],
    encoder: Encoder,
    progress: Progress | None,
) -> int:
    """Make what the spaces lack, and their indexes."""
    with store.transaction(read_only=True) as tx:
        counts = [store_spaces.counts(tx, space) for space in spaces]
    lacking = sum(max(count.items - count.vectors, 0) for count in counts)
    report: Callable[[int], None] | None = (lambda done: progress(done, lacking)) if progress else None
    made = 0
    for space in spaces:
        made += fill(store, corpus, space, encoder, progress=report)
        store_spaces.ensure_index(store, space, threshold=store_spaces.INDEX_THRESHOLD)
    return made


def _active(tx: Transaction, corpus: CorpusRow) -> list[SpaceRow]:
    active = [space for space in corpora.spaces(tx, corpus.corpus_id) if space.active]
    if not active:
        raise UsageError(f"corpus {corpus.name!r} holds no vectors yet: ingest into it first")
    return active


def _of_model(tx: Transaction, corpus: CorpusRow, active: SpaceRow, encoder: Encoder) -> SpaceRow | None:
    """The space of a model that could take the place of an active one."""
    for space in corpora.spaces(tx, corpus.corpus_id):
        if space.kind == active.kind and _is_of(space, encoder):
            return space
    return None


def _is_of(space: SpaceRow, encoder: Encoder) -> bool:
    try:
        corpora.check_space(
            space, model=encoder.model, dimensions=encoder.dimensions, prompts=encoder.prompts
        )
    except VectorSpaceMismatch:
        return False
    return True


def _spaces_of_model(tx: Transaction, corpus: CorpusRow, encoder: Encoder) -> list[SpaceRow]:
    """The spaces of a model, one for each active space.

    Raises:
        UsageError: there is none for one of them.
    """
    found = []
    for active in _active(tx, corpus):
        space = _of_model(tx, corpus, active, encoder)
        if space is None:
            raise UsageError(
                f"the {active.kind}s of corpus {corpus.name!r} were not embedded with {encoder.model} "
                f"({encoder.dimensions}-d): run `evireform space build` with this model first"
            )
        found.append(space)
    return found


def _require_complete(tx: Transaction, space: SpaceRow) -> None:
    """Count once more, by another way, before searches rely on it."""
    count = store_spaces.counts(tx, space)
    if count.items != count.vectors:
        raise DatabaseError(
            f"space {space.space_id} holds {count.vectors} vectors for {count.items} {space.kind}s",
            remedy="drop it and build it anew",
        )
