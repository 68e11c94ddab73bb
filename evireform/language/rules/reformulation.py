"""Residual queries: the question asked again of what the observed passages reveal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evireform.language.rules.extraction import topic_name
from evireform.language.rules.question import content_words, find, related, words
from evireform.records import ObservedPassage

_BEFORE = 6
_AFTER = 3
_SHORTEST = 4


@dataclass(frozen=True, slots=True)
class Bridge:
    """An entity that an observed passage names and the question does not, and how likely it leads on."""

    entity: str
    topic: str
    score: float


def residual_queries(question: str, observed: Sequence[ObservedPassage], *, limit: int) -> tuple[str, ...]:
    """Queries for the passages that the observed ones point to, the likeliest first.

    A query names a bridge entity and repeats the question with the entity in the place of the topic it was
    reached from: ``Leo Fong: What nationality is the director of film Leo Fong?``. With the topic left in its
    place, a query finds the observed passage again.

    Recall@5 of the full method on 2Wiki / HotpotQA / MuSiQue / the MuSiQue slice::

        no residual queries           93.3 / 91.0 / 67.1 / 76.6
        entity: question              94.8 / 93.4 / 70.6 / 83.2
        the same without the topic    94.3 / 94.2 / 72.0 / 84.4
        the topic replaced            95.7 / 94.5 / 72.3 / 85.0
    """
    queries: dict[str, str] = {}
    for bridge in sorted(bridges(question, observed), key=lambda bridge: -bridge.score):
        if len(queries) >= limit:
            break
        query = f"{bridge.entity}: {asked_of(question, bridge.topic, bridge.entity)}"
        queries.setdefault(bridge.entity.casefold(), query)
    return tuple(queries.values())


def asked_of(question: str, topic: str, entity: str) -> str:
    """The question with the first mention of the topic replaced by the entity; the same where there is none.

    >>> asked_of("Where was the director of Blood Street (1990 film) born?", "Blood Street", "Leo Fong")
    'Where was the director of Leo Fong born?'
    """
    parts = words(topic)
    if not parts or find(parts, words(question)) < 0:
        return question
    mention = r"\W+".join(re.escape(part) for part in parts)
    return re.sub(
        rf"\b{mention}\b(?:\s*\([^)]*\))?", lambda _: entity, question, count=1, flags=re.IGNORECASE
    )


def bridges(question: str, observed: Sequence[ObservedPassage]) -> list[Bridge]:
    """The entities of the selected propositions that the question does not name, in the order of the text.

    An entity scores by a word near it that states a relation the question asks for (``directed by``
    before the director), by standing in a passage that the question names, by being named in another
    observed passage too, by having more than one word, and by standing early.
    """
    asked = words(question)
    naming = Counter(
        entity for passage in observed for entity in {e for _, names in passage.propositions for e in names}
    )
    found: list[Bridge] = []
    for row, passage in enumerate(observed):
        topic = topic_name(passage.title)
        topic_words = words(topic)
        relation = [word for word in content_words(question) if word not in topic_words]
        is_named = find(topic_words, asked) >= 0
        entities_of = dict(passage.propositions)
        for text in passage.selected:
            text_words = words(text)
            for entity in entities_of.get(text, ()):
                name = words(entity)
                too_short = len(name) == 1 and len(entity) < _SHORTEST
                if not name or too_short or entity == topic or find(name, asked) >= 0:
                    continue
                place = find(name, text_words)
                score = 2 * _relation_near(relation, text_words, place, len(name)) + is_named
                score += 0.7 * (naming[entity] > 1) + 0.3 * (len(name) > 1)
                score -= 0.02 * max(place, 0) + 0.1 * row
                found.append(Bridge(entity, topic, score))
    return found


def _relation_near(relation: Sequence[str], text: tuple[str, ...], place: int, size: int) -> float:
    """1 for a related word right before the name, less for one farther off, 0.5 just after, else 0."""
    if place < 0:
        return 0.0
    for distance in range(min(_BEFORE, place)):
        if any(related(word, text[place - 1 - distance]) for word in relation):
            return 1 - distance / 10
    after = text[place + size : place + size + _AFTER]
    return 0.5 if any(related(word, other) for word in relation for other in after) else 0.0
