"""Named prompts of embedding models."""

from __future__ import annotations

import pytest

from evireform.embedding.prompts import PRESETS, preset_for
from evireform.errors import UsageError


@pytest.mark.parametrize(
    ("model", "preset"),
    [
        ("BAAI/bge-m3", "bge-m3"),
        ("BAAI/bge-large-en-v1.5", "bge-en"),
        ("bge-small-en-v1.5-int8", "bge-en"),
        ("/models/bge_small_en/", "bge-en"),
        ("Qwen/Qwen3-Embedding-8B", "qwen3-embedding"),
        ("nvidia/NV-Embed-v2", "nv-embed-v2"),
        ("GritLM/GritLM-7B", "gritlm-7b"),
        ("intfloat/e5-base-v2", "e5"),
        ("intfloat/multilingual-e5-large", "e5"),
        ("intfloat/multilingual-e5-large-instruct", "e5-instruct"),
        ("sentence-transformers/all-MiniLM-L6-v2", "minilm"),
        ("text-embedding-3-small", "plain"),
        ("bge-m3/something-else", "plain"),
        ("some-bge5x-model", "plain"),
    ],
)
def test_the_preset_is_guessed_from_the_last_part_of_the_name(model: str, preset: str) -> None:
    assert preset_for(model) is PRESETS[preset]


def test_a_named_preset_counts_more_than_the_guess() -> None:
    assert preset_for("BAAI/bge-m3", name="e5") is PRESETS["e5"]


def test_an_unknown_preset_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"'nope'; there are plain, .*gritlm-7b"):
        preset_for("BAAI/bge-m3", name="nope")


@pytest.mark.parametrize(
    ("preset", "recorded"),
    [
        ("plain", {}),
        ("bge-m3", {}),
        ("minilm", {}),
        ("bge-en", {"question": "Represent this sentence for searching relevant passages: {text}"}),
        ("e5", {"question": "query: {text}", "proposition": "passage: {text}", "passage": "passage: {text}"}),
        (
            "qwen3-embedding",
            {
                "question": "Instruct: Given a web search query, retrieve relevant passages that answer the "
                "query\nQuery:{text}"
            },
        ),
        (
            "nv-embed-v2",
            {
                "question": "Instruct: Given a question, retrieve passages that answer the question.\n"
                "Query: {text}</s>",
                "proposition": "{text}</s>",
                "passage": "{text}</s>",
            },
        ),
        (
            "gritlm-7b",
            {
                "question": "<|user|>\nGiven a question, retrieve passages that answer the question.\n"
                "<|embed|>\n{text}",
                "proposition": "<|embed|>\n{text}",
                "passage": "<|embed|>\n{text}",
            },
        ),
    ],
)
def test_recorded_templates(preset: str, recorded: dict[str, str]) -> None:
    assert PRESETS[preset].recorded() == recorded
