"""README and CONTRIBUTING: their Python, SQL and command lines do what they say; links lead somewhere."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
import typer.main
from psycopg import sql

import evireform
from evireform.cli import app
from evireform.cli.config import load_settings, setting_types, variable
from evireform.formats.passages import read_passages
from evireform.sample import corpus_path
from tests.conftest import SCHEMA, database
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def lines(program: str) -> list[list[str]]:
    """The arguments of each line of the shell blocks that runs a program."""
    found = [
        shlex.split(line, comments=True) for block in blocks(README, "sh") for line in block.splitlines()
    ]
    return [words[1:] for words in found if words and words[0] == program]


STATEMENTS = blocks(README, "sql")
COMMANDS = lines("evireform")
EXPORTS = [dict(word.split("=", 1) for word in words) for words in lines("export")]
MODELS = [exported for exported in EXPORTS if "EVIREFORM_LANGUAGE_MODEL" in exported]


@pytest.fixture(scope="module")
def sample_url(server_url: str, template_database: str) -> Iterator[str]:
    """A database with the sample corpus, and one question asked of it."""
    with (
        database(server_url, template_database) as url,
        evireform.connect(url, encoder=HashEncoder(), language=ScriptedLanguage()) as db,
    ):
        corpus = db.corpus("sample", create=True)
        corpus.ingest(read_passages([corpus_path()]))
        corpus.search("In which town was the designer of the polar ship Fram born?")
        yield url


def test_there_are_five_questions_in_sql() -> None:
    assert len(STATEMENTS) == 5


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda text: text.splitlines()[0].strip("- ?"))
def test_each_sql_question_has_an_answer(sample_url: str, statement: str) -> None:
    with psycopg.connect(sample_url) as connection:
        path = sql.SQL("SET search_path TO {}, public").format(sql.Identifier(SCHEMA))
        connection.execute(path)
        assert connection.execute(statement.encode()).fetchall()


def test_the_python_example_prints_what_the_readme_says(
    database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,), (printed,) = blocks(README, "python"), blocks(README, "text")
    monkeypatch.setattr(evireform, "connect", functools.partial(evireform.connect, database_url))
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_the_command_lines_show_every_command_but_the_demo_that_make_runs() -> None:
    commands = typer.main.get_command(app).commands.keys()  # type: ignore[attr-defined]
    assert {arguments[0] for arguments in COMMANDS} == commands - {"demo"}


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_each_command_line_is_one_that_the_program_takes(arguments: list[str]) -> None:
    group = typer.main.get_command(app)
    context = group.make_context("evireform", list(arguments))
    name, command, rest = group.resolve_command(context, list(arguments))  # type: ignore[attr-defined]
    command.make_context(name, rest, parent=context)
    flags = dict(word.split("=", 1) for option, word in pairwise(rest) if option == "--set")
    load_settings(flags, {}, None)


@pytest.mark.parametrize("exported", MODELS, ids=lambda exported: exported["EVIREFORM_LANGUAGE_MODEL"])
def test_naming_a_model_turns_the_language_backend_on(exported: dict[str, str]) -> None:
    assert "OPENAI_API_KEY" in exported
    language = load_settings({}, exported, None).settings.language
    assert language.backend == "openai"
    assert language.model == exported["EVIREFORM_LANGUAGE_MODEL"]
    assert language.base_url == exported.get("EVIREFORM_LANGUAGE_BASE_URL", "")


def test_five_kinds_of_server_are_shown() -> None:
    assert len(MODELS) == 5


def test_every_variable_of_ours_is_one_that_is_read() -> None:
    known = {*map(variable, setting_types()), "EVIREFORM_DATABASE_URL", "EVIREFORM_HOME"}
    assert set(re.findall(r"EVIREFORM_\w+", README)) <= known


def test_the_demo_indexes_as_many_passages_as_the_readme_says() -> None:
    (said,) = re.findall(r"indexes (\d+) passages", README)
    assert int(said) == len(list(read_passages([corpus_path()])))


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_to_files(name: str) -> None:
    targets = re.findall(r"\]\(([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_the_targets_of_make_are_there(text: str) -> None:
    named = {
        word
        for line in re.findall(r"(?:^|`)make ([a-z ]+?)(?=\s+#|`|\n)", text, re.MULTILINE)
        for word in line.split()
    }
    (declared,) = re.findall(
        r"^TARGETS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert "test" in named
    assert named <= set(declared.split())
