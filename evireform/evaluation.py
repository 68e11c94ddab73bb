"""Evaluation: a folder of passages and questions in, measures and runs out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from evireform import baselines, ingestion
from evireform.embedding import Encoder
from evireform.errors import InputError, UsageError
from evireform.formats.extractions import read_extractions
from evireform.formats.passages import read_passages
from evireform.formats.questions import read_questions
from evireform.formats.runs import write_qrels, write_run
from evireform.language import Language
from evireform.measures import measure
from evireform.records import IngestionSummary, Question, Titles
from evireform.retrieval.clock import Clock
from evireform.retrieval.observation import observe
from evireform.retrieval.pipeline import BATCH, open_space, rank
from evireform.settings import VARIANTS, SearchSettings
from evireform.store import corpora
from evireform.store.connection import Store
from evireform.version import __version__

CUTOFFS = (1, 5, 10, 20)
METHODS = ("dense", "base", "propagation", "reformulation", "full")
"""What is run unless told otherwise: the dense-passage baseline and the two-by-two of the method."""

Progress = Callable[[str, int, int], None]
"""Called with the stage, what is done since the last call, and the total (0 where it is not known)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Measures by method, with everything needed to run it again.

    ``methods`` maps a method to its measures (``recall@5`` …, as shares of 1). ``degraded`` counts the
    questions with a fall-back, by method.
    """

    dataset: str
    corpus: str
    titles: Titles
    questions: int
    unjudged: int
    methods: Mapping[str, Mapping[str, float]]
    degraded: Mapping[str, int]
    ingestion: IngestionSummary
    settings: Mapping[str, Any]
    models: Mapping[str, str]
    corpus_digest: str
    version: str
    notes: tuple[str, ...]


def evaluate(
    store: Store,
    folder: Path,
    *,
    encoder: Encoder,
    language: Language,
    settings: SearchSettings,
    methods: Sequence[str] = METHODS,
    corpus_name: str = "",
    titles: Titles = "on",
    extractions: Path | None = None,
    output: Path | None = None,
    limit: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Ingest what is missing of ``folder/corpus.jsonl``, run the methods on ``folder/questions.jsonl``.

    Candidates, selections and residual queries are made once a question and shared by all variants.

    Args:
        store: The database.
        folder: Holds ``corpus.jsonl`` and ``questions.jsonl``.
        encoder: Embeds questions, propositions and passages.
        language: Extracts, selects and reformulates.
        settings: Configuration; ``k`` is raised to the largest cutoff.
        methods: Names of variants, and ``dense``.
        corpus_name: Corpus to use; empty derives one from folder, titles and extractor.
        titles: Titles setting of a corpus that is made here.
        extractions: File of ready-made extractions.
        output: Folder for runs, qrels and ``evaluation.json``; None writes nothing.
        limit: Only the first questions; 0 takes all.
        progress: Told of every step.

    Raises:
        UsageError: a method does not exist, or the corpus has the other titles setting.
        InputError: a file is missing or malformed.
    """
    unknown = [name for name in methods if name != "dense" and name not in VARIANTS]
    if unknown:
        raise UsageError(f"no method is called {unknown[0]!r}; there are dense, {', '.join(VARIANTS)}")
    for name in ("corpus.jsonl", "questions.jsonl"):
        if not (folder / name).is_file():
            raise InputError(f"there is no {name} in {folder}: evaluate needs it", path=folder / name)
    questions = read_questions(folder / "questions.jsonl")
    questions = questions[:limit] if limit else questions
    extractor = "file" if extractions else language.name.split("/")[0]
    name = corpus_name or f"{folder.resolve().name}-{extractor}-titles-{titles}"
    with store.transaction() as tx:
        corpora.create_corpus(tx, name, titles=titles)
    ready = read_extractions(extractions) if extractions else None
    summary = ingestion.ingest(
        store,
        name,
        read_passages([folder / "corpus.jsonl"]),
        encoder=encoder,
        language=language,
        extractions=ready,
        progress=_stage(progress, "ingest", 0),
    )
    settings = replace(settings, k=max(settings.k, *CUTOFFS), log=False)
    rankings, degraded = _run_variants(
        store, name, questions, encoder, language, settings, [m for m in methods if m != "dense"], progress
    )
    if "dense" in methods:
        space = baselines.ensure_passage_space(
            store, name, encoder, progress=_stage(progress, "embed passages", 0)
        )
        found = baselines.dense_passages(
            store, space, [q.text for q in questions], encoder=encoder, k=settings.k, exact=settings.exact
        )
        rankings["dense"] = {q.key: hits for q, hits in zip(questions, found, strict=True)}
    gold = {question.key: question.gold for question in questions}
    means: dict[str, Mapping[str, float]] = {}
    unjudged = 0
    for method in methods:
        keys = {key: [passage for passage, _ in hits] for key, hits in rankings[method].items()}
        measured = measure(keys, gold, cutoffs=CUTOFFS)
        means[method], unjudged = measured.means, measured.unjudged
    with store.transaction(read_only=True) as tx:
        corpus = corpora.get_corpus(tx, name)
        digest = tx.run("corpus_digest", {"corpus_id": corpus.corpus_id})[0][0]
    result = Evaluation(
        dataset=folder.resolve().name,
        corpus=name,
        titles=titles,
        questions=len(questions),
        unjudged=unjudged,
        methods=means,
        degraded=degraded,
        ingestion=summary,
        settings=asdict(settings),
        models={"embedding": encoder.model, "language": language.name, "extractor": extractor},
        corpus_digest=digest,
        version=__version__,
        notes=summary.notes,
    )
    if output is not None:
        _write(output, result, rankings, questions)
    return result


def _run_variants(
    store: Store,
    corpus_name: str,
    questions: Sequence[Question],
    encoder: Encoder,
    language: Language,
    settings: SearchSettings,
    variants: Sequence[str],
    progress: Progress | None,
) -> tuple[dict[str, dict[str, list[tuple[str, float]]]], dict[str, int]]:
    """Observe every question once, then rank it under each variant."""
    rankings: dict[str, dict[str, list[tuple[str, float]]]] = {name: {} for name in variants}
    degraded = dict.fromkeys(variants, 0)
    if not variants:
        return rankings, degraded
    configurations = {name: settings.variant(name) for name in variants}
    asks = any(c.reformulate != "off" for c in configurations.values())
    observing = replace(settings, reformulate="residual" if asks else "off")
    clock = Clock()
    corpus, space = open_space(store, corpus_name, encoder, clock)
    for start in range(0, len(questions), BATCH):
        batch = questions[start : start + BATCH]
        observations = observe(
            store, corpus, space, [q.text for q in batch],
            encoder=encoder, language=language, settings=observing, clock=clock,
        )  # fmt: skip
        for name, configuration in configurations.items():
            # What went wrong in a step that this variant does not take is no fault of its ranking.
            skipped = ("observation: ", "reformulation: ") if configuration.reformulate == "off" else ()
            ranked = rank(
                store, corpus, space, observations, settings=configuration, clock=clock, method=name
            )
            for question, ranking in zip(batch, ranked, strict=True):
                rankings[name][question.key] = [(p.passage_key, p.score) for p in ranking.passages]
                degraded[name] += any(not reason.startswith(skipped) for reason in ranking.degraded)
        if progress:
            progress("search", len(batch), len(questions))
    return rankings, degraded


def _stage(progress: Progress | None, stage: str, total: int) -> Callable[[int], None] | None:
    return None if progress is None else lambda done: progress(stage, done, total)


def _write(
    output: Path,
    result: Evaluation,
    rankings: Mapping[str, Mapping[str, list[tuple[str, float]]]],
    questions: Sequence[Question],
) -> None:
    """TREC runs and qrels, and the measures with settings, models and corpus digest beside them."""
    output.mkdir(parents=True, exist_ok=True)
    for method, of_question in rankings.items():
        write_run(output / f"{method}.run", of_question, tag=method)
    write_qrels(output / "qrels.txt", questions)
    text = json.dumps(asdict(result), indent=2, ensure_ascii=False, sort_keys=True)
    (output / "evaluation.json").write_text(text + "\n", encoding="utf-8")
