"""The face of the library: `connect`, `Database`, `Corpus`. It joins settings, doors and jobs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from evireform import answering, ingestion
from evireform.embedding import Encoder
from evireform.embedding import load as load_encoder
from evireform.errors import UsageError
from evireform.language import Language
from evireform.language import load as load_language
from evireform.records import (
    Answer,
    CorpusRow,
    CorpusStatus,
    CostReport,
    Estimate,
    Extraction,
    IngestionSummary,
    InitReport,
    Passage,
    Ranking,
    Rejected,
    Titles,
)
from evireform.retrieval import pipeline
from evireform.retrieval.replay import Replay, replay
from evireform.settings import Settings
from evireform.store import calls, corpora, status
from evireform.store.connection import Store
from evireform.store.migrate import init

if TYPE_CHECKING:
    from evireform.embedded import EmbeddedServer


def connect(
    url: str | None = None,
    *,
    home: Path | None = None,
    settings: Settings | None = None,
    encoder: Encoder | None = None,
    language: Language | None = None,
) -> Database:
    """Open a database; without a URL the embedded server, started here or shared with other processes.

    Args:
        url: ``postgresql://user@host/database``; an empty string takes libpq's own environment variables;
            None starts the embedded server.
        home: Directory of the embedded server; None takes ``EVIREFORM_HOME`` (the only variable of ours that
            a program is not asked for, so that it and the command line share one database) or its default.
        settings: Models, schema and search defaults.
        encoder: An embedding model of your own instead of the one that the settings name.
        language: A language backend of your own instead of the one that the settings name.

    Raises:
        EmbeddedServerError: the embedded server does not start.

    The embedded database is created and migrated as needed; on any other server run
    `Database.init` (or ``evireform init``) once.
    """
    settings = settings or Settings()
    server = None
    if url is None:
        from evireform.embedded import EmbeddedServer

        named = os.environ.get("EVIREFORM_HOME")
        server = EmbeddedServer(home or (Path(named) if named else None))
        url = server.start()
    store = Store(
        url,
        schema=settings.schema,
        pool_size=settings.pool_size,
        statement_timeout_s=settings.statement_timeout_s,
    )
    database = Database(store, settings=settings, server=server, encoder=encoder, language=language)
    if server is not None:
        try:
            database.found = database.init()
        except BaseException:
            database.close()
            raise
    return database


class Database:
    """A database with evireform's tables. Use it as a context manager, or `close` it.

    Models are loaded when they are first needed, and kept. A budget (`LanguageSettings.budget`) holds for all
    model calls of one object.

    Attributes:
        found: What `connect` found and did to an embedded database; None on any other server.
    """

    found: InitReport | None = None

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings,
        server: EmbeddedServer | None = None,
        encoder: Encoder | None = None,
        language: Language | None = None,
    ) -> None:
        self.store = store
        self.settings = settings
        self._server = server
        self._encoder = encoder
        self._language = language

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, and give up the embedded server."""
        self.store.close()
        if self._server is not None:
            self._server.stop()

    @property
    def encoder(self) -> Encoder:
        """The embedding model."""
        if self._encoder is None:
            self._encoder = load_encoder(self.settings.embedding)
        return self._encoder

    @property
    def language(self) -> Language:
        """The language backend."""
        if self._language is None:
            self._language = load_language(self.settings.language, self._ledger())
        return self._language

    def _ledger(self) -> calls.Calls | None:
        """What records the model calls of this database object; None where its settings name no model."""
        settings = self.settings.language
        return calls.Calls(self.store, settings) if settings.backend != "rules" else None

    def init(self) -> InitReport:
        """Create or migrate the tables. Safe to run again, and from many processes at once.

        Raises:
            ServerTooOld, ExtensionMissing, PermissionMissing, SchemaTooNew: each says what to do.
        """
        return init(self.store)

    def corpus(self, name: str, *, create: bool = False, titles: Titles | None = None) -> Corpus:
        """A corpus by name.

        Args:
            name: Its name.
            create: Make it where it is missing.
            titles: Whether titles join the text for extraction, observation and embedding; fixed when
                the corpus is made. None takes the corpus as it is, or ``on`` for a new one.

        Raises:
            CorpusNotFound: there is none, and ``create`` is off.
            UsageError: the corpus was made with the other titles setting.
        """
        with self.store.transaction() as tx:
            row = corpora.find_corpus(tx, name) if create else corpora.get_corpus(tx, name)
            if row is None:
                row = corpora.create_corpus(tx, name, titles=titles or "on")
        _check_titles(row, titles)
        return Corpus(self, name)

    def corpora(self) -> list[CorpusRow]:
        """Every corpus, by name."""
        with self.store.transaction(read_only=True) as tx:
            return corpora.list_corpora(tx)

    def estimate(
        self,
        corpus: str,
        passages: Iterable[Passage | Rejected],
        *,
        titles: Titles | None = None,
        extractions: Mapping[str, Extraction] | None = None,
    ) -> Estimate:
        """What ingesting these passages would ask of a model. Asks none, and makes no corpus.

        Args:
            corpus: Name of a corpus, which need not be there yet.
            passages: As for `Corpus.ingest`.
            titles: As for `Database.corpus`.
            extractions: As for `Corpus.ingest`.

        Raises:
            UsageError: the corpus was made with the other titles setting.
        """
        with self.store.transaction(read_only=True) as tx:
            row = corpora.find_corpus(tx, corpus)
        if row is not None:
            _check_titles(row, titles)
        return ingestion.estimate(
            self.store,
            corpus,
            passages,
            language=self.language,
            settings=self.settings.language,
            titles=titles or "on",
            extractions=extractions,
        )

    def cost(
        self, *, corpus: str | None = None, by: str = "corpus", since: datetime | None = None
    ) -> CostReport:
        """What model calls took: calls, tokens and money, by group and in all.

        Args:
            corpus: Only calls of corpora of this name, also deleted ones; None takes all.
            by: ``corpus``, ``passage``, ``question``, ``model``, ``purpose``, ``day`` or ``round``.
            since: Only calls from then on; without a time zone it is in UTC.

        Raises:
            UsageError: ``by`` is none of these.
        """
        with self.store.transaction(read_only=True) as tx:
            return calls.costs(tx, corpus=corpus, by=by, since=since)

    def delete_corpus(self, name: str) -> None:
        """Delete a corpus with everything in it. What its model calls cost stays in the ledger.

        Raises:
            CorpusNotFound: there is none of this name.
        """
        with self.store.transaction() as tx:
            corpora.delete_corpus(tx, name)


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

    def search(self, question: str, *, k: int | None = None, variant: str = "full") -> Ranking:
        """Rank passages for one question. See `search_many`."""
        return self.search_many([question], k=k, variant=variant)[0]

    def search_many(
        self, questions: Sequence[str], *, k: int | None = None, variant: str = "full"
    ) -> list[Ranking]:
        """Rank passages for many questions; batches of them share their statements.

        Args:
            questions: Texts.
            k: Passages per ranking; None takes the settings'.
            variant: A name of `evireform.settings.VARIANTS`.

        Raises:
            UsageError: no variant has this name, or ``k`` is out of range.
            VectorSpaceMismatch: the corpus was embedded with another model.
        """
        _refuse_text("questions", questions)
        settings = self.database.settings.search.variant(variant)
        if k is not None:
            settings = replace(settings, k=k)
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
        on_text: answering.OnText | None = None,
    ) -> Answer:
        """Answer a question in a few words from the passages that are ranked for it.

        Args:
            question: Its text.
            variant: A name of `evireform.settings.VARIANTS`.
            strict: Say ``unknown`` where no cited passage contains the answer's names and numbers; None takes
                the settings'.
            direct: Ask the model without any passage; None takes the settings'.
            on_text: Called with the answer so far as it is written; see `evireform.answering.answer`.

        Raises:
            UsageError: no variant has this name, or both ``strict`` and ``direct`` are wanted.
            VectorSpaceMismatch: the corpus was embedded with another model.
            BudgetSpent: there is no budget left for a model call.
        """
        db = self.database
        given = {"strict": strict, "direct": direct}
        settings = replace(db.settings.answer, **{k: v for k, v in given.items() if v is not None})
        search = db.settings.search.variant(variant)
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

    def replay(self, log_id: int) -> Replay:
        """Rank a logged search again from its logged choices, without a model."""
        return replay(self.database.store, self.name, log_id)

    def delete(self, passage_keys: Sequence[str]) -> list[str]:
        """Delete passages with all that derives from them. Returns the keys that existed.

        Raises:
            UsageError: a text was given instead of a list of keys.
        """
        _refuse_text("passage_keys", passage_keys)
        return ingestion.delete(self.database.store, self.name, passage_keys)

    def status(self) -> CorpusStatus:
        """What the corpus holds, which models made it, and what failed."""
        with self.database.store.transaction(read_only=True) as tx:
            return status.corpus_status(tx, self.name)


def _check_titles(row: CorpusRow, titles: Titles | None) -> None:
    """Refuse a titles setting that is not the corpus's; None takes it as it is."""
    if titles is not None and row.titles != titles:
        raise UsageError(
            f"corpus {row.name!r} was made with titles {row.titles}, not {titles}: choose another name"
        )


def _refuse_text(name: str, values: Sequence[str]) -> None:
    """A text is a sequence of texts too, and would be taken letter by letter."""
    if isinstance(values, str | bytes):
        raise UsageError(f"{name} must be a list of texts, not one text: write [{values!r}]")
