"""Entities: which one each mention stands for, what they hold, and what operators decided about them.

A mention stands for the entity of its canonical form, unless it was decided otherwise: a decision sends a
canonical form to another one, everywhere or in one passage. Writers read the decisions in the transaction in
which they write, so that the index follows from passages and decisions, in whatever order both came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from evireform.canonical import canonical as folded
from evireform.records import (
    EntityDecision,
    EntityForm,
    EntityLogEntry,
    EntityNeighbour,
    EntityPassage,
)
from evireform.store.schema import entity_decision, entity_log

if TYPE_CHECKING:
    from evireform.records import CorpusRow
    from evireform.store.connection import Transaction
    from evireform.store.writing import PreparedPassage

EVERYWHERE = ""
"""In place of a passage's key: the decision holds in every passage."""


@dataclass(frozen=True, slots=True)
class Decisions:
    """Decisions about entities, by (canonical form, passage key)."""

    targets: Mapping[tuple[str, str], str]

    def way(self, canonical: str, passage_key: str = EVERYWHERE) -> list[str]:
        """A name, what it stands for (everywhere, or first in a passage), what that stands for, and so on.

        >>> decisions = Decisions({("a", ""): "b", ("b", ""): "c", ("b", "k"): "d"})
        >>> decisions.way("a"), decisions.way("a", "k")
        (['a', 'b', 'c'], ['a', 'b', 'd'])
        """
        names = [canonical]
        while (target := self._next(names[-1], passage_key)) and target not in names:
            names.append(target)
        return names

    def _next(self, canonical: str, passage_key: str) -> str:
        everywhere = self.targets.get((canonical, EVERYWHERE), "")
        return self.targets.get((canonical, passage_key), everywhere)

    def root(self, canonical: str) -> str:
        """What a name stands for, in a passage about which nothing was decided."""
        return self.way(canonical)[-1]

    def entity(self, canonical: str, passage_key: str) -> str:
        """What a name stands for in a passage: the first name on its way that is another there turns off.

        >>> decisions = Decisions({("j. smith", ""): "john smith", ("john smith", "k"): "the other smith"})
        >>> decisions.entity("j. smith", "k"), decisions.entity("j. smith", "l")
        ('the other smith', 'john smith')
        """
        way = self.way(canonical)
        turns = [self.targets[name, passage_key] for name in way if (name, passage_key) in self.targets]
        return self.root(turns[0]) if passage_key and turns else way[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityRow:
    """An entity as the database knows it."""

    entity_id: int
    canonical: str
    display: str
    degree: int
    max_weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Propositions and passages in which mentions began to stand for another entity."""

    propositions: int = 0
    passages: int = 0


def read_decisions(
    tx: Transaction, corpus_id: int, canonicals: Iterable[str], passage_keys: Iterable[str] | None = None
) -> Decisions:
    """The decisions that tell what these names stand for, in some passages, or (None) in any."""
    parameters = {
        "corpus_id": corpus_id,
        "canonicals": sorted(canonicals),
        "passage_keys": [EVERYWHERE, *(passage_keys or ())],
        "all_passages": passage_keys is None,
    }
    return Decisions({(row[0], row[1]): row[2] for row in tx.run("entity_decisions", parameters)})


def resolved(tx: Transaction, corpus_id: int, batch: Sequence[PreparedPassage]) -> list[PreparedPassage]:
    """Passages whose mentions stand for what was decided. The caller holds the corpus."""
    names = {name for passage in batch for part in passage.propositions for _, name in part.mentions}
    decisions = read_decisions(tx, corpus_id, names, [prepared.passage.key for prepared in batch])
    if not decisions.targets:
        return list(batch)
    return [
        replace(
            prepared,
            propositions=tuple(
                replace(
                    part,
                    mentions=tuple(
                        (form, decisions.entity(name, prepared.passage.key)) for form, name in part.mentions
                    ),
                )
                for part in prepared.propositions
            ),
        )
        for prepared in batch
    ]


def claim_entities(
    tx: Transaction, corpus: CorpusRow, canonicals: Iterable[str], old_passage_ids: Sequence[int] = ()
) -> dict[str, int]:
    """Insert what is missing, lock all in one order, and give their ids."""
    parameters = {
        "corpus_id": corpus.corpus_id,
        "canonicals": sorted(canonicals),
        "passage_ids": list(old_passage_ids),
    }
    tx.run("insert_entities", {**parameters, "tenant_id": corpus.tenant_id})
    return {row[1]: row[0] for row in tx.run("lock_entities", parameters)}


def settle_entities(tx: Transaction, corpus_id: int, differences: Mapping[int, int]) -> None:
    """Bring degree, display name and largest weight of the touched entities up to date; drop the unused."""
    if not differences:
        return
    touched = sorted(differences)
    tx.run("drop_unused_forms", {"corpus_id": corpus_id, "entity_ids": touched})
    tx.run(
        "settle_entities",
        {
            "corpus_id": corpus_id,
            "entity_ids": touched,
            "differences": [differences[entity_id] for entity_id in touched],
        },
    )
    tx.run("drop_unused_entities", {"corpus_id": corpus_id, "entity_ids": touched})


def move_mentions(tx: Transaction, corpus: CorpusRow, canonical: str) -> Moved:
    """Let every mention of an entity stand for what is decided now, with all that derives from it.

    The caller has the corpus to itself. Nothing happens where there is no such entity, or all is as it is
    decided.
    """
    there = find_entities(tx, corpus.corpus_id, [canonical]).get(canonical)
    if there is None:
        return Moved()
    names = {form.form: folded(form.form) for form in entity_forms(tx, corpus.corpus_id, there.entity_id)}
    decisions = read_decisions(tx, corpus.corpus_id, set(names.values()))
    target = {form: decisions.root(name) for form, name in names.items()}
    passage_keys = {key for _, key in decisions.targets if key}
    exceptions = [
        (key, form, other)
        for key in sorted(passage_keys)
        for form, name in names.items()
        if (other := decisions.entity(name, key)) != target[form]
    ]
    wanted = {*target.values(), *(other for _, _, other in exceptions)}
    entity_ids = claim_entities(tx, corpus, {canonical, *wanted})
    rows = tx.run(
        "move_mentions",
        {
            "corpus_id": corpus.corpus_id,
            "tenant_id": corpus.tenant_id,
            "entity_id": there.entity_id,
            "forms": list(target),
            "form_entity_ids": [entity_ids[name] for name in target.values()],
            "exception_keys": [key for key, _, _ in exceptions],
            "exception_forms": [form for _, form, _ in exceptions],
            "exception_entity_ids": [entity_ids[other] for _, _, other in exceptions],
        },
    )
    differences = Counter(dict.fromkeys(entity_ids.values(), 0))
    moved = Moved()
    for entity_id, number, passages in rows:
        if entity_id is None:
            moved = Moved(propositions=number, passages=passages)
        else:
            differences[entity_id] += number
    settle_entities(tx, corpus.corpus_id, differences)
    return moved


def decide(
    tx: Transaction, corpus: CorpusRow, canonical: str, target: str, *, passage_key: str = EVERYWHERE
) -> EntityLogEntry:
    """Keep and log a decision about a name; the index follows with `move_mentions`."""
    what = {"canonical": canonical, "target": target, "passage_key": passage_key}
    whose = {"corpus_id": corpus.corpus_id, "tenant_id": corpus.tenant_id}
    tx.core(sa.insert(entity_decision).values(**whose, **what))
    return _write_down(tx, corpus, {**what, "action": "split" if passage_key else "merge"})


def take_back(
    tx: Transaction, corpus: CorpusRow, canonical: str, target: str, *, passage_key: str = EVERYWHERE
) -> EntityLogEntry:
    """Drop a decision and log that; the index follows with `move_mentions`."""
    c = entity_decision.c
    this = (c.corpus_id == corpus.corpus_id, c.canonical == canonical, c.passage_key == passage_key)
    tx.core(sa.delete(entity_decision).where(*this))
    what = {"canonical": canonical, "target": target, "passage_key": passage_key}
    return _write_down(tx, corpus, {**what, "action": "merge" if passage_key else "split"})


def _write_down(tx: Transaction, corpus: CorpusRow, what: Mapping[str, str]) -> EntityLogEntry:
    whose = {"corpus_id": corpus.corpus_id, "tenant_id": corpus.tenant_id}
    c = entity_log.c
    made = sa.insert(entity_log).values(**whose, **what)
    return _log_entry(
        tx.core(
            made.returning(
                c.log_id, c.action, c.canonical, c.target, c.passage_key, c.decided_by, c.decided_at
            )
        )[0]
    )


def forget_decisions(tx: Transaction, corpus_id: int, passage_keys: Sequence[str]) -> None:
    """Drop what was decided about passages that are deleted, and the log of it."""
    tx.run("forget_decisions", {"corpus_id": corpus_id, "passage_keys": list(passage_keys)})


def entity_tree(tx: Transaction, corpus_id: int, canonical: str) -> list[str]:
    """Every name that stands for one, itself included, by decisions that hold everywhere."""
    return [row[0] for row in tx.run("entity_tree", {"corpus_id": corpus_id, "canonical": canonical})]


def decisions_about(tx: Transaction, corpus_id: int, canonicals: Sequence[str]) -> list[EntityDecision]:
    """The decisions that names are part of, on either side."""
    rows = tx.run("decisions_about", {"corpus_id": corpus_id, "canonicals": list(canonicals)})
    return [
        EntityDecision(
            canonical=row[0], target=row[1], passage_key=row[2], decided_by=row[3], decided_at=row[4]
        )
        for row in rows
    ]


def log_entries(
    tx: Transaction, corpus_id: int, canonicals: Sequence[str] | None = None, *, fetch: int
) -> list[EntityLogEntry]:
    """The newest entries of the log, about some names or (None) about any."""
    parameters = {"canonicals": list(canonicals or ()), "all_names": canonicals is None, "fetch": fetch}
    rows = tx.run("entity_log", {"corpus_id": corpus_id, **parameters})
    return [_log_entry(row) for row in rows]


def _log_entry(row: Sequence[Any]) -> EntityLogEntry:
    return EntityLogEntry(
        log_id=row[0],
        action=row[1],
        canonical=row[2],
        target=row[3],
        passage_key=row[4],
        decided_by=row[5],
        decided_at=row[6],
    )


def find_entities(tx: Transaction, corpus_id: int, canonicals: Iterable[str]) -> dict[str, EntityRow]:
    """Entities by canonical form; a form that nothing is named by is left out."""
    rows = tx.run("find_entities", {"corpus_id": corpus_id, "canonicals": sorted(canonicals)})
    return {
        row[0]: EntityRow(
            canonical=row[0], entity_id=row[1], display=row[2], degree=row[3], max_weight=row[4]
        )
        for row in rows
    }


def near_entities(tx: Transaction, corpus_id: int, canonical: str, *, fetch: int) -> list[str]:
    """Entities that share a word or a beginning with a name, the most named first."""
    parameters = {"beginning": canonical[:3], "words": canonical.split(" "), "fetch": fetch}
    return [row[0] for row in tx.run("near_entities", {"corpus_id": corpus_id, **parameters})]


def entity_names(tx: Transaction, corpus_id: int) -> dict[str, int]:
    """Every entity with the number of propositions that name it, the most named first."""
    return {row[0]: row[1] for row in tx.run("entity_names", {"corpus_id": corpus_id})}


def entity_forms(tx: Transaction, corpus_id: int, entity_id: int) -> list[EntityForm]:
    """The surface forms of an entity, the most frequent first."""
    rows = tx.run("entity_forms", {"corpus_id": corpus_id, "entity_id": entity_id})
    return [EntityForm(form=row[0], mentions=row[1]) for row in rows]


def entity_passages(
    tx: Transaction, corpus_id: int, entity_id: int, *, fetch: int
) -> tuple[list[EntityPassage], int]:
    """The passages that name an entity most, and how many name it."""
    rows = tx.run("entity_passages", {"corpus_id": corpus_id, "entity_id": entity_id, "fetch": fetch})
    passages = [
        EntityPassage(passage_key=row[0], title=row[1], propositions=row[2], passage_size=row[3])
        for row in rows
    ]
    return passages, rows[0][4] if rows else 0


def entity_neighbours(
    tx: Transaction, corpus_id: int, entity_id: int, *, fetch: int
) -> tuple[list[EntityNeighbour], int]:
    """The entities that share most propositions with an entity, and how many share any."""
    rows = tx.run("entity_neighbours", {"corpus_id": corpus_id, "entity_id": entity_id, "fetch": fetch})
    neighbours = [
        EntityNeighbour(canonical=row[0], display=row[1], degree=row[2], shared=row[3]) for row in rows
    ]
    return neighbours, rows[0][4] if rows else 0


def passages_naming(
    tx: Transaction, corpus_id: int, passage_keys: Sequence[str], canonicals: Sequence[str]
) -> set[str]:
    """Which of some passages name any of some entities."""
    parameters = {"passage_keys": list(passage_keys), "canonicals": list(canonicals)}
    return {row[0] for row in tx.run("passages_naming", {"corpus_id": corpus_id, **parameters})}
