"""Propositions of a passage: its sentences, made to stand alone, each with the entities that it names.

Pure functions on `Sentence` records; spaCy is used where those are made.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evireform.canonical import canonical
from evireform.language.rules.sentences import Name, Sentence
from evireform.records import ExtractedProposition

_BRACKETS = re.compile(r"\s*[(（][^()（）]*[)）]\s*$")
_SAME_KIND = {"movie": "film", "picture": "film"}


def topic_name(title: str) -> str:
    """The name that a title gives to what its passage is about.

    >>> topic_name("Ed Wood (film)")
    'Ed Wood'
    """
    return _BRACKETS.sub("", title).strip() or title.strip()


def propositions(text: str, sentences: Sequence[Sentence], title: str) -> tuple[ExtractedProposition, ...]:
    """One proposition per sentence, with its leading reference replaced by what it stands for.

    With a title, every proposition names the passage's topic, as the text that is embedded does: measured on
    2Wiki and the MuSiQue slice this brought two points of Recall@5, since a question's bridge entity is
    most often the topic of the passage that is missing.

    Args:
        text: The passage.
        sentences: Its sentences, in order.
        title: Its title; empty where there is none. Then the first sentence's subject is the topic, and only
            the propositions that mention it name it.
    """
    topic = topic_name(title) or (sentences[0].subject if sentences else "")
    full = _full_names([name for sentence in sentences for name in sentence.names], topic)
    kinds = sentences[0].kinds if sentences else frozenset()
    found: dict[str, ExtractedProposition] = {}
    focus = topic
    for sentence in sentences:
        body = text[sentence.start : sentence.end]
        entities = [full.get(name.text, name.text) for name in _outside_topic(sentence.names, text, topic)]
        reference = sentence.reference
        referent = ""
        if reference is None:
            if sentence.subject:
                focus = full.get(sentence.subject, sentence.subject)
        elif not reference.noun:
            referent = focus
        elif _SAME_KIND.get(reference.noun, reference.noun) in kinds:
            referent = topic
        if reference is not None and referent:
            named = referent + ("'s" if reference.possessive else "")
            body = text[sentence.start : reference.start] + named + text[reference.end : sentence.end]
            entities.insert(0, referent)
        if topic and (title or topic.casefold() in body.casefold()):
            entities.insert(0, topic)
        if body not in found:
            found[body] = ExtractedProposition(
                text=body, entities=_distinct(entities), span=(sentence.start, sentence.end)
            )
    return tuple(found.values())


def _outside_topic(names: Sequence[Name], text: str, topic: str) -> list[Name]:
    """The names that are not a piece of a mention of the topic: ``West`` in ``Out West with the Peppers``."""
    if not topic:
        return list(names)
    outside: list[Name] = []
    for name in names:
        low = max(0, name.start - len(topic))
        place = text.find(topic, low, name.end + len(topic))
        if not (0 <= place <= name.start and name.end <= place + len(topic)):
            outside.append(name)
    return outside


def _full_names(names: Sequence[Name], topic: str) -> dict[str, str]:
    """Last names to the full names of the same passage: ``Burton`` is ``Tim Burton`` there."""
    longer = [topic] if " " in topic else []
    longer += [name.text for name in names if name.person and " " in name.text]
    by_last: dict[str, str] = {}
    for name in longer:
        by_last.setdefault(name.rsplit(" ", 1)[1], name)
    return {name.text: by_last[name.text] for name in names if name.text in by_last}


def _distinct(entities: Sequence[str]) -> tuple[str, ...]:
    distinct: dict[str, str] = {}
    for entity in entities:
        key = canonical(entity)
        if key:
            distinct.setdefault(key, entity)
    return tuple(distinct.values())
