"""The files of the HippoRAG protocol (Gutiérrez et al., 2024, NeurIPS): ``NAME_corpus.json``, ``NAME.json``.

The corpus is an array of passages, or (in the first release, for HotpotQA) an object of titles with their
sentences. The questions keep the fields of the set that they come from; their gold is text, and is found in
the corpus by title and text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import AliasChoices, Field, StrictBool

from evireform.errors import InputError
from evireform.formats.datasets.dataset import Dataset, Format, Row
from evireform.formats.datasets.reading import (
    Filled,
    Key,
    Record,
    Text,
    checked,
    faults_at,
    json_members,
    json_records,
    json_start,
    json_values,
    passage_key,
)
from evireform.formats.text import printable
from evireform.records import Passage, Question, Rejected

_SUFFIX = "_corpus"
_SEPARATORS = ("", " ")
"""Between sentences: HotpotQA's keep their spaces, those of 2WikiMultiHopQA do not."""


class _Passage(Record):
    title: Text
    text: Text


class _Titled(Record):
    title: Text
    sentences: list[Text]


class _Paragraph(Record):
    title: Text
    text: Text = Field(validation_alias=AliasChoices("text", "paragraph_text"))
    is_supporting: StrictBool = True


class Sample(Record):
    """A question, whatever set it comes from."""

    key: Key | None = Field(default=None, validation_alias=AliasChoices("_id", "id"))
    question: Filled
    answer: Text | list[Text] = ""
    answer_aliases: list[Text] = Field(default=[])
    possible_answers: Text | list[Text] = ""
    kind: Text = Field(default="", alias="type")
    supporting_facts: list[tuple[Text, int]] | None = None
    context: list[tuple[Text, list[Text]]] = Field(default=[])
    paragraphs: list[_Paragraph] | None = Field(
        default=None, validation_alias=AliasChoices("paragraphs", "contexts")
    )
    steps: list[object] = Field(default=[], alias="question_decomposition")


def find(folder: Path) -> list[Path]:
    """The question files of a folder that have a corpus beside them."""
    return [path for path in sorted(folder.glob("*.json")) if _corpus_of(path).is_file()]


def read(path: Path) -> Dataset:
    """The questions of one file, with the corpus beside it.

    Raises:
        InputError: a file cannot be read, a record is wrong (record and field are named), or a gold
            paragraph is not in the corpus.
    """
    corpus = _corpus_of(path)
    # A gold paragraph may be written in two ways; only one of the keys is in the corpus.
    spellings: dict[str, list[tuple[str, ...]]] = {}
    questions: dict[str, Question] = {}
    for number, sample in json_records(path, Sample):
        with faults_at(path, f"record {number}"):
            key = sample.key or str(number)
            if key in questions:
                raise ValueError("id: already given by an earlier record")
            spellings[key] = _gold(sample)
        questions[key] = Question(
            key=key,
            text=sample.question,
            answers=_answers(sample),
            kind=sample.kind,
            hops=len(sample.steps) or None,
        )
    wanted = {option for gold in spellings.values() for options in gold for option in options}
    held = {row.key for row in _passages(corpus) if isinstance(row, Passage) and row.key in wanted}
    complete = []
    for number, (key, question) in enumerate(questions.items(), start=1):
        found = []
        for position, options in enumerate(spellings[key], start=1):
            there = next((option for option in options if option in held), "")
            if not there:
                raise InputError(
                    f"{printable(path)} record {number}: gold paragraph {position} is not in "
                    f"{printable(corpus)}: the two files do not belong together",
                    path=path,
                )
            found.append(there)
        hops = question.hops or len(set(found)) or None
        complete.append(
            Question(
                key=key,
                text=question.text,
                gold=tuple(dict.fromkeys(found)),
                answers=question.answers,
                kind=question.kind or (key.partition("__")[0] if "__" in key else ""),
                hops=hops,
            )
        )
    return Dataset(
        name=path.stem,
        format=FORMAT.name,
        questions=tuple(complete),
        passages=lambda: _passages(corpus),
        paths=(path, corpus),
    )


def _corpus_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}{_SUFFIX}.json")


def _gold(sample: Sample) -> list[tuple[str, ...]]:
    """For every gold paragraph, the keys that it may have in the corpus."""
    if sample.supporting_facts is not None:
        titles = {title for title, _ in sample.supporting_facts}
        absent = sorted(titles - {title for title, _ in sample.context})
        if absent:
            raise ValueError(f"supporting_facts: no paragraph of the context is called {absent[0]!r}")
        return [
            tuple(passage_key(title.strip(), joint.join(sentences).strip()) for joint in _SEPARATORS)
            for title, sentences in sample.context
            if title in titles
        ]
    if sample.paragraphs is None:
        raise ValueError("supporting_facts, paragraphs or contexts: one of them is expected")
    return [
        (passage_key(item.title.strip(), item.text.strip()),)
        for item in sample.paragraphs
        if item.is_supporting
    ]


def _answers(sample: Sample) -> tuple[str, ...]:
    given: list[str] = []
    for value in (sample.answer, sample.answer_aliases, sample.possible_answers):
        given += [value] if isinstance(value, str) else value
    return tuple(dict.fromkeys(text for text in given if text))


def _passages(corpus: Path) -> Iterator[Row]:
    """The passages of the corpus, each once. Only the keys are kept in memory."""
    seen: set[str] = set()
    for number, passage in _corpus_records(corpus):
        title, text = passage.title.strip(), passage.text.strip()
        key = passage_key(title, text)
        if key in seen:
            continue
        seen.add(key)
        if text:
            yield Passage(key=key, title=title, text=text)
        else:
            reason = f"record {number} ({printable(title)}) has no text"
            yield Rejected(reason=reason, path=printable(corpus), passage_key=key)


def _corpus_records(corpus: Path) -> Iterator[tuple[int, _Passage]]:
    if json_start(corpus) != "{":
        for number, value in json_values(corpus):
            with faults_at(corpus, f"record {number}"):
                passage = checked(_Passage, value)
            yield number, passage
        return
    for number, (title, sentences) in enumerate(json_members(corpus), start=1):
        with faults_at(corpus, f"record {number}"):
            titled = checked(_Titled, {"title": title, "sentences": sentences})
        yield number, _Passage(title=titled.title, text="".join(titled.sentences))


FORMAT = Format(name="hipporag", about="NAME.json with NAME_corpus.json", find=find, read=read)
