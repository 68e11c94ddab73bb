"""The offline backend: rules on spaCy's analysis. Deterministic, free, and without a model of language.

Written for English text; other text is taken apart at its sentence marks and works less well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evireform.language.rules.answering import read
from evireform.language.rules.english import looks_english
from evireform.language.rules.extraction import propositions
from evireform.language.rules.judging import choose_set
from evireform.language.rules.parsing import parse
from evireform.language.rules.reformulation import residual_queries
from evireform.language.rules.selection import choose
from evireform.language.rules.sentences import Sentence, sentences_of
from evireform.language.tokens import Tokenizer
from evireform.records import (
    Candidate,
    Control,
    CorpusRow,
    ExpectedCall,
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
    one_by_one = False
    wants_entities = False
    tokenizer = Tokenizer()

    def in_corpus(self, corpus: CorpusRow) -> RulesLanguage:
        return self

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """Sentences as propositions, with the names in them, each passage on its own.

        A passage whose text is not well-formed Unicode (a lone surrogate) comes back with an error.

        Raises:
            ModelUnavailable: spaCy or its English pipeline is not installed.
        """
        problems = [_problem(passage.text) for passage in passages]
        texts = ["" if problem else passage.text for passage, problem in zip(passages, problems, strict=True)]
        sentences: list[list[Sentence]] = [[] for _ in passages]
        for position, offset, doc in parse(texts):
            sentences[position] += sentences_of(doc, offset)
        return [
            Extraction(propositions=propositions(passage.text, found, passage.title), error=problem)
            for passage, found, problem in zip(passages, sentences, problems, strict=True)
        ]

    def expected_calls(self, passages: Sequence[Passage]) -> list[tuple[ExpectedCall, ...]]:
        return [() for _ in passages]

    def select(self, question: str, candidates: Sequence[Candidate], *, limit: int) -> Selection:
        return Selection(positions=choose(question, candidates)[:limit])

    def reformulate(self, question: str, observed: Sequence[ObservedPassage], *, limit: int) -> Reformulation:
        return Reformulation(queries=residual_queries(question, observed, limit=limit))

    def control(
        self, question: str, observed: Sequence[ObservedPassage], *, limit: int, round_number: int
    ) -> Control:
        """The residual queries of all evidence: those that new evidence brings to the front are new.

        Recall@5, Chain@5 of the full method on 2Wiki / MuSiQue / the MuSiQue slice, as in `judging`::

            one round       95.7, 89.8 / 71.7, 44.6 / 85.0, 68.0
            three rounds    95.7, 89.5 / 72.5, 46.4 / 84.5, 67.0
        """
        queries = residual_queries(question, observed, limit=limit)
        return Control(sufficient=not queries, queries=queries)

    def judge(
        self,
        question: str,
        observed: Sequence[ObservedPassage],
        passages: Sequence[ObservedPassage],
        *,
        limit: int,
    ) -> Judgement:
        if not any(passage.title for passage in passages):
            return Judgement(degraded="without titles the rules cannot tell what a passage is about")
        return Judgement(positions=choose_set(question, observed, passages, limit=limit))

    def read(
        self,
        question: str,
        passages: Sequence[ObservedPassage],
        *,
        on_text: Callable[[str], None] | None = None,
    ) -> Reading:
        return read(question, passages)


def _problem(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        return f"the text is not well-formed Unicode: {exc.reason}"
    return ""
