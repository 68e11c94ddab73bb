"""Corpora of a study: made where they are missing, and brought to what a condition says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from evireform import ingestion
from evireform.embedding import Encoder
from evireform.errors import BudgetSpent, CorpusSwitched, EvireformError, ModelCallFailed
from evireform.evaluation.plan import Index, Setup
from evireform.evaluation.stored import StoredExtractions
from evireform.records import Extraction, IngestionSummary, Passage, Rejected, StoppedBy
from evireform.store import corpora

_STOPPED: Mapping[StoppedBy, type[EvireformError]] = {
    "budget": BudgetSpent,
    "server": ModelCallFailed,
    "switched": CorpusSwitched,
}
"""What is raised for an ingestion that ended early; an interrupted one raises by itself."""


def ingest_all(
    setup: Setup,
    corpus_name: str,
    encoder: Encoder,
    *,
    extractions: Mapping[str, Extraction] | None = None,
    only: Callable[[str], bool] | None = None,
    alone: bool | None = None,
    stage: str = "ingest",
) -> IngestionSummary:
    """Bring a corpus to the passages of the data: ingest what it lacks, delete what the data lacks.

    Nothing is deleted from a corpus that may hold other passages; a note says how many of them there are.

    Args:
        setup: The run.
        corpus_name: Made where it is missing.
        encoder: Embeds the propositions.
        extractions: Ready-made extractions; None takes those of the setup.
        only: Whether a passage of this key belongs to the corpus; None takes all.
        alone: Whether the corpus may hold nothing else; None takes what the setup says.
        stage: What the progress is told.

    Raises:
        UsageError: the corpus was made with the other titles setting.
        VectorSpaceMismatch: it was embedded with another model.
        BudgetSpent: not all passages could be paid for; those that were are kept.
        ModelCallFailed: the model's server does not answer; the passages that were done are kept.
        CorpusSwitched: another generation has the name of the corpus by now.
    """
    with setup.store.transaction() as tx:
        corpus = corpora.create_corpus(tx, corpus_name, titles=setup.titles)

    def passages() -> Iterable[Passage | Rejected]:
        for row in setup.dataset.passages():
            if only is None or not isinstance(row, Passage) or only(row.key):
                yield row

    total, keys = 0, set[str]()
    for row in passages():
        total += 1
        if isinstance(row, Passage):
            keys.add(row.key)
    others = [key for key in StoredExtractions(setup.store, corpus) if key not in keys]
    notes: tuple[str, ...] = ()
    if setup.own_corpus if alone is None else alone:
        ingestion.delete(setup.store, corpus_name, others)
    elif others:
        notes = (
            f"{len(others)} passages of the corpus {corpus_name} are not in the set, and are ranked too",
        )
    told = None
    if setup.progress is not None:
        advance = setup.progress

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
        raise _STOPPED[summary.stopped_by](summary.stopped)
    return replace(summary, notes=(*notes, *summary.notes))


def main_index(setup: Setup) -> Iterator[Index]:
    """The corpus as it is, and nothing else."""
    yield Index(
        label="",
        corpus_name=setup.corpus_name,
        encoder=setup.encoder,
        questions=setup.questions,
        prepare=lambda: ingest_all(setup, setup.corpus_name, setup.encoder),
    )
