"""A language backend that says what the test wrote down."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from evireform.language.tokens import Tokenizer
from evireform.records import (
    Candidate,
    Control,
    CorpusRow,
    ExpectedCall,
    ExtractedProposition,
    Extraction,
    Judgement,
    ObservedPassage,
    Passage,
    Reading,
    Reformulation,
    Selection,
)

Extract = Mapping[str, Sequence[tuple[str, Sequence[str]]]] | Callable[[Passage], Extraction]
Select = Mapping[str, Sequence[str | int]] | Callable[[str, Sequence[Candidate]], Selection]
Controller = Callable[[str, Sequence[ObservedPassage], int], Control]
Judge = Callable[[str, Sequence[ObservedPassage], Sequence[ObservedPassage]], Judgement]
Read = Callable[[str, Sequence[ObservedPassage]], Reading]
Reformulate = Mapping[str, Sequence[str]] | Callable[[str, Sequence[ObservedPassage]], Reformulation]

_SENTENCE = re.compile(r"[^.!?]+[.!?]*")
_NAME = re.compile(r"\b[^\W\d_a-z]\w*(?:\s+[^\W\d_a-z]\w*)*")


class ScriptedLanguage:
    """Deterministic `Language` for tests; each verb is a dict, a callable, or the plain default.

    Args:
        extract: Passage key to ``[(proposition, [entities])]``. A passage that the dict does not name, or
            every one without a dict, is split into sentences whose capitalised words are the entities.
        select: Question to positions, or to the texts of candidates (one that is no candidate is left
            out). Default: the first three candidates.
        reformulate: Question to residual queries. Default: none.
        control: Question, evidence and round to a `Control`. Default: the evidence suffices.
        judge: Question, evidence and passages to a `Judgement`. Default: it lists nothing.
        read: Question and passages to a `Reading`. Default: the answer is unknown.
        errors: Passage key to the error that its extraction reports.
        one_by_one: As in `Language`; always so where many calls are in flight.

    Attributes:
        extracted: Keys of the passages that were extracted, in order.
        selected_from: ``(question, candidates)`` of each call of `select`.
        reformulated_from: ``(question, observed)`` of each call of `reformulate`.
        controlled_from: ``(question, keys of the evidence)`` of each call of `control`.
        judged_from: ``(question, observed, passages)`` of each call of `judge`.
        read_from: ``(question, passages)`` of each call of `read`.
    """

    def __init__(
        self,
        *,
        extract: Extract | None = None,
        select: Select | None = None,
        reformulate: Reformulate | None = None,
        control: Controller | None = None,
        judge: Judge | None = None,
        read: Read | None = None,
        errors: Mapping[str, str] | None = None,
        wants_entities: bool = False,
        name: str = "scripted/1",
        concurrency: int = 1,
        one_by_one: bool = False,
    ) -> None:
        self._extract: Extract = extract if extract is not None else {}
        self._select: Select = select if select is not None else {}
        self._reformulate: Reformulate = reformulate if reformulate is not None else {}
        self._control = control or (lambda *_: Control())
        self._judge = judge or (lambda *_: Judgement())
        self._read = read or (lambda *_: Reading(text="unknown"))
        self._errors = errors or {}
        self.wants_entities = wants_entities
        self.name = self.extractor = name
        self.concurrency = concurrency
        self.one_by_one = one_by_one or concurrency > 1
        self.tokenizer = Tokenizer()
        self.extracted: list[str] = []
        self.selected_from: list[tuple[str, tuple[Candidate, ...]]] = []
        self.reformulated_from: list[tuple[str, tuple[ObservedPassage, ...]]] = []
        self.controlled_from: list[tuple[str, tuple[str, ...]]] = []
        self.judged_from: list[tuple[str, tuple[ObservedPassage, ...], tuple[ObservedPassage, ...]]] = []
        self.read_from: list[tuple[str, tuple[ObservedPassage, ...]]] = []

    def in_corpus(self, corpus: CorpusRow) -> ScriptedLanguage:
        return self

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        self.extracted.extend(passage.key for passage in passages)
        return [self._extract_one(passage) for passage in passages]

    def _extract_one(self, passage: Passage) -> Extraction:
        if passage.key in self._errors:
            return Extraction(error=self._errors[passage.key])
        if callable(self._extract):
            return self._extract(passage)
        if passage.key in self._extract:
            return Extraction(
                propositions=tuple(
                    ExtractedProposition(text=text, entities=tuple(entities), span=_span(passage.text, text))
                    for text, entities in self._extract[passage.key]
                )
            )
        return Extraction(propositions=split_sentences(passage.text))

    def expected_calls(self, passages: Sequence[Passage]) -> list[tuple[ExpectedCall, ...]]:
        return [() for _ in passages]

    def select(self, question: str, candidates: Sequence[Candidate], *, limit: int) -> Selection:
        self.selected_from.append((question, tuple(candidates)))
        if callable(self._select):
            return self._select(question, candidates)
        position_of = {candidate.text: position for position, candidate in enumerate(candidates)}
        chosen = self._select.get(question, range(min(3, limit, len(candidates))))
        return Selection(
            positions=tuple(
                choice if isinstance(choice, int) else position_of[choice]
                for choice in chosen
                if isinstance(choice, int) or choice in position_of
            )
        )

    def reformulate(self, question: str, observed: Sequence[ObservedPassage], *, limit: int) -> Reformulation:
        self.reformulated_from.append((question, tuple(observed)))
        if callable(self._reformulate):
            return self._reformulate(question, observed)
        return Reformulation(queries=tuple(self._reformulate.get(question, ()))[:limit])

    def control(
        self, question: str, observed: Sequence[ObservedPassage], *, limit: int, round_number: int
    ) -> Control:
        self.controlled_from.append((question, tuple(passage.passage_key for passage in observed)))
        return self._control(question, observed, round_number)

    def judge(
        self,
        question: str,
        observed: Sequence[ObservedPassage],
        passages: Sequence[ObservedPassage],
        *,
        limit: int,
    ) -> Judgement:
        self.judged_from.append((question, tuple(observed), tuple(passages)))
        return self._judge(question, observed, passages)

    def read(
        self,
        question: str,
        passages: Sequence[ObservedPassage],
        *,
        on_text: Callable[[str], None] | None = None,
    ) -> Reading:
        self.read_from.append((question, tuple(passages)))
        reading = self._read(question, passages)
        if on_text is not None:
            on_text(reading.text)
        return reading


def split_sentences(text: str) -> tuple[ExtractedProposition, ...]:
    """Sentences ending in ``. ! ?`` with their runs of capitalised words, each with its span.

    >>> [p.entities for p in split_sentences("Ada Lovelace met Babbage. It rained.")]
    [('Ada Lovelace', 'Babbage'), ('It',)]
    """
    propositions = []
    for match in _SENTENCE.finditer(text):
        sentence = match.group().strip()
        if sentence:
            start = text.index(sentence, match.start())
            propositions.append(
                ExtractedProposition(
                    text=sentence,
                    entities=tuple(dict.fromkeys(_NAME.findall(sentence))),
                    span=(start, start + len(sentence)),
                )
            )
    return tuple(propositions)


def _span(text: str, proposition: str) -> tuple[int, int] | None:
    start = text.find(proposition)
    return None if start < 0 else (start, start + len(proposition))
