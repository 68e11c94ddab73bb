"""`evireform entity`, end to end on a real database."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evireform.cli import app
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

TEXTS = {
    "painter": "John Smith painted the Bay. The Bay is in Wales.",
    "smith": "John Smith shod a mare.",
    "both": "Jack Smith met John Smith at the Bay.",
}

Command = Callable[..., Result]


@pytest.fixture
def run(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs `evireform entity` on a corpus ``wiki`` of the test's own."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("EVIREFORM_", "PG", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", database_url)
    monkeypatch.setattr("evireform.database.load_encoder", lambda _: HashEncoder())
    monkeypatch.setattr("evireform.database.load_language", lambda *_: ScriptedLanguage())
    lines = [json.dumps({"id": key, "text": text}) for key, text in TEXTS.items()]
    Path("wiki.jsonl").write_text("\n".join(lines), encoding="utf-8")
    invoke = CliRunner().invoke
    invoke(app, ["ingest", "wiki.jsonl", "--corpus", "wiki"])
    return lambda *arguments: invoke(app, ["entity", *arguments, "--corpus", "wiki"])


def test_an_entity_is_drawn_with_its_neighbourhood(run: Command) -> None:
    result = run("show", "john smith")
    assert result.exit_code == 0
    assert [line.rstrip() for line in result.stdout.splitlines()] == [
        "John Smith  3 propositions, largest weight 1.0000",
        "├── 1 form",
        "│   └── 3 ████████████████████████ John Smith",
        "├── 3 passages",
        "│   ├── 1 ████████████████████████ both",
        "│   ├── 1 ████████████████████████ painter",
        "│   └── 1 ████████████████████████ smith",
        "└── 2 neighbours",
        "    ├── 2 ████████████████████████ Bay",
        "    └── 1 ████████████ Jack Smith",
    ]


def test_an_entity_is_shown_as_json(run: Command) -> None:
    shown = json.loads(run("show", "JOHN SMITH", "--limit", "1", "--json").stdout)
    assert shown["corpus"] == "wiki"
    assert (shown["entity"]["canonical"], shown["entity"]["degree"]) == ("john smith", 3)
    assert (len(shown["entity"]["passages"]), shown["entity"]["passage_count"]) == (1, 3)


def test_the_rows_that_are_not_drawn_are_counted(run: Command) -> None:
    assert "1 of 3 passages" in run("show", "john smith", "-n", "1").stdout


def test_a_missing_entity_ends_with_2_and_near_names(run: Command) -> None:
    result = run("show", "John Smyth")
    assert result.exit_code == 2
    assert "no proposition of 'wiki' names 'john smyth'; there is 'john smith'" in result.stderr


def test_a_merge_is_reported_logged_and_taken_back(run: Command) -> None:
    merged = run("merge", "John Smith", "Jack Smith")
    assert "merged jack smith into john smith" in merged.stdout
    assert "moved from jack smith: 1 proposition of 1 passage" in merged.stdout
    assert "jack smith stands for it" in run("show", "Jack Smith").stdout
    assert run("split", "Jack Smith").exit_code == 0
    logged = json.loads(run("log", "--json").stdout)["log"]
    assert [(entry["action"], entry["canonical"]) for entry in logged] == [
        ("split", "jack smith"), ("merge", "jack smith"),
    ]  # fmt: skip


def test_two_that_are_mentioned_alike_are_drawn_with_their_names(run: Command) -> None:
    run("split", "John Smith", "--passage", "painter", "--as", "Smith the painter")
    assert "John Smith (smith the painter)  1 proposition, largest" in run("show", "Smith the painter").stdout
    assert "John Smith (smith the painter)" in run("show", "Bay").stdout


def test_two_of_one_name_are_told_apart_and_joined_again(run: Command) -> None:
    apart = run(
        "split", "John Smith", "--passage", "painter", "--passage", "both", "--as", "Smith the painter"
    )
    assert "split john smith in painter as smith the painter" in apart.stdout
    assert json.loads(run("show", "Smith the painter", "--json").stdout)["entity"]["degree"] == 2
    again = run("merge", "John Smith", "Smith the painter", "--passage", "both")
    assert "merged smith the painter in both into john smith" in again.stdout
    assert json.loads(run("show", "Smith the painter", "--json").stdout)["entity"]["degree"] == 1


def test_a_pair_that_is_probably_one_is_listed(run: Command) -> None:
    assert re.search(r"bay\W+2\W+the bay\W+1\W+spelling", run("suggest").stdout)
    assert json.loads(run("suggest", "--json").stdout)["pairs"] == [
        {"canonical": "bay", "degree": 2, "other": "the bay", "other_degree": 1, "reason": "spelling"}
    ]
    run("merge", "Bay", "The Bay")
    assert run("suggest").stdout == "no two names look like one\n"


def test_a_dry_run_says_so_and_changes_nothing(run: Command) -> None:
    tried = json.loads(run("merge", "John Smith", "Jack Smith", "--dry-run", "--json").stdout)
    assert (tried["dry_run"], tried["moves"]) == (
        True, [{"canonical": "jack smith", "propositions": 1, "passages": 1}],
    )  # fmt: skip
    assert "nothing was changed" in run("merge", "John Smith", "Jack Smith", "--dry-run").stdout
    assert run("log").stdout == "nothing was decided about entities\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["split", "John Smith"], "was not merged into anything"),
        (["split", "John Smith", "--as", "Jack"], "give the passages and the other's name"),
        (["merge", "John Smith", "JOHN SMITH"], "cannot be merged into itself"),
        (["merge", "John Smith", "\udcff"], "not valid UTF-8"),
        (["show", "..."], "a name has 1 to 300 characters"),
    ],
)
def test_what_cannot_be_is_refused(run: Command, arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
