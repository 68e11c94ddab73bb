"""Making a shadow: the passages of a corpus, extracted again into another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from evireform import ingestion
from evireform.embedding import Encoder
from evireform.errors import UsageError
from evireform.generations.standing import decisions_apart, refuse_shadow
from evireform.language import Language
from evireform.records import CorpusRow, Estimate, IngestionSummary, Passage, Titles
from evireform.settings import LanguageSettings
from evireform.store import corpora, entities, generations, writing
from evireform.store.connection import Store

BATCH = 64
"""Passages that are read together."""


def start(
    store: Store,
    name: str,
    *,
    encoder: Encoder,
    language: Language,
    as_name: str | None = None,
    titles: Titles | None = None,
    progress: ingestion.Progress | None = None,
    working_on: ingestion.WorkingOn | None = None,
) -> IngestionSummary:
    """Extract the passages of a corpus into its shadow, which is made where there is none.

    It goes through `evireform.ingestion.ingest`: what the shadow holds is skipped, what failed in it is tried
    again, and an interrupted run goes on where it was. Afterwards passages that the corpus has no longer are
    deleted from the shadow. The corpus serves meanwhile, and may change: another run brings the shadow up to
    date.

    Args:
        store: The database.
        name: The corpus that is to be replaced.
        encoder: Embeds the propositions of the shadow.
        language: Extracts them; a shadow has one extractor.
        as_name: Name of the shadow; None takes that which it has, or ``<name>-next`` for a new one.
        titles: Titles setting of the shadow; None takes that which it has, or the corpus's for a new one.
        progress: As for `ingest`.
        working_on: As for `ingest`.

    Returns:
        What the ingestion did; deletions and copied decisions are among the notes.

    Raises:
        CorpusNotFound: no corpus has this name.
        CorpusSwitched: the names were switched meanwhile.
        UsageError: the corpus is a shadow itself, or has one of another name or titles setting.
        ExtractorMismatch: it has one of another extractor, or somebody began to make one with it meanwhile.
        VectorSpaceMismatch: the shadow was embedded with another model.
        Interrupted: somebody pressed Ctrl-C; it carries the summary of what was done.
    """
    with store.transaction() as tx:
        serving = corpora.get_corpus(tx, name)
        refuse_shadow(tx, serving)
        found = generations.find_shadow(tx, serving)
        _check(serving, found, as_name=as_name, titles=titles, language=language)
        shadow = found or generations.make_shadow(
            tx, serving, as_name or name_of_shadow(name), titles=titles or serving.titles
        )
    copied = _copy_decisions(store, serving, shadow)
    summary = ingestion.ingest(
        store,
        shadow.name,
        _passages(store, serving, shadow),
        encoder=encoder,
        language=language,
        progress=progress,
        working_on=working_on,
    )
    deleted = 0
    if not summary.stopped:
        with store.transaction(read_only=True) as tx:  # another start may have extracted all of it meanwhile
            now = generations.find_shadow(tx, serving)
        _check(serving, now, as_name=None, titles=None, language=language)
        deleted = _delete_gone(store, serving, shadow)
        copied += _copy_decisions(store, serving, shadow)
    notes = [
        f"{what}: {number:,}"
        for number, what in (
            (copied, f"decisions about entities brought over from {name}"),
            (deleted, f"passages deleted that {name} has no longer"),
        )
        if number
    ]
    return replace(summary, notes=(*summary.notes, *notes))


def estimate(
    store: Store,
    name: str,
    *,
    language: Language,
    settings: LanguageSettings,
    as_name: str | None = None,
    titles: Titles | None = None,
) -> Estimate:
    """What `start` would ask of a model. Asks none, and makes no corpus. The errors are those of `start`."""
    with store.transaction(read_only=True) as tx:
        serving = corpora.get_corpus(tx, name)
        refuse_shadow(tx, serving)
        found = generations.find_shadow(tx, serving)
        _check(serving, found, as_name=as_name, titles=titles, language=language)
        new_name = as_name or name_of_shadow(name)
        if found is None:
            generations.refuse_taken(tx, new_name)
    return ingestion.estimate(
        store,
        found.name if found else new_name,
        _passages(store, serving),
        language=language,
        settings=settings,
        titles=titles or serving.titles,
    )


def name_of_shadow(name: str) -> str:
    """What a shadow is called unless told otherwise.

    >>> name_of_shadow("wiki")
    'wiki-next'
    """
    return f"{name}-next"


def _check(
    serving: CorpusRow,
    shadow: CorpusRow | None,
    *,
    as_name: str | None,
    titles: Titles | None,
    language: Language,
) -> None:
    """Refuse to go on with a shadow that is not what was asked for."""
    if shadow is None:
        return
    drop = f"drop it first (`evireform generation drop --corpus {serving.name}`)"
    if as_name not in (None, shadow.name):
        raise UsageError(f"the other generation of {serving.name!r} is called {shadow.name!r}: {drop}")
    if titles not in (None, shadow.titles):
        raise UsageError(f"{shadow.name!r} was made with titles {shadow.titles}: {drop}")
    if shadow.extractor not in ("", language.extractor):
        raise generations.other_extractor(
            serving.name, shadow.name, extractor=shadow.extractor, offered=language.extractor
        )


def _passages(store: Store, *corpora_read: CorpusRow) -> Iterator[Passage]:
    """The passages of the first corpus, page by page, as long as every one of them keeps its name."""
    after = ""
    while True:
        with store.transaction() as tx:
            generations.hold(tx, *corpora_read)
            page = generations.texts(tx, corpora_read[0].corpus_id, after=after, fetch=BATCH)
        if not page:
            return
        yield from page
        after = page[-1].key


def _delete_gone(store: Store, serving: CorpusRow, shadow: CorpusRow) -> int:
    """Delete from a shadow what the corpus that it is to replace has no longer."""
    after, deleted = "", 0
    while True:
        with store.transaction() as tx:
            generations.hold(tx, serving, shadow)
            keys = generations.keys(tx, shadow.corpus_id, after=after, fetch=generations.PRINTS)
            if not keys:
                return deleted
            gone = sorted(keys.keys() - generations.there(tx, serving.corpus_id, list(keys)))
            deleted += len(writing.delete_passages(tx, shadow.corpus_id, gone)) if gone else 0
        after = max(keys)


def _copy_decisions(store: Store, serving: CorpusRow, shadow: CorpusRow) -> int:
    """Decide about the entities of a shadow as was decided about those of what it replaces.

    Writers of both wait meanwhile, so nothing is locked where nothing is to be done. Any name that decisions
    are about may be touched: one that is taken back undoes what others built on.

    Returns:
        How many decisions were brought over or taken back.
    """
    with store.transaction(read_only=True) as tx:
        if not decisions_apart(tx, serving, shadow):
            return 0
    with store.transaction() as tx:
        generations.lock(tx, serving, shadow)
        wanted, held = (set(generations.decisions(tx, corpus.corpus_id)) for corpus in (serving, shadow))
        before = entities.Decisions({(one.canonical, one.passage_key): one.target for one in held})
        for one in sorted(held - wanted):
            entities.take_back(tx, shadow, one.canonical, one.target, passage_key=one.passage_key)
        for one in sorted(wanted - held):
            entities.decide(tx, shadow, one.canonical, one.target, passage_key=one.passage_key)
        names = {name for one in wanted | held for name in (one.canonical, one.target)}
        for name in sorted({before.root(name) for name in names}):
            entities.move_mentions(tx, shadow, name)
        return len(wanted ^ held)
