"""What a corpus holds, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evireform.records import CorpusStatus, Rejected
from evireform.store import corpora

if TYPE_CHECKING:
    from evireform.store.connection import Transaction

_FAILURES = 100


def corpus_status(tx: Transaction, name: str) -> CorpusStatus:
    """Counts, models and failures of a corpus.

    Raises:
        CorpusNotFound: no corpus has this name.
    """
    corpus = corpora.get_corpus(tx, name)
    ready, empty, failed, propositions, entities, incidence = tx.run(
        "corpus_counts", {"corpus_id": corpus.corpus_id}
    )[0]
    waiting, leased, _ = tx.run("queue_counts", {"corpus_id": corpus.corpus_id})[0]
    failures = tx.run("failed_passages", {"corpus_id": corpus.corpus_id, "fetch": _FAILURES})
    return CorpusStatus(
        name=corpus.name,
        titles=corpus.titles,
        extractor=corpus.extractor,
        ready=ready,
        empty=empty,
        failed=failed,
        propositions=propositions,
        entities=entities,
        incidence=incidence,
        spaces=tuple(corpora.spaces(tx, corpus.corpus_id)),
        failures=tuple(Rejected(passage_key=key, reason=reason) for key, reason in failures),
        waiting=waiting,
        leased=leased,
    )
