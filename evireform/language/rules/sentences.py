"""The sentences of a parsed text, with what the rules read off them: names, subject, leading reference."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evireform.canonical import canonical

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

LONGEST_SENTENCE = 500

_END = re.compile(r"[.!?…:;。！？؟۔।][\"'”’)\]»」』]*$")
_FULL_STOP = re.compile(r"[。！？؟۔।]+[”’」』）]*\s*")
_CUT = re.compile(r";\s*|,\s|\s")
_NAMES = frozenset(("PERSON", "ORG", "GPE", "LOC", "FAC", "WORK_OF_ART", "EVENT", "PRODUCT", "LAW"))
_ARTICLES = frozenset(("the", "a", "an"))
_ENDINGS = frozenset(("'s", "’s", "'", "’"))
_PRONOUNS = frozenset(("he", "she", "it", "they"))
_POSSESSIVES = frozenset(("his", "her", "its", "their"))
_LATEST_SUBJECT = 12


@dataclass(frozen=True, slots=True)
class Name:
    """A name and where it stands in the text; ``person`` where the recogniser says that it is one."""

    start: int
    end: int
    text: str
    person: bool


@dataclass(frozen=True, slots=True)
class Reference:
    """A pronoun, or ``The film``, at the head of a sentence that stands for something named before.

    ``noun`` is empty for a pronoun.
    """

    start: int
    end: int
    noun: str
    possessive: bool


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence ``text[start:end]`` with its names. ``subject`` is the name that is its subject, or empty.

    ``kinds`` are the nouns that its subject is said to be (``X is a film``).
    """

    start: int
    end: int
    names: tuple[Name, ...]
    subject: str
    reference: Reference | None
    kinds: frozenset[str]


def sentences_of(doc: Doc, offset: int) -> list[Sentence]:
    """Sentences of a slice that begins at ``offset`` of the text, none longer than `LONGEST_SENTENCE`.

    All positions are character positions in the whole text. A break of the parser counts only after a
    sentence mark and before a capital, since it breaks at abbreviations and hyphens. A sentence that is
    too long is cut at a semicolon, a comma or a space, in this order; text without spaces between its
    sentences (Chinese, Japanese) is cut at its own full stops.
    """
    text = doc.text
    names = _names(doc, offset)
    starts = [name.start for name in names]
    sentences: list[Sentence] = []
    for first, last in _spans(doc, text):
        span = doc[first:last]
        token = _subject(span)
        reference = _reference(span, token, offset)
        subject = "" if token is None else _name_at(token.idx + offset, names, starts)
        start, end = span.start_char, span.end_char
        while start < end:
            cut = _cut(text, start, end)
            piece = text[start:cut]
            low, high = start + offset, cut + offset
            if any(character.isalnum() for character in piece):
                sentences.append(
                    Sentence(
                        start=low + len(piece) - len(piece.lstrip()),
                        end=low + len(piece.rstrip()),
                        names=tuple(names[bisect_left(starts, low) : bisect_left(starts, high)]),
                        subject=subject,
                        reference=reference,
                        kinds=_kinds(span),
                    )
                )
            start, subject, reference = cut, "", None
    return sentences


def _spans(doc: Doc, text: str) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for sentence in doc.sents:
        if spans and not _is_break(text, doc[spans[-1][0]].idx, sentence):
            spans[-1] = (spans[-1][0], sentence.end)
        else:
            spans.append((sentence.start, sentence.end))
    return spans


def _is_break(text: str, start: int, sentence: Span) -> bool:
    """Whether a new sentence begins here, after what began at ``start``."""
    before = text[start : sentence.start_char]
    if "\n" in before[len(before.rstrip()) :]:
        return True
    first = next((character for character in sentence.text if character.isalnum()), "")
    ended = _END.search(before.rstrip()[-4:]) is not None
    return (ended and not first.islower()) or sentence.end_char - start > LONGEST_SENTENCE


def _cut(text: str, start: int, end: int) -> int:
    """Where the sentence is cut, or its end: at a full stop that the parser does not know, or for length."""
    stop = _FULL_STOP.search(text, start, end)
    end = stop.end() if stop else end
    if end - start <= LONGEST_SENTENCE:
        return end
    window = text[start : min(end, start + LONGEST_SENTENCE)]
    best = max(
        (
            (match.group()[0] not in ", \t\n", match.group()[0] == ",", match.end())
            for match in _CUT.finditer(window, LONGEST_SENTENCE // 2)
        ),
        default=(False, False, len(window)),
    )
    return start + best[2]


def _names(doc: Doc, offset: int) -> list[Name]:
    """Names in order: those of the entity recogniser, and runs of proper nouns that it misses."""
    taken = [False] * len(doc)
    names: list[Name] = []
    for entity in doc.ents:
        taken[entity.start : entity.end] = [True] * (entity.end - entity.start)
        if entity.label_ in _NAMES:
            names += _name(doc, entity.start, entity.end, offset, person=entity.label_ == "PERSON")
    position = 0
    while position < len(doc):
        end = position
        while (
            end < len(doc)
            and not taken[end]
            and doc[end].pos_ == "PROPN"
            and (end == position or not doc[end].is_sent_start)
        ):
            end += 1
        if end > position and doc[position].text[0].isupper():
            names += _name(doc, position, end, offset, person=False)
        position = max(end, position + 1)
    return sorted(names, key=lambda name: name.start)


def _name(doc: Doc, start: int, end: int, offset: int, *, person: bool) -> list[Name]:
    """The name without articles, punctuation and possessive endings; none with fewer than two letters."""
    while start < end and (doc[start].lower_ in _ARTICLES or doc[start].is_punct or doc[start].is_space):
        start += 1
    while start < end and (doc[end - 1].lower_ in _ENDINGS or doc[end - 1].is_punct or doc[end - 1].is_space):
        end -= 1
    text = " ".join(doc[start:end].text.split())
    if sum(character.isalpha() for character in text) < 2 or not canonical(text):
        return []
    last = doc[end - 1]
    return [Name(doc[start].idx + offset, last.idx + len(last.text) + offset, text, person)]


def _name_at(place: int, names: Sequence[Name], starts: Sequence[int]) -> str:
    """The name that stands at a place of the text, or empty; names in order, with where each starts."""
    before = bisect_right(starts, place) - 1
    return names[before].text if before >= 0 and place < names[before].end else ""


def _subject(span: Span) -> Token | None:
    return next((t for t in span if t.dep_ in ("nsubj", "nsubjpass") and t.head.dep_ == "ROOT"), None)


def _kinds(span: Span) -> frozenset[str]:
    heads = [t for t in span if t.dep_ == "attr" and t.pos_ == "NOUN"]
    heads += [t for head in heads for t in head.conjuncts if t.pos_ == "NOUN"]
    return frozenset(token.lower_ for token in heads)


def _reference(span: Span, subject: Token | None, offset: int) -> Reference | None:
    first, start = span[0], span[0].idx + offset
    described = first.lower_ == "the" and len(span) > 2 and span[1].pos_ == "NOUN"
    if described and span[2].pos_ not in ("NOUN", "PROPN"):
        end = span[1].idx + len(span[1].text) + offset
        return Reference(start, end, noun=span[1].lower_, possessive=False)
    if first.lower_ in _POSSESSIVES and first.dep_ == "poss":
        return Reference(start, start + len(first.text), noun="", possessive=True)
    if subject is not None and subject.lower_ in _PRONOUNS and subject.i - span.start <= _LATEST_SUBJECT:
        start = subject.idx + offset
        return Reference(start, start + len(subject.text), noun="", possessive=False)
    return None
