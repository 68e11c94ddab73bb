"""What a study is made of: the indexes that it runs on, the methods, and what it makes of the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evireform.embedding import Encoder
from evireform.evaluation.records import Condition, Difference, MethodResult, Outcome, Plot, Table
from evireform.evaluation.running import Progress
from evireform.formats.datasets import Dataset
from evireform.language import Language
from evireform.records import Extraction, IngestionSummary, Question, Titles
from evireform.settings import AnswerSettings, EmbeddingSettings, SearchSettings
from evireform.store.connection import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Everything that a run is given.

    ``questions`` are those that are asked. ``settings`` is where every method starts from; its ``k`` is the
    depth of the rankings. ``embeddings`` are the further models of the study of them. ``directory`` is where
    the study is written; None writes nothing. ``answers`` says how questions are answered from the rankings;
    None answers none. ``answered`` names the methods that are answered from; empty is all of them.
    ``own_corpus`` tells that the corpus is of this set alone: what the set lacks is deleted from it.
    ``shortfalls`` say what was lost before anything was run.
    """

    store: Store
    dataset: Dataset
    questions: tuple[Question, ...]
    encoder: Encoder
    language: Language
    settings: SearchSettings
    corpus_name: str
    own_corpus: bool
    titles: Titles
    extractor: str
    extractions: Mapping[str, Extraction] | None
    answers: AnswerSettings | None
    answered: tuple[str, ...]
    embeddings: tuple[EmbeddingSettings, ...]
    directory: Path | None
    progress: Progress | None
    shortfalls: tuple[str, ...] = ()

    @property
    def has_model(self) -> bool:
        """Whether a language model is set, and not rules."""
        return not self.language.name.startswith("rules")


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """One index of a study.

    ``label`` is empty where the study has only one. ``prepare`` brings the corpus to what it has to hold.
    ``source`` is a fingerprint of what it is made from, by which its outcomes are known again without making
    it anew; empty looks at the corpus itself each time.
    """

    label: str
    corpus_name: str
    encoder: Encoder
    questions: tuple[Question, ...]
    prepare: Callable[[], IngestionSummary]
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found: results in order, and outcomes by condition and method."""

    setup: Setup
    conditions: tuple[Condition, ...]
    results: tuple[MethodResult, ...]
    outcomes: Mapping[tuple[str, str], Mapping[str, Outcome]]
    ingestion: IngestionSummary

    def result(self, method: str, label: str = "") -> MethodResult:
        """The result of a method under a condition."""
        return next(r for r in self.results if (r.method, r.condition) == (method, label))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a study adds to the results and the differences of its pairs."""

    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A study.

    Attributes:
        title: What it asks, in a few words. methods: Names of the methods for a setup, in the order in which
        they are shown. pairs: Methods whose differences are tested, each ``(method, against)``; one that is
        not run is skipped. summarise: What it makes of the findings. indexes: The indexes, the main one
        first; None is the corpus as it is.
    """

    title: str
    methods: Callable[[Setup], Sequence[str]]
    pairs: Callable[[Sequence[str]], Sequence[tuple[str, str]]] = field(default=lambda _: ())
    summarise: Callable[[Findings], Summary] = field(default=lambda _: Summary())
    indexes: Callable[[Setup], Iterator[Index]] | None = None


def each_against(last: str) -> Callable[[Sequence[str]], list[tuple[str, str]]]:
    """Pairs of one method with each of the others.

    >>> each_against("full")(["base", "full", "dense"])
    [('full', 'base'), ('full', 'dense')]
    """
    return lambda methods: [(last, other) for other in methods if other != last]
