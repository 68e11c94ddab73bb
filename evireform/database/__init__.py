"""The face of the library: `connect`, `Database`, `Corpus`. It joins settings, doors and jobs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from evireform import auditing, given, importing, ingestion
from evireform.database.corpus import Corpus
from evireform.database.generation import Generation
from evireform.embedding import Encoder
from evireform.embedding import load as load_encoder
from evireform.errors import DatabaseUnreachable, UsageError
from evireform.language import Language
from evireform.language import load as load_language
from evireform.records import (
    Access,
    CorpusRow,
    CostReport,
    Estimate,
    Extraction,
    InitReport,
    Passage,
    QueueProgress,
    Rejected,
    TenantRow,
    Titles,
    Verification,
    WorkerRow,
)
from evireform.settings import Settings
from evireform.store import calls, corpora, queue, tenants
from evireform.store.connection import Store
from evireform.store.generations import served
from evireform.store.migrate import init

if TYPE_CHECKING:
    from evireform.embedded import EmbeddedServer

__all__ = ["Corpus", "Database", "Generation", "connect"]


def connect(
    url: str | None = None,
    *,
    read_url: str = "",
    home: Path | str | None = None,
    settings: Settings | None = None,
    encoder: Encoder | None = None,
    language: Language | None = None,
) -> Database:
    """Open a database; without a URL the embedded server, started here or shared with other processes.

    Args:
        url: ``postgresql://user@host/database``; an empty string takes libpq's own environment variables;
            None starts the embedded server.
        read_url: A hot standby of that server, which then answers searches and what else only reads
            (`docs/operations.md`); empty where there is none.
        home: Directory of the embedded server; None takes ``EVIREFORM_HOME`` (the only variable of ours that
            a program is not asked for, so that it and the command line share one database) or its default.
        settings: Models, schema and search defaults.
        encoder: An embedding model of your own instead of the one that the settings name.
        language: A language backend of your own instead of the one that the settings name.

    Raises:
        EmbeddedServerError: the embedded server does not start.
        UsageError: an argument is not what it should be.

    The embedded database is created and migrated as needed; on any other server run
    `Database.init` (or ``evireform init``) once.
    """
    if settings is None:
        settings = Settings()
    elif not isinstance(settings, Settings):
        raise UsageError(f"settings must be of evireform.Settings, unlike {given.shown(settings)}")
    if home is not None and not isinstance(home, str | os.PathLike):
        raise UsageError(f"home must be a folder, not {given.shown(home)}")
    given.text("read_url", read_url)
    if url is not None:
        given.text("url", url)
    server = None
    if url is None:
        from evireform.embedded import EmbeddedServer

        named = os.environ.get("EVIREFORM_HOME")
        folder = home or named
        server = EmbeddedServer(Path(folder) if folder else None)
        url = server.start()
    store = Store(
        url,
        schema=settings.schema,
        tenant=settings.tenant,
        role=settings.role,
        read_url=read_url,
        pool_size=settings.pool_size,
        statement_timeout_s=settings.statement_timeout_s,
    )
    database = Database(store, settings=settings, server=server, encoder=encoder, language=language)
    if server is not None:
        try:
            # By whoever runs the server, whose the tables are: the role may be anybody's.
            with closing(Store(url, schema=settings.schema)) as owner:
                database.found = init(owner)
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

    def init(self, *, to: str = "") -> InitReport:
        """Create or migrate the tables. Safe to run again, and from many processes at once.

        Args:
            to: Go to this migration instead of the newest: see `evireform.store.migrate.init`.

        Raises:
            UsageError: ``to`` is no migration of this package.
            ServerTooOld, ExtensionMissing, PermissionMissing, SchemaTooNew: each says what to do.
        """
        return init(self.store, to=to)

    def corpus(self, name: str, *, create: bool = False, titles: Titles | None = None) -> Corpus:
        """A corpus by name.

        Args:
            name: Its name.
            create: Make it where it is missing.
            titles: Whether titles join the text for extraction, observation and embedding; fixed when
                the corpus is made. None takes the corpus as it is, or ``on`` for a new one.

        Raises:
            CorpusNotFound: there is none, and ``create`` is off.
            UsageError: it can be no name, or the corpus was made with the other titles setting.
        """
        given.text("name", name)
        row = None
        if not create:
            with suppress(DatabaseUnreachable), self.store.reading() as tx:
                row = corpora.find_corpus(tx, name)
        if row is None:  # a standby may be down, or not have it yet
            with self.store.transaction() as tx:
                row = corpora.find_corpus(tx, name) if create else corpora.get_corpus(tx, name)
                if row is None:
                    row = corpora.create_corpus(tx, name, titles=titles or "on")
        _check_titles(row, titles)
        return Corpus(self, name)

    def corpora(self) -> list[CorpusRow]:
        """Every corpus, by name."""
        with self.store.reading() as tx:
            return corpora.list_corpora(tx)

    def generation(self, name: str) -> Generation:
        """A corpus with the generation of it that is made beside it, to replace it.

        Raises:
            CorpusNotFound: no corpus has this name.
        """
        return Generation(self.corpus(name))

    def generations(self) -> list[str]:
        """Names of the corpora that have another generation."""
        with self.store.transaction(read_only=True) as tx:
            return served(tx)

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
        with self.store.reading() as tx:
            return calls.costs(tx, corpus=corpus, by=by, since=since)

    def worker(
        self,
        *,
        corpus: str | None = None,
        on_batch: ingestion.OnBatch | None = None,
        working_on: ingestion.WorkingOn | None = None,
    ) -> ingestion.Worker:
        """A worker that drains the queues of all corpora, or of one, once it is told to `run`.

        Its batch, leases and attempts are those of `evireform.settings.WorkerSettings`. See
        `evireform.ingestion.worker`.
        """
        return ingestion.worker(
            self.store,
            encoder=self.encoder,
            language=self.language,
            settings=self.settings.worker,
            corpus=corpus,
            on_batch=on_batch,
            working_on=working_on,
        )

    def workers(self) -> list[WorkerRow]:
        """Who works on the queues, and who did until a day ago and was lost."""
        with self.store.reading() as tx:
            return queue.workers(tx)

    def progress(self, corpus: str | None = None) -> list[QueueProgress]:
        """How far the queues of all corpora are, or that of one.

        Raises:
            CorpusNotFound: no corpus has this name.
        """
        with self.store.reading() as tx:
            rows = corpora.list_corpora(tx) if corpus is None else [corpora.get_corpus(tx, corpus)]
            spent = {row.group: row.cost for row in calls.costs(tx, corpus=corpus).rows}
            found = [queue.progress(tx, row) for row in rows]
        return [replace(one, cost=spent.get(one.name, Decimal(0))) for one in found]

    def verify(self, *, repair: bool = False, progress: auditing.Progress | None = None) -> Verification:
        """Compare what the index holds with what it derives from, in every corpus and beyond.

        Args:
            repair: Make the derived tables follow, and make missing vectors again; the writers of a corpus
                wait meanwhile. Passages, propositions and mentions are never changed.
            progress: Called with a corpus, the checks done since the last call, and how many it has.
        """
        names = [row.name for row in self.corpora()]
        return auditing.verify(
            self.store,
            names,
            encoder=lambda: self.encoder,
            beyond=True,
            repair=repair,
            progress=progress,
        )

    def tenants(self) -> list[TenantRow]:
        """The tenants that the role may know of: its own; all of them where it owns the tables."""
        with self.store.transaction() as tx:
            return tenants.list_tenants(tx)

    def create_tenant(self, name: str, *, role: str | None = None) -> bool:
        """Make a tenant (`docs/tenants.md`), and a role its writer. Only the owner of the tables may.

        Args:
            name: A name that no tenant has.
            role: A login role, made where it is missing; None leaves the tenant without members.

        Returns:
            Whether the role was made: then it has no password yet.

        Raises:
            UsageError: the name is taken, or cannot be one.
            PermissionMissing: the role of the connection does not own the tables, or may not create roles.
        """
        with self.store.transaction() as tx:
            tenants.create_tenant(tx, name)
            return role is not None and tenants.grant(tx, name, role, "writer")

    def grant_tenant(self, name: str, role: str, *, access: Access) -> bool:
        """Make a role a ``writer`` or a ``reader`` of a tenant; errors and result as `create_tenant`."""
        with self.store.transaction() as tx:
            return tenants.grant(tx, name, role, access)

    def revoke_tenant(self, name: str, role: str) -> None:
        """Take a role out of a tenant, with the rights that it had for it.

        Raises:
            UsageError: there is no such tenant, or the role is no member of it.
            PermissionMissing: the role of the connection does not own the tables.
        """
        with self.store.transaction() as tx:
            tenants.revoke(tx, name, role)

    def share_answers(self, tenant: str, shares: bool) -> None:
        """Let a tenant's model calls be answered by those of tenants that share theirs, and the other way.

        Raises:
            UsageError: there is no such tenant.
            PermissionMissing: the role of the connection does not own the tables.
        """
        with self.store.transaction() as tx:
            tenants.share_answers(tx, tenant, shares)

    def corpora_of_tenant(self, name: str) -> list[CorpusRow]:
        """What `delete_tenant` would delete, and its errors."""
        with self.store.transaction() as tx:
            return tenants.corpora_of_tenant(tx, name)

    def delete_tenant(self, name: str) -> None:
        """Delete a tenant with its corpora, log and part of the ledger. Its roles stay, without rights.

        Its members are shut out first; then corpus after corpus goes, so that no search waits for all.

        Raises:
            UsageError: there is no such tenant.
            PermissionMissing: the role of the connection does not own the tables.
        """
        with self.store.transaction(statement_timeout_s=0) as tx:
            held = tenants.shut_out(tx, name)
        for corpus in held:
            with self.store.transaction(statement_timeout_s=0) as tx:
                tenants.delete_corpus(tx, corpus)
        with self.store.transaction(statement_timeout_s=0) as tx:
            tenants.delete_tenant(tx, name)

    def import_corpus(
        self, folder: str | Path, *, name: str | None = None, progress: importing.Progress | None = None
    ) -> importing.Imported:
        """Make a corpus of the files of an export. See `evireform.importing.import_corpus`.

        The embedding model is loaded only where the vectors are not in the files.
        """
        return importing.import_corpus(
            self.store, folder, encoder=lambda: self.encoder, name=name, progress=progress
        )

    def delete_corpus(self, name: str) -> None:
        """Delete a corpus with everything in it. What its model calls cost stays in the ledger.

        Raises:
            CorpusNotFound: there is none of this name.
        """
        with self.store.transaction() as tx:
            corpora.delete_corpus(tx, name)


def _check_titles(row: CorpusRow, titles: Titles | None) -> None:
    """Refuse a titles setting that is not the corpus's; None takes it as it is."""
    if titles is not None and row.titles != titles:
        raise UsageError(
            f"corpus {row.name!r} was made with titles {row.titles}, not {titles}: choose another name"
        )
