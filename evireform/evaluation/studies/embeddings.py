"""Embeddings: the same passages, propositions and entities under other embedding models."""

from __future__ import annotations

from collections.abc import Iterator

from evireform.embedding import load
from evireform.errors import UsageError
from evireform.evaluation.comparing import difference
from evireform.evaluation.files import file_name
from evireform.evaluation.indexing import ingest_all, main_index
from evireform.evaluation.plan import Findings, Index, Plan, Setup, Summary
from evireform.evaluation.records import Plot, Series
from evireform.evaluation.stored import StoredExtractions
from evireform.records import IngestionSummary
from evireform.settings import EmbeddingSettings
from evireform.store import corpora

_MEASURES = ("recall@5", "recall@10", "recall@20")


def methods(_: Setup) -> list[str]:
    return ["full", "base", "dense"]


def indexes(setup: Setup) -> Iterator[Index]:
    """The corpus itself, and one beside it for each further model, made from what the first one holds.

    Raises:
        UsageError: no further model is given.
    """
    if not setup.embeddings:
        raise UsageError("the study of embeddings compares models: name at least one more with --embedding")
    for index in main_index(setup):
        yield Index(
            label=setup.encoder.model,
            corpus_name=index.corpus_name,
            encoder=index.encoder,
            questions=index.questions,
            prepare=index.prepare,
        )
    for settings in setup.embeddings:
        yield _other(setup, settings)


def _other(setup: Setup, settings: EmbeddingSettings) -> Index:
    encoder = load(settings)
    name = f"{setup.corpus_name}-{file_name(encoder.model)}"

    def prepare() -> IngestionSummary:
        with setup.store.transaction(read_only=True) as tx:
            first = corpora.get_corpus(tx, setup.corpus_name)
        return ingest_all(
            setup, name, encoder,
            extractions=StoredExtractions(setup.store, first), stage=f"embed with {encoder.model}",
        )  # fmt: skip

    return Index(
        label=encoder.model,
        corpus_name=name,
        encoder=encoder,
        questions=setup.questions,
        prepare=prepare,
    )


def summarise(findings: Findings) -> Summary:
    labels = [condition.label for condition in findings.conditions]
    first = labels[0]
    if any(m not in findings.result("full", label).means for m in _MEASURES for label in labels):
        return Summary()  # no gold: nothing to draw or compare
    plot = Plot(
        title="The full method under each embedding model",
        kind="bars",
        x_label="measure",
        y_label="share of gold passages",
        series=tuple(
            Series(
                label=label,
                x=_MEASURES,
                y=tuple(findings.result("full", label).means[measure] for measure in _MEASURES),
            )
            for label in labels
        ),
    )
    return Summary(
        plots=(plot,),
        differences=tuple(
            difference(
                findings.setup.dataset.name,
                measure,
                (f"full, {label}", findings.outcomes[label, "full"]),
                (f"full, {first}", findings.outcomes[first, "full"]),
            )
            for label in labels[1:]
            for measure in ("recall@5", "chain@5", "recall@10")
        ),
    )


PLAN = Plan(
    title="The same index under other embedding models",
    methods=methods,
    summarise=summarise,
    indexes=indexes,
)
