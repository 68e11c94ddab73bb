"""The doubles keep the promises that other tests build on."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import split_sentences


@pytest.mark.parametrize("seed", ["0", "1"])
def test_hash_vectors_are_the_same_in_every_process(seed: str) -> None:
    code = (
        "from tests.doubles.hash_encoder import HashEncoder\n"
        "print(HashEncoder(16).encode_passages(['the river Nile, the Amazon']).tobytes().hex())"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ).stdout.strip()
    assert printed == HashEncoder(16).encode_passages(["the river Nile, the Amazon"]).tobytes().hex()


def test_hash_vectors_of_texts_that_share_words_are_similar() -> None:
    vectors = HashEncoder(256).encode_passages(["the long river Nile", "the river Nile", "a quiet town"])
    assert vectors[0] @ vectors[1] > 0.7 > 0.3 > abs(vectors[0] @ vectors[2])


def test_hash_vectors_have_norm_one() -> None:
    vectors = HashEncoder(64).encode_passages(["", "\ud800", "a b", "x" * 10_000])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_sentences_carry_their_spans() -> None:
    text = "Ada Lovelace met Babbage.  It rained!"
    spans = [proposition.span for proposition in split_sentences(text)]
    assert [text[start:end] for start, end in filter(None, spans)] == [
        "Ada Lovelace met Babbage.",
        "It rained!",
    ]
