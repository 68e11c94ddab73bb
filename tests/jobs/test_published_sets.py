"""A published set from its file to a report: read, ingested, ranked and judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from evireform.evaluation import evaluate
from evireform.evaluation.files import read_questions, read_study
from evireform.formats.datasets import read_dataset
from evireform.records import Passage, Selection
from evireform.settings import SearchSettings
from evireform.store.connection import Store
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.unit.test_formats_datasets import MAKERS


@pytest.mark.parametrize("format_name", sorted(MAKERS))
def test_a_set_is_measured_from_its_files(shared_store: Store, tmp_path: Path, format_name: str) -> None:
    data, output = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    MAKERS[format_name](data)
    dataset = read_dataset(data)
    script = {
        row.key: [(row.text, [row.title or "It"])] for row in dataset.passages() if isinstance(row, Passage)
    }
    language = ScriptedLanguage(extract=script, select=lambda *_: Selection(positions=(0, 1)))
    result = evaluate(
        shared_store, data,
        encoder=HashEncoder(), language=language, settings=SearchSettings(exact=True),
        methods=["base", "dense"], corpus_name=f"published-{format_name}", output=output,
    )  # fmt: skip
    judged = [question for question in dataset.questions if question.gold]
    assert (result.questions, result.unjudged) == (
        len(dataset.questions),
        len(dataset.questions) - len(judged),
    )
    assert result.ingestion.added == len(script)
    assert read_questions(output) == list(dataset.questions)
    # A corpus of three passages at most: all of the gold is among the first five of dense search.
    found = read_study(output).results[1].means.get("recall@5")
    assert found == (1.0 if judged else None)
    assert (output / "report.html").is_file()
