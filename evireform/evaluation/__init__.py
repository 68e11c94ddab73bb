"""Evaluation: a set of passages and questions in; measures, runs and studies out.

A *method* ranks passages for questions on a `bench`, which holds what all methods share. `running` takes the
questions through the methods and keeps every outcome as it is made. A *study* (`studies`) says which methods
to run on which indexes and what to make of them; `job` joins all of it. `records` says what is written down.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from evireform import answering
from evireform.embedding import Encoder
from evireform.errors import InputError, UsageError
from evireform.evaluation import studies
from evireform.evaluation.job import run_plan, settings_differ
from evireform.evaluation.plan import Plan, Setup, each_against
from evireform.evaluation.records import Outcome, Study
from evireform.evaluation.running import ANSWER, Progress
from evireform.formats.datasets import Dataset, read_dataset
from evireform.formats.extractions import Extractions, read_extractions
from evireform.formats.text import printable
from evireform.language import Language
from evireform.measures import CUTOFFS
from evireform.records import IngestionSummary, Passage, Question, Titles
from evireform.settings import AnswerSettings, EmbeddingSettings, SearchSettings
from evireform.store.connection import Store

__all__ = ["CUTOFFS", "METHODS", "AnswerFigures", "Evaluation", "Progress", "evaluate", "study"]

METHODS = ("dense", "base", "propagation", "reformulation", "full")
"""What is run unless told otherwise: the dense-passage baseline and the two-by-two of the method."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFigures:
    """Answers read from the rankings of one method: means over the questions that have reference answers."""

    method: str
    f1: float
    em: float
    questions: int
    unknown: int
    degraded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Measures by method, with everything needed to run it again.

    ``methods`` maps a method to its measures (``recall@5`` …, as shares of 1). ``answers`` is
    None where none were asked for, or no question has a reference answer. ``degraded`` counts the questions
    with a fall-back, by method. ``shortfalls`` say what keeps the figures from being those of the whole set.
    """

    dataset: str
    corpus: str
    titles: Titles
    questions: int
    unjudged: int
    methods: Mapping[str, Mapping[str, float]]
    answers: AnswerFigures | None
    degraded: Mapping[str, int]
    ingestion: IngestionSummary
    settings: Mapping[str, Any]
    models: Mapping[str, str]
    corpus_digest: str
    version: str
    notes: tuple[str, ...]
    shortfalls: tuple[str, ...] = ()


def evaluate(
    store: Store,
    folder: Path,
    *,
    encoder: Encoder,
    language: Language,
    settings: SearchSettings,
    methods: Sequence[str] = METHODS,
    answered: str = "",
    answer: AnswerSettings | None = None,
    corpus_name: str = "",
    titles: Titles = "on",
    extractions: Path | None = None,
    data_format: str = "",
    output: Path | None = None,
    limit: int = 0,
    sample: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Ingest what is missing of an evaluation set, and run methods on its questions.

    Candidates, selections and residual queries are made once a question and shared by all methods. What
    ``output`` holds of the same run is not made again.

    Args:
        store: The database.
        folder: The set; see `evireform.formats.datasets.read_dataset`.
        encoder: Embeds questions, propositions and passages.
        language: Extracts, selects, reformulates, judges and reads.
        settings: Configuration; ``k`` is raised to the largest cutoff.
        methods: Names; see `evireform.evaluation.method`.
        answered: The method whose rankings the reader answers from; empty answers no question.
        answer: How it answers; None takes the defaults.
        corpus_name: Corpus to use, in which passages that the set lacks stay; empty derives one from set,
            folder, titles and extractor, from which they are deleted.
        titles: Titles setting of a corpus that is made here.
        extractions: File of ready-made extractions.
        data_format: Name of the set's format; empty tells it from the files.
        output: Folder for results, outcomes and runs; None writes nothing.
        limit: Only the first questions; 0 takes all.
        sample: Only so many of them, drawn with ``seed``; 0 takes all.
        seed: What the sample is drawn with.
        progress: Told of every step.

    Raises:
        UsageError: a method does not exist or needs a language model, or the corpus has the other titles
            setting.
        InputError: a file is missing or malformed.
    """
    if answered and answered not in methods:
        raise UsageError(f"answers are read from a method that is run, not from {answered!r}")
    plan = Plan(
        title="Methods side by side",
        methods=lambda _: list(dict.fromkeys(methods)),
        pairs=each_against("full" if "full" in methods else methods[0]),
    )
    setup = _setup(
        store, folder, encoder=encoder, language=language, settings=settings, corpus_name=corpus_name,
        titles=titles, extractions=extractions, data_format=data_format, output=output, limit=limit,
        sample=sample, seed=seed, progress=progress, answers=(answer or AnswerSettings()) if answered else
        None, answered=(answered,) if answered else (),
    )  # fmt: skip
    command = [f"--methods {','.join(methods)}", *_options(setup, extractions, limit, sample, seed)]
    found, findings = run_plan(setup, plan, "methods", command=" ".join(command), sample_seed=seed)
    (condition,) = found.conditions
    return Evaluation(
        dataset=found.dataset,
        corpus=condition.corpus,
        titles=titles,
        questions=found.questions,
        unjudged=found.unjudged,
        methods={result.method: result.means for result in found.results},
        answers=_figures(answered, findings.outcomes["", answered]) if answered else None,
        degraded={result.method: result.degraded for result in found.results},
        ingestion=findings.ingestion,
        settings=found.settings,
        models=found.models,
        corpus_digest=condition.corpus_digest,
        version=found.versions["evireform"],
        notes=(*findings.setup.dataset.notes, *findings.ingestion.notes),
        shortfalls=found.shortfalls,
    )


def study(
    store: Store,
    folder: Path,
    name: str,
    *,
    encoder: Encoder,
    language: Language,
    settings: SearchSettings,
    output: Path,
    answers: AnswerSettings | None = None,
    embeddings: Sequence[EmbeddingSettings] = (),
    corpus_name: str = "",
    titles: Titles = "on",
    extractions: Path | None = None,
    data_format: str = "",
    limit: int = 0,
    sample: int = 0,
    seed: int = 0,
    progress: Progress | None = None,
) -> Study:
    """Run a study of an evaluation set, and write it to a folder; see `evaluate` for the other arguments.

    A study that was interrupted goes on where it was: outcomes that the folder holds, of the same method,
    settings, models and corpus, are not made again.

    Args:
        store: The database.
        folder: The set.
        name: A name of `studies.NAMES`.
        encoder: Embeds questions, propositions and passages.
        language: Extracts, selects, reformulates, judges and reads.
        settings: Where every method starts from.
        output: Folder of the study.
        answers: How questions are answered from the rankings of every method; None answers none.
        embeddings: Further models, for the study of them.
        corpus_name: Corpus to use.
        titles: Titles setting.
        extractions: File of ready-made extractions.
        data_format: Name of the set's format.
        limit: Only the first questions.
        sample: Only so many of them.
        seed: What the sample is drawn with.
        progress: Told of every step.

    Raises:
        UsageError: there is no such study, or it cannot be made of this set.
        InputError: a file is missing or malformed.
    """
    plan = studies.load(name)
    setup = _setup(
        store, folder, encoder=encoder, language=language, settings=settings, corpus_name=corpus_name,
        titles=titles, extractions=extractions, data_format=data_format, output=output, limit=limit,
        sample=sample, seed=seed, progress=progress, answers=answers, answered=(),
        embeddings=tuple(embeddings),
    )  # fmt: skip
    command = [f"--study {name}", *_options(setup, extractions, limit, sample, seed)]
    found, _ = run_plan(setup, plan, name, command=" ".join(command), sample_seed=seed)
    return found


def sampled(questions: Sequence[Question], *, limit: int, sample: int, seed: int) -> tuple[Question, ...]:
    """The first ``limit`` questions, and ``sample`` of them drawn with a seed, in their order.

    >>> [q.key for q in sampled([Question(key=k, text=k) for k in "abcde"], limit=4, sample=2, seed=1)]
    ['a', 'b']
    """
    first = list(questions[:limit] if limit else questions)
    if sample and sample < len(first):
        drawn = sorted(random.Random(seed).sample(range(len(first)), sample))
        first = [first[row] for row in drawn]
    return tuple(first)


def _setup(
    store: Store,
    folder: Path,
    *,
    encoder: Encoder,
    language: Language,
    settings: SearchSettings,
    corpus_name: str,
    titles: Titles,
    extractions: Path | None,
    data_format: str,
    output: Path | None,
    limit: int,
    sample: int,
    seed: int,
    progress: Progress | None,
    answers: AnswerSettings | None,
    answered: tuple[str, ...],
    embeddings: tuple[EmbeddingSettings, ...] = (),
) -> Setup:
    """Read the set, and derive what is derived."""
    dataset = read_dataset(folder, format_name=data_format)
    extractor = "file" if extractions else language.name.split("/")[0]
    least = answering.depth(answers) if answers else 1
    ready = _extractions(extractions, dataset) if extractions else None
    return Setup(
        store=store,
        dataset=dataset,
        questions=sampled(dataset.questions, limit=limit, sample=sample, seed=seed),
        encoder=encoder,
        language=language,
        settings=replace(settings, k=max(settings.k, least, *CUTOFFS), log=False),
        corpus_name=corpus_name or f"{dataset.name}-{extractor}-titles-{titles}-{_place(dataset)}",
        own_corpus=not corpus_name,
        titles=titles,
        extractor=extractor,
        extractions=ready,
        answers=answers,
        answered=answered,
        embeddings=embeddings,
        directory=output,
        progress=progress,
        shortfalls=_left_out(ready) if ready is not None else (),
    )


def _place(dataset: Dataset) -> str:
    """A few letters that tell sets of one name in different folders apart."""
    paths = [path.parent.resolve() / path.name for path in dataset.paths]
    return hashlib.sha256(os.fsencode(os.path.commonpath(paths))).hexdigest()[:8]


def _extractions(path: Path, dataset: Dataset) -> Extractions:
    """Ready-made extractions of a set.

    Raises:
        InputError: the file cannot be read, or has nothing for any passage of the set.
    """
    found = read_extractions(path)
    if all(extraction.error for extraction in found.values()):
        reason = f" ({_first(found)})" if found.rejected else ""
        raise InputError(f"{printable(path)} holds no usable extraction{reason}", path=path)
    if not any(isinstance(row, Passage) and row.key in found for row in dataset.passages()):
        raise InputError(f"{printable(path)} holds no extraction of a passage of the set", path=path)
    return found


def _left_out(extractions: Extractions) -> tuple[str, ...]:
    """What the file of extractions lost, where it lost anything."""
    if not extractions.rejected:
        return ()
    return (f"{len(extractions.rejected)} faults in the file of extractions ({_first(extractions)})",)


def _first(extractions: Extractions) -> str:
    first = extractions.rejected[0]
    return f"the first, on line {first.line_number}: {first.reason}"


def _options(setup: Setup, extractions: Path | None, limit: int, sample: int, seed: int) -> list[str]:
    """The rest of the command that makes a study again, without paths."""
    return [
        f"--titles {setup.titles}",
        *([f"--extractions {extractions.name}"] if extractions else []),
        *([f"--limit {limit}"] if limit else []),
        *([f"--sample {sample} --seed {seed}"] if sample else []),
        *(["--answers"] if setup.answers else []),
        *(f"--embedding backend={one.backend},model={Path(one.model).name}" for one in setup.embeddings),
        *settings_differ(setup.settings),
    ]


def _figures(method: str, outcomes: Mapping[str, Outcome]) -> AnswerFigures | None:
    """What the answers of a method amount to; None where no question has a reference answer."""
    judged = [one for one in outcomes.values() if "f1" in one.measures]
    if not judged:
        return None
    return AnswerFigures(
        method=method,
        f1=fmean(one.measures["f1"] for one in judged),
        em=fmean(one.measures["em"] for one in judged),
        questions=len(judged),
        unknown=sum(one.answer == answering.UNKNOWN for one in judged),
        degraded=sum(any(reason.startswith(ANSWER) for reason in one.degraded) for one in judged),
    )
