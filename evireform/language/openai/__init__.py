"""The language backend that asks a model: any server that speaks the OpenAI protocol.

One file a verb; `asking` is what they all ask through, `chat` the one door to the server, `answers` what a
model may send back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from evireform.language import Ledger
from evireform.language.openai.answering import read
from evireform.language.openai.asking import Asking
from evireform.language.openai.chat import Chat
from evireform.language.openai.control import control
from evireform.language.openai.expectation import expected_calls
from evireform.language.openai.extraction import extract
from evireform.language.openai.judging import judge
from evireform.language.openai.reformulation import reformulate
from evireform.language.openai.selection import select
from evireform.language.prompts import load, load_all
from evireform.language.tokens import Tokenizer, tokenizer_of
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
from evireform.settings import LanguageSettings


class OpenAILanguage:
    """`Language` by a chat model, with JSON answers that are checked and never trusted.

    Passages, propositions and questions go into the user message as JSON strings, and the prompt calls
    them quoted data. Candidates carry labels (``A0``, ``A1``, …) that mean nothing outside the call. An
    answer that cannot be used is sent back, twice at most, with what is wrong about it; then the verb reports
    ``degraded`` or ``error``, with every call in ``calls``.

    Raises:
        ModelUnavailable: there is no API key.
    """

    one_by_one = True
    wants_entities = False

    def __init__(self, settings: LanguageSettings, ledger: Ledger | None = None) -> None:
        self._asking = Asking(Chat(settings), settings.window_tokens, ledger)
        self._concurrency = settings.concurrency
        self._on_unsupported = settings.unsupported
        versions = "+".join(f"{prompt.purpose}.{prompt.version}" for prompt in load_all())
        self._name = f"openai/{settings.model}/{versions}"
        self._extractor = f"openai/{settings.model}/extract.{load('extract').version}"

    @property
    def name(self) -> str:
        return self._name

    @property
    def extractor(self) -> str:
        return self._extractor

    @property
    def concurrency(self) -> int:
        return self._concurrency

    def in_corpus(self, corpus: CorpusRow) -> OpenAILanguage:
        bound = copy(self)
        bound._asking = self._asking.in_corpus(corpus)
        return bound

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """A call for each passage and more for a long one, one after the other; a passage fails alone."""
        return [extract(self._asking, passage, on_unsupported=self._on_unsupported) for passage in passages]

    def expected_calls(self, passages: Sequence[Passage]) -> list[tuple[ExpectedCall, ...]]:
        return [expected_calls(self._asking, passage) for passage in passages]

    def select(self, question: str, candidates: Sequence[Candidate], *, limit: int) -> Selection:
        return select(self._asking, question, candidates, limit=limit)

    def reformulate(self, question: str, observed: Sequence[ObservedPassage], *, limit: int) -> Reformulation:
        return reformulate(self._asking, question, observed, limit=limit)

    def control(
        self, question: str, observed: Sequence[ObservedPassage], *, limit: int, round_number: int
    ) -> Control:
        return control(self._asking, question, observed, limit=limit, round_number=round_number)

    def judge(
        self,
        question: str,
        observed: Sequence[ObservedPassage],
        passages: Sequence[ObservedPassage],
        *,
        limit: int,
    ) -> Judgement:
        return judge(self._asking, question, observed, passages, limit=limit)

    @property
    def tokenizer(self) -> Tokenizer:
        return tokenizer_of(self._asking.chat.model)

    def read(
        self,
        question: str,
        passages: Sequence[ObservedPassage],
        *,
        on_text: Callable[[str], None] | None = None,
    ) -> Reading:
        return read(self._asking, question, passages, on_text=on_text)
