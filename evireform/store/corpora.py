"""Corpora and their vector spaces: single rows by key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from evireform.errors import CorpusNotFound, UsageError, VectorSpaceMismatch
from evireform.records import CorpusRow, SpaceRow, Titles
from evireform.store.schema import corpus as corpus_table
from evireform.store.schema import tenant, tenant_member, vector_space
from evireform.wellformed import well_formed

if TYPE_CHECKING:
    from evireform.store.connection import Transaction

Kind = Literal["proposition", "passage"]
DEFAULT_TENANT = "default"


def default_tenant_id(tx: Transaction) -> int:
    """The tenant that owns corpora unless told otherwise; `init` makes it."""
    query = sa.select(tenant.c.tenant_id).where(tenant.c.name == DEFAULT_TENANT)
    return int(tx.core(query)[0][0])


def create_default_tenant(tx: Transaction) -> None:
    """Make the default tenant, which belongs to the current role, unless it is there."""
    made = tx.core(
        insert(tenant).values(name=DEFAULT_TENANT).on_conflict_do_nothing().returning(tenant.c.tenant_id)
    )
    for row in made:
        member = insert(tenant_member).values(
            role_name=sa.func.current_user(), tenant_id=row[0], access="writer"
        )
        tx.core(member.on_conflict_do_nothing())


def create_corpus(tx: Transaction, name: str, *, titles: Titles) -> CorpusRow:
    """Make a corpus, or take the one of this name that is there.

    Raises:
        UsageError: the name cannot be one, or the corpus there was made with the other titles setting.
    """
    check_name(name)
    tx.core(
        insert(corpus_table)
        .values(tenant_id=default_tenant_id(tx), name=name, titles=titles)
        .on_conflict_do_nothing()
    )
    row = get_corpus(tx, name)
    if row.titles != titles:
        raise UsageError(
            f"corpus {name!r} was made with titles {row.titles}: open it so, or choose another name"
        )
    return row


def find_corpus(tx: Transaction, name: str) -> CorpusRow | None:
    """The corpus of this name, or None.

    Raises:
        UsageError: no corpus can have this name.
    """
    check_name(name)
    rows = tx.core(_corpora().where(corpus_table.c.name == name))
    return _corpus(rows[0]) if rows else None


def get_corpus(tx: Transaction, name: str) -> CorpusRow:
    """The corpus of this name.

    Raises:
        CorpusNotFound: there is none; the message names those that are nearest.
    """
    row = find_corpus(tx, name)
    if row is not None:
        return row
    names = [other.name for other in list_corpora(tx)]
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names[:5]
    hint = f"; there is {', '.join(map(repr, near))}" if near else "; there is none yet: ingest into it first"
    raise CorpusNotFound(f"no corpus is called {name!r}{hint}", name=name)


def list_corpora(tx: Transaction) -> list[CorpusRow]:
    """Every corpus by name."""
    return [_corpus(row) for row in tx.core(_corpora().order_by(corpus_table.c.name))]


def set_extractor(tx: Transaction, corpus_id: int, extractor: str) -> None:
    """Record what makes the propositions of a corpus."""
    tx.core(sa.update(corpus_table).where(corpus_table.c.corpus_id == corpus_id).values(extractor=extractor))


def hold_corpus(tx: Transaction, corpus_id: int) -> None:
    """Keep a corpus from being deleted until the transaction ends: the first thing that a writer does.

    Raises:
        CorpusNotFound: it was deleted meanwhile.
    """
    if not tx.run("hold_corpus", {"corpus_id": corpus_id}):
        raise CorpusNotFound("the corpus was deleted meanwhile: make it again and repeat")


def delete_corpus(tx: Transaction, name: str) -> None:
    """Delete a corpus with everything in it, after the transactions that write into it have ended.

    What its model calls cost stays in the ledger, under its name; what models answered goes.
    The partitions go last, because dropping one keeps every search waiting until the transaction ends.

    Raises:
        CorpusNotFound: no corpus has this name.
    """
    row = get_corpus(tx, name)
    this = corpus_table.c.corpus_id == row.corpus_id
    if not tx.core(sa.select(corpus_table.c.corpus_id).where(this).with_for_update()):
        raise CorpusNotFound(f"no corpus is called {name!r} any more: it was deleted meanwhile", name=name)
    spaces_of_corpus = spaces(tx, row.corpus_id)
    tx.run("delete_corpus_parts", {"corpus_id": row.corpus_id})
    tx.run("forget_corpus", {"corpus_id": row.corpus_id})
    tx.core(sa.delete(corpus_table).where(this))
    for space in spaces_of_corpus:
        tx.run("drop_space_partition", {"corpus_id": row.corpus_id, "space_id": space.space_id})


def create_space(
    tx: Transaction,
    corpus: CorpusRow,
    *,
    kind: Kind,
    model: str,
    dimensions: int,
    prompts: Mapping[str, str],
) -> SpaceRow:
    """Make the active space of a kind, with its partition; where another process was first, take its."""
    hold_corpus(tx, corpus.corpus_id)
    made = tx.core(
        insert(vector_space)
        .values(
            corpus_id=corpus.corpus_id,
            tenant_id=corpus.tenant_id,
            kind=kind,
            model=model,
            dimensions=dimensions,
            prompts=dict(prompts),
            active=True,
        )
        .on_conflict_do_nothing()
        .returning(vector_space.c.space_id)
    )
    for row in made:
        tx.run("create_space_partition", {"corpus_id": corpus.corpus_id, "space_id": row[0]})
    return active_space(tx, corpus.corpus_id, kind)


def spaces(tx: Transaction, corpus_id: int) -> list[SpaceRow]:
    """Every vector space of a corpus."""
    query = _spaces().where(vector_space.c.corpus_id == corpus_id).order_by(vector_space.c.space_id)
    return [_space(row) for row in tx.core(query)]


def find_active_space(tx: Transaction, corpus_id: int, kind: Kind) -> SpaceRow | None:
    """The space of a kind that searches use, or None."""
    query = _spaces().where(
        vector_space.c.corpus_id == corpus_id, vector_space.c.kind == kind, vector_space.c.active
    )
    rows = tx.core(query)
    return _space(rows[0]) if rows else None


def active_space(tx: Transaction, corpus_id: int, kind: Kind) -> SpaceRow:
    """The space of a kind that searches use.

    Raises:
        UsageError: the corpus has none, because nothing was ingested.
    """
    space = find_active_space(tx, corpus_id, kind)
    if space is None:
        raise UsageError(f"the corpus holds no {kind} vectors yet: ingest into it first")
    return space


def open_space(tx: Transaction, name: str, kind: Kind) -> tuple[CorpusRow, SpaceRow]:
    """A corpus with the space of a kind that searches use, in one statement.

    Raises:
        CorpusNotFound: no corpus has this name.
        UsageError: it has no such space, because nothing was ingested.
    """
    check_name(name)
    rows = tx.run("open_space", {"name": name, "kind": kind})
    if not rows or rows[0][6] is None:
        corpus = get_corpus(tx, name)
        return corpus, active_space(tx, corpus.corpus_id, kind)
    return _corpus(rows[0][:6]), _space((rows[0][0], *rows[0][6:]))


def check_space(space: SpaceRow, *, model: str, dimensions: int, prompts: Mapping[str, str]) -> None:
    """Refuse a model that did not make the vectors of a space.

    Raises:
        VectorSpaceMismatch: model, dimensions or prompts differ; the message names both of each.
    """
    if (space.model, space.dimensions) != (model, dimensions):
        stored, offered = f"{space.model} ({space.dimensions}-d)", f"{model} ({dimensions}-d)"
    elif dict(space.prompts) != dict(prompts):
        stored = f"{space.model} with prompts {dict(space.prompts)}"
        offered = f"{model} with prompts {dict(prompts)}"
    else:
        return
    raise VectorSpaceMismatch(
        f"the corpus was embedded with {stored} and is opened with {offered}: use the first one, "
        "or ingest into a new corpus",
        stored=stored,
        offered=offered,
    )


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a corpus.

    Raises:
        UsageError: it cannot.
    """
    if not name.strip() or "\0" in name or len(name) > 200 or well_formed(name) != name:
        raise UsageError(f"a corpus needs a name of 1 to 200 characters, not {name!r}")


def _corpora() -> sa.Select[Any]:
    c = corpus_table.c
    return sa.select(c.corpus_id, c.tenant_id, c.name, c.titles, c.extractor, c.language)


def _corpus(row: Any) -> CorpusRow:
    return CorpusRow(
        corpus_id=row[0], tenant_id=row[1], name=row[2], titles=row[3], extractor=row[4], language=row[5]
    )


def _spaces() -> sa.Select[Any]:
    c = vector_space.c
    index_name = sa.func.format("ix_embedding_%s_%s_hnsw", c.corpus_id, c.space_id)
    indexed = sa.func.to_regclass(index_name).is_not(None)
    return sa.select(c.corpus_id, c.space_id, c.kind, c.model, c.dimensions, c.prompts, c.active, indexed)


def _space(row: Any) -> SpaceRow:
    return SpaceRow(
        corpus_id=row[0],
        space_id=row[1],
        kind=row[2],
        model=row[3],
        dimensions=row[4],
        prompts=row[5],
        active=row[6],
        indexed=row[7],
    )
