"""Corpora and their vector spaces: single rows by key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from evireform.errors import (
    CorpusNotFound,
    CorpusSwitched,
    PermissionMissing,
    UsageError,
    VectorSpaceMismatch,
)
from evireform.records import CorpusRow, SpaceRow, Titles
from evireform.store.schema import corpus as corpus_table
from evireform.store.schema import entity, passage, tenant, tenant_member, vector_space
from evireform.wellformed import well_formed

if TYPE_CHECKING:
    from evireform.store.connection import Transaction

Kind = Literal["proposition", "passage"]
DEFAULT_TENANT = "default"

_GONE = "the corpus was deleted meanwhile: make it again and repeat"
_ACTIVE = vector_space.c.space_id.in_((corpus_table.c.proposition_space_id, corpus_table.c.passage_space_id))


def current_tenant(tx: Transaction) -> int:
    """The tenant that the transaction works for: the one that was named, else the only one of the role.

    Raises:
        UsageError: the role belongs to several, and none was named.
        PermissionMissing: it belongs to none, or not to the one that was named.
    """
    ((tenant_id, role, names),) = tx.run("tenants_of_role", {"tenant": tx.tenant})
    if tenant_id is not None:
        return int(tenant_id)
    own = ", ".join(map(repr, names))
    if not tx.tenant and names:
        raise UsageError(
            f"role {role!r} belongs to several tenants ({own}): name one (--tenant, or the setting `tenant`)"
        )
    problem = f"no tenant {tx.tenant!r} is" if tx.tenant else "there is no tenant"
    raise PermissionMissing(
        f"{problem} open to role {role!r}" + (f", which belongs to {own}" if own else ""),
        remedy="let the owner of the tables run `evireform tenant grant`, or connect as another role",
    )


def _of_tenant(tx: Transaction) -> sa.ColumnElement[bool]:
    """Whether a corpus belongs to the tenant that the transaction works for."""
    return corpus_table.c.tenant_id == sa.select(sa.func.current_tenant(tx.tenant)).scalar_subquery()


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
        .values(tenant_id=current_tenant(tx), name=name, titles=titles)
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
    rows = tx.core(_corpora().where(_of_tenant(tx), corpus_table.c.name == name))
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
    """Every corpus of the tenant by name.

    Raises:
        UsageError, PermissionMissing: as `current_tenant`.
    """
    found = corpora_of(tx, _of_tenant(tx))
    if not found:
        current_tenant(tx)
    return found


def corpora_of(tx: Transaction, condition: sa.ColumnElement[bool]) -> list[CorpusRow]:
    """The corpora of which a condition holds, by name."""
    query = _corpora().where(condition).order_by(corpus_table.c.name)
    return [_corpus(row) for row in tx.core(query)]


def is_there(tx: Transaction, corpus_id: int) -> bool:
    """Whether a corpus still exists, whatever its name."""
    return bool(corpora_of(tx, corpus_table.c.corpus_id == corpus_id))


def lock_extractor(tx: Transaction, corpus: CorpusRow) -> str:
    """What makes the propositions of a corpus by now, kept so until the transaction ends.

    It stands instead of `hold_named`, whose errors it has, for who is to record another extractor.
    """
    share_gate(tx, corpus.corpus_id)
    rows = tx.run("lock_extractor", {"corpus_id": corpus.corpus_id})
    if not rows:
        raise CorpusNotFound(_GONE)
    if rows[0][0] != corpus.name:
        raise _renamed(corpus, rows[0][0])
    return str(rows[0][1])


def set_extractor(tx: Transaction, corpus_id: int, extractor: str) -> None:
    """Record what makes the propositions of a corpus."""
    tx.core(sa.update(corpus_table).where(corpus_table.c.corpus_id == corpus_id).values(extractor=extractor))


def hold_corpus(tx: Transaction, corpus_id: int) -> str:
    """Keep a corpus from being deleted or renamed until the transaction ends: the first thing that a writer
    does.

    Returns:
        The name that it has by now.

    Raises:
        CorpusNotFound: it was deleted meanwhile.
    """
    share_gate(tx, corpus_id)
    rows = tx.run("hold_corpus", {"corpus_id": corpus_id})
    if not rows:
        raise CorpusNotFound(_GONE)
    return str(rows[0][0])


def lock_corpus(tx: Transaction, corpus_id: int) -> None:
    """Keep every writer out of a corpus until the transaction ends. Never after `hold_corpus`: two would wait
    for each other.

    Raises:
        CorpusNotFound: it was deleted meanwhile.
    """
    if not lock_corpora(tx, [corpus_id]):
        raise CorpusNotFound(_GONE)


def lock_corpora(tx: Transaction, corpus_ids: Sequence[int]) -> dict[int, str]:
    """`lock_corpus` for several at once. Returns the names that they have by now, of those that are there."""
    for corpus_id in sorted(corpus_ids):
        tx.run("close_gate", {"corpus_id": corpus_id})
        tx.gates.add(corpus_id)
    return {row[0]: row[1] for row in tx.run("lock_corpora", {"corpus_ids": list(corpus_ids)})}


def share_gate(tx: Transaction, corpus_id: int) -> None:
    """Stand in line with those who want the corpus alone; once a transaction, before its row is locked."""
    if corpus_id not in tx.gates:
        tx.run("share_gate", {"corpus_id": corpus_id})
        tx.gates.add(corpus_id)


def hold_named(tx: Transaction, corpus: CorpusRow, *, writing_to: SpaceRow | None = None) -> None:
    """`hold_corpus` for a writer who found the corpus by its name, and means whatever has the name.

    Args:
        tx: An open transaction.
        corpus: The corpus as it was found.
        writing_to: The space into which the vectors of new propositions go, where there are any.

    Raises:
        CorpusNotFound: it was deleted meanwhile.
        CorpusSwitched: another generation has its name by now (see `evireform.generations`).
        VectorSpaceMismatch: another space is the active one by now.
    """
    share_gate(tx, corpus.corpus_id)
    rows = tx.run("hold_corpus", {"corpus_id": corpus.corpus_id})
    if not rows:
        raise CorpusNotFound(_GONE)
    now, space_id = rows[0]
    if now != corpus.name:
        raise _renamed(corpus, now)
    if writing_to is not None and space_id != writing_to.space_id:
        raise switched(tx, writing_to)


def _renamed(corpus: CorpusRow, now: str) -> CorpusSwitched:
    return CorpusSwitched(
        f"corpus {corpus.name!r} was switched to another generation meanwhile (this one is called "
        f"{now!r} now): repeat it, and it goes on in the new one",
        name=corpus.name,
    )


def find_locked(tx: Transaction, name: str) -> CorpusRow:
    """The corpus that has this name, with every writer kept out of it until the transaction ends.

    Raises:
        CorpusNotFound: there is none.
        CorpusSwitched: another generation took its name while it waited for the writers.
    """
    row = get_corpus(tx, name)
    lock_corpus(tx, row.corpus_id)
    if (now := get_corpus(tx, name)).corpus_id != row.corpus_id:
        raise CorpusSwitched(
            f"corpus {name!r} was switched to another generation meanwhile: repeat it", name=name
        )
    return now


def delete_corpus(tx: Transaction, name: str) -> None:
    """Delete a corpus with everything in it, after the transactions that write into it have ended.

    What its model calls cost stays in the ledger, under its name; what models answered goes.

    Raises:
        CorpusNotFound: no corpus has this name.
        CorpusSwitched: another generation took the name meanwhile.
    """
    delete_found_corpus(tx, get_corpus(tx, name))


def delete_found_corpus(tx: Transaction, row: CorpusRow) -> None:
    """Delete a corpus that was looked up, after the transactions that write into it have ended.

    Its shadow is locked with it, in the order of their ids, for in the end it shadows nothing. The partitions
    go late, because dropping one keeps every search waiting until the transaction ends, but while the corpus
    is there: whose they are is asked of it.

    Raises:
        CorpusNotFound: it was deleted meanwhile.
        CorpusSwitched: another generation took its name meanwhile.
    """
    name = row.name
    this = corpus_table.c.corpus_id == row.corpus_id
    now = _lock_with_shadow(tx, row.corpus_id)
    if now is None:
        raise CorpusNotFound(f"no corpus is called {name!r} any more: it was deleted meanwhile", name=name)
    if now != name:
        raise CorpusSwitched(
            f"corpus {name!r} was switched to another generation meanwhile: repeat it", name=name
        )
    space_ids = [found[0] for found in tx.run("partitions_of_corpus", {"corpus_id": row.corpus_id})]
    tx.run("delete_corpus_parts", {"corpus_id": row.corpus_id})
    tx.run("forget_corpus", {"corpus_id": row.corpus_id})
    tx.core(sa.delete(passage).where(passage.c.corpus_id == row.corpus_id))
    tx.core(sa.delete(entity).where(entity.c.corpus_id == row.corpus_id))
    for space_id in space_ids:
        tx.run("drop_space_partition", {"corpus_id": row.corpus_id, "space_id": space_id})
    tx.core(sa.delete(corpus_table).where(this))


def _lock_with_shadow(tx: Transaction, corpus_id: int) -> str | None:
    """Lock a corpus and what points at it as its shadow. Returns its name; None where it is gone."""
    shadows = sa.select(corpus_table.c.corpus_id).where(corpus_table.c.shadow_of == corpus_id)
    locked: set[int] = set()
    name: str | None = None
    while not (wanted := {corpus_id, *(found[0] for found in tx.core(shadows))}) <= locked:
        # The second time it is for a shadow that was made meanwhile, whose id is the higher one.
        name = lock_corpora(tx, sorted(wanted)).get(corpus_id)
        locked |= wanted
    return name


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
    lock_corpus(tx, corpus.corpus_id)
    if find_active_space(tx, corpus.corpus_id, kind) is None:
        space_id = add_space(tx, corpus, kind=kind, model=model, dimensions=dimensions, prompts=prompts)
        point_at_spaces(tx, corpus.corpus_id, {kind: space_id})
    return active_space(tx, corpus.corpus_id, kind)


def add_space(
    tx: Transaction,
    corpus: CorpusRow,
    *,
    kind: Kind,
    model: str,
    dimensions: int,
    prompts: Mapping[str, str],
) -> int:
    """Make a space with its partition that no search uses yet. Returns its id."""
    made = tx.core(
        insert(vector_space)
        .values(
            corpus_id=corpus.corpus_id,
            tenant_id=corpus.tenant_id,
            kind=kind,
            model=model,
            dimensions=dimensions,
            prompts=dict(prompts),
        )
        .returning(vector_space.c.space_id)
    )
    space_id = int(made[0][0])
    tx.run("create_space_partition", {"corpus_id": corpus.corpus_id, "space_id": space_id})
    return space_id


def point_at_spaces(tx: Transaction, corpus_id: int, space_ids: Mapping[Kind, int]) -> None:
    """Make these the active spaces of their kinds, all at once; after `lock_corpus`."""
    both = {"proposition": space_ids.get("proposition"), "passage": space_ids.get("passage")}
    tx.run("point_at_spaces", {"corpus_id": corpus_id, **both})


def spaces(tx: Transaction, corpus_id: int) -> list[SpaceRow]:
    """Every vector space of a corpus."""
    query = _spaces().where(vector_space.c.corpus_id == corpus_id).order_by(vector_space.c.space_id)
    return [_space(row) for row in tx.core(query)]


def find_active_space(tx: Transaction, corpus_id: int, kind: Kind) -> SpaceRow | None:
    """The space of a kind that searches use, or None."""
    c = vector_space.c
    rows = tx.core(_spaces().where(c.corpus_id == corpus_id, c.kind == kind, _ACTIVE))
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
    rows = tx.run("open_space", {"tenant": tx.tenant, "name": name, "kind": kind})
    if not rows or rows[0][6] is None:
        corpus = get_corpus(tx, name)
        return corpus, active_space(tx, corpus.corpus_id, kind)
    *found, deletions = rows[0]
    return _corpus((*found[:6], deletions)), _space((found[0], *found[6:]))


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
        f"the {space.kind}s of the corpus were embedded with {stored} and are opened with {offered}: "
        "use the first one, or embed them again with `evireform space build`",
        stored=stored,
        offered=offered,
    )


def require_space(tx: Transaction, space: SpaceRow) -> None:
    """Tell a space that holds nothing from one that is gone, also to a snapshot that is older than the drop.

    Raises:
        VectorSpaceMismatch: it was dropped.
    """
    if not tx.run("space_is_there", {"corpus_id": space.corpus_id, "space_id": space.space_id})[0][0]:
        raise VectorSpaceMismatch(
            f"the {space.kind} vectors of {space.model} ({space.dimensions}-d) were dropped meanwhile: "
            "begin again with the model that the corpus has now",
            offered=f"{space.model} ({space.dimensions}-d)",
        )


def switched(tx: Transaction, space: SpaceRow) -> VectorSpaceMismatch:
    """The error of who goes on with a space that is not active any more, or gone; it names both models."""
    offered = f"{space.model} ({space.dimensions}-d)"
    now = find_active_space(tx, space.corpus_id, space.kind)
    if now is None:
        return VectorSpaceMismatch("the vectors are gone: the corpus was deleted meanwhile", offered=offered)
    stored = f"{now.model} ({now.dimensions}-d)"
    return VectorSpaceMismatch(
        f"the corpus was switched from {offered} to {stored} meanwhile: begin again with the second one",
        stored=stored,
        offered=offered,
    )


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a corpus.

    Raises:
        UsageError: it cannot.
    """
    if not name.strip() or "\0" in name or len(name) > 200 or well_formed(name) != name:
        raise UsageError(f"a corpus needs a name of 1 to 200 characters, not {name[:50]!r}")


def _corpora() -> sa.Select[Any]:
    c = corpus_table.c
    return sa.select(c.corpus_id, c.tenant_id, c.name, c.titles, c.extractor, c.language, c.deletions)


def _corpus(row: Any) -> CorpusRow:
    return CorpusRow(
        corpus_id=row[0],
        tenant_id=row[1],
        name=row[2],
        titles=row[3],
        extractor=row[4],
        language=row[5],
        deletions=row[6],
    )


def _spaces() -> sa.Select[Any]:
    c = vector_space.c
    index_name = sa.func.format("ix_embedding_%s_%s_hnsw", c.corpus_id, c.space_id)
    indexed = sa.func.to_regclass(index_name).is_not(None)
    active = sa.func.coalesce(_ACTIVE, False)
    return sa.select(
        c.corpus_id, c.space_id, c.kind, c.model, c.dimensions, c.prompts, active, indexed
    ).join_from(vector_space, corpus_table, corpus_table.c.corpus_id == c.corpus_id)


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
