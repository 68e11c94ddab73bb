"""Import: a corpus from the files of an export, without asking any model where the vectors are there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Generic, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from evireform.canonical import canonical
from evireform.embedding import Encoder
from evireform.errors import (
    CorpusNotFound,
    CorpusSwitched,
    DatabaseUnreachable,
    EvireformError,
    ModelCallFailed,
    UsageError,
)
from evireform.formats import exports
from evireform.formats.exports import (
    EntityLine,
    Kind,
    Manifest,
    MentionLine,
    PassageLine,
    PropositionLine,
    damaged,
    vectors_problem,
)
from evireform.ingestion import content_hash
from evireform.records import CorpusRow, SpaceRow, with_title
from evireform.store import corpora, entities, exporting, generations, spaces, writing
from evireform.store.connection import Store, Transaction
from evireform.store.writing import PreparedPassage, PreparedProposition

BATCH = 64
"""Passages that are written together."""

ENTITIES = 2_000
"""Entities that are compared together."""

_GROWTH = 4
"""Statistics are made anew whenever what was written has grown so many times."""

_AND, _READY_MADE = " + ", "file"
"""Between the extractors of a corpus that has several; and the one that stands for ready-made extractions."""

Progress = Callable[[str, int, int], None]
Row = TypeVar("Row", PropositionLine, MentionLine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import brought in.

    ``embedded`` counts the propositions whose vectors were not in the files, ``resumed`` the passages that an
    earlier run had brought in already, ``unverified`` those whose content hash no text could be held against:
    it covers a ready-made extraction as it was given, which no export has.
    """

    name: str
    passages: int
    propositions: int
    entities: int
    embedded: int
    resumed: int
    unverified: int


def import_corpus(
    store: Store,
    folder: str | Path,
    *,
    encoder: Callable[[], Encoder],
    name: str | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Make a corpus of an export. It gets its name when it is whole, and equal to what was exported.

    Until then it has a name that says so; a run that was interrupted, or lost the database, goes on there
    when it is repeated. Whatever else goes wrong leaves nothing behind.

    Args:
        store: The database.
        folder: The export.
        encoder: Gives what embeds the propositions, where their vectors are not in the files.
        name: Name of the corpus; None takes that which was exported.
        progress: Called with a stage, what was done of it since the last call, and its size.

    Raises:
        InputError: the export is damaged, cannot be read, says what cannot be, or is of a newer evireform.
        UsageError: there is a corpus of this name, or another import made it meanwhile.
        CorpusNotFound: somebody deleted what was imported so far.
        DatabaseError: the server refused something.
        VectorSpaceMismatch: another embedding model began to make the vectors.
        ModelCallFailed: an embedding model did not answer.
    """
    folder = Path(folder)
    manifest = exports.read_manifest(folder)
    name = manifest.name if name is None else name
    with store.transaction(read_only=True) as tx:
        generations.refuse_taken(tx, name)
    tell = progress or (lambda *_: None)
    size = sum(file.size for file in manifest.files.values())
    exports.check_files(folder, manifest, progress=lambda read: tell("checking", read, size))
    run = _Import(store=store, folder=folder, manifest=manifest, name=name, encoder=encoder, tell=tell)
    try:
        return run.run()
    except (CorpusNotFound, CorpusSwitched) as error:
        raise _overtaken(store, name) from error


def _overtaken(store: Store, name: str) -> EvireformError:
    """The error of an import whose corpus was renamed meanwhile, or is gone: two of one export share it."""
    with store.transaction(read_only=True) as tx:
        if corpora.find_corpus(tx, name) is None:
            return CorpusNotFound("what was imported so far was deleted meanwhile: repeat it", name=name)
    return UsageError(f"another import of the same files made the corpus {name!r} meanwhile: it is whole")


@dataclass(slots=True, kw_only=True)
class _Import:
    """One run of `import_corpus`, whose arguments are its fields."""

    store: Store
    folder: Path
    manifest: Manifest
    name: str
    encoder: Callable[[], Encoder]
    tell: Progress
    corpus: CorpusRow = field(init=False)
    decisions: entities.Decisions = field(init=False)
    vectors: Mapping[Kind, NDArray[np.float16] | None] = field(init=False)
    embedded: int = 0
    resumed: int = 0
    unverified: int = 0

    def run(self) -> Imported:
        """Bring everything in, compare, and give the corpus its name; or leave nothing.

        What was brought in stays for a run that goes on there where this one was interrupted (which is no
        `Exception`), or lost one of the servers that it works with.
        """
        self.decisions = self._read_decisions()
        self.vectors = {
            kind: exports.open_vectors(self.folder, self.manifest, kind) for kind in get_args(Kind)
        }
        self._open()
        try:
            self._fill()
        except (DatabaseUnreachable, ModelCallFailed, CorpusNotFound, CorpusSwitched):
            raise
        except Exception:
            with suppress(CorpusNotFound), self.store.transaction() as tx:
                corpora.delete_corpus(tx, self.corpus.name)
            raise
        return Imported(
            name=self.name,
            passages=self._rows(exports.PASSAGES),
            propositions=self._rows(exports.PROPOSITIONS),
            entities=self._rows(exports.ENTITIES),
            embedded=self.embedded,
            resumed=self.resumed,
            unverified=self.unverified,
        )

    def _fill(self) -> None:
        self._bring_in()
        self._bring_in_passage_vectors()
        self._compare()
        with self.store.transaction(read_only=True) as tx:
            held = corpora.spaces(tx, self.corpus.corpus_id)
        for space in held:
            spaces.ensure_index(self.store, space, threshold=spaces.INDEX_THRESHOLD)
        with self.store.transaction() as tx:
            generations.rename(tx, self.corpus, self.name)

    def _rows(self, file: str) -> int:
        return self.manifest.files[file].rows

    def _read_decisions(self) -> entities.Decisions:
        """The decisions of operators. Raises InputError where they are out of order, or lead in a circle."""
        targets: dict[tuple[str, str], str] = {}
        before = ("", "")
        for line in exports.read_decision_lines(self.folder):
            place = (line.canonical, line.passage_key)
            if place in targets:
                raise damaged(self.folder, exports.DECISIONS, "a decision stands there twice")
            if place < before:
                raise damaged(self.folder, exports.DECISIONS, f"one about {line.canonical!r} is out of order")
            before = place
            targets[place] = line.target
        self._refuse_circles(targets)
        return entities.Decisions(targets)

    def _refuse_circles(self, targets: Mapping[tuple[str, str], str]) -> None:
        straight: set[tuple[str, str]] = set()  # (name, passage key) from which no circle is reached
        for name, key in targets:
            way: set[tuple[str, str]] = set()
            while (name, key) not in straight:
                target = targets.get((name, key)) or targets.get((name, entities.EVERYWHERE))
                if (name, key) in way:
                    raise damaged(self.folder, exports.DECISIONS, f"{name!r} stands for itself")
                way.add((name, key))
                if target is None:
                    break
                name = target
            straight |= way

    def _open(self) -> None:
        """Make the corpus under the name that says what it is, or take that of an earlier run."""
        digest = hashlib.sha256((self.folder / exports.MANIFEST).read_bytes()).hexdigest()
        with self.store.transaction() as tx:
            under_way = f"{self.name[:150]} (import {digest[:12]})"
            self.corpus = corpora.create_corpus(tx, under_way, titles=self.manifest.titles)
            corpora.lock_corpus(tx, self.corpus.corpus_id)
            corpora.set_extractor(tx, self.corpus.corpus_id, self.manifest.extractor)
            there = {(d.canonical, d.passage_key) for d in generations.decisions(tx, self.corpus.corpus_id)}
            for (name, passage_key), target in self.decisions.targets.items():
                if (name, passage_key) not in there:
                    entities.decide(tx, self.corpus, name, target, passage_key=passage_key)
            for kind in ("proposition", "passage"):
                self._open_space(tx, kind)

    def _open_space(self, tx: Transaction, kind: Kind) -> None:
        space = self.manifest.space(kind)
        if space is None:
            return
        if space.vectors:
            corpora.create_space(
                tx,
                self.corpus,
                kind=kind,
                model=space.model,
                dimensions=space.dimensions,
                prompts=space.prompts,
            )
        else:
            spaces.open_or_create(tx, self.corpus, kind, self.encoder())

    def _bring_in(self) -> None:
        """Write the passages with all that is theirs, a batch a transaction."""
        vectors = self.vectors["proposition"]
        written, next_analysis, first = 0, 1, 0
        for batch in self._batches():
            ends = np.cumsum([first, *(len(propositions) for _, propositions in batch)])
            with self.store.transaction(read_only=True) as tx:
                known = writing.known_passages(tx, self.corpus.corpus_id, [line.passage for line, _ in batch])
                space = corpora.active_space(tx, self.corpus.corpus_id, "proposition")
            prepared = []
            for (line, propositions), (start, end) in zip(batch, pairwise(ends), strict=True):
                held = known.get(line.passage.key)
                if held and (held.content_hash, held.state) == (line.content_hash, line.state):
                    self.resumed += 1
                    continue
                rows = (
                    self._embedded(line, propositions)
                    if vectors is None
                    else self._checked("proposition", vectors[start:end])
                )
                prepared.append(
                    PreparedPassage(
                        passage=line.passage,
                        content_hash=line.content_hash,
                        state=line.state,
                        reason=line.reason,
                        propositions=propositions,
                        vectors=rows,
                    )
                )
            with self.store.transaction() as tx:
                writing.write_passages(tx, self.corpus, space, prepared)
            first = int(ends[-1])
            written += len(batch)
            if written >= next_analysis:
                with self.store.transaction() as tx:
                    tx.run("analyze_corpus_tables", {})
                next_analysis = _GROWTH * written
            self.tell("passages", len(batch), self._rows(exports.PASSAGES))

    def _embedded(
        self, line: PassageLine, propositions: Sequence[PreparedProposition]
    ) -> NDArray[np.float32]:
        self.embedded += len(propositions)
        titled = [with_title(line.passage.title, p.text, self.manifest.titles) for p in propositions]
        return self.encoder().encode_propositions(titled)

    def _checked(self, kind: Kind, rows: NDArray[np.float16]) -> NDArray[np.float32]:
        """Vectors from the files. Raises InputError where one cannot be."""
        vectors = rows.astype(np.float32)
        if problem := vectors_problem(vectors):
            raise damaged(self.folder, exports.VECTORS[kind], problem)
        return vectors

    def _batches(self) -> Iterator[list[tuple[PassageLine, tuple[PreparedProposition, ...]]]]:
        """The passages with their propositions, the tables read side by side.

        Raises:
            InputError: rows of one do not belong to those of another, or are out of order.
        """
        propositions = _Parts(self.folder, exports.PROPOSITIONS, exports.read_proposition_lines(self.folder))
        mentions = _Parts(self.folder, exports.MENTIONS, exports.read_mention_lines(self.folder))
        batch, before = [], ""
        decided = {key for _, key in self.decisions.targets if key}
        for line in exports.read_passage_lines(self.folder):
            key = line.passage.key
            if key <= before:
                raise damaged(self.folder, exports.PASSAGES, f"{key!r} is out of order")
            before = key
            decided.discard(key)
            self._check_content(line)
            parts = self._parts(line, propositions.of(key), mentions.of(key))
            if (line.state == "ready") != bool(parts):
                raise damaged(
                    self.folder, exports.PASSAGES, f"{key!r} is {line.state} with {len(parts)} propositions"
                )
            batch.append((line, parts))
            if len(batch) == BATCH:
                yield batch
                batch = []
        propositions.finish()
        mentions.finish()
        if decided:
            raise damaged(
                self.folder, exports.DECISIONS, f"one is about {min(decided)!r}, which is no passage"
            )
        if batch:
            yield batch

    def _check_content(self, line: PassageLine) -> None:
        """Hold the content hash against text and title, where it covers nothing else.

        A corpus with ready-made extractions has hashes that cover those too; so may a passage that a worker
        gave up, which counts as changed whatever its hash is.
        """
        if line.content_hash == content_hash(line.passage, self.manifest.titles, None):
            return
        if line.state != "failed" and _READY_MADE not in self.manifest.extractor.split(_AND):
            raise damaged(
                self.folder, exports.PASSAGES, f"the content hash of {line.passage.key!r} is of another text"
            )
        self.unverified += 1

    def _parts(
        self, line: PassageLine, propositions: Sequence[PropositionLine], mentions: Sequence[MentionLine]
    ) -> tuple[PreparedProposition, ...]:
        key = line.passage.key
        if [part.ordinal for part in propositions] != list(range(len(propositions))):
            raise damaged(self.folder, exports.PROPOSITIONS, f"those of {key!r} are not counted from 0")
        if any(part.span and part.span[1] > len(line.passage.text) for part in propositions):
            raise damaged(self.folder, exports.PROPOSITIONS, f"one of {key!r} lies beyond its text")
        named: list[list[tuple[str, str]]] = [[] for _ in propositions]
        before = (-1, "")
        for mention in mentions:
            place = (mention.ordinal, mention.form)
            folded = canonical(mention.form)
            if place <= before or mention.ordinal >= len(propositions):
                raise damaged(self.folder, exports.MENTIONS, f"one of {key!r} is out of order")
            if not folded or self.decisions.entity(folded, key) != mention.canonical:
                raise damaged(
                    self.folder,
                    exports.MENTIONS,
                    f"{mention.form!r} does not stand for {mention.canonical!r}",
                )
            before = place
            named[mention.ordinal].append((mention.form, folded))
        return tuple(
            PreparedProposition(text=part.text, span=part.span, mentions=tuple(of_part))
            for part, of_part in zip(propositions, named, strict=True)
        )

    def _bring_in_passage_vectors(self) -> None:
        """Write the vectors of whole passages, which stand in the order of their keys."""
        vectors = self.vectors["passage"]
        if vectors is None:
            return
        after, first = "", 0
        while True:
            with self.store.transaction() as tx:
                corpora.hold_named(tx, self.corpus)
                space = corpora.active_space(tx, self.corpus.corpus_id, "passage")
                page = generations.keys(tx, self.corpus.corpus_id, after=after, fetch=BATCH)
                if not page:
                    return
                self._insert_missing(tx, space, list(page.values()), vectors[first : first + len(page)])
            after, first = max(page), first + len(page)

    def _insert_missing(
        self, tx: Transaction, space: SpaceRow, passage_ids: list[int], rows: NDArray[np.float16]
    ) -> None:
        vectors = self._checked("passage", rows)
        _, without = exporting.vectors(tx, space, passage_ids)
        missing = [passage_ids.index(passage_id) for passage_id in without]
        writing.fill_vectors(
            tx,
            space,
            tenant_id=self.corpus.tenant_id,
            item_ids=without,
            vectors=vectors[missing],
        )

    def _compare(self) -> None:
        """Count what is there, and compare the entities, which follow from all mentions, one by one."""
        with self.store.transaction(read_only=True, snapshot=True) as tx:
            if not corpora.is_there(tx, self.corpus.corpus_id):
                raise CorpusNotFound(name=self.corpus.name)
            ready, empty, failed, propositions, _, _ = tx.run(
                "corpus_counts", {"corpus_id": self.corpus.corpus_id}
            )[0]
            for file, there in (
                (exports.PASSAGES, ready + empty + failed),
                (exports.PROPOSITIONS, propositions),
            ):
                if there != self._rows(file):
                    raise damaged(
                        self.folder, file, f"it has {self._rows(file):,} rows, and {there:,} went in"
                    )
            for expected, held in zip_longest(exports.read_entity_lines(self.folder), self._entities(tx)):
                if expected != held:
                    odd = (expected or held).canonical
                    raise damaged(
                        self.folder, exports.ENTITIES, f"{odd!r} is not what the mentions make of it"
                    )

    def _entities(self, tx: Transaction) -> Iterator[EntityLine]:
        after = ""
        while page := exporting.entities(tx, self.corpus.corpus_id, after=after, fetch=ENTITIES):
            for name, display, degree in page:
                yield EntityLine(canonical=name, display=display, degree=degree)
            after = page[-1][0]


class _Parts(Generic[Row]):
    """Rows of a table that belong to passages, handed out passage by passage in the order of the keys."""

    def __init__(self, folder: Path, file: str, rows: Iterator[Row]) -> None:
        self._folder, self._file = folder, file
        self._rows: Iterator[Row] = rows
        self._next: Row | None = next(rows, None)

    def of(self, passage_key: str) -> list[Row]:
        """The rows of the next passage; none where it has none."""
        found: list[Row] = []
        while self._next is not None and self._next.passage_key == passage_key:
            found.append(self._next)
            self._next = next(self._rows, None)
        if self._next is not None and self._next.passage_key < passage_key:
            self._refuse(self._next)
        return found

    def finish(self) -> None:
        """Refuse what belongs to no passage."""
        if self._next is not None:
            self._refuse(self._next)

    def _refuse(self, row: Row) -> None:
        raise damaged(
            self._folder,
            self._file,
            f"a row belongs to {row.passage_key!r}, which is no passage or out of order",
        )
