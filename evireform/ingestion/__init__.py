"""Ingestion: passages in, index rows out; incremental, resumable, one passage all or none.

`checks` says why a passage cannot go in, `preparing` makes rows of an extraction, `portions` holds the sizes
in which passages travel, `job` joins them: read, skip what is unchanged, extract, write. `estimating` says
what that would cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evireform.embedding import Encoder
from evireform.formats.text import key_problem
from evireform.ingestion.estimating import estimate
from evireform.ingestion.job import Interrupted, Job, Progress, WorkingOn
from evireform.ingestion.preparing import content_hash, prepare
from evireform.language import Language
from evireform.records import Extraction, IngestionSummary, Passage, Rejected
from evireform.store import corpora, spaces, writing
from evireform.store.connection import Store

__all__ = [
    "BATCH",
    "INDEX_THRESHOLD",
    "Interrupted",
    "Progress",
    "WorkingOn",
    "content_hash",
    "delete",
    "estimate",
    "ingest",
    "prepare",
    "retry",
]

BATCH = 64
"""Most passages looked up, extracted or written together; memory grows with it, not with the corpus."""

INDEX_THRESHOLD = 3_000
"""Vectors from which a space gets its HNSW index: below, the exact scan is as fast."""


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

    When the budget for model calls is spent, what was finished is written and the summary says ``stopped``.

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
        CorpusNotFound: no corpus has this name, or it was deleted meanwhile.
        VectorSpaceMismatch: the corpus was embedded with another model.
        DatabaseError: the server vanished or refused a whole batch.
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
    return job.run(job.news(passages))


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


def delete(store: Store, corpus_name: str, passage_keys: Sequence[str]) -> list[str]:
    """Delete passages with everything that derives from them. Returns the keys that existed."""
    deleted: list[str] = []
    keys = sorted(key for key in set(passage_keys) if not key_problem(key))
    for start in range(0, len(keys), BATCH):
        with store.transaction() as tx:
            corpus = corpora.get_corpus(tx, corpus_name)
            deleted += writing.delete_passages(tx, corpus.corpus_id, keys[start : start + BATCH])
    return deleted


def _open(store: Store, corpus_name: str, *, encoder: Encoder, language: Language, **options: Any) -> Job:
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
        batch=BATCH,
        index_threshold=INDEX_THRESHOLD,
        **options,
    )
