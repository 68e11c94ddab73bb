"""Rows of an extraction: propositions with their mentions and vectors, ready to be written."""

from __future__ import annotations

import hashlib
import json

from evireform.canonical import MAX_ENTITY_CHARACTERS, canonical
from evireform.embedding import Encoder
from evireform.formats.text import storable
from evireform.records import Extraction, Passage, Titles, with_title
from evireform.store.writing import PreparedPassage, PreparedProposition


def prepare(
    passage: Passage, extraction: Extraction, titles: Titles, encoder: Encoder
) -> tuple[PreparedPassage, int]:
    """A passage ready to be written, and how many entity names were dropped.

    Exact duplicate propositions are one; a name that is empty in canonical form, or longer than
    `canonical.MAX_ENTITY_CHARACTERS`, is dropped.
    """
    dropped = 0
    propositions: dict[str, PreparedProposition] = {}
    for proposition in extraction.propositions:
        text = storable(proposition.text).strip()
        if not text:
            continue
        earlier = propositions.get(text)
        mentions = dict(earlier.mentions) if earlier else {}
        for surface in proposition.entities:
            form = " ".join(storable(surface).split())
            name = canonical(form)
            if name and len(form) <= MAX_ENTITY_CHARACTERS and len(name) <= MAX_ENTITY_CHARACTERS:
                mentions[form] = name
            else:
                dropped += 1
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
        dropped,
    )


def content_hash(passage: Passage, titles: Titles, extraction: Extraction | None) -> bytes:
    """Fingerprint of what a passage's propositions derive from: its text, its title where titles are on,
    and a ready-made extraction."""
    parts: list[object] = [passage.title if titles == "on" else "", passage.text]
    if extraction is not None:
        parts.append([[p.text, list(p.entities)] for p in extraction.propositions])
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).digest()
