"""Recall on real questions against the figures in expected.yaml. Slow: every corpus is indexed anew."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from evireform.embedding import load as load_encoder
from evireform.evaluation import evaluate
from evireform.language import load as load_language
from evireform.settings import EmbeddingSettings, LanguageSettings, SearchSettings
from evireform.store.connection import Store

HERE = Path(__file__).parent
DATA = Path(os.environ.get("EVIREFORM_DATA") or HERE.parents[2] / "shared" / "data")
CONDITIONS = yaml.safe_load((HERE / "expected.yaml").read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("expected", CONDITIONS, ids=lambda c: f"{c['dataset']}-titles-{c['titles']}")
def test_recall_is_as_measured(expected: dict[str, Any], store: Store) -> None:
    folder = DATA / expected["dataset"]
    if not folder.is_dir():
        pytest.skip(f"no folder {expected['dataset']} in EVIREFORM_DATA")
    result = evaluate(
        store,
        folder,
        encoder=load_encoder(EmbeddingSettings()),
        language=load_language(LanguageSettings()),
        settings=SearchSettings(),
        titles=expected["titles"],
    )
    measured = {method: measures["recall@5"] for method, measures in result.methods.items()}
    assert measured == pytest.approx(expected["recall@5"], abs=expected["tolerance"])
