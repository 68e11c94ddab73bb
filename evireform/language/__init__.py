"""Language backends: one protocol, four verbs (extract, select, reformulate, answer).

`load` builds the backend that the settings name. Importing this package loads no model library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from evireform.records import (
    Candidate,
    Extraction,
    ObservedPassage,
    Passage,
    Reformulation,
    Selection,
)

if TYPE_CHECKING:
    from evireform.settings import LanguageSettings


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
    def wants_entities(self) -> bool:
        """Whether `select` reads the entities of candidates (one more join in the candidate statement)."""
        ...

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """Propositions with their entities, one `Extraction` per passage, in order.

        The result for a passage must not depend on the others in the call.
        """
        ...

    def select(self, question: str, candidates: Sequence[Candidate], *, limit: int) -> Selection:
        """Positions of the candidates that open every route to the evidence, best first."""
        ...

    def reformulate(self, question: str, observed: Sequence[ObservedPassage], *, limit: int) -> Reformulation:
        """Queries for what the question needs and the observed passages do not hold."""
        ...


def load(settings: LanguageSettings) -> Language:
    """The backend that the settings name.

    Raises:
        ModelUnavailable: its packages are not installed, or no key is set.
    """
    if settings.backend == "openai":
        from evireform.language.openai import OpenAILanguage

        return OpenAILanguage(settings)
    from evireform.language.rules import RulesLanguage

    return RulesLanguage()
