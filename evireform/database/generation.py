"""A corpus with the generation of it that is made beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from evireform import generations, ingestion
from evireform.errors import UsageError
from evireform.records import (
    CorpusRow,
    Estimate,
    IngestionSummary,
    Question,
    Ranking,
    Titles,
)
from evireform.retrieval import pipeline
from evireform.store.corpora import get_corpus
from evireform.store.generations import find_shadow

if TYPE_CHECKING:
    from evireform.database import Database
    from evireform.database.corpus import Corpus
    from evireform.generations.comparing import GenerationComparison


class Generation:
    """The corpus that serves under a name, and a shadow of it, extracted with the settings of now.

    Searches and writers know the name and nothing of the shadow, until `switch`; see `evireform.generations`.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.database = corpus.database
        self.name = corpus.name

    def start(
        self,
        *,
        as_name: str | None = None,
        titles: Titles | None = None,
        progress: ingestion.Progress | None = None,
        working_on: ingestion.WorkingOn | None = None,
    ) -> IngestionSummary:
        """Extract the passages of the corpus into its shadow, or go on with that.

        See `evireform.generations.start`.
        """
        return generations.start(
            self.database.store,
            self.name,
            encoder=self.database.encoder,
            language=self.database.language,
            as_name=as_name,
            titles=titles,
            progress=progress,
            working_on=working_on,
        )

    def estimate(self, *, as_name: str | None = None, titles: Titles | None = None) -> Estimate:
        """What `start` would ask of a model. Asks none, and makes no corpus."""
        return generations.estimate(
            self.database.store,
            self.name,
            language=self.database.language,
            settings=self.database.settings.language,
            as_name=as_name,
            titles=titles,
        )

    def shadow(self) -> str | None:
        """Name of the shadow; None where there is none."""
        with self.database.store.transaction(read_only=True) as tx:
            found = find_shadow(tx, get_corpus(tx, self.name))
        return found.name if found else None

    def status(self) -> generations.Standing:
        """Both generations, and what the shadow still lacks."""
        return generations.standing(self.database.store, self.name)

    def compare(
        self,
        questions: Sequence[Question],
        *,
        k: int = 5,
        shadow: Database | None = None,
        progress: ingestion.Progress | None = None,
    ) -> GenerationComparison:
        """Ask both generations the same questions; nothing is logged.

        Args:
            questions: At least one; those with gold passages are measured.
            k: Passages of a ranking that are compared.
            shadow: Searches the shadow, where that needs other settings, such as its embedding model; None
                takes the database itself.
            progress: Called with the number of questions that both were asked since the last call.

        Raises:
            UsageError: there is no shadow, or no question, or ``k`` is out of range.
            VectorSpaceMismatch: a generation was embedded with another model than the settings name.
        """
        from evireform.generations.comparing import compare

        if not questions:
            raise UsageError("there is no question to compare by")
        with self.database.store.transaction(read_only=True) as tx:
            serving, other = generations.pair(tx, self.name)
        searches = (self._search(self.database, serving, k), self._search(shadow or self.database, other, k))
        return compare((serving.name, other.name), questions, searches, k=k, progress=progress)

    @staticmethod
    def _search(database: Database, corpus: CorpusRow, k: int) -> Callable[[Sequence[str]], list[Ranking]]:
        return partial(
            pipeline.search,
            database.store,
            corpus.name,
            encoder=database.encoder,
            language=database.language,
            settings=replace(database.settings.search, k=k, log=False),
        )

    def switch(self, *, force: bool = False) -> str:
        """Let the shadow serve under the name; returns that under which the old one is kept, as its shadow.

        Again, it switches back. See `evireform.generations.switch`.
        """
        return generations.switch(self.database.store, self.name, force=force)

    def drop(self) -> str:
        """Delete the generation that does not serve; returns the name that it had."""
        return generations.drop(self.database.store, self.name)
