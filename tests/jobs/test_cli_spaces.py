"""`evireform space` and `evireform index`, on a real database."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from evireform.cli import app
from evireform.settings import EmbeddingSettings
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

Command = Callable[..., Result]
OTHER = ("--set", "embedding.model=other")


def encoder_of(settings: EmbeddingSettings) -> HashEncoder:
    return HashEncoder(model=settings.model)


@pytest.fixture
def run(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command on a database of the test's own, which holds corpus ``wiki`` of two propositions."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("EVIREFORM_", "PG", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", database_url)
    monkeypatch.setattr("evireform.database.load_encoder", encoder_of)
    monkeypatch.setattr("evireform.database.load_language", lambda *_: ScriptedLanguage())
    (tmp_path / "a.jsonl").write_text(json.dumps({"id": "fram", "text": "Fram is a ship. It is old."}) + "\n")

    def command(*arguments: object) -> Result:
        return CliRunner().invoke(app, [str(a) for a in arguments])

    command("ingest", "a.jsonl", "--corpus", "wiki")
    return command


def document(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def spaces_of(shown: Any) -> list[tuple[str, bool, int]]:
    return [(one["space"]["model"], one["space"]["active"], one["vectors"]) for one in shown["spaces"]]


def test_t10_a_corpus_is_embedded_again_and_switched(run: Command) -> None:
    built = document(run("space", "build", "--corpus", "wiki", *OTHER, "--json"))
    assert (built["embedded"], spaces_of(built)) == (2, [("hash-64", True, 2), ("other", False, 2)])
    switched = document(run("space", "switch", "--corpus", "wiki", *OTHER, "--json"))
    assert (switched["embedded"], spaces_of(switched)) == (0, [("hash-64", False, 2), ("other", True, 2)])
    assert run("search", "Fram", "--corpus", "wiki", *OTHER).exit_code == 0
    refused = run("search", "Fram", "--corpus", "wiki")
    assert refused.exit_code == 1
    assert "with other (64-d) and are opened with hash-64 (64-d)" in refused.stderr


def test_a_switch_before_the_build_says_what_to_run(run: Command) -> None:
    refused = run("space", "switch", "--corpus", "wiki", *OTHER)
    assert refused.exit_code == 2
    assert "run `evireform space build` with this model first" in refused.stderr


def test_spaces_are_shown(run: Command) -> None:
    run("space", "build", "--corpus", "wiki", *OTHER)
    shown = document(run("space", "show", "--json"))
    assert [(one["corpus"], spaces_of(one)) for one in shown["corpora"]] == [
        ("wiki", [("hash-64", True, 2), ("other", False, 2)])
    ]
    drawn = run("space", "show", "--corpus", "wiki").stdout
    assert "other (64-d)" in drawn
    assert "not active" in drawn


def test_without_vectors_there_is_nothing_to_show(run: Command) -> None:
    run("delete", "--corpus", "wiki", "--whole-corpus", "--yes")
    assert "there are no vectors yet" in run("space", "show").stdout
    assert "there are no vectors yet" in run("index").stdout


def test_a_space_is_dropped(run: Command) -> None:
    built = document(run("space", "build", "--corpus", "wiki", *OTHER, "--json"))
    number = built["spaces"][1]["space"]["space_id"]
    dropped = document(run("space", "drop", number, "--corpus", "wiki", "--json"))
    assert (dropped["corpus"], dropped["dropped"]["model"]) == ("wiki", "other")
    assert spaces_of(document(run("space", "show", "--json"))["corpora"][0]) == [("hash-64", True, 2)]


def test_the_active_space_is_not_dropped(run: Command) -> None:
    shown = document(run("space", "show", "--json"))
    number = shown["corpora"][0]["spaces"][0]["space"]["space_id"]
    refused = run("space", "drop", number, "--corpus", "wiki")
    assert refused.exit_code == 2
    assert f"space {number} of hash-64 is active" in refused.stderr


def test_an_index_is_built_and_measured(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evireform.store.spaces.INDEX_THRESHOLD", 2)
    made = document(run("index", "--corpus", "wiki", "--sample", "2", "--json"))["corpora"][0]["spaces"][0]
    assert (made["action"], made["sampled"], made["report"]["recall"], made["worst"]) == (
        "built",
        2,
        1.0,
        1.0,
    )
    drawn = run("index", "--rebuild", "--sample", "1").stdout
    assert "rebuilt in" in drawn
    assert "1.000 of 1" in drawn


def test_a_small_space_stays_without_an_index(run: Command) -> None:
    made = document(run("index", "--json"))["corpora"][0]["spaces"][0]
    assert (made["action"], made["sampled"], made["report"]["recall"]) == ("none", 0, None)
    assert "none (exact scan)" in run("index").stdout


def test_a_sample_below_zero_is_refused(run: Command) -> None:
    refused = run("index", "--sample", "-1")
    assert refused.exit_code == 2
    assert "--sample" in refused.stderr
