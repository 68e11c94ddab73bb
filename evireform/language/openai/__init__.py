"""The language backend that asks a model: any server that speaks the OpenAI protocol.

One file a verb; `asking` is what they all ask through, `chat` the one door to the server, `answers` what a
model may send back.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from evireform.language import Ledger
from evireform.language.openai.asking import Asking
from evireform.language.openai.chat import Chat
from evireform.language.openai.extraction import extract
from evireform.language.openai.reformulation import reformulate
from evireform.language.openai.selection import select
from evireform.language.prompts import load_all
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
from evireform.settings import LanguageSettings


class OpenAILanguage:
    """`Language` by a chat model, with JSON answers that are checked and never trusted.

    Passages, propositions and questions go into the user message as JSON strings, and the prompt calls
    them quoted data. Candidates carry labels (``A0``, ``A1``, …) that mean nothing outside the call. An
    answer that cannot be used is sent back once with what is wrong about it; after that the verb reports
    ``degraded`` or ``error``, with every call in ``calls``.

    Raises:
        ModelUnavailable: there is no API key.
    """

    wants_entities = False

    def __init__(self, settings: LanguageSettings, ledger: Ledger | None = None) -> None:
        self._asking = Asking(Chat(settings), settings.window_tokens)
        self._concurrency = settings.concurrency
        versions = "+".join(f"{prompt.purpose}.{prompt.version}" for prompt in load_all())
        self._name = f"openai/{settings.model}/{versions}"

    @property
    def name(self) -> str:
        return self._name

    @property
    def extractor(self) -> str:
        return self._name

    @property
    def concurrency(self) -> int:
        return self._concurrency

    def in_corpus(self, corpus: CorpusRow) -> OpenAILanguage:
        return self

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        """One call per passage, ``settings.concurrency`` at once; a passage fails alone."""
        if len(passages) == 1:
            return [extract(self._asking, passages[0])]
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="evireform-extract") as threads:
            return list(threads.map(lambda passage: extract(self._asking, passage), passages))

    def select(self, question: str, candidates: Sequence[Candidate], *, limit: int) -> Selection:
        return select(self._asking, question, candidates, limit=limit)

    def reformulate(self, question: str, observed: Sequence[ObservedPassage], *, limit: int) -> Reformulation:
        return reformulate(self._asking, question, observed, limit=limit)

    def control(self, question: str, observed: Sequence[ObservedPassage], *, limit: int) -> Control:
        raise NotImplementedError

    def judge(self, question: str, passages: Sequence[ObservedPassage], *, limit: int) -> Judgement:
        raise NotImplementedError

    def read(self, question: str, passages: Sequence[ObservedPassage]) -> Reading:
        raise NotImplementedError
