"""How many tokens a text has: exact where the model's tokenizer is at hand, else an estimate that says so."""

from __future__ import annotations

import time

import pytest

from evireform.language.tokens import Tokenizer, estimated, tokenizer_of

PARAGRAPH = (
    "Colin Archer was a naval architect, born in Larvik in 1832 to parents who had come from Scotland."
)


@pytest.mark.parametrize(
    ("model", "text", "tokens"),
    [
        ("gpt-4o", "", 0),
        ("gpt-4o", "Oslo", 2),
        ("gpt-4o", PARAGRAPH, 24),
        ("gpt-4", PARAGRAPH, 24),
        ("gpt-4", "東京タワー", 7),
        ("gpt-4o", "東京タワー", 4),
    ],
)
def test_tokens_are_those_of_the_model(model: str, text: str, tokens: int) -> None:
    assert tokenizer_of(model).count_within(text, 1_000) == tokens


def test_a_long_text_counts_as_its_sentences_do() -> None:
    one, tokenizer = f" {PARAGRAPH}", tokenizer_of("gpt-4o")
    each = tokenizer.count_within(one, 100)
    assert each is not None
    assert tokenizer.count_within(one * 60, 10_000) == 60 * each


@pytest.mark.parametrize("model", ["deepseek-chat", "qwen3:8b", "local", ""])
def test_a_model_with_an_unknown_tokenizer_is_estimated_and_that_is_said(model: str) -> None:
    tokenizer = tokenizer_of(model)
    assert tokenizer.count_within("x" * 9, 3) == 3
    assert tokenizer.name == "estimated, 4 bytes a token"


@pytest.mark.parametrize("tokenizer", [Tokenizer(), tokenizer_of("gpt-4o")])
def test_what_does_not_fit_has_no_count(tokenizer: Tokenizer) -> None:
    size = tokenizer.count_within(PARAGRAPH, 1_000)
    assert size is not None
    assert tokenizer.count_within(PARAGRAPH, size) == size
    assert tokenizer.count_within(PARAGRAPH, size - 1) is None


def test_t11_an_enormous_word_does_not_hold_the_counting_up() -> None:
    tokenizer, started = tokenizer_of("gpt-4o"), time.monotonic()
    assert tokenizer.count_within("x" * 5_000_000, 3_000) is None
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("tokenizer", [Tokenizer(), tokenizer_of("gpt-4o")])
def test_t11_a_lone_surrogate_is_counted(tokenizer: Tokenizer) -> None:
    assert tokenizer.count_within("half \ud800 character", 100)


def test_the_estimate_is_rounded_up() -> None:
    assert [estimated(text) for text in ("", "a", "abcd", "東京")] == [0, 1, 1, 2]
