"""A corpus as its users see it: what goes in, what is asked, and what is done to its index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evireform import answering, auditing, entities, exporting, given, ingestion
from evireform import spaces as vector_spaces
from evireform.errors import UsageError
from evireform.filters import Where, conditions
from evireform.records import (
    Answer,
    CorpusStatus,
    EnqueueSummary,
    EntityChange,
    EntityDetail,
    EntityLogEntry,
    EntityPair,
    Extraction,
    IndexReport,
    IngestionSummary,
    Passage,
    Ranking,
    Rejected,
    SpaceReport,
    SpaceRow,
    Verification,
)
from evireform.retrieval import pipeline
from evireform.retrieval.replay import Replay, replay
from evireform.store import status

if TYPE_CHECKING:
    from evireform.database import Database
    from evireform.formats.exports import Manifest


class Corpus:
    """A corpus by name; every call looks it up anew, so that what other processes did is seen at once."""

    def __init__(self, database: Database, name: str) -> None:
        self.database = database
        self.name = name

    def ingest(
        self,
        passages: Iterable[Passage | Rejected],
        *,
        extractions: Mapping[str, Extraction] | None = None,
        progress: ingestion.Progress | None = None,
        working_on: ingestion.WorkingOn | None = None,
    ) -> IngestionSummary:
        """Bring passages in: new ones are added, changed ones replaced, unchanged ones skipped.

        See `evireform.ingestion.ingest`.
        """
        return ingestion.ingest(
            self.database.store,
            self.name,
            passages,
            encoder=self.database.encoder,
            language=self.database.language,
            extractions=extractions,
            progress=progress,
            working_on=working_on,
        )

    def enqueue(
        self,
        passages: Iterable[Passage | Rejected],
        *,
        extractions: Mapping[str, Extraction] | None = None,
        progress: ingestion.Progress | None = None,
    ) -> EnqueueSummary:
        """Let passages wait for a worker (`Database.worker`), and return at once; no model is needed here.

        See `evireform.ingestion.enqueue`.
        """
        return ingestion.enqueue(
            self.database.store, self.name, passages, extractions=extractions, progress=progress
        )

    def retry(
        self,
        *,
        progress: ingestion.Progress | None = None,
        working_on: ingestion.WorkingOn | None = None,
    ) -> IngestionSummary:
        """Extract again the passages whose extraction failed, from the texts that the corpus holds.

        See `evireform.ingestion.retry`.
        """
        return ingestion.retry(
            self.database.store,
            self.name,
            encoder=self.database.encoder,
            language=self.database.language,
            progress=progress,
            working_on=working_on,
        )

    def search(
        self, question: str, *, k: int | None = None, variant: str = "full", where: Where | None = None
    ) -> Ranking:
        """Rank passages for one question. See `search_many`."""
        given.text("question", question)
        return self.search_many([question], k=k, variant=variant, where=where)[0]

    def search_many(
        self,
        questions: Sequence[str],
        *,
        k: int | None = None,
        variant: str = "full",
        where: Where | None = None,
    ) -> list[Ranking]:
        """Rank passages for many questions; batches of them share their statements.

        Args:
            questions: A list of texts.
            k: Passages per ranking; None takes the settings'.
            variant: A name of `evireform.settings.VARIANTS`.
            where: Look only at passages whose metadata say so, such as ``{"year": {">=": 2020}, "lang":
                ["en", "de"], "public": True}``; see `evireform.filters.conditions`.

        Raises:
            UsageError: no variant has this name, ``k`` is out of range, ``where`` is no filter, or there is
                something among the questions that is no text.
            VectorSpaceMismatch: the corpus was embedded with another model.
        """
        questions = given.texts("questions", questions)
        settings = self.database.settings.search.variant(variant)
        if k is not None:
            settings = replace(settings, k=k)
        if where is not None:
            settings = replace(settings, where=conditions(where))
        return pipeline.search(
            self.database.store,
            self.name,
            questions,
            encoder=self.database.encoder,
            language=self.database.language,
            settings=settings,
            method=variant,
        )

    def answer(
        self,
        question: str,
        *,
        variant: str = "full",
        strict: bool | None = None,
        direct: bool | None = None,
        where: Where | None = None,
        on_text: answering.OnText | None = None,
    ) -> Answer:
        """Answer a question in a few words from the passages that are ranked for it.

        Args:
            question: Its text.
            variant: A name of `evireform.settings.VARIANTS`.
            strict: Say ``unknown`` where no cited passage contains the answer's names and numbers; None takes
                the settings'.
            direct: Ask the model without any passage; None takes the settings'.
            where: Answer only from passages whose metadata say so; as for `search_many`.
            on_text: Called with the answer so far as it is written; see `evireform.answering.answer`.

        Raises:
            UsageError: no variant has this name, ``where`` is no filter, or ``direct`` is wanted and so is
                ``strict`` or a filter.
            VectorSpaceMismatch: the corpus was embedded with another model.
            BudgetSpent: there is no budget left for a model call.
        """
        given.text("question", question)
        db = self.database
        chosen = {"strict": strict, "direct": direct}
        settings = replace(db.settings.answer, **{k: v for k, v in chosen.items() if v is not None})
        search = db.settings.search.variant(variant)
        if where is not None:
            search = replace(search, where=conditions(where))
        if settings.direct and search.where:
            raise UsageError("an answer without passages cannot be filtered: leave out the filter or direct")
        if settings.direct:
            return answering.answer_directly(
                db.store, self.name, question, language=db.language, on_text=on_text
            )
        return answering.answer(
            db.store,
            self.name,
            question,
            encoder=db.encoder,
            language=db.language,
            search=search,
            settings=settings,
            method=variant,
            on_text=on_text,
        )

    def export(
        self,
        folder: str | Path,
        *,
        vectors: bool = False,
        overwrite: bool = False,
        progress: exporting.Progress | None = None,
    ) -> Manifest:
        """Write the corpus to a folder of files, the same bytes for the same content.

        See `evireform.exporting.export`.
        """
        return exporting.export(
            self.database.store,
            self.name,
            folder,
            vectors=vectors,
            overwrite=overwrite,
            progress=progress,
        )

    def replay(self, log_id: int) -> Replay:
        """Rank a logged search again from its logged choices, without a model."""
        return replay(self.database.store, self.name, log_id)

    def delete(self, passage_keys: Sequence[str], *, keep_log: bool | None = None) -> list[str]:
        """Delete passages with all that derives from them. Returns the keys that existed.

        Args:
            passage_keys: Passages; of a key that has none any more, what models and searches said of it goes.
            keep_log: Leave logged searches that had one in hand whole; None takes the settings'.

        Raises:
            UsageError: what was given is no list of keys.
        """
        passage_keys = given.texts("passage_keys", passage_keys)
        keep = self.database.settings.keep_log if keep_log is None else keep_log
        return ingestion.delete(self.database.store, self.name, passage_keys, keep_log=keep)

    def entity(self, name: str, *, limit: int = entities.LISTED) -> EntityDetail:
        """An entity with its forms, passages and neighbours, and what was decided about it.

        See `evireform.entities.show`.
        """
        name, limit = given.text("name", name), given.limit(limit)
        return entities.show(self.database.store, self.name, name, fetch=limit)

    def merge_entities(
        self, kept: str, others: Sequence[str], *, passage_keys: Sequence[str] = (), dry_run: bool = False
    ) -> EntityChange:
        """Let names stand for one entity, now and for what is ingested later. See `evireform.entities.merge`.

        Raises:
            UsageError: one is no name, or is merged already in another way.
        """
        return entities.merge(
            self.database.store,
            self.name,
            given.text("kept", kept),
            given.texts("others", others),
            passage_keys=given.texts("passage_keys", passage_keys),
            dry_run=dry_run,
        )

    def split_entity(
        self, name: str, *, passage_keys: Sequence[str] = (), into: str | None = None, dry_run: bool = False
    ) -> EntityChange:
        """Take a merge back, or tell two of one name apart. See `evireform.entities.split`.

        Raises:
            UsageError: there is nothing to take back, or one is no name.
        """
        return entities.split(
            self.database.store,
            self.name,
            given.text("name", name),
            passage_keys=given.texts("passage_keys", passage_keys),
            into=None if into is None else given.text("into", into),
            dry_run=dry_run,
        )

    def suggest_entities(self, *, limit: int = entities.LISTED) -> list[EntityPair]:
        """Pairs of entities that are probably one. See `evireform.entities.suggest`."""
        return entities.suggest(self.database.store, self.name, fetch=given.limit(limit))

    def entity_log(self, *, limit: int = entities.LISTED) -> list[EntityLogEntry]:
        """What was decided about entities and taken back, by whom and when; the newest first."""
        return entities.log(self.database.store, self.name, fetch=given.limit(limit))

    def spaces(self) -> list[SpaceReport]:
        """The vector spaces of the corpus: which are active, what each holds, and what its index finds."""
        return vector_spaces.reports(self.database.store, self.name)

    def build_space(self, *, progress: vector_spaces.Progress | None = None) -> int:
        """Embed the corpus with the database object's model beside the active one.

        See `evireform.spaces.build`.
        """
        db = self.database
        return vector_spaces.build(db.store, self.name, encoder=db.encoder, progress=progress)

    def switch_space(self, *, progress: vector_spaces.Progress | None = None) -> int:
        """Make the database object's model the active one, once built. See `evireform.spaces.switch`."""
        db = self.database
        return vector_spaces.switch(db.store, self.name, encoder=db.encoder, progress=progress)

    def drop_space(self, space_id: int) -> SpaceRow:
        """Drop a space that is not active, with its vectors. See `evireform.spaces.drop`."""
        return vector_spaces.drop(self.database.store, self.name, space_id)

    def index(
        self, *, rebuild: bool = False, sample: int = 100, progress: vector_spaces.Progress | None = None
    ) -> list[IndexReport]:
        """Build the indexes that are missing, or all of them anew, and measure them.

        See `evireform.spaces.index`.
        """
        return vector_spaces.index(
            self.database.store,
            self.name,
            rebuild=rebuild,
            sample=sample,
            ef_search=self.database.settings.search.ef_search,
            progress=progress,
        )

    def verify(self, *, repair: bool = False, progress: auditing.Progress | None = None) -> Verification:
        """Compare what the index holds of the corpus with what it derives from; see `Database.verify`."""
        db = self.database
        return auditing.verify(
            db.store, [self.name], encoder=lambda: db.encoder, repair=repair, progress=progress
        )

    def status(self) -> CorpusStatus:
        """What the corpus holds, which models made it, and what failed."""
        with self.database.store.reading() as tx:
            return status.corpus_status(tx, self.name)
