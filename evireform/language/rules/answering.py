"""`read` by rules: a name, date or number of the kind that the question asks for, or yes or no.

Extractive and shallow: it reads the propositions of the first passages one by one, and joins nothing but a
passage that the question names with those that it leads to. docs/answers.md says how far that carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evireform.language.rules.extraction import topic_name
from evireform.language.rules.parsing import parse
from evireform.language.rules.question import STOP_WORDS, content_words, find, related, words
from evireform.language.rules.selection import named_passages
from evireform.records import ObservedPassage, Reading

if TYPE_CHECKING:
    from spacy.tokens import Doc

MOST_PASSAGES = 8
MOST_PROPOSITIONS = 80

_PLACES = ("GPE", "LOC", "FAC")
_NUMBERS = ("CARDINAL", "QUANTITY", "MONEY", "PERCENT", "ORDINAL")
_NAMES = ("PERSON", "ORG", *_PLACES, "NORP", "WORK_OF_ART", "EVENT", "PRODUCT", "LAW", "LANGUAGE")
_PLACE_WORDS = "city|town|state|county|region|province|district|island|place|village"
_KINDS = (
    (r"how (?:many|much|long|old|far|tall|big|large|high)|(?:what|which) (?:number|percentage)", _NUMBERS),
    (r"when|(?:what|which) (?:year|date|day|month|decade|century)|date of", ("DATE",)),
    (r"who|whom|whose", ("PERSON", "ORG")),
    (r"nationality|(?:what|which) country|country of", ("NORP", "GPE")),
    (rf"where|(?:what|which) (?:\w+ )?(?:{_PLACE_WORDS})|place of|birthplace|capital", _PLACES),
)
_VERBS = frozenset(("is", "are", "was", "were", "do", "does", "did", "has", "have", "had", "can", "could"))
_LATER = frozenset(("later", "younger", "newer", "last", "latest", "youngest", "newest"))
_EARLIER = frozenset(("first", "earlier", "older", "before", "earliest", "oldest"))
_KIND_WORDS = frozenset(("year", "date", "day", "nationality", "name", "number", "kind", "type", "person"))
_KIND_WORDS |= frozenset(("place", "city", "town", "country"))
_YEAR = re.compile(r"\b(?:1\d{3}|20\d{2})\b")
_EDGES = re.compile(r"^(?:(?:the|an?)\s+|[\W_]+)|(?:['’]s|[\W_]+)$", re.IGNORECASE)
_NEAR = 20
_BY_RELATION = 4.0
_BY_NAME = 2.0


@dataclass(frozen=True, slots=True)
class Find:
    """Something that may be the answer, the position of its passage, and how well it fits."""

    text: str
    position: int
    score: float


def read(question: str, passages: Sequence[ObservedPassage]) -> Reading:
    """The answer that fits best with the passages that it rests on; ``unknown`` where nothing fits."""
    if not passages:
        return Reading(text="unknown", degraded="the rules backend knows nothing without passages")
    shown = passages[:MOST_PASSAGES]
    asked = words(question)
    named = list(named_passages(asked, {row: passage.title for row, passage in enumerate(shown)}))
    if "or" in asked and len(named) >= 2:
        return _choice(asked, shown, named[:2])
    if asked and asked[0] in _VERBS:
        return _yes_or_no(question, shown, named[:2])
    finds = _finds(question, shown, named) if asked else ()
    best = max(finds, key=lambda find: find.score, default=None)
    if best is None:
        return Reading(text="unknown")
    return Reading(text=best.text, cited=tuple(dict.fromkeys((best.position, *named))))


def kinds_asked(question: str) -> tuple[str, ...]:
    """The kinds of name (spaCy's labels) that a question asks for, by its first words that tell; or none.

    >>> kinds_asked("In what year was the ship that Amundsen sailed built?")
    ('DATE',)
    """
    text = " ".join(words(question))
    matches = [(re.search(rf"\b(?:{pattern})\b", text), kinds) for pattern, kinds in _KINDS]
    return min(((match.start(), kinds) for match, kinds in matches if match), default=(0, ()))[1]


def _finds(question: str, shown: Sequence[ObservedPassage], named: Sequence[int]) -> Iterator[Find]:
    """The names, dates and numbers of the asked kind that the question does not hold itself.

    Most counts that a passage which the question names leads to the one with the find: the answer of a second
    step, which need not repeat what the first says. Then how much of what is asked the same proposition
    states, and how near.
    """
    asked, kinds = words(question), kinds_asked(question) or _NAMES
    wanted = [word for word in content_words(question) if word not in _KIND_WORDS]
    lead = [
        0.0 if row in named else max((_lead(wanted, shown[one], passage) for one in named), default=0.0)
        for row, passage in enumerate(shown)
    ]
    known = {word for one in named for word in words(shown[one].text)}
    places = [
        (position, place, text)
        for position, passage in enumerate(shown)
        for place, (text, _) in enumerate(passage.propositions)
    ][:MOST_PROPOSITIONS]
    for row, _, doc in parse([text for _, _, text in places]):
        position, place, _ = places[row]
        topic = words(topic_name(shown[position].title))
        relation = [word for word in wanted if word not in topic and not (lead[position] and word in known)]
        held = words(doc.text)
        for kind, surface in _names(doc):
            answer = _answer(surface, kind, asked)
            name = words(answer)
            if kind not in kinds or not name or find(name, asked) >= 0:
                continue
            start = find(name, held)
            distances = [_distance(word, held, start, len(name)) for word in relation]
            stated = [distance for distance in distances if distance is not None]
            if not lead[position] and 3 * len(stated) < len(relation):
                continue
            score = lead[position] - 0.3 * (position in named)
            score += 3.0 * len(stated) / max(1, len(relation))
            score += max(0.0, 1 - min(stated, default=_NEAR) / _NEAR)
            yield Find(answer, position, score - 0.15 * position - 0.05 * place)


def _names(doc: Doc) -> Iterator[tuple[str, str]]:
    """Kind and text of each name; places with a comma between are one (``Larvik, Norway``)."""
    spans: list[tuple[int, int, str]] = []
    for entity in doc.ents:
        places = bool(spans) and spans[-1][2] in _PLACES and entity.label_ in _PLACES
        if places and doc.text[spans[-1][1] : entity.start_char] == ", ":
            spans[-1] = (spans[-1][0], entity.end_char, entity.label_)
        else:
            spans.append((entity.start_char, entity.end_char, entity.label_))
    return ((kind, doc.text[start:end]) for start, end, kind in spans)


def _answer(surface: str, kind: str, asked: tuple[str, ...]) -> str:
    """A name without what hangs on it. Of a date the year, where that is asked for; none without a digit."""
    if kind == "DATE" and "year" in asked:
        year = _YEAR.search(surface)
        return year[0] if year else ""
    if kind == "DATE" and not any(character.isdigit() for character in surface):
        return ""
    return _EDGES.sub("", surface)


def _distance(word: str, held: tuple[str, ...], start: int, size: int) -> int | None:
    """Words between a name and the nearest one that states what ``word`` asks for; None where none does."""
    places = [at for at, other in enumerate(held) if not start <= at < start + size and related(word, other)]
    return min((abs(at - start) for at in places), default=None)


def _choice(asked: tuple[str, ...], shown: Sequence[ObservedPassage], named: Sequence[int]) -> Reading:
    """One of two named topics: by year where the question compares these, else by its words in each."""
    years = [_year(asked, shown, position) for position in named]
    later, earlier = not _LATER.isdisjoint(asked), not _EARLIER.isdisjoint(asked)
    if (later or earlier) and None not in years:
        worth = [(year or 0) * (1 if later else -1) for year in years]
    else:
        worth = [len(set(asked) & set(words(shown[position].text)) - STOP_WORDS) for position in named]
    chosen = named[worth.index(max(worth))]
    return Reading(text=topic_name(shown[chosen].title), cited=tuple(named))


def _year(asked: tuple[str, ...], shown: Sequence[ObservedPassage], position: int) -> int | None:
    """The first year of a passage, or of the one that it leads to by a relation that the question names."""
    wanted = [word for word in asked if word not in STOP_WORDS]
    passage = shown[position]
    others = (other for other in shown if other is not passage)
    return _first_year(
        next((other for other in others if _lead(wanted, passage, other) == _BY_RELATION), passage)
    )


def _first_year(passage: ObservedPassage) -> int | None:
    year = _YEAR.search(passage.text)
    return int(year[0]) if year else None


def _yes_or_no(question: str, shown: Sequence[ObservedPassage], named: Sequence[int]) -> Reading:
    """Whether two named passages share a name, for ``same``; else whether each holds what is asked of it."""
    if len(named) < 2:
        return Reading(text="unknown")
    topics = {word for position in named for word in words(topic_name(shown[position].title))}
    if "same" in words(question):
        left, right = (
            {word for _, names in shown[position].propositions[:1] for name in names for word in words(name)}
            for position in named
        )
        holds = bool(left & right - topics - STOP_WORDS)
    else:
        wanted = [word for word in content_words(question) if word not in topics]
        texts = [words(shown[position].text) for position in named]
        holds = all(any(related(word, other) for other in text) for text in texts for word in wanted)
    return Reading(text="yes" if holds else "no", cited=tuple(named))


def _lead(wanted: Sequence[str], passage: ObservedPassage, other: ObservedPassage) -> float:
    """How surely one passage leads to another: it names its topic, by a relation that is asked for or not."""
    topic = words(topic_name(other.title))
    if STOP_WORDS.issuperset(topic) or find(topic, words(passage.text)) < 0:
        return 0.0
    names = {*topic, *words(topic_name(passage.title))}
    naming = [held for text, _ in passage.propositions if find(topic, held := words(text)) >= 0]
    by_relation = any(
        related(word, one) for held in naming for word in wanted for one in held if one not in names
    )
    return _BY_RELATION if by_relation else _BY_NAME
