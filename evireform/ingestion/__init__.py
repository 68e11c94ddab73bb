"""Ingestion: passages in, index rows out; incremental, resumable, one passage all or none.

`checks` says why a passage cannot go in, `preparing` makes rows of an extraction, `portions` holds the sizes
in which passages travel, `job` joins them: read, skip what is unchanged, extract, write. `estimating` says
what that would cost. `enqueuing` lets passages wait instead, `working` runs jobs on what waits, and `leases`
holds what it has in hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evireform.embedding import Encoder
from evireform.formats.text import key_problem
from evireform.ingestion.enqueuing import enqueue
from evireform.ingestion.estimating import estimate
from evireform.ingestion.job import Interrupted, Job, Progress, WorkingOn
from evireform.ingestion.leases import OnBatch
from evireform.ingestion.preparing import content_hash, prepare
from evireform.ingestion.reading import readable
from evireform.ingestion.working import Worker
from evireform.language import Language
from evireform.records import Extraction, IngestionSummary, Passage, Rejected
from evireform.settings import WorkerSettings
from evireform.store import corpora, generations, spaces, writing
from evireform.store.connection import Store

__all__ = [
    "BATCH",
    "INDEX_THRESHOLD",
    "Interrupted",
    "OnBatch",
    "Progress",
    "Worker",
    "WorkingOn",
    "content_hash",
    "delete",
    "enqueue",
    "estimate",
    "ingest",
    "prepare",
    "retry",
    "worker",
]

BATCH = 64
"""Most passages looked up, extracted or written together; memory grows with it, not with the corpus."""

INDEX_THRESHOLD = spaces.INDEX_THRESHOLD
"""Vectors from which a space gets its HNSW index."""


def ingest(
    store: Store,
    corpus_name: str,
    passages: Iterable[Passage | Rejected],
    *,
    encoder: Encoder,
    language: Language,
    extractions: Mapping[str, Extraction] | None = None,
    progress: Progress | None = None,
    working_on: WorkingOn | None = None,
) -> IngestionSummary:
    """Bring passages into a corpus: skip what is unchanged, extract, embed and write the rest.

    Running it again with the same passages changes nothing; after an interruption it goes on where it was.
    A passage that is refused or whose extraction fails is listed with the reason, and the others go in.
    Many passages are extracted at once where the language backend says so, and each is written soon after
    its extraction ended, so that neither a slow one nor a huge one holds up the others.

    When the budget for model calls is spent, what was finished is written and the summary says ``stopped``;
    so it does when another generation takes the name of the corpus meanwhile (see `evireform.generations`).
    Where the iterable of passages raises, what it had yielded is written, and its error is raised then.

    Args:
        store: The database.
        corpus_name: An existing corpus.
        passages: Passages in any order, and what a reader rejected. Of a key given twice the first counts.
        encoder: Embeds the propositions; must be the model of the corpus's active space.
        language: Extracts propositions and entities.
        extractions: Ready-made extractions by passage key, used instead of the language backend.
        progress: Called with the number of passages done since the last call.
        working_on: Called with every passage that is so long that it takes its time.

    Raises:
        UsageError: ``passages`` is no iterable, or holds something that is no passage.
        CorpusNotFound: no corpus has this name, or it was deleted meanwhile.
        VectorSpaceMismatch: the corpus was embedded with another model.
        ExtractorMismatch: the corpus is a shadow (see `evireform.generations`) that another one extracts.
        DatabaseError: the server vanished or refused a whole batch, or others had locked for too long what it
            was to write; what was written until then stays.
        Interrupted: somebody pressed Ctrl-C; it carries the summary of what was done.
    """
    job = _open(
        store,
        corpus_name,
        encoder=encoder,
        language=language,
        extractions=extractions,
        progress=progress,
        working_on=working_on,
    )
    with readable(passages) as read:
        return job.run(job.news(read))


def retry(
    store: Store,
    corpus_name: str,
    *,
    encoder: Encoder,
    language: Language,
    progress: Progress | None = None,
    working_on: WorkingOn | None = None,
) -> IngestionSummary:
    """Extract again the passages whose extraction failed, from the texts that the corpus holds.

    See `ingest` for the arguments and errors. A passage that somebody else changed meanwhile is left alone.
    """
    job = _open(
        store,
        corpus_name,
        encoder=encoder,
        language=language,
        extractions=None,
        progress=progress,
        working_on=working_on,
    )
    return job.run(job.failures())


def worker(
    store: Store,
    *,
    encoder: Encoder,
    language: Language,
    settings: WorkerSettings,
    corpus: str | None = None,
    on_batch: OnBatch | None = None,
    working_on: WorkingOn | None = None,
) -> Worker:
    """A worker, which is yet to `run`.

    Args:
        store: The database.
        encoder: Embeds the propositions; must be the model of the corpora's active spaces.
        language: Extracts propositions and entities.
        settings: Batch, leases, attempts.
        corpus: Name of the only corpus to work on; None works on every one.
        on_batch: Told of everything that was written.
        working_on: Called with every passage that is so long that it takes its time.
    """

    def open_job(name: str) -> Job:
        return _open(
            store,
            name,
            encoder=encoder,
            language=language,
            batch=settings.batch,
            extractions=None,
            progress=None,
            working_on=working_on,
        )

    return Worker(store, open_job=open_job, settings=settings, corpus=corpus, on_batch=on_batch)


def delete(
    store: Store, corpus_name: str, passage_keys: Sequence[str], *, keep_log: bool = False
) -> list[str]:
    """Delete passages with everything that derives from them, also from a generation that is kept or made
    beside the corpus. Returns the keys that existed.

    Logged searches that had one in hand keep their question and what they cost; ``keep_log`` leaves them
    whole.
    """
    deleted: list[str] = []
    keys = sorted(key for key in set(passage_keys) if not key_problem(key))
    for start in range(0, len(keys), BATCH):
        with store.transaction() as tx:
            corpus, shadow = generations.find_held(tx, corpus_name)
            portion = keys[start : start + BATCH]
            deleted += writing.delete_passages(tx, corpus.corpus_id, portion, keep_log=keep_log)
            if shadow is not None:
                writing.delete_passages(tx, shadow.corpus_id, portion, keep_log=keep_log)
    return deleted


def _open(
    store: Store,
    corpus_name: str,
    *,
    encoder: Encoder,
    language: Language,
    batch: int | None = None,
    **options: Any,
) -> Job:
    """A job on a corpus and its active proposition space, which is made on the first ingestion."""
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
        space = spaces.open_or_create(tx, corpus, "proposition", encoder)
    return Job(
        store=store,
        corpus=corpus,
        space=space,
        encoder=encoder,
        language=language.in_corpus(corpus),
        batch=batch or BATCH,
        index_threshold=INDEX_THRESHOLD,
        **options,
    )
