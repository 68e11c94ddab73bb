"""Which candidates carry the signal: few, from different passages, and first those that the question names."""

from __future__ import annotations

from collections.abc import Sequence

from evireform.language.rules.extraction import topic_name
from evireform.language.rules.question import STOP_WORDS, find, words
from evireform.records import Candidate

PASSAGES = 3
MOST_NAMED = 4


def choose(question: str, candidates: Sequence[Candidate]) -> tuple[int, ...]:
    """Positions of the candidates that carry the signal, best first."""
    best: dict[int, int] = {}
    for position, candidate in enumerate(candidates):
        best.setdefault(candidate.passage_id, position)
    chosen = _named(words(question), candidates, list(best.values()))[:MOST_NAMED]
    for position in best.values():
        if len(chosen) >= PASSAGES:
            break
        if position not in chosen:
            chosen.append(position)
    return tuple(sorted(chosen))


def _named(question: tuple[str, ...], candidates: Sequence[Candidate], best: list[int]) -> list[int]:
    """The best proposition of every passage whose topic the question names, one per place in the question."""
    places: list[tuple[int, int, int]] = []
    for position in best:
        topic = words(topic_name(candidates[position].title))
        start = find(topic, question)
        if start >= 0 and not (len(topic) == 1 and topic[0] in STOP_WORDS):
            places.append((start, start + len(topic), position))
    taken: dict[tuple[int, int], int] = {}
    for start, end, position in places:
        inside = any(s <= start and end <= e and e - s > end - start for s, e, _ in places)
        if not inside:
            taken.setdefault((start, end), position)
    return list(taken.values())
