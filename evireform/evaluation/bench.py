"""The bench: what the methods of a run share, so that it is computed and paid once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from evireform.embedding import Encoder
from evireform.errors import UsageError
from evireform.evaluation.passage_space import ensure_passage_space
from evireform.evaluation.remembering import RememberingEncoder
from evireform.language import Language
from evireform.records import ObservedPassage, Question, SpaceRow
from evireform.retrieval.clock import Clock
from evireform.retrieval.observation import Observation, observe
from evireform.retrieval.pipeline import open_space
from evireform.settings import SearchSettings
from evireform.store import searching
from evireform.store.connection import Store

POOL = 40
"""Passages of dense search that rerankers order."""

PAGE = 1_000
"""Passages that are read together where a method reads all."""

_OF_RANKING = ("k", "alpha", "beta", "propagate", "hub_degree", "log", "set_pool")
"""Settings that nothing which is observed depends on."""

Dense = list[list[tuple[str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Observations of a batch of questions, and the seconds that each stage took for all of them."""

    observations: tuple[Observation, ...]
    stage_s: Mapping[str, float]


class Bench:
    """One index with everything that ranks on it.

    A run goes through its questions batch by batch (`begin`), every method in turn; what one of them had
    made for the batch, the others find made. What a method makes once for the whole index, it keeps in
    `once`.

    Attributes:
        store: The database.
        corpus: The corpus.
        space: Its proposition vectors.
        encoder: The embedding model; remembers the vectors of questions.
        language: The language backend, with its calls recorded for this corpus.
        settings: The search settings of the run, which every method starts from.

    Raises:
        UsageError: the settings hold a filter, which most methods know nothing of.
    """

    def __init__(
        self,
        store: Store,
        corpus_name: str,
        *,
        encoder: Encoder,
        language: Language,
        settings: SearchSettings,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        if settings.where:
            raise UsageError("an evaluation is of the whole corpus: leave the filter out")
        self.store = store
        self.corpus, self.space = open_space(store, corpus_name, encoder, Clock())
        self.encoder = RememberingEncoder(encoder)
        self.language = language.in_corpus(self.corpus)
        self.settings = settings
        self._progress = progress
        self._expected: list[SearchSettings] = []
        self._observed: dict[tuple[SearchSettings, tuple[str, ...]], Observed] = {}
        self._dense: dict[tuple[int, tuple[str, ...]], tuple[Dense, float]] = {}
        self._kept: dict[str, Any] = {}

    @property
    def depth(self) -> int:
        """Passages that a ranking may hold."""
        return self.settings.k

    def expect(self, searches: Sequence[SearchSettings]) -> None:
        """Be told what the methods of the run will ask of `observations`."""
        self._expected = list(searches)

    def begin(self) -> None:
        """Forget what was made for the last batch."""
        self._observed.clear()
        self._dense.clear()

    def observations(self, questions: Sequence[Question], settings: SearchSettings) -> Observed:
        """Candidates, selections, residual queries: made once for all methods that differ in ranking only."""
        shared = self.observing(settings)
        asked = (shared, tuple(question.key for question in questions))
        if asked not in self._observed:
            clock = Clock()
            spared = self.encoder.spared_s
            observations = observe(
                self.store, self.corpus, self.space, [question.text for question in questions],
                encoder=self.encoder, language=self.language, settings=shared, clock=clock,
            )  # fmt: skip
            clock.stage_s["embed"] += self.encoder.spared_s - spared
            self._observed[asked] = Observed(observations=tuple(observations), stage_s=clock.stage_s)
        return self._observed[asked]

    def observing(self, settings: SearchSettings) -> SearchSettings:
        """The settings that questions are observed with, for these and all expected ones that they serve.

        Observations serve another search where it asks the same of the models: the same candidates and
        selection, and as many residual queries as the run's own settings or fewer, which are then the first
        of the same. Of several rounds each depends on all that was found before, so that the numbers of
        queries and of their hits have to be the same.
        """
        of_selection = ("candidates", "selected", "exact", "ef_search")
        fitting = [
            other
            for other in (settings, *self._expected)
            if all(getattr(other, name) == getattr(settings, name) for name in of_selection)
        ]
        asking = [other for other in fitting if other.reformulate != "off"]
        plain = replace(
            settings,
            reformulate="residual" if asking else "off",
            residual_queries=max(settings.residual_queries, self.settings.residual_queries),
            hits_per_query=self.settings.hits_per_query,
            rounds=1,
            set_weight=max(other.set_weight for other in fitting),
            **{name: getattr(self.settings, name) for name in _OF_RANKING},
        )
        several = [other for other in asking if other.rounds > 1]
        if settings.rounds > 1 and settings in several:
            budget = (settings.residual_queries, settings.hits_per_query)
        else:
            budgets = [(other.residual_queries, other.hits_per_query) for other in several]
            budget = next((one for one in budgets if one[0] == plain.residual_queries), (0, 0))
        rounds = [o.rounds for o in several if (o.residual_queries, o.hits_per_query) == budget]
        if not rounds:
            return plain
        return replace(plain, residual_queries=budget[0], hits_per_query=budget[1], rounds=max(rounds))

    def dense(self, questions: Sequence[Question], limit: int) -> tuple[Dense, float]:
        """The ``limit`` passages nearest to each question by their whole text, and the seconds it took."""
        asked = (limit, tuple(question.key for question in questions))
        if asked not in self._dense:
            space = self.passage_space()
            with self.timed() as seconds:
                vectors = self.encoder.encode_questions([question.text for question in questions])
                with self.store.transaction(read_only=True, exact=self.settings.exact) as tx:
                    found, _ = searching.passage_hits(tx, space, vectors, limit=limit)
            self._dense[asked] = (found, seconds())
        return self._dense[asked]

    def passage_space(self) -> SpaceRow:
        """Vectors of all passages, made where they are missing."""
        space: SpaceRow = self.once(
            "passage space",
            lambda: ensure_passage_space(self.store, self.corpus.name, self.encoder, progress=self._progress),
        )
        return space

    def passages(self, keys: Sequence[str]) -> dict[str, ObservedPassage]:
        """Whole passages by key; titles are empty where the corpus does not use them."""
        with self.store.transaction(read_only=True) as tx:
            found = searching.context_passages(tx, self.corpus.corpus_id, keys, titles=self.corpus.titles)
        return {key: one.passage for key, one in found.items()}

    def texts(self) -> Iterator[tuple[str, str, str]]:
        """Key, title and text of every passage that may be ranked, in key order."""
        after = ""
        while True:
            with self.store.transaction(read_only=True) as tx:
                rows = searching.passage_texts(tx, self.corpus.corpus_id, after=after, fetch=PAGE)
            if not rows:
                return
            yield from rows
            after = rows[-1][0]

    def once(self, name: str, make: Callable[[], Any]) -> Any:
        """What a method makes for the whole index: made the first time, then kept."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    @contextmanager
    def timed(self) -> Iterator[Callable[[], float]]:
        """Gives a function that tells the seconds of the block, with those that shared vectors spared it."""
        start, spared = time.perf_counter(), self.encoder.spared_s
        end: list[float] = []
        yield lambda: end[0]
        end.append(time.perf_counter() - start + self.encoder.spared_s - spared)
