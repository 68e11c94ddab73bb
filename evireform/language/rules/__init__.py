"""The offline backend: rules on spaCy's analysis. Deterministic, free, and without a model of language.

Written for English text; other text is taken apart at its sentence marks and works less well.
"""

from __future__ import annotations

from collections.abc import Sequence

from evireform.language.rules.english import looks_english
from evireform.language.rules.extraction import propositions
from evireform.language.rules.parsing import parse
from evireform.language.rules.reformulation import residual_queries
from evireform.language.rules.selection import choose
from evireform.language.rules.sentences import sentences_of
from evireform.records import (
    Candidate,
    Control,
    CorpusRow,
    Extraction,
    Judgement,
    ObservedPassage,
    Passage,
    Reading,
    Reformulation,
    Selection,
)

__all__ = ["RulesLanguage", "looks_english"]


class RulesLanguage:
    """`evireform.language.Language` by rules.

    >>> RulesLanguage().name
    'rules/1'
    """

    name = "rules/1"
    extractor = "rules/1"
    concurrency = 1
    wants_entities = False

    def in_corpus(self, corpus: CorpusRow) -> RulesLanguage:
        return self

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """Sentences as propositions, with the names in them, each passage on its own.

        A passage whose text is not well-formed Unicode (a lone surrogate) comes back with an error.

        Raises:
            ModelUnavailable: spaCy or its English pipeline is not installed.
        """
        return [_extract(passage) for passage in passages]

    def select(self, question: str, candidates: Sequence[Candidate], *, limit: int) -> Selection:
        return Selection(positions=choose(question, candidates)[:limit])

    def reformulate(self, question: str, observed: Sequence[ObservedPassage], *, limit: int) -> Reformulation:
        return Reformulation(queries=residual_queries(question, observed, limit=limit))

    def control(self, question: str, observed: Sequence[ObservedPassage], *, limit: int) -> Control:
        queries = residual_queries(question, observed, limit=limit)
        return Control(sufficient=not queries, queries=queries)

    def judge(self, question: str, passages: Sequence[ObservedPassage], *, limit: int) -> Judgement:
        return Judgement(degraded="the rules backend judges no sets of passages")

    def read(self, question: str, passages: Sequence[ObservedPassage]) -> Reading:
        return Reading(text="unknown")


def _extract(passage: Passage) -> Extraction:
    try:
        sentences = [s for offset, doc in parse(passage.text) for s in sentences_of(doc, offset)]
    except UnicodeEncodeError as exc:
        return Extraction(error=f"the text is not well-formed Unicode: {exc.reason}")
    return Extraction(propositions=propositions(passage.text, sentences, passage.title))
