"""Passages of several versions that share many names, and all that a search shows of them: for histories."""

from __future__ import annotations

import random
from typing import Any

from evireform.records import ExtractedProposition, Extraction, Passage
from evireform.store.connection import Store
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import search

FORMS = (
    "Ada Lovelace", "ADA LOVELACE", "“Ada Lovelace”", "Łódź", "łódź", "C", "C++", "Charles Babbage",
    "東京", "Analytical Engine", "analytical engine", "50%",
)  # fmt: skip
VERBS = ("met", "left", "built", "named", "saw")
QUESTIONS = ("Who met Ada Lovelace?", "What did Charles Babbage build?", "Łódź")


def passage(key: str, version: int = 0, *, size: int | None = None) -> Passage:
    """A passage with up to four propositions and many names that others have too, the same each time."""
    chance = random.Random(f"{key} {version}")
    sentences = [
        f"{chance.choice(FORMS)} {chance.choice(VERBS)} {chance.choice(FORMS)} in {chance.randrange(18, 20)}."
        for _ in range(chance.randrange(5) if size is None else size)
    ]
    return Passage(
        key=key,
        title=f"Title {key}",
        text=" ".join(sentences) or "Nothing is said here.",
        metadata={"sentences": len(sentences)},
    )


def extract(given_passage: Passage) -> Extraction:
    """Sentences, with the forms that stand in them."""
    sentences = [f"{part}." for part in given_passage.text.rstrip(".").split(". ") if "Nothing" not in part]
    return Extraction(
        propositions=tuple(
            ExtractedProposition(text=text, entities=tuple(form for form in FORMS if form in text))
            for text in sentences
        )
    )


def language(*failing: str) -> ScriptedLanguage:
    return ScriptedLanguage(extract=extract, errors=dict.fromkeys(failing, "no answer"))


def rankings(store: Store, corpus_name: str, **settings: Any) -> list[Any]:
    """All that a search shows but ids: passages, scores to the last bit, traces and earnings in order."""
    found = [
        search(store, corpus_name, question, language=language(), **{"k": 10, **settings})
        for question in QUESTIONS
    ]
    text_of = [{seed.proposition_id: seed.text for seed in ranking.seeds} for ranking in found]
    return [
        [
            (
                passage.passage_key,
                passage.score,
                [(term.query, texts[term.seed_id], term.entity, term.value) for term in passage.trace],
                [(earning.text, earning.score, earning.entities) for earning in passage.propositions],
            )
            for passage in ranking.passages
        ]
        for ranking, texts in zip(found, text_of, strict=True)
    ]
