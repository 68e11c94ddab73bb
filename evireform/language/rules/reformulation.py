"""Residual queries: the question asked again of what the observed passages reveal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from evireform.language.rules.extraction import topic_name
from evireform.language.rules.question import content_words, find, related, words
from evireform.records import ObservedPassage

_WINDOW = 6


def residual_queries(question: str, observed: Sequence[ObservedPassage], *, limit: int) -> tuple[str, ...]:
    """``entity: question`` for the entities that most probably bridge to what is missing, best first."""
    asked = words(question)
    scored = _bridges(question, asked, observed)
    queries: dict[str, str] = {}
    per_passage: Counter[int] = Counter()
    for _, entity, row in sorted(scored, key=lambda item: -item[0]):
        if entity.casefold() in queries or per_passage[row] >= 2:
            continue
        per_passage[row] += 1
        queries[entity.casefold()] = f"{entity}: {question}"
        if len(queries) >= limit:
            break
    return tuple(queries.values())


def _bridges(
    question: str, asked: tuple[str, ...], observed: Sequence[ObservedPassage]
) -> list[tuple[float, str, int]]:
    passages_naming = Counter(
        entity for passage in observed for entity in {e for _, es in passage.propositions for e in es}
    )
    scored: list[tuple[float, str, int]] = []
    for row, passage in enumerate(observed):
        topic = topic_name(passage.title)
        topic_words = words(topic)
        named = find(topic_words, asked) >= 0
        ask = [word for word in content_words(question) if word not in topic_words]
        entities_of = dict(passage.propositions)
        for text in passage.selected:
            text_words = words(text)
            for entity in entities_of.get(text, ()):
                name = words(entity)
                if (
                    not name
                    or find(name, asked) >= 0
                    or entity == topic
                    or (len(name) == 1 and len(entity) < 4)
                ):
                    continue
                place = find(name, text_words)
                score = 2 * _nearness(ask, text_words, place, len(name)) + named
                score += 0.7 * (passages_naming[entity] > 1) + 0.3 * (len(name) > 1)
                scored.append((score - 0.02 * max(place, 0) - 0.1 * row, entity, row))
    return scored


def _nearness(ask: list[str], text: tuple[str, ...], place: int, size: int) -> float:
    if place < 0:
        return 0.0
    for distance in range(min(_WINDOW, place)):
        if any(related(word, text[place - 1 - distance]) for word in ask):
            return 1 - distance / 10
    after = text[place + size : place + size + 3]
    return 0.5 if any(related(word, other) for word in ask for other in after) else 0.0
