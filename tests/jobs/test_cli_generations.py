"""The commands about generations, and about exports, end to end on a real database."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from evireform.cli import app
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

Command = Callable[..., Result]

PASSAGES = [
    {"id": "fram", "title": "Fram", "text": "Fram is a polar ship. Colin Archer designed Fram."},
    {"id": "archer", "title": "Colin Archer", "text": "Colin Archer was born in Larvik."},
]
QUESTIONS = [
    {"id": "1", "question": "Colin Archer was born in Larvik", "answers": [], "gold_passage_ids": ["archer"]},
    {"id": "2", "question": "Fram is a polar ship", "answers": [], "gold_passage_ids": []},
]


@pytest.fixture
def run(emptied_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command on a database of the test's own.

    ``language.model`` is the name of the extractor, ``embedding.model`` the number of dimensions.
    """
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("EVIREFORM_", "PG", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", emptied_url)
    monkeypatch.setattr(
        "evireform.database.load_encoder", lambda settings: HashEncoder(int(settings.model or 64))
    )
    monkeypatch.setattr(
        "evireform.database.load_language",
        lambda settings, *_: ScriptedLanguage(name=settings.model or "scripted/1"),
    )
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def wiki(run: Command, tmp_path: Path) -> Command:
    """The same, with the passages in corpus ``wiki``."""
    run("ingest", lines(tmp_path / "wiki.jsonl", PASSAGES), "--corpus", "wiki")
    return run


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def extractors(run: Command) -> dict[str, str]:
    corpora = json.loads(run("status", "--json").stdout)["corpora"]
    return {corpus["name"]: corpus["extractor"] for corpus in corpora}


MODEL = ("--set", "language.model=other")


# generation


def test_a_generation_is_started_switched_to_and_dropped(wiki: Command) -> None:
    started = wiki("generation", "start", "--corpus", "wiki", *MODEL, "--json")
    switched = wiki("generation", "switch", "--corpus", "wiki", "--json")
    between = extractors(wiki)
    dropped = wiki("generation", "drop", "--corpus", "wiki", "--yes", "--json")
    assert [result.exit_code for result in (started, switched, dropped)] == [0, 0, 0]
    assert json.loads(started.stdout)["corpus"] == "wiki-next"
    assert json.loads(started.stdout)["added"] == 2
    assert json.loads(switched.stdout) == {"corpus": "wiki", "kept_as": "wiki-next"}
    assert between == {"wiki": "other", "wiki-next": "scripted/1"}
    assert json.loads(dropped.stdout) == {"corpus": "wiki", "dropped": "wiki-next"}
    assert extractors(wiki) == {"wiki": "other"}


def test_a_generation_may_have_another_name_and_titles_setting(wiki: Command) -> None:
    wiki("generation", "start", "--corpus", "wiki", "--as", "wiki 2", "--titles", "off")
    again = wiki("generation", "start", "--corpus", "wiki", "--json")
    assert (json.loads(again.stdout)["corpus"], json.loads(again.stdout)["unchanged"]) == ("wiki 2", 2)
    standing = json.loads(wiki("generation", "status", "--json").stdout)["generations"][0]
    assert (standing["serving"]["titles"], standing["shadow"]["titles"]) == ("on", "off")


def test_what_a_generation_would_ask_is_said_before(wiki: Command) -> None:
    result = wiki("generation", "start", "--corpus", "wiki", "--estimate", "--json")
    document = json.loads(result.stdout)
    assert (document["corpus"], document["estimate"]["passages"]) == ("wiki-next", 2)
    assert list(extractors(wiki)) == ["wiki"]


def test_status_says_what_a_generation_lacks(wiki: Command, tmp_path: Path) -> None:
    wiki("generation", "start", "--corpus", "wiki", *MODEL)
    more = lines(tmp_path / "more.jsonl", [{"id": "gjoa", "text": "Gjøa sailed."}])
    complete = wiki("generation", "status")
    wiki("ingest", more, "--corpus", "wiki")
    lacking = wiki("generation", "status", "--corpus", "wiki")
    document = json.loads(wiki("generation", "status", "--json").stdout)["generations"][0]
    assert "it has all that the corpus has, and can be switched to" in complete.stdout
    assert "1 passage it does not have: gjoa" in lacking.stdout
    assert document["complete"] is False
    assert document["differences"] == [{"kind": "missing", "passages": 1, "keys": ["gjoa"]}]


def test_status_without_any_generation_says_how_to_make_one(wiki: Command) -> None:
    assert "`evireform generation start` makes one" in wiki("generation", "status").stdout


def test_a_generation_that_lacks_something_is_switched_to_by_force_alone(
    wiki: Command, tmp_path: Path
) -> None:
    wiki("generation", "start", "--corpus", "wiki", *MODEL)
    wiki("ingest", lines(tmp_path / "more.jsonl", [{"id": "x", "text": "Gjøa sailed."}]), "--corpus", "wiki")
    refused = wiki("generation", "switch", "--corpus", "wiki")
    forced = wiki("generation", "switch", "--corpus", "wiki", "--force")
    assert (refused.exit_code, forced.exit_code) == (2, 0)
    assert "1 missing (such as 'x')" in refused.stderr
    assert "the new generation serves as wiki; the old one is kept as wiki-next" in forced.stdout


def test_dropping_asks_first(wiki: Command) -> None:
    wiki("generation", "start", "--corpus", "wiki")
    result = wiki("generation", "drop", "--corpus", "wiki")
    assert (result.exit_code, list(extractors(wiki))) == (2, ["wiki", "wiki-next"])
    assert "give --yes" in result.stderr


def test_generations_are_compared(wiki: Command, tmp_path: Path) -> None:
    wiki("generation", "start", "--corpus", "wiki", *MODEL)
    questions = lines(tmp_path / "questions.jsonl", QUESTIONS)
    drawn = wiki("generation", "compare", "--corpus", "wiki", "--questions", questions, "-k", 1)
    document = json.loads(
        wiki("generation", "compare", "--corpus", "wiki", "--questions", questions, "--json").stdout
    )
    assert drawn.exit_code == 0
    assert "first 1 passages: 2 questions, 1 of them with gold passages" in drawn.stdout
    assert "100.0 % of the passages are shared" in drawn.stdout
    found = document["comparison"]
    assert (found["k"], found["judged"], found["changed"]) == (5, 1, [])
    assert [one["measure"] for one in found["measures"]] == ["recall@5", "chain@5", "hit@5"]


def test_rankings_that_changed_are_listed(wiki: Command, tmp_path: Path) -> None:
    wiki("generation", "start", "--corpus", "wiki", *MODEL)
    gone = lines(
        tmp_path / "gone.jsonl", [{"id": "larvik", "text": "Colin Archer was born in Larvik in 1832."}]
    )
    wiki("ingest", gone, "--corpus", "wiki")
    questions = lines(tmp_path / "questions.jsonl", QUESTIONS[:1])
    result = wiki("generation", "compare", "--corpus", "wiki", "--questions", questions)
    row = next(line for line in result.stdout.splitlines() if "2 of 3" in line)
    assert "larvik" in row


def test_a_generation_with_another_embedding_model_is_searched_with_it(wiki: Command, tmp_path: Path) -> None:
    wiki("generation", "start", "--corpus", "wiki", "--set", "embedding.model=32")
    questions = lines(tmp_path / "questions.jsonl", QUESTIONS)
    compare = ("generation", "compare", "--corpus", "wiki", "--questions", questions)
    assert "hash-32" in wiki(*compare).stderr
    assert wiki(*compare, "--shadow-set", "embedding.model=32").exit_code == 0


@pytest.mark.parametrize("given", ["embedding.model", "search.k=3", "=", "database_url=x"])
def test_only_settings_of_models_are_given_to_one_generation(
    wiki: Command, tmp_path: Path, given: str
) -> None:
    questions = lines(tmp_path / "questions.jsonl", QUESTIONS)
    result = wiki(
        "generation", "compare", "--corpus", "wiki", "--questions", questions, "--shadow-set", given
    )
    assert result.exit_code == 2
    assert "--shadow-set takes embedding.KEY=VALUE or language.KEY=VALUE" in result.stderr


# export, import


def test_a_corpus_is_exported_and_imported(wiki: Command) -> None:
    exported = wiki("export", "files", "--corpus", "wiki", "--vectors", "--json")
    imported = wiki("import", "files", "--corpus", "again", "--set", "embedding.model=none", "--json")
    manifest = json.loads(exported.stdout)["manifest"]
    assert (exported.exit_code, imported.exit_code) == (0, 0)
    assert manifest["files"]["passages.jsonl"]["rows"] == 2
    assert json.loads(imported.stdout) == {
        "corpus": "again",
        "imported": {
            "name": "again", "passages": 2, "propositions": 3, "entities": 3, "embedded": 0, "resumed": 0,
            "unverified": 0,
        },
    }  # fmt: skip


def test_exports_and_imports_are_summed_up(wiki: Command) -> None:
    exported = wiki("export", "files", "--corpus", "wiki")
    imported = wiki("import", "files", "--corpus", "again")
    assert "exported wiki to files: 2 passages, " in exported.stdout
    assert "imported again: 2 passages, 3 propositions" in imported.stdout
    assert "3 vectors were not in the files and made anew" in imported.stdout


def test_an_export_is_overwritten_on_demand(wiki: Command) -> None:
    wiki("export", "files", "--corpus", "wiki")
    assert wiki("export", "files", "--corpus", "wiki").exit_code == 2
    assert wiki("export", "files", "--corpus", "wiki", "--overwrite").exit_code == 0


@pytest.mark.parametrize("folder", ["file/files", "f" * 300])
def test_a_folder_that_cannot_be_written_is_named(wiki: Command, tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("mine")
    result = wiki("export", folder, "--corpus", "wiki", "--json")
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["type"], error["path"]) == (1, "OutputError", folder)
    assert error["message"].startswith(f"{folder} cannot be written: ")


def test_a_damaged_export_is_named(wiki: Command, tmp_path: Path) -> None:
    wiki("export", "files", "--corpus", "wiki")
    (tmp_path / "files" / "passages.jsonl").write_text("")
    result = wiki("import", "files", "--corpus", "again")
    assert result.exit_code == 1
    assert "files/passages.jsonl is damaged: it has 0 bytes" in result.stderr
