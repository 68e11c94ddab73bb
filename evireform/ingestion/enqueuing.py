"""Passages into the queue: what is new or changed waits for a worker, the rest is skipped and counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from evireform.formats.text import storable
from evireform.ingestion.checks import problem
from evireform.ingestion.job import Progress
from evireform.ingestion.portions import portions, text_length
from evireform.ingestion.preparing import content_hash
from evireform.ingestion.reading import readable
from evireform.records import (
    CorpusRow,
    EnqueueSummary,
    ExtractedProposition,
    Extraction,
    Passage,
    Rejected,
)
from evireform.store import corpora, queue, writing
from evireform.store.connection import Store

BATCH = 64
"""Passages looked up and queued together."""


def enqueue(
    store: Store,
    corpus_name: str,
    passages: Iterable[Passage | Rejected],
    *,
    extractions: Mapping[str, Extraction] | None = None,
    progress: Progress | None = None,
) -> EnqueueSummary:
    """Let passages wait for a worker, and return at once: no model is loaded or asked.

    A key waits once. The newest text wins: over an older one that waits, also where a worker has that one on
    lease, and over one that waits although the index has the given text already. Running it again with the
    same passages changes nothing. Where the iterable of passages raises, what it had yielded is queued, and
    its error is raised then.

    Args:
        store: The database.
        corpus_name: An existing corpus.
        passages: As for `evireform.ingestion.ingest`; read as they are queued, a few at a time.
        extractions: Ready-made extractions by passage key; they wait with their passages.
        progress: Called with the number of passages done since the last call.

    Raises:
        UsageError: ``passages`` is no iterable, or holds something that is no passage.
        CorpusNotFound: no corpus has this name, or it was deleted meanwhile.
        CorpusSwitched: another generation of the corpus took its name meanwhile.
    """
    start = time.perf_counter()
    seen: set[bytes] = set()
    rejected: list[Rejected] = []
    counts: Counter[str] = Counter()
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, corpus_name)
    with readable(passages) as read:
        for portion in portions(read, most=BATCH, length=text_length):
            accepted: list[Passage] = []
            for item in portion:
                refused = item if isinstance(item, Rejected) else problem(item, seen)
                if refused is not None:
                    rejected.append(refused)
                elif isinstance(item, Passage):
                    accepted.append(item)
            if accepted:
                counts += _enqueued(store, corpus, accepted, extractions or {})
            if progress:
                progress(len(portion))
    return EnqueueSummary(**counts, rejected=tuple(rejected), seconds=time.perf_counter() - start)


def _enqueued(
    store: Store, corpus: CorpusRow, passages: Sequence[Passage], extractions: Mapping[str, Extraction]
) -> Counter[str]:
    """Queue a portion, in two transactions, so that each locks the queue in one go and in key order."""
    ready = {p.key: _storable(extractions[p.key]) for p in passages if p.key in extractions}
    hashes = {p.key: content_hash(p, corpus.titles, ready.get(p.key)) for p in passages}
    counts: Counter[str] = Counter()
    with store.transaction() as tx:
        corpora.hold_named(tx, corpus)
        # From here on no worker can write an older text over these.
        waiting = queue.lock_queued(tx, corpus.corpus_id, list(hashes))
        known = writing.known_passages(tx, corpus.corpus_id, passages)
        current = {key: one for key, one in known.items() if one.is_current(hashes[key])}
        queue.withdraw_seen(tx, corpus.corpus_id, {key: waiting[key] for key in current if key in waiting})
        relabelled = [p for p in passages if p.key in current and current[p.key].relabelled]
        if relabelled:
            writing.relabel_passages(tx, corpus.corpus_id, relabelled)
        counts["relabelled"] += len(relabelled)
        counts["unchanged"] += len(current) - len(relabelled)
    rest = {p.key: (p, ready.get(p.key)) for p in passages if p.key not in current}
    if rest:
        with store.transaction() as tx:
            corpora.hold_named(tx, corpus)
            done = queue.enqueue_passages(tx, corpus, rest)
        counts["queued"] += len(done.queued)
        counts["replaced"] += len(done.replaced)
        counts["waiting"] += len(rest) - len(done.queued) - len(done.replaced)
    return counts


def _storable(extraction: Extraction) -> Extraction:
    """What the queue can hold of an extraction that a program made."""
    propositions = (
        ExtractedProposition(text=storable(p.text), entities=tuple(map(storable, p.entities)))
        for p in extraction.propositions
    )
    return Extraction(propositions=tuple(propositions), error=storable(extraction.error))
