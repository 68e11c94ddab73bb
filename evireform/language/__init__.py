"""Language backends: one protocol, and a verb for each thing that a search or an ingestion asks of language.

`load` builds the backend that the settings name. Importing this package loads no model library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from evireform.language.tokens import Tokenizer
from evireform.records import (
    Candidate,
    Control,
    CorpusRow,
    ExpectedCall,
    Extraction,
    Judgement,
    ModelCall,
    ObservedPassage,
    Passage,
    Reading,
    Reformulation,
    Selection,
)

if TYPE_CHECKING:
    from evireform.settings import LanguageSettings


class Ledger(Protocol):
    """What a backend that calls models records and looks up; `evireform.store.calls` keeps it.

    Every method may be called from many threads.
    """

    @property
    def caches(self) -> bool:
        """Whether `find` may find anything."""
        ...

    def find(self, corpus: CorpusRow, key: str) -> str | None:
        """The answer to an identical call, or None: there is none, it has expired, or the cache is off.

        Args:
            corpus: Whose call it is; answers of other tenants are never found.
            key: Hash of server, model, parameters and messages.
        """
        ...

    def permit(self, tokens: int) -> None:
        """Ask leave for a call of about this many tokens.

        Raises:
            BudgetSpent: it would go beyond the budget.
        """
        ...

    def record(self, corpus: CorpusRow, call: ModelCall, *, key: str, answer: str | None) -> ModelCall:
        """Write a call down as soon as it ended. Never raises; what cannot be written is logged as a warning.

        Args:
            corpus: Whose call it is.
            call: The call.
            key: As in `find`.
            answer: The model's message where it was usable, to answer identical calls with; else None.

        Returns:
            The call with ``call_id`` and ``cost``.
        """
        ...


class Language(Protocol):
    """What the pipeline asks of a language backend.

    A verb never raises for what a model did: it reports ``degraded`` or ``error`` in its result, and
    the pipeline falls back as SPEC section 2 says. Titles come empty where the corpus does not use them.
    """

    @property
    def name(self) -> str:
        """Backend, model and prompt versions, for example ``rules/1``; recorded with what it made."""
        ...

    @property
    def extractor(self) -> str:
        """The part of the name that extractions depend on; a corpus records it."""
        ...

    @property
    def concurrency(self) -> int:
        """How many calls of a verb are worth having in flight at once; 1 runs all in the caller's thread."""
        ...

    @property
    def one_by_one(self) -> bool:
        """Whether `extract` is to be given one passage a call: each is paid for, and none may be lost."""
        ...

    def in_corpus(self, corpus: CorpusRow) -> Language:
        """The backend, with its calls recorded for this corpus. Cheap; a job calls it first."""
        ...

    @property
    def wants_entities(self) -> bool:
        """Whether `select` reads the entities of candidates (one more join in the candidate statement)."""
        ...

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """Propositions with their entities, one `Extraction` per passage, in order.

        The result for a passage must not depend on the others in the call. A spent budget is not raised but
        reported as ``in_vain`` (``"budget"``), with the calls that were made before.
        """
        ...

    def expected_calls(self, passages: Sequence[Passage]) -> list[tuple[ExpectedCall, ...]]:
        """The model calls that `extract` would begin with for each passage; none where it asks no model."""
        ...

    def select(self, question: str, candidates: Sequence[Candidate], *, limit: int) -> Selection:
        """Positions of the candidates that open every route to the evidence, best first."""
        ...

    def reformulate(self, question: str, observed: Sequence[ObservedPassage], *, limit: int) -> Reformulation:
        """Queries for what the question needs and the observed passages do not hold."""
        ...

    def control(
        self, question: str, observed: Sequence[ObservedPassage], *, limit: int, round_number: int
    ) -> Control:
        """Before a later round: whether all evidence so far suffices, or else a query for each gap.

        The caller drops queries that were asked before and keeps the first ``limit`` of the others.
        ``round_number`` is the round that the queries would begin, for the ledger.
        """
        ...

    def judge(
        self,
        question: str,
        observed: Sequence[ObservedPassage],
        passages: Sequence[ObservedPassage],
        *,
        limit: int,
    ) -> Judgement:
        """Positions in ``passages`` of those that, with the evidence, answer the question as a set.

        The most needed first, at most ``limit``; what is left out adds nothing.
        """
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """What counts the tokens of passages for `read`."""
        ...

    def read(
        self,
        question: str,
        passages: Sequence[ObservedPassage],
        *,
        on_text: Callable[[str], None] | None = None,
    ) -> Reading:
        """A short answer from these passages, or ``unknown``; without passages from knowledge alone.

        ``on_text`` is called with the answer so far as it is written, by a backend that writes: with an empty
        text whenever it begins anew.
        """
        ...


def load(settings: LanguageSettings, ledger: Ledger | None = None) -> Language:
    """The backend that the settings name.

    Args:
        settings: Backend, model, server.
        ledger: Records the calls and answers identical ones; None does neither.

    Raises:
        ModelUnavailable: its packages are not installed, or no key is set.
    """
    if settings.backend == "openai":
        from evireform.language.openai import OpenAILanguage

        return OpenAILanguage(settings, ledger)
    from evireform.language.rules import RulesLanguage

    return RulesLanguage()
