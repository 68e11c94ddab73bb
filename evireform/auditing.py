"""Verification: does the index follow from what it derives from? What does not is said, and mended.

Passages with their propositions and mentions are the truth, and so are the decisions about entities. All else
is compared with what they say, both ways, in the database and one corpus at a time, so that memory does not
grow. A repair makes the derived tables follow; it never changes the truth.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

from evireform import spaces
from evireform.embedding import Encoder
from evireform.errors import CorpusNotFound, ModelUnavailable, PermissionMissing, VectorSpaceMismatch
from evireform.records import CorpusRow, Finding, SpaceRow, Verification
from evireform.store import audit, corpora, entities
from evireform.store.audit import Look
from evireform.store.connection import Store, Transaction

Progress = Callable[[str, int, int], None]
"""Called with a corpus, the checks of it that were done since the last call, and how many there are."""

MEND = "evireform verify --repair mends it"
AGAIN = "delete these passages and ingest them again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What is compared, in words; its statement, the one that mends it, and what can be done without one."""

    name: str
    statement: str
    mend: str = ""
    remedy: str = MEND


OF_A_CORPUS = (
    Check(name="rows that belong to nothing", statement="audit_unowned", mend="mend_unowned"),
    Check(name="mentions of no entity", statement="audit_unnamed", remedy=AGAIN),
    Check(name="propositions of a passage", statement="audit_propositions", remedy=AGAIN),
    Check(name="incidence", statement="audit_incidence", mend="mend_incidence"),
    Check(name="surface forms", statement="audit_entity_forms", mend="mend_entity_forms"),
    Check(name="counts of passages", statement="audit_passage_entities", mend="mend_passage_entities"),
    Check(name="degrees, weights and names", statement="audit_entities", mend="mend_entities"),
    Check(name="metadata to filter by", statement="audit_metadata", mend="derive_metadata"),
)
"""In the order in which they are mended: each builds on those before it."""

OF_A_SPACE = (
    Check(name="partition of a vector space", statement="audit_partition", mend="create_space_partition"),
    Check(name="vectors of nothing", statement="audit_surplus_vectors", mend="mend_surplus_vectors"),
)
MISSING = Check(name="propositions without a vector", statement="audit_missing_vectors")
ENTITIES = "entities that mentions stand for"
ORPHANS = "rows of no corpus"
STRAY = "partitions of no vector space"


def verify(
    store: Store,
    corpus_names: Sequence[str],
    *,
    encoder: Callable[[], Encoder],
    beyond: bool = False,
    repair: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Compare what derives with what it derives from.

    Each corpus is looked at in one snapshot, while others write. In a repair its writers wait; searches do
    not. What is deleted meanwhile, a corpus or a vector space, is not wrong.

    Args:
        store: The database.
        corpus_names: Corpora to look at.
        encoder: Gives the embedding model; asked only where vectors are missing and are to be made again.
        beyond: Also look for rows and partitions of no corpus, and pass over a corpus that is gone.
        repair: Mend what can be mended.
        progress: Called after every check.

    Raises:
        CorpusNotFound: there is no such corpus.
        DatabaseError: the server refused a statement.
    """
    started = time.perf_counter()
    findings: list[Finding] = []
    for name in corpus_names:
        with suppress(CorpusNotFound) if beyond else nullcontext():
            findings += _corpus(store, name, encoder=encoder, repair=repair, progress=progress)
    if beyond:
        findings += _beyond(store, repair=repair)
    return Verification(
        corpora=tuple(corpus_names), findings=tuple(findings), seconds=time.perf_counter() - started
    )


def _corpus(
    store: Store,
    name: str,
    *,
    encoder: Callable[[], Encoder],
    repair: bool,
    progress: Progress | None,
) -> list[Finding]:
    found: list[Finding] = []
    of_spaces: list[tuple[SpaceRow, Finding]] = []

    def done(*seen: Finding | None) -> None:
        found.extend(finding for finding in seen if finding is not None)
        if progress:
            progress(name, 1, len(OF_A_CORPUS) + 3)

    # An audit takes the time that it takes.
    with store.transaction(read_only=not repair, snapshot=not repair, statement_timeout_s=0) as tx:
        corpus = corpora.get_corpus(tx, name)
        if repair:
            corpora.lock_corpus(tx, corpus.corpus_id)
        for check in OF_A_CORPUS:
            done(_compared(tx, check, corpus, repair=repair))
        done(_entities(tx, corpus, repair=repair))
        for space in corpora.spaces(tx, corpus.corpus_id):
            of_spaces += _of_space(tx, corpus, space, repair=repair)
        done()
    if repair:
        of_spaces = [
            (space, _filled(store, corpus, space, seen, encoder) if seen.check == MISSING.name else seen)
            for space, seen in of_spaces
        ]
    elif found or of_spaces:
        # Dropping a partition reaches into a snapshot: what is gone by now is not wrong.
        with store.transaction(read_only=True) as tx:
            if not corpora.is_there(tx, corpus.corpus_id):
                found.clear()
            there = {space.space_id for space in corpora.spaces(tx, corpus.corpus_id)}
        of_spaces = [(space, seen) for space, seen in of_spaces if space.space_id in there]
    done(*(seen for _, seen in of_spaces))
    return found


def _of_space(
    tx: Transaction, corpus: CorpusRow, space: SpaceRow, *, repair: bool
) -> list[tuple[SpaceRow, Finding]]:
    seen = [_compared(tx, check, corpus, space, repair=repair) for check in OF_A_SPACE]
    # Only this one is promised to be whole: others are from before a switch, or filled when needed.
    if space.active and space.kind == "proposition":
        seen.append(_compared(tx, MISSING, corpus, space, repair=False))
    return [(space, finding) for finding in seen if finding is not None]


def _compared(
    tx: Transaction, check: Check, corpus: CorpusRow, space: SpaceRow | None = None, *, repair: bool
) -> Finding | None:
    """Look, mend where something is wrong, and look again."""
    parameters: dict[str, Any] = {"corpus_id": corpus.corpus_id, "passage_ids": None}  # of all passages
    if space is not None:
        parameters |= {"space_id": space.space_id, "kind": space.kind}
    look = audit.look(tx, check.statement, parameters)
    mended = False
    if look.wrong and repair and check.mend:
        audit.mend(tx, check.mend, parameters)
        mended = not audit.look(tx, check.statement, parameters).wrong
    return _finding(check.name, corpus.name, look, check.remedy, mended=mended)


def _finding(check: str, corpus: str, look: Look, remedy: str, *, mended: bool = False) -> Finding | None:
    if not look.wrong:
        return None
    return Finding(
        check=check,
        corpus=corpus,
        wrong=look.wrong,
        examples=look.examples,
        remedy="" if mended else remedy,
        mended=mended,
    )


def _entities(tx: Transaction, corpus: CorpusRow, *, repair: bool) -> Finding | None:
    """Mentions that stand for another entity than their form, and what was decided about it, say."""
    wrong: Counter[str] = Counter()
    examples: list[str] = []
    for canonical, mentions, said in audit.misnamed(tx, corpus.corpus_id):
        wrong[canonical] += mentions
        examples += [said] if len(examples) < audit.EXAMPLES else []
    look = Look(wrong=wrong.total(), examples=tuple(examples))
    if wrong and repair:
        for canonical in sorted(wrong):
            entities.move_mentions(tx, corpus, canonical)
    mended = repair and not any(audit.misnamed(tx, corpus.corpus_id))
    return _finding(ENTITIES, corpus.name, look, MEND, mended=mended)


def _filled(
    store: Store, corpus: CorpusRow, space: SpaceRow, finding: Finding, encoder: Callable[[], Encoder]
) -> Finding:
    """Make missing vectors again, where the configured model is the one that made the others."""
    try:
        model = encoder()
        corpora.check_space(space, model=model.model, dimensions=model.dimensions, prompts=model.prompts)
    except (ModelUnavailable, VectorSpaceMismatch) as error:
        return replace(finding, remedy=f"set the embedding model to {space.model}, and repair again: {error}")
    spaces.fill(store, corpus, space, model)
    with store.transaction(read_only=True, statement_timeout_s=0) as tx:
        left = _compared(tx, MISSING, corpus, space, repair=False)
    return replace(finding, mended=left is None, remedy=left.remedy if left else "")


def _beyond(store: Store, *, repair: bool) -> list[Finding]:
    """What belongs to no corpus: rows that a partial restore left, partitions of lost spaces."""
    with store.transaction(read_only=True, statement_timeout_s=0) as tx:
        orphans = audit.look(tx, "audit_orphans", {})
        strays = audit.stray_partitions(tx)
    remedy = "delete them by hand: nothing reads them"
    found = [_finding(ORPHANS, "", orphans, remedy)]
    examples = tuple(f"embedding_{corpus_id}_{space_id}" for corpus_id, space_id in strays)
    look, mended = Look(wrong=len(strays), examples=examples[: audit.EXAMPLES]), False
    if strays and repair:
        try:
            with store.transaction() as tx:
                for corpus_id, space_id in strays:
                    audit.mend(tx, "drop_space_partition", {"corpus_id": corpus_id, "space_id": space_id})
            mended = True
        except PermissionMissing as error:
            remedy = f"drop them as the owner of the tables: {error}"
    found.append(_finding(STRAY, "", look, remedy if repair else MEND, mended=mended))
    return [finding for finding in found if finding is not None]
