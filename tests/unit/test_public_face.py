"""What the package shows, and what importing it does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import evireform

MODELS = ("torch", "onnxruntime", "spacy", "openai", "sentence_transformers", "tokenizers")


def test_the_exported_names() -> None:
    assert evireform.__all__ == [
        "Answer",
        "AnswerSettings",
        "Corpus",
        "Database",
        "EmbeddingSettings",
        "EvireformError",
        "Extraction",
        "LanguageSettings",
        "Passage",
        "Question",
        "Ranking",
        "SearchSettings",
        "Settings",
        "WorkerSettings",
        "__version__",
        "connect",
    ]


@pytest.mark.parametrize("name", evireform.__all__)
def test_each_exported_name_is_there(name: str) -> None:
    assert getattr(evireform, name) is not None
    assert name in dir(evireform)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Document'"):
        evireform.Document  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("evireform", MODELS),
        ("evireform.database", MODELS),
        ("evireform.cli", (*MODELS, "numpy", "scipy", "sqlalchemy", "psycopg", "pydantic")),
    ],
)
def test_importing_loads_nothing_heavy(module: str, unwanted: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*sorted(set({unwanted!r}) & set(sys.modules)))"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == []
