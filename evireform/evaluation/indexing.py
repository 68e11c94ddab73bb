"""Corpora of a study: made where they are missing, and brought to what a condition says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from evireform import ingestion
from evireform.embedding import Encoder
from evireform.errors import BudgetSpent, ModelCallFailed
from evireform.evaluation.plan import Index, Setup
from evireform.records import Extraction, IngestionSummary, Passage, Rejected
from evireform.store import corpora


def ingest_all(
    setup: Setup,
    corpus_name: str,
    encoder: Encoder,
    *,
    extractions: Mapping[str, Extraction] | None = None,
    only: Callable[[str], bool] | None = None,
    stage: str = "ingest",
) -> IngestionSummary:
    """Ingest the passages of the data that a corpus lacks.

    Args:
        setup: The run.
        corpus_name: Made where it is missing.
        encoder: Embeds the propositions.
        extractions: Ready-made extractions; None takes those of the setup.
        only: Whether a passage of this key belongs to the corpus; None takes all.
        stage: What the progress is told.

    Raises:
        UsageError: the corpus was made with the other titles setting.
        VectorSpaceMismatch: it was embedded with another model.
        BudgetSpent: not all passages could be paid for; those that were are kept.
        ModelCallFailed: the model's server does not answer; the passages that were done are kept.
    """
    with setup.store.transaction() as tx:
        corpora.create_corpus(tx, corpus_name, titles=setup.titles)

    def passages() -> Iterable[Passage | Rejected]:
        for row in setup.dataset.passages():
            if only is None or not isinstance(row, Passage) or only(row.key):
                yield row

    told = None
    if setup.progress is not None:
        advance, total = setup.progress, sum(1 for _ in passages())

        def told(done: int) -> None:
            advance(stage, done, total)

    summary = ingestion.ingest(
        setup.store,
        corpus_name,
        passages(),
        encoder=encoder,
        language=setup.language,
        extractions=setup.extractions if extractions is None else extractions,
        progress=told,
    )
    if summary.stopped:  # half a corpus is none to measure
        raise (BudgetSpent if "budget" in summary.stopped else ModelCallFailed)(summary.stopped)
    return summary


def main_index(setup: Setup) -> Iterator[Index]:
    """The corpus as it is, and nothing else."""
    yield Index(
        label="",
        corpus_name=setup.corpus_name,
        encoder=setup.encoder,
        questions=setup.questions,
        prepare=lambda: ingest_all(setup, setup.corpus_name, setup.encoder),
    )
