"""Generations of a corpus: one that serves under its name, and a shadow beside it that may take the name."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from evireform.errors import CorpusNotFound, CorpusSwitched, ExtractorMismatch, UsageError
from evireform.records import CorpusRow, Passage, Titles
from evireform.store import corpora
from evireform.store.schema import corpus as corpus_table

if TYPE_CHECKING:
    from evireform.store.connection import Transaction

PRINTS = 2_000
"""Fingerprints that are fetched together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Print:
    """A passage by key, its title, text and metadata as a fingerprint, and whether its extraction failed."""

    passage_key: str
    content: bytes
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Decision:
    """Mentions of one canonical form stand for the entity of another: in one passage, or (empty) all."""

    canonical: str
    passage_key: str
    target: str


def find_shadow(tx: Transaction, corpus: CorpusRow) -> CorpusRow | None:
    """The corpus that is to replace this one, or None."""
    query = sa.select(corpus_table.c.name).where(corpus_table.c.shadow_of == corpus.corpus_id)
    names = tx.core(query)
    return corpora.get_corpus(tx, names[0][0]) if names else None


def find_served(tx: Transaction, corpus: CorpusRow) -> str:
    """Name of the corpus whose shadow this one is; empty where it is none."""
    served = corpus_table.alias("served")
    query = sa.select(served.c.name).where(
        corpus_table.c.corpus_id == corpus.corpus_id, served.c.corpus_id == corpus_table.c.shadow_of
    )
    names = tx.core(query)
    return str(names[0][0]) if names else ""


def others(tx: Transaction, corpus: CorpusRow) -> list[CorpusRow]:
    """The corpus that is to replace this one, or that this one is to replace."""
    shadow, served = find_shadow(tx, corpus), find_served(tx, corpus)
    return [*([shadow] if shadow else []), *([corpora.get_corpus(tx, served)] if served else [])]


def other_extractor(
    serving_name: str, shadow_name: str, *, extractor: str, offered: str
) -> ExtractorMismatch:
    """The error of who would extract a shadow with another extractor than its own."""
    return ExtractorMismatch(
        f"{shadow_name!r} was extracted by {extractor}, and {offered} is set now: a generation has one "
        "extractor, so set that one again, or drop it first (`evireform generation drop --corpus "
        f"{serving_name}`)"
    )


def served(tx: Transaction) -> list[str]:
    """Names of the corpora that have a shadow."""
    query = sa.select(corpus_table.c.shadow_of).where(corpus_table.c.shadow_of.is_not(None))
    corpus_ids = {row[0] for row in tx.core(query)}
    return [row.name for row in corpora.list_corpora(tx) if row.corpus_id in corpus_ids]


def make_shadow(tx: Transaction, serving: CorpusRow, name: str, *, titles: Titles) -> CorpusRow:
    """A new corpus that is to replace one; where another process made one first, that.

    Raises:
        UsageError: the name is taken, or cannot be one.
    """
    lock(tx, serving)
    if (made := find_shadow(tx, serving)) is not None:
        return made
    refuse_taken(tx, name)
    shadow = corpora.create_corpus(tx, name, titles=titles)
    _update(tx, shadow, shadow_of=serving.corpus_id)
    return shadow


def refuse_taken(tx: Transaction, name: str) -> None:
    """Refuse a name that a corpus has already.

    Raises:
        UsageError: one has it, or none can.
    """
    if corpora.find_corpus(tx, name) is not None:
        raise UsageError(f"there is a corpus called {name!r} already: choose another name")


def lock(tx: Transaction, *held: CorpusRow) -> None:
    """Keep every writer of these corpora out until the transaction ends.

    Raises:
        CorpusNotFound: one was deleted meanwhile.
        CorpusSwitched: one has another name by now.
    """
    _check_names(held, corpora.lock_corpora(tx, [corpus.corpus_id for corpus in held]))


def hold(tx: Transaction, *held: CorpusRow) -> None:
    """`corpora.hold_named` for several corpora. The errors are those of `lock`."""
    corpus_ids = sorted(corpus.corpus_id for corpus in held)
    for corpus_id in corpus_ids:
        corpora.share_gate(tx, corpus_id)
    _check_names(held, dict(tx.run("hold_corpora", {"corpus_ids": corpus_ids})))


def find_held(tx: Transaction, name: str) -> tuple[CorpusRow, CorpusRow | None]:
    """The corpus that has this name and its shadow, if it has one, both kept as by `corpora.hold_corpus`.

    Raises:
        CorpusNotFound: there is none of this name.
    """
    while True:
        serving = corpora.get_corpus(tx, name)
        shadow = find_shadow(tx, serving)
        with suppress(CorpusNotFound, CorpusSwitched):  # meanwhile: look again
            hold(tx, serving, *([shadow] if shadow else []))
            if find_shadow(tx, serving) == shadow:
                return serving, shadow


def texts(tx: Transaction, corpus_id: int, *, after: str, fetch: int) -> list[Passage]:
    """A page of the passages of a corpus, in key order after a key."""
    rows = tx.run("passages_after", {"corpus_id": corpus_id, "after": after, "fetch": fetch})
    return [Passage(key=row[0], title=row[1], text=row[2], metadata=row[3]) for row in rows]


def prints(tx: Transaction, corpus_id: int) -> Iterator[Print]:
    """Every passage of a corpus as a fingerprint, in key order."""
    after = ""
    while rows := tx.run("prints_after", {"corpus_id": corpus_id, "after": after, "fetch": PRINTS}):
        for row in rows:
            yield Print(passage_key=row[0], content=bytes(row[1]), failed=row[2] == "failed")
        after = rows[-1][0]


def keys(tx: Transaction, corpus_id: int, *, after: str, fetch: int) -> dict[str, int]:
    """A page of the keys of a corpus with the ids of their passages, in order after a key."""
    rows = tx.run("keys_after", {"corpus_id": corpus_id, "after": after, "fetch": fetch})
    return {row[0]: row[1] for row in rows}


def there(tx: Transaction, corpus_id: int, passage_keys: Sequence[str]) -> set[str]:
    """Which of these keys a corpus has a passage under."""
    rows = tx.run("keys_there", {"corpus_id": corpus_id, "passage_keys": list(passage_keys)})
    return {row[0] for row in rows}


def waiting(tx: Transaction, corpus_id: int) -> int:
    """How many passages of a corpus wait for a worker, or are with one."""
    return int(tx.run("passages_waiting", {"corpus_id": corpus_id})[0][0])


def decisions(tx: Transaction, corpus_id: int) -> Iterator[Decision]:
    """What operators decided about the entities of a corpus, in the order of canonical form and passage."""
    after = {"canonical": "", "passage_key": ""}
    while rows := tx.run("decisions_after", {"corpus_id": corpus_id, "fetch": PRINTS, **after}):
        for row in rows:
            yield Decision(canonical=row[0], passage_key=row[1], target=row[2])
        after = {"canonical": rows[-1][0], "passage_key": rows[-1][1]}


def rename(tx: Transaction, corpus: CorpusRow, name: str) -> None:
    """Give a corpus another name.

    Raises:
        UsageError: the name is taken, or cannot be one.
        CorpusNotFound, CorpusSwitched: as `lock`.
    """
    lock(tx, corpus)
    refuse_taken(tx, name)
    _update(tx, corpus, name=name)


def swap_names(tx: Transaction, serving: CorpusRow, shadow: CorpusRow) -> None:
    """Let a shadow serve under the name of what it replaces, which becomes the shadow. Both are locked."""
    between = f"switching {uuid.uuid4().hex}"  # for nobody to see: names are unique at every moment
    _update(tx, shadow, name=between, shadow_of=None)
    _update(tx, serving, name=shadow.name, shadow_of=shadow.corpus_id)
    _update(tx, shadow, name=serving.name)


def _update(tx: Transaction, corpus: CorpusRow, **values: object) -> None:
    tx.core(sa.update(corpus_table).where(corpus_table.c.corpus_id == corpus.corpus_id).values(**values))


def _check_names(expected: Sequence[CorpusRow], names: Mapping[int, str]) -> None:
    for corpus in expected:
        if corpus.corpus_id not in names:
            raise CorpusNotFound(f"corpus {corpus.name!r} was deleted meanwhile", name=corpus.name)
        if names[corpus.corpus_id] != corpus.name:
            raise CorpusSwitched(name=corpus.name)
