"""Rows of an extraction: propositions with their mentions and vectors, ready to be written."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from evireform.canonical import MAX_ENTITY_CHARACTERS, canonical
from evireform.embedding import Encoder
from evireform.formats.text import storable
from evireform.records import Extraction, Passage, Titles, with_title
from evireform.store.writing import PreparedPassage, PreparedProposition

MOST_PROPOSITIONS = 2_000
"""Propositions that a passage may have; a long one has one for every `_CHARACTERS` of its text."""

MOST_ENTITIES = 200
"""Entity names that a proposition may have."""

_CHARACTERS = 20


@dataclass(slots=True)
class LeftOut:
    """What `prepare` left out.

    Attributes:
        names: Entity names that are none.
        propositions: Those beyond `MOST_PROPOSITIONS`.
        entities: Names beyond `MOST_ENTITIES`.
    """

    names: int = 0
    propositions: int = 0
    entities: int = 0


def prepare(
    passage: Passage, extraction: Extraction, titles: Titles, encoder: Encoder
) -> tuple[PreparedPassage, LeftOut]:
    """A passage ready to be written, and how much of its extraction was left out.

    Exact duplicate propositions are one; a name that is empty in canonical form, or longer than
    `canonical.MAX_ENTITY_CHARACTERS`, is dropped. Of more propositions or names than a text can hold, as from
    a model that ran wild, the first are taken.
    """
    most = max(MOST_PROPOSITIONS, len(passage.text) // _CHARACTERS)
    left_out = LeftOut()
    propositions: dict[str, PreparedProposition] = {}
    for proposition in extraction.propositions:
        text = storable(proposition.text).strip()
        if not text:
            continue
        if len(propositions) == most and text not in propositions:
            left_out.propositions += 1
            continue
        earlier = propositions.get(text)
        mentions = dict(earlier.mentions) if earlier else {}
        for surface in proposition.entities:
            form = " ".join(storable(surface).split())
            name = canonical(form)
            if not name or len(form) > MAX_ENTITY_CHARACTERS or len(name) > MAX_ENTITY_CHARACTERS:
                left_out.names += 1
            elif len(mentions) == MOST_ENTITIES and form not in mentions:
                left_out.entities += 1
            else:
                mentions[form] = name
        propositions[text] = PreparedProposition(
            text=text,
            span=earlier.span if earlier else proposition.span,
            mentions=tuple(sorted(mentions.items())),
        )
    ready = () if extraction.error else tuple(propositions.values())
    texts = [with_title(passage.title, proposition.text, titles) for proposition in ready]
    return (
        PreparedPassage(
            passage=passage,
            content_hash=b"",
            state="failed" if extraction.error else "ready" if ready else "empty",
            reason=storable(extraction.error),
            propositions=ready,
            vectors=encoder.encode_propositions(texts),
        ),
        left_out,
    )


def without_parts(prepared: PreparedPassage, reason: str) -> PreparedPassage:
    """The passage as one that failed for this reason."""
    return replace(prepared, state="failed", reason=reason, propositions=(), vectors=prepared.vectors[:0])


def content_hash(passage: Passage, titles: Titles, extraction: Extraction | None) -> bytes:
    """Fingerprint of what a passage's propositions derive from: its text, its title where titles are on,
    and a ready-made extraction."""
    parts: list[object] = [passage.title if titles == "on" else "", passage.text]
    if extraction is not None:
        parts.append([[p.text, list(p.entities)] for p in extraction.propositions])
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).digest()
