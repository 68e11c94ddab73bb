"""Entities as an operator sees and corrects them: shown, merged, split, with a log of every decision.

The index follows from passages and decisions. A decision changes it in the transaction that makes it, while
no other writer is in the corpus; `evireform.store.writing` applies the same decisions to what comes later.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from evireform.canonical import MAX_ENTITY_CHARACTERS, canonical, likeness
from evireform.errors import CorpusSwitched, EntityNotFound, UsageError
from evireform.formats.text import key_problem, text_problem
from evireform.records import (
    CorpusRow,
    EntityChange,
    EntityDegree,
    EntityDetail,
    EntityLogEntry,
    EntityMove,
    EntityPair,
)
from evireform.store import corpora, entities
from evireform.store.connection import Store, Transaction

LISTED = 20
"""Passages, neighbours and log entries shown unless told."""

_NEAR = 500
"""Names looked at for one that is near to a name that is not there."""


def show(store: Store, corpus_name: str, name: str, *, fetch: int = LISTED) -> EntityDetail:
    """An entity with its forms, passages, neighbours, decisions and their log.

    Args:
        store: The database.
        corpus_name: An existing corpus.
        name: Any form of the name: what folds to the same canonical form is the same name.
        fetch: Most passages, neighbours and log entries.

    Raises:
        EntityNotFound: no proposition names it, and nothing was decided about it; the message has near names.
        UsageError: it is no name.
    """
    asked = _canonical(name)
    with store.reading(snapshot=True) as tx:
        corpus_id = corpora.get_corpus(tx, corpus_name).corpus_id
        root = entities.read_decisions(tx, corpus_id, [asked], ()).root(asked)
        there = entities.find_entities(tx, corpus_id, [root]).get(root)
        tree = entities.entity_tree(tx, corpus_id, root)
        decisions = entities.decisions_about(tx, corpus_id, tree)
        if there is None and not decisions:
            near = _near(tx, corpus_id, asked)
            raise EntityNotFound(f"no proposition of {corpus_name!r} names {asked!r}{_or(near)}", name=asked)
        log = entities.log_entries(tx, corpus_id, tree, fetch=fetch)
        if there is None:
            return EntityDetail(
                asked=asked,
                canonical=root,
                display="",
                degree=0,
                max_weight=0.0,
                forms=(),
                passages=(),
                passage_count=0,
                neighbours=(),
                neighbour_count=0,
                decisions=tuple(decisions),
                log=tuple(log),
            )
        passages, passage_count = entities.entity_passages(tx, corpus_id, there.entity_id, fetch=fetch)
        neighbours, neighbour_count = entities.entity_neighbours(tx, corpus_id, there.entity_id, fetch=fetch)
        return EntityDetail(
            asked=asked,
            canonical=root,
            display=there.display,
            degree=there.degree,
            max_weight=there.max_weight,
            forms=tuple(entities.entity_forms(tx, corpus_id, there.entity_id)),
            passages=tuple(passages),
            passage_count=passage_count,
            neighbours=tuple(neighbours),
            neighbour_count=neighbour_count,
            decisions=tuple(decisions),
            log=tuple(log),
        )


def log(store: Store, corpus_name: str, *, fetch: int = LISTED) -> list[EntityLogEntry]:
    """The newest decisions about entities of a corpus, made and taken back."""
    with store.reading() as tx:
        return entities.log_entries(tx, corpora.get_corpus(tx, corpus_name).corpus_id, fetch=fetch)


def merge(
    store: Store,
    corpus_name: str,
    kept: str,
    others: Sequence[str],
    *,
    passage_keys: Sequence[str] = (),
    dry_run: bool = False,
) -> EntityChange:
    """Let names stand for one entity, now and for whatever is ingested later; the inverse of `split`.

    With ``passage_keys``, or where ``kept`` was split into one of ``others`` in some passages, those splits
    are taken back; a name that nothing but such splits brought about is gone with them.

    Args:
        store: The database.
        corpus_name: An existing corpus.
        kept: The name that the others will stand for; no passage needs to name it yet.
        others: Names that are one with it.
        passage_keys: Only take back what was split in these passages.
        dry_run: Change nothing; only say what would change.

    Raises:
        UsageError: one is no name, or is merged already in another way; the message says what to do.
    """
    name, names = _canonical(kept), list(dict.fromkeys(map(_canonical, others)))
    if not names:
        raise UsageError("give at least one name to merge")
    if name in names:
        raise UsageError(f"a name cannot be merged into itself: both are {name!r} in canonical form")

    keys = _keys(passage_keys)

    def change(plan: _Change) -> None:
        for other in names:
            if keys:
                plan.join_again(name, other, keys)
            else:
                plan.join(name, other)

    return _carry_out(store, corpus_name, change, dry_run=dry_run)


def split(
    store: Store,
    corpus_name: str,
    name: str,
    *,
    passage_keys: Sequence[str] = (),
    into: str | None = None,
    dry_run: bool = False,
) -> EntityChange:
    """Take a merge back, or tell two of one name apart; the inverse of `merge`.

    Args:
        store: The database.
        corpus_name: An existing corpus.
        name: Without more, a name that was merged: it is an entity of its own again, together with what was
            merged into it.
        passage_keys: Passages in which the entity of this name is another one.
        into: The name of that other one; goes with ``passage_keys``.
        dry_run: Change nothing; only say what would change.

    Raises:
        UsageError: there is nothing to take back, a passage does not name the entity, or one is no name; the
            message says what to do.
    """
    own = _canonical(name)
    if bool(passage_keys) != (into is not None):
        raise UsageError("to tell two of one name apart, give the passages and the other's name")
    other = None if into is None else _canonical(into)
    if other == own:
        raise UsageError(f"the other needs a name of its own: both are {own!r} in canonical form")

    keys = _keys(passage_keys)

    def change(plan: _Change) -> None:
        if other is None:
            plan.part(own)
        else:
            plan.part_in(own, other, keys)

    return _carry_out(store, corpus_name, change, dry_run=dry_run)


def suggest(store: Store, corpus_name: str, *, fetch: int = LISTED) -> list[EntityPair]:
    """Pairs of entities that are probably one, those named most first. Nothing is merged.

    Alike are names with the same `canonical.likeness`, and one with initials that only one name in full fits:
    ``j. r. smith`` and ``john ronald smith``.
    """
    with store.reading() as tx:
        degrees = entities.entity_names(tx, corpora.get_corpus(tx, corpus_name).corpus_id)
    found: list[tuple[str, str, Literal["spelling", "initials"]]] = [
        *((name, other, "spelling") for name, other in _alike(degrees)),
        *((name, other, "initials") for name, other in _initials(degrees)),
    ]
    pairs = [
        EntityPair(
            canonical=name, degree=degrees[name], other=other, other_degree=degrees[other], reason=reason
        )
        for name, other, reason in found
    ]
    pairs.sort(
        key=lambda pair: (-min(pair.degree, pair.other_degree), -pair.degree, pair.canonical, pair.other)
    )
    return pairs[:fetch]


def _alike(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each first name with the later ones that are alike."""
    first: dict[str, str] = {}
    for name in names:
        key = likeness(name)
        if key and (kept := first.setdefault(key, name)) != name:
            yield kept, name


def _initials(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each name in full with those whose initials fit it and no other."""
    full = defaultdict[tuple[int, str], list[tuple[str, list[str]]]](list)
    short: list[tuple[str, list[str]]] = []
    for name in names:
        words = name.replace(".", ". ").split()
        if len(words) > 1 and not _is_initial(words[-1]):
            if any(map(_is_initial, words[:-1])):
                short.append((name, words))
            else:
                full[len(words), words[-1]].append((name, words))
    for name, words in short:
        fitting = [
            candidate
            for candidate, others in full[len(words), words[-1]]
            if all(
                one == other or (_is_initial(one) and one[0] == other[0])
                for one, other in zip(words, others, strict=True)
            )
        ]
        if len(fitting) == 1:
            yield fitting[0], name


def _is_initial(word: str) -> bool:
    return len(word.rstrip(".")) == 1 and word[0].lower() != word[0].upper()


def _carry_out(
    store: Store, corpus_name: str, change: Callable[[_Change], None], *, dry_run: bool
) -> EntityChange:
    """Change decisions and index in one transaction; a dry run does the same and undoes it."""
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
        corpora.lock_corpus(tx, corpus.corpus_id)
        if corpora.get_corpus(tx, corpus_name).corpus_id != corpus.corpus_id:
            raise CorpusSwitched(
                f"corpus {corpus_name!r} was switched to another generation meanwhile: repeat it",
                name=corpus_name,
            )
        trial = tx.connection.begin_nested()
        plan = _Change(tx, corpus)
        change(plan)
        result = plan.result(dry_run=dry_run)
        if dry_run:
            trial.rollback()
        else:
            trial.commit()
    return result


class _Change:
    """Decisions that are made and taken back in one transaction, and what came of them."""

    def __init__(self, tx: Transaction, corpus: CorpusRow) -> None:
        self._tx = tx
        self._corpus = corpus
        self._log: list[EntityLogEntry] = []
        self._moves: list[EntityMove] = []
        self._before: dict[str, int] = {}
        self._notes: list[str] = []

    def join(self, kept: str, other: str) -> None:
        """Let one name stand for another everywhere."""
        decisions = self._decisions(kept, other)
        target, root = decisions.targets.get((other, entities.EVERYWHERE)), decisions.root(kept)
        if target == kept:
            self._notes.append(f"{other!r} stands for {kept!r} already")
            return
        if target is not None:
            raise UsageError(
                f"{other!r} stands for {target!r} already: merge {decisions.root(other)!r} instead, "
                f"or split {other!r} first"
            )
        if root == other:
            raise UsageError(
                f"{kept!r} stands for {other!r} already: split {kept!r} first to keep it instead"
            )
        self._look_at(other, root)
        splits = self._splits(kept, other)
        for key in splits:
            self._take_back(kept, other, key)
        if not splits or self._is_named_otherwise(other):
            self._refuse_circles(other, kept)
            self._decide(other, kept)
        self._move(other)
        if not self._before[other]:
            near = _near(self._tx, self._corpus.corpus_id, other)
            later = "it will hold for what is ingested later"
            self._notes.append(f"no proposition names {other!r} now: {later}{_or(near)}")

    def join_again(self, kept: str, other: str, passage_keys: Sequence[str]) -> None:
        """Take back that a name stands for another in some passages."""
        if missing := sorted(set(passage_keys) - set(self._splits(kept, other))):
            raise UsageError(
                f"{kept!r} was not split into {other!r} in passage {missing[0]!r}: "
                "`entity show` lists what was decided"
            )
        decisions = self._decisions(kept, other)
        self._look_at(decisions.root(other), decisions.root(kept))
        for key in passage_keys:
            self._take_back(kept, other, key)
        self._move(decisions.root(other))

    def part(self, name: str) -> None:
        """Take back that a name stands for another everywhere."""
        target = self._decisions(name).targets.get((name, entities.EVERYWHERE))
        if target is None:
            merged = [n for n in entities.entity_tree(self._tx, self._corpus.corpus_id, name) if n != name]
            hint = f" ({', '.join(map(repr, merged[:3]))} was merged into it: split that)" if merged else ""
            raise UsageError(
                f"{name!r} was not merged into anything{hint}; to tell two of this name apart, "
                "give the passages and the other's name"
            )
        held_by = self._held_by(name)
        self._look_at(*held_by, name)
        self._take_back(name, target)
        self._move(*held_by)

    def part_in(self, name: str, other: str, passage_keys: Sequence[str]) -> None:
        """Let a name stand for another in some passages."""
        decisions = self._decisions(name, other)
        root, target = decisions.root(name), decisions.root(other)
        if root == target:
            raise UsageError(f"{name!r} and {other!r} are one entity: split one of them first")
        made = {
            decision.passage_key: decision.target
            for decision in entities.decisions_about(self._tx, self._corpus.corpus_id, [name])
            if decision.canonical == name and decision.passage_key in passage_keys
        }
        for key, made_target in made.items():
            if made_target != other:
                raise UsageError(
                    f"in passage {key!r} {name!r} stands for {made_target!r} already: "
                    f"merge {name!r} and {made_target!r} in that passage first"
                )
            self._notes.append(f"{name!r} stands for {other!r} in passage {key!r} already")
        new = [key for key in passage_keys if key not in made]
        self._refuse_circles(name, other, new)
        held_by = self._held_by(name)
        naming = entities.passages_naming(self._tx, self._corpus.corpus_id, new, held_by)
        if missing := sorted(set(new) - naming):
            raise UsageError(f"passage {missing[0]!r} does not name {name!r}, or is not in the corpus")
        self._look_at(*held_by, target)
        for key in new:
            self._decide(name, other, key)
        self._move(*held_by)

    def result(self, *, dry_run: bool) -> EntityChange:
        """What was done, and the degrees of all entities that it could touch."""
        after = entities.find_entities(self._tx, self._corpus.corpus_id, self._before)
        return EntityChange(
            dry_run=dry_run,
            log=tuple(self._log),
            moves=tuple(self._moves),
            degrees=tuple(
                EntityDegree(canonical=name, before=before, after=after[name].degree if name in after else 0)
                for name, before in self._before.items()
            ),
            notes=tuple(self._notes),
        )

    def _decisions(self, *names: str) -> entities.Decisions:
        return entities.read_decisions(self._tx, self._corpus.corpus_id, names, ())

    def _refuse_circles(self, name: str, target: str, passage_keys: Sequence[str] | None = None) -> None:
        """Refuse to let a name stand for one that stands for it in one of some passages, or (None) of all."""
        decisions = entities.read_decisions(self._tx, self._corpus.corpus_id, [target], passage_keys)
        keys = sorted({key for _, key in decisions.targets if key}) if passage_keys is None else passage_keys
        for key in keys:
            way = decisions.way(target, key)
            if name not in way or (passage_keys is None and (name, key) in decisions.targets):
                continue
            one = next(n for n in way if (n, key) in decisions.targets)
            other = decisions.targets[one, key]
            raise UsageError(
                f"in passage {key!r} that would close a circle, for {one!r} stands for {other!r} there: "
                f"undo that first with `entity merge {one!r} {other!r} --passage {key!r}`"
            )

    def _held_by(self, name: str) -> list[str]:
        """The entities that mentions of a name, and of what was merged into it, may stand for now.

        What the name stands for; and in some passages, what another on its way there was split into.
        """
        decisions = entities.read_decisions(self._tx, self._corpus.corpus_id, [name])
        way = decisions.way(name)
        split = {decisions.root(target) for (n, key), target in decisions.targets.items() if key and n in way}
        return [way[-1], *sorted(split - {way[-1]})]

    def _splits(self, name: str, other: str) -> list[str]:
        """The passages in which a name was decided to be another."""
        decisions = entities.decisions_about(self._tx, self._corpus.corpus_id, [name])
        return [
            d.passage_key for d in decisions if d.passage_key and (d.canonical, d.target) == (name, other)
        ]

    def _is_named_otherwise(self, name: str) -> bool:
        """Whether anything but a split that was just taken back may bring a mention to this name."""
        corpus_id = self._corpus.corpus_id
        tree = set(entities.entity_tree(self._tx, corpus_id, name))
        decisions = entities.decisions_about(self._tx, corpus_id, sorted(tree))
        if len(tree) > 1 or any(decision.target == name for decision in decisions):
            return True
        there = entities.find_entities(self._tx, corpus_id, [name]).get(name)
        if there is None:
            return False
        forms = entities.entity_forms(self._tx, corpus_id, there.entity_id)
        return any(canonical(form.form) == name for form in forms)

    def _look_at(self, *names: str) -> None:
        there = entities.find_entities(self._tx, self._corpus.corpus_id, names)
        for name in names:
            self._before.setdefault(name, there[name].degree if name in there else 0)

    def _decide(self, name: str, target: str, passage_key: str = entities.EVERYWHERE) -> None:
        self._log.append(entities.decide(self._tx, self._corpus, name, target, passage_key=passage_key))

    def _take_back(self, name: str, target: str, passage_key: str = entities.EVERYWHERE) -> None:
        self._log.append(entities.take_back(self._tx, self._corpus, name, target, passage_key=passage_key))

    def _move(self, *names: str) -> None:
        for name in names:
            moved = entities.move_mentions(self._tx, self._corpus, name)
            if moved.propositions:
                self._moves.append(
                    EntityMove(canonical=name, propositions=moved.propositions, passages=moved.passages)
                )


def _canonical(name: str) -> str:
    """The canonical form of a name that an operator gives.

    Raises:
        UsageError: it is no name.
    """
    if problem := text_problem(name):
        raise UsageError(f"the name {problem}")
    folded = canonical(name)
    if not folded or len(name) > MAX_ENTITY_CHARACTERS or len(folded) > MAX_ENTITY_CHARACTERS:
        raise UsageError(
            f"a name has 1 to {MAX_ENTITY_CHARACTERS} characters beside marks, not {name[:50]!r}"
        )
    return folded


def _keys(passage_keys: Iterable[str]) -> list[str]:
    """The keys that an operator gives, once each.

    Raises:
        UsageError: one can be no key.
    """
    for key in passage_keys:
        if problem := key_problem(key):
            raise UsageError(f"the key of a passage {problem}")
    return sorted(set(passage_keys))


def _near(tx: Transaction, corpus_id: int, name: str) -> list[str]:
    """Names of entities that look like one that is not there."""
    return difflib.get_close_matches(
        name, entities.near_entities(tx, corpus_id, name, fetch=_NEAR), n=3, cutoff=0.5
    )


def _or(near: Sequence[str]) -> str:
    return f"; there is {', '.join(map(repr, near))}" if near else ""
