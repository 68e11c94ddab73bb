"""BM25 over whole passages (Robertson and Zaragoza 2009), by the library bm25s, in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from evireform.errors import ModelUnavailable, UsageError
from evireform.evaluation.bench import Bench
from evireform.evaluation.method import Ranked
from evireform.evaluation.records import OutcomeCost
from evireform.records import Question, with_title
from evireform.settings import SearchSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Bm25:
    """Words of two or more letters in lower case, English stop words left out, no stemming.

    The weights are Lucene's, which are never negative. A passage that shares no word with the question is not
    ranked; equal scores stand in the order of the keys.
    """

    needs_model: ClassVar[bool] = False
    search: ClassVar[None] = None

    k1: float = 1.5
    b: float = 0.75

    def __post_init__(self) -> None:
        if not 0 <= self.k1 < math.inf:
            raise UsageError(f"bm25: k1 must be a finite number of at least 0, not {self.k1}")
        if not 0 <= self.b <= 1:
            raise UsageError(f"bm25: b must lie between 0 and 1, not {self.b}")

    @property
    def settings(self) -> Mapping[str, Any]:
        return {**asdict(self), "weights": "lucene", "stop_words": "english", "stemming": "none"}

    def models(self, _: Bench) -> Mapping[str, str]:
        return {}

    def rank(self, bench: Bench, questions: Sequence[Question]) -> list[Ranked]:
        keys, index, tokenize = bench.once(f"bm25 {self.k1} {self.b}", lambda: self._index(bench))
        ranked = []
        for question in questions:
            with bench.timed() as seconds:
                words = tokenize([question.text])[0]
                scores = index.get_scores(words) if words else []
                rows = sorted((-float(s), row) for row, s in enumerate(scores) if s > 0)[: bench.depth]
            passages = tuple((keys[row], -score) for score, row in rows)
            reason = "" if passages else "no passage shares a word with the question"
            ranked.append(Ranked(passages=passages, cost=OutcomeCost(seconds=seconds()), reason=reason))
        return ranked

    def _index(self, bench: Bench) -> tuple[list[str], Any, Any]:
        """Keys in code-point order, the index over their passages in this order, and what splits a text."""
        try:
            import bm25s
        except ImportError as error:
            raise ModelUnavailable(
                "bm25 needs the package bm25s: pip install 'evireform[evaluation]'"
            ) from error

        def tokenize(texts: list[str]) -> list[list[str]]:
            words: list[list[str]] = bm25s.tokenize(
                texts, stopwords="en", return_ids=False, show_progress=False
            )
            return words

        rows = sorted(bench.texts())
        titles = bench.corpus.titles
        index = bm25s.BM25(method="lucene", k1=self.k1, b=self.b)
        index.index(
            tokenize([with_title(title, text, titles) for _, title, text in rows]), show_progress=False
        )
        return [key for key, _, _ in rows], index, tokenize


def method(_: SearchSettings) -> Bm25:
    return Bm25()
