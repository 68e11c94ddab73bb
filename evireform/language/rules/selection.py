"""Which candidates carry the signal: those that the question names, then those that cover its other words.

Recall@5 of the full method on 2Wiki / HotpotQA / MuSiQue / the MuSiQue slice, as the rules grew
(bge-small int8, titles on, 400 / 400 / 334 / 100 questions)::

    the three best passages, one proposition each       90.5 / 91.4 / 67.0 / 79.8
    named passages first, two propositions of each      94.8 / 90.8 / 67.5 / 79.2
    and at most one more, for what is not yet covered   93.9 / 93.2 / 70.3 / 81.7
    words of names and numbers count three times        94.7 / 93.4 / 70.7 / 82.7
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from evireform.language.rules.extraction import topic_name
from evireform.language.rules.question import STOP_WORDS, content_words, find, related, specific_words, words
from evireform.records import Candidate

FEWEST_PASSAGES = 2
MOST_PASSAGES = 3
MOST_NAMED = 4
PER_NAMED_PASSAGE = 2

_COVERAGE = 0.5
_LEAST_GAIN = 0.15
_SPECIFIC = 3.0
_RELATION = 0.05


def choose(question: str, candidates: Sequence[Candidate]) -> tuple[int, ...]:
    """Positions of the candidates that carry the signal, in the order of the candidates.

    A passage whose topic the question names is where a route begins: two of its propositions are taken.
    A route whose beginning the question only describes shows as words that no named passage holds: the
    passage with the best sum of similarity and newly covered words joins. Few passages are better than many,
    since the readout must leave places for what propagation and the residual queries find.
    """
    asked = words(question)
    held = [frozenset(words(candidate.title) + words(candidate.text)) for candidate in candidates]
    rows: dict[int, list[int]] = {}
    for position, candidate in enumerate(candidates):
        rows.setdefault(candidate.passage_id, []).append(position)
    places = named_passages(asked, {passage: candidates[found[0]].title for passage, found in rows.items()})
    named = list(places)[:MOST_NAMED]
    passages = _cover(question, candidates, held, rows, named)

    in_names = {word for start, end in places.values() for word in asked[start:end]}
    relation = [word for word in content_words(question) if word not in in_names]

    def worth(position: int) -> float:
        others = held[position] - in_names - STOP_WORDS
        states = any(related(word, other) for word in relation for other in others)
        return candidates[position].similarity + _RELATION * states

    chosen: list[int] = []
    for passage in passages:
        best = sorted(rows[passage], key=worth, reverse=True)
        chosen += best[: PER_NAMED_PASSAGE if passage in named else 1]
    return tuple(sorted(chosen))


def named_passages(asked: tuple[str, ...], titles: Mapping[int, str]) -> dict[int, tuple[int, int]]:
    """Passages whose topic the question names, with the place of the name in the question, in order.

    A name inside a longer name does not count (``Wood`` in ``Ed Wood``). A name of several passages stands
    for the first of them, unless the question has the whole title of one, with its qualifier
    (``Ek Hi Bhool (1940 film)``).

    Args:
        asked: The words of the question.
        titles: Title of each passage, the most similar passage first.
    """
    places: dict[int, tuple[int, int]] = {}
    for passage, title in titles.items():
        topic, whole = words(topic_name(title)), words(title)
        start = find(topic, asked)
        if start >= 0 and (len(topic) > 1 or topic[0] not in STOP_WORDS):
            size = len(whole) if asked[start : start + len(whole)] == whole else len(topic)
            places[passage] = (start, start + size)
    kept: dict[tuple[int, int], int] = {}
    for passage, (start, end) in places.items():
        if not any(s <= start and end <= e and e - s > end - start for s, e in places.values()):
            kept.setdefault((start, end), passage)
    return {passage: place for place, passage in kept.items()}


def _cover(
    question: str,
    candidates: Sequence[Candidate],
    held: Sequence[frozenset[str]],
    rows: Mapping[int, Sequence[int]],
    named: Sequence[int],
) -> list[int]:
    """The named passages, and the others that add most, as their most similar propositions show."""
    weight = _weights(question, held)
    total = sum(weight.values()) or 1.0
    chosen = list(named)
    covered = {word for passage in chosen for word in held[rows[passage][0]]}
    others = [passage for passage in rows if passage not in chosen]

    def gain(passage: int) -> float:
        return sum(weight[word] for word in weight if word in held[rows[passage][0]] - covered) / total

    def worth(passage: int) -> float:
        return candidates[rows[passage][0]].similarity / candidates[0].similarity + _COVERAGE * gain(passage)

    while others and len(chosen) < MOST_PASSAGES:
        best = max(others, key=worth)
        if len(chosen) >= FEWEST_PASSAGES and gain(best) < _LEAST_GAIN:
            break
        chosen.append(best)
        others.remove(best)
        covered |= held[rows[best][0]]
    return chosen


def _weights(question: str, held: Sequence[frozenset[str]]) -> dict[str, float]:
    """How much each content word of the question tells candidates apart; zero when none holds it."""
    specific = specific_words(question)
    weights: dict[str, float] = {}
    for word in content_words(question):
        count = sum(word in one for one in held)
        rarity = math.log((len(held) + 1) / (count + 0.5)) if count else 0.0
        weights[word] = rarity * (_SPECIFIC if word in specific else 1.0)
    return weights
