"""Export: a corpus as a folder of files, of one moment, whole or not at all (`evireform.formats.exports`)."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from evireform.errors import EvireformError, InputError, OutputError, UsageError
from evireform.formats import exports
from evireform.formats.exports import (
    DecisionLine,
    EntityLine,
    ExportedSpace,
    Kind,
    Manifest,
    MentionLine,
    PassageLine,
    PropositionLine,
    Writing,
)
from evireform.formats.text import printable
from evireform.records import CorpusRow, SpaceRow
from evireform.store import corpora, exporting, generations
from evireform.store.connection import Store, Transaction

BATCH = 64
"""Passages that are read together; memory grows with it and with the longest of them, not with the corpus."""

ENTITIES = 2_000
"""Entities that are read together."""

Progress = Callable[[int], None]


def export(
    store: Store,
    name: str,
    folder: str | Path,
    *,
    vectors: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Write a corpus to a folder. Equal corpora give equal bytes, whatever their histories.

    All is read from one snapshot, while others write. The files are written beside the folder and renamed
    when they are whole. The active vector space is named, with its vectors where wanted; the vectors of whole
    passages, which some evaluations make, are written where every passage has one.

    Args:
        store: The database.
        name: The corpus.
        folder: Where to; made where it is missing. It must be empty, unless it is overwritten.
        vectors: Whether vectors go in: then an import needs no model.
        overwrite: Replace an earlier export that the folder holds, and nothing else.
        progress: Called with the number of passages written since the last call.

    Raises:
        CorpusNotFound: no corpus has this name.
        UsageError: something else is in the folder.
        EvireformError: a proposition has no vector.
        OutputError: the files cannot be written.
    """
    folder = Path(folder)
    with (
        _saying_where(folder),
        store.transaction(read_only=True, snapshot=True) as tx,
        _beside(folder, overwrite=overwrite) as written,
    ):
        corpus = corpora.get_corpus(tx, name)
        return _write(tx, corpus, written, vectors=vectors, progress=progress or (lambda _: None))


def _write(
    tx: Transaction, corpus: CorpusRow, folder: Path, *, vectors: bool, progress: Progress
) -> Manifest:
    ready, empty, failed, propositions, _, _ = tx.run("corpus_counts", {"corpus_id": corpus.corpus_id})[0]
    spaces: dict[Kind, SpaceRow] = {
        space.kind: space for space in corpora.spaces(tx, corpus.corpus_id) if space.active
    }
    rows = {"proposition": propositions, "passage": ready + empty + failed}
    shapes = {kind: (rows[kind], space.dimensions) for kind, space in spaces.items()} if vectors else {}
    with Writing(folder, shapes) as writing:
        for decision in _decisions(tx, corpus.corpus_id):
            writing.line(
                DecisionLine(
                    canonical=decision.canonical, passage_key=decision.passage_key, target=decision.target
                )
            )
        for canonical, display, degree in _entities(tx, corpus.corpus_id):
            writing.line(EntityLine(canonical=canonical, display=display, degree=degree))
        for page in _pages(tx, corpus.corpus_id):
            _write_page(writing, page)
            if "proposition" in shapes:
                ids = [part.proposition_id for held in page for part in held.propositions]
                found, missing = exporting.vectors(tx, spaces["proposition"], ids)
                if missing:
                    raise EvireformError(
                        f"{len(missing):,} propositions have no vector: `evireform verify --repair` makes "
                        "them"
                    )
                writing.vectors("proposition", found)
            if "passage" in shapes:
                found, missing = exporting.vectors(tx, spaces["passage"], [held.passage_id for held in page])
                if missing:
                    writing.leave_out("passage")
                    del shapes["passage"]
                else:
                    writing.vectors("passage", found)
            progress(len(page))
        return writing.finish(
            name=corpus.name,
            titles=corpus.titles,
            extractor=corpus.extractor,
            spaces=[
                ExportedSpace(
                    kind=kind,
                    model=space.model,
                    dimensions=space.dimensions,
                    prompts=space.prompts,
                    vectors=kind in shapes,
                )
                for kind, space in sorted(spaces.items())
                if kind == "proposition" or kind in shapes
            ],
        )


def _write_page(writing: Writing, page: list[exporting.HeldPassage]) -> None:
    for held in page:
        key = held.passage.key
        writing.line(
            PassageLine(
                passage=held.passage, state=held.state, reason=held.reason, content_hash=held.content_hash
            )
        )
        for ordinal, part in enumerate(held.propositions):
            writing.line(PropositionLine(passage_key=key, ordinal=ordinal, text=part.text, span=part.span))
            for form, canonical in part.mentions:
                writing.line(MentionLine(passage_key=key, ordinal=ordinal, form=form, canonical=canonical))


def _decisions(tx: Transaction, corpus_id: int) -> list[generations.Decision]:
    """What was decided, but for passages that are not there: a shadow that is being made has such."""
    made = list(generations.decisions(tx, corpus_id))
    there = generations.there(tx, corpus_id, sorted({one.passage_key for one in made if one.passage_key}))
    return [one for one in made if not one.passage_key or one.passage_key in there]


def _pages(tx: Transaction, corpus_id: int) -> Iterator[list[exporting.HeldPassage]]:
    after = ""
    while page := exporting.passages(tx, corpus_id, after=after, fetch=BATCH):
        yield page
        after = page[-1].passage.key


def _entities(tx: Transaction, corpus_id: int) -> Iterator[tuple[str, str, int]]:
    after = ""
    while page := exporting.entities(tx, corpus_id, after=after, fetch=ENTITIES):
        yield from page
        after = page[-1][0]


@contextmanager
def _saying_where(folder: Path) -> Iterator[None]:
    """Turn what the system refuses into an error that names the folder."""
    try:
        yield
    except BrokenPipeError:  # of whoever is told of the progress
        raise
    except OSError as error:
        raise OutputError(f"{printable(folder)} cannot be written: {error.strerror}", path=folder) from error


def _refuse_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that holds what an export would replace; with ``overwrite`` what is no export.

    Raises:
        UsageError: it does.
    """
    shown = printable(folder)
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{shown} is no folder: name one that is empty, or not there yet")
    there = sorted(folder.iterdir()) if folder.exists() else []
    if not there:
        return
    if not overwrite:
        raise UsageError(f"{shown} is not empty: name another folder, or overwrite what is there")
    try:
        names = {exports.MANIFEST, *exports.read_manifest(folder).files}
    except InputError as error:
        raise UsageError(f"{shown} holds no whole export ({error}): nothing was overwritten") from error
    for path in there:
        if path.name not in names or not exports.is_regular(path):
            raise UsageError(
                f"{shown} holds other files than an export, such as {printable(path.name)}: nothing was "
                "overwritten"
            )


@contextmanager
def _beside(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """A new folder that takes the place of another when the block ends well, and goes when it does not.

    What it would replace is looked at before and after: it may have changed meanwhile.
    """
    folder = Path(os.path.abspath(folder))
    _refuse_folder(folder, overwrite=overwrite)
    folder.parent.mkdir(parents=True, exist_ok=True)
    written = folder.parent / f".{folder.name[:40]}.{uuid.uuid4().hex}.part"
    written.mkdir()
    try:
        yield written
        _refuse_folder(folder, overwrite=overwrite)
        _replace(folder, written)
    finally:
        shutil.rmtree(written, ignore_errors=True)


def _replace(folder: Path, written: Path) -> None:
    """Rename; an earlier export is put aside first, and back where that fails."""
    if not folder.exists() or not any(folder.iterdir()):
        written.rename(folder)
        return
    aside = written.with_suffix(".old")
    folder.rename(aside)
    try:
        written.rename(folder)
    except OSError:
        aside.rename(folder)
        raise
    for name in exports.NAMES:
        (aside / name).unlink(missing_ok=True)
    aside.rmdir()
