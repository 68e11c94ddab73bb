"""`--where` on the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evireform.cli import app
from evireform.records import Reading
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

PASSAGES = [
    {"id": "ada", "text": "Ada met Babbage.", "year": 1833, "lang": "en"},
    {"id": "bob", "text": "Babbage met Bob.", "year": 1840, "lang": ["en", "de"]},
    {"id": "eve", "text": "Babbage met Eve.", "year": "1840", "lang": "fr"},
]

Command = Callable[..., Result]


@pytest.fixture
def language() -> ScriptedLanguage:
    return ScriptedLanguage(read=lambda _, passages: Reading(text=passages[0].passage_key, cited=(0,)))


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_url: str, language: ScriptedLanguage
) -> Command:
    """Runs a command on a database that holds the passages."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("EVIREFORM_", "PG", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", database_url)
    monkeypatch.setattr("evireform.database.load_encoder", lambda _: HashEncoder())
    monkeypatch.setattr("evireform.database.load_language", lambda *_: language)
    Path("passages.jsonl").write_text("\n".join(map(json.dumps, PASSAGES)), encoding="utf-8")
    ingested = CliRunner().invoke(app, ["ingest", "passages.jsonl", "--corpus", "w"])
    assert ingested.exit_code == 0, ingested.output
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


def ranked(result: Result) -> set[str]:
    assert result.exit_code == 0, result.output
    (ranking,) = json.loads(result.stdout)["rankings"]
    return {passage["passage_key"] for passage in ranking["passages"]}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], {"ada", "bob", "eve"}),
        (["year=1840"], {"bob"}),
        (['year="1840"'], {"eve"}),
        (["year>=1833", "lang=de,fr"], {"bob"}),
        (["lang=en", "lang=de"], {"bob"}),
        (["year<1840", "year>1833"], set()),
    ],
)
def test_a_search_ranks_what_meets_every_condition(
    run: Command, conditions: list[str], expected: set[str]
) -> None:
    options = [part for condition in conditions for part in ("--where", condition)]
    assert ranked(run("search", "whom did Babbage meet", "--corpus", "w", "--json", *options)) == expected


def test_a_name_that_no_passage_has_is_said(run: Command) -> None:
    result = run("search", "whom did Babbage meet", "--corpus", "w", "--where", "yaer=1840")
    assert result.exit_code == 0
    assert "no passage has a value under 'yaer'" in result.stdout


def test_the_filter_stands_with_the_ranking(run: Command) -> None:
    result = run("search", "whom did Babbage meet", "--corpus", "w", "--where", "lang=en,de", "--json")
    (ranking,) = json.loads(result.stdout)["rankings"]
    assert ranking["where"] == [{"name": "lang", "operator": "=", "values": ["en", "de"]}]
    assert ranking["notes"] == ["filter: lang=en,de allows 2 propositions; each was compared"]


def test_an_answer_is_read_from_what_is_allowed(run: Command, language: ScriptedLanguage) -> None:
    result = run("answer", "whom did Babbage meet", "--corpus", "w", "--where", "lang=fr", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["answer"]["text"] == "eve"
    assert [[p.passage_key for p in read] for _, read in language.read_from] == [["eve"]]


@pytest.mark.parametrize("command", ["search", "answer"])
@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("year", "'year' is no condition"),
        ("year!=1840", "there is no !="),
        ("lang=", "a value is missing"),
        ("n=1e999", "numbers that a 64-bit float can hold"),
    ],
)
def test_what_is_no_condition_is_refused_before_anything_is_opened(
    monkeypatch: pytest.MonkeyPatch, command: str, condition: str, problem: str
) -> None:
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", "postgresql://someone@127.0.0.1:1/index")
    result = CliRunner().invoke(app, [command, "who", "--corpus", "w", "--where", condition])
    assert result.exit_code == 2
    assert problem in result.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["search", "--replay", "1", "--where", "year=1840"], "leave out --where"),
        (["answer", "who", "--direct", "--where", "year=1840"], "leave out --where or --direct"),
    ],
)
def test_a_filter_is_refused_where_it_would_count_for_nothing(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(app, [*arguments, "--corpus", "w"])
    assert result.exit_code == 2
    assert problem in result.stderr
