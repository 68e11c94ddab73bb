"""The audit of what derives, one look at a time, and what mends it; `evireform.auditing` orders them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evireform.canonical import canonical as folded
from evireform.store import entities

if TYPE_CHECKING:
    from evireform.store.connection import Transaction

EXAMPLES = 5
"""Wrong rows of a check that are shown."""

_PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a check found: how many rows are wrong, and some of them in words."""

    wrong: int = 0
    examples: tuple[str, ...] = ()


def look(tx: Transaction, statement: str, parameters: Mapping[str, Any]) -> Look:
    """Run one of the ``audit_`` statements."""
    rows = tx.run(statement, {**parameters, "fetch": EXAMPLES})
    return Look(wrong=rows[0][0], examples=tuple(row[1] for row in rows)) if rows else Look()


def mend(tx: Transaction, statement: str, parameters: Mapping[str, Any]) -> None:
    """Run a ``mend_`` statement, or another that makes a table follow. The caller has locked the corpus."""
    tx.run(statement, parameters)


def misnamed(tx: Transaction, corpus_id: int) -> Iterator[tuple[str, int, str]]:
    """Mentions that stand for another entity than their form and the operators' decisions say.

    Reads the surface forms of the corpus in pages, and where one is wrong, or was decided about in single
    passages, in which passages it is mentioned.

    Yields:
        The canonical form of an entity, how many mentions of a form stand for it wrongly, and that in words.
    """
    entity_id, form = 0, ""
    while True:
        page = tx.run(
            "named_forms", {"corpus_id": corpus_id, "entity_id": entity_id, "form": form, "fetch": _PAGE}
        )
        if not page:
            return
        names = {row[1]: folded(row[1]) for row in page}
        decisions = entities.read_decisions(tx, corpus_id, set(names.values()))
        alone = any(passage_key for _, passage_key in decisions.targets)
        for entity_id, form, stands_for in page:
            if stands_for is None or (decisions.root(names[form]) == stands_for and not alone):
                continue  # a mention of no entity is another check's
            wrong: defaultdict[str, int] = defaultdict(int)
            for passage_key, mentions in tx.run(
                "form_passages", {"corpus_id": corpus_id, "entity_id": entity_id, "form": form}
            ):
                meant = decisions.entity(names[form], passage_key)
                if meant != stands_for:
                    wrong[meant] += mentions
            for meant, mentions in wrong.items():
                yield stands_for, mentions, f"{form} stands for {stands_for}, not for {meant}"


def stray_partitions(tx: Transaction) -> list[tuple[int, int]]:
    """Corpus and space of every partition whose space is not there."""
    return [(row[0], row[1]) for row in tx.run("stray_partitions", {})]
