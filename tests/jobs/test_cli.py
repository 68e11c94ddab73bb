"""The command line, end to end on a real database: what it writes, where, and how it ends."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer.main
from typer.testing import CliRunner, Result

from evireform.cli import app
from evireform.cli.commands import TitlesOption
from evireform.cli.cost import By
from evireform.cli.evaluate import StudyOption, embedding_settings
from evireform.evaluation import studies
from evireform.evaluation.method import names as method_names
from evireform.records import Control, Extraction, Judgement, Passage, Reformulation
from evireform.settings import EmbeddingSettings
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.doubles.scripted_openai import Reply, ScriptedOpenAI

PASSAGES = [
    {
        "id": "fram",
        "title": "Fram",
        "text": "Fram is a polar ship. The hull of Fram was designed by Colin Archer.",
    },
    {"id": "archer", "title": "Colin Archer", "text": "Colin Archer was a naval architect born in Larvik."},
    {"id": "gjoa", "title": "Gjøa", "text": "Gjøa sailed through the Northwest Passage."},
]
ROOT = Path(__file__).resolve().parents[2]
QUESTION = "Where was the designer of the ship Fram born?"
UNREACHABLE = "postgresql://someone:hunter2@127.0.0.1:1/index"

Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and nothing of ours, libpq's or a model's in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith(("EVIREFORM_", "PG", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models without a model, for the commands that run in this process."""
    language = ScriptedLanguage(
        reformulate={QUESTION: ["Colin Archer born in Larvik"]},
        control=lambda *_: Control(sufficient=False, queries=("Northwest Passage",)),
        judge=lambda *_: Judgement(positions=(1,)),
    )
    monkeypatch.setattr("evireform.database.load_encoder", lambda _: HashEncoder())
    monkeypatch.setattr("evireform.database.load_language", lambda *_: language)


@pytest.fixture
def run(doubles: None, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Command:  # noqa: ARG001
    """Runs a command on a database of the test's own."""
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", database_url)
    return lambda *arguments, **more: CliRunner().invoke(app, [str(a) for a in arguments], **more)


@pytest.fixture
def wiki(run: Command, tmp_path: Path) -> Command:
    """The same, with the passages in corpus ``wiki``."""
    run("ingest", lines(tmp_path / "wiki.jsonl", PASSAGES), "--corpus", "wiki")
    return run


def lines(path: Path, rows: list[Any]) -> Path:
    """A JSONL file; a row that is text stands as it is."""
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def process(*arguments: str | Path, **more: Any) -> subprocess.Popen[str]:
    """The command line as a process of its own, with the models that the package brings."""
    return subprocess.Popen(
        [sys.executable, "-m", "evireform", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        **more,
    )


def names(result: Result) -> list[str]:
    return [corpus["name"] for corpus in json.loads(result.stdout)["corpora"]]


# init


def test_init_creates_the_tables_and_repeating_it_changes_nothing(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", empty_database_url)
    first, second = (CliRunner().invoke(app, ["init", "--json"]) for _ in range(2))
    reports = json.loads(first.stdout), json.loads(second.stdout)
    assert reports[0]["migrated_from"] == ""
    assert reports[1]["migrated_from"] == reports[1]["migrated_to"] == reports[0]["migrated_to"]


def test_without_tables_a_command_says_to_run_init(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", empty_database_url)
    result = CliRunner().invoke(app, ["status"])
    assert result.exit_code == 1
    assert "run `evireform init`" in result.stderr


# ingest


def test_ingestion_is_summed_up(run: Command, tmp_path: Path) -> None:
    result = run("ingest", lines(tmp_path / "a.jsonl", PASSAGES), "--corpus", "wiki", "--json")
    summary = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [summary[name] for name in ("corpus", "added", "changed", "unchanged")] == ["wiki", 3, 0, 0]


def test_ingesting_again_changes_nothing(wiki: Command, tmp_path: Path) -> None:
    summary = json.loads(wiki("ingest", tmp_path / "wiki.jsonl", "--corpus", "wiki", "--json").stdout)
    assert [summary[name] for name in ("added", "changed", "unchanged")] == [0, 0, 3]


def test_a_bad_line_is_reported_with_its_place_and_the_rest_goes_in(run: Command, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [PASSAGES[0], '{"id": "broken", ', PASSAGES[1]])
    result = run("ingest", path, "--corpus", "wiki")
    assert result.exit_code == 1
    assert "a.jsonl line 2" in result.stdout
    assert "malformed JSON" in result.stdout
    assert json.loads(run("status", "--json").stdout)["corpora"][0]["ready"] == 2


def test_rejected_lines_are_in_the_json(run: Command, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", [PASSAGES[0], {"id": "x", "text": " "}])
    summary = json.loads(run("ingest", path, "--corpus", "wiki", "--json").stdout)
    (rejected,) = summary["rejected"]
    assert (rejected["line_number"], rejected["passage_key"]) == (2, "x")
    assert rejected["reason"] == "text is empty"


def test_a_missing_file_leaves_no_corpus_behind(run: Command) -> None:
    result = run("ingest", "absent.jsonl", "--corpus", "wiki")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "absent.jsonl does not exist" in result.stderr
    assert names(run("status", "--json")) == []


def test_long_texts_are_split_when_asked(run: Command, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", PASSAGES[:1])
    assert json.loads(run("ingest", path, "--corpus", "wiki", "--split", "30", "--json").stdout)["added"] == 3


def test_ready_made_extractions_take_the_place_of_the_backend(run: Command, tmp_path: Path) -> None:
    made = {"passage_id": "gjoa", "propositions": [{"text": "Gjøa is a ship.", "entities": ["Gjøa"]}]}
    run(
        "ingest",
        lines(tmp_path / "a.jsonl", PASSAGES[2:]),
        "--corpus",
        "wiki",
        "--extractions",
        lines(tmp_path / "made.jsonl", [made]),
    )
    (ranking,) = json.loads(run("search", "Gjøa ship", "--corpus", "wiki", "--json").stdout)["rankings"]
    assert [candidate["text"] for candidate in ranking["candidates"]] == ["Gjøa is a ship."]


def test_what_is_wrong_in_the_extractions_is_reported_too(run: Command, tmp_path: Path) -> None:
    result = run(
        "ingest",
        lines(tmp_path / "a.jsonl", PASSAGES),
        "--corpus",
        "wiki",
        "--extractions",
        lines(tmp_path / "made.jsonl", ["nonsense"]),
    )
    assert result.exit_code == 1
    assert "made.jsonl line 1" in result.stdout


def extracting_with(monkeypatch: pytest.MonkeyPatch, language: ScriptedLanguage) -> None:
    monkeypatch.setattr("evireform.database.load_language", lambda *_: language)


def test_t06_failed_passages_are_listed_and_tried_again(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extracting_with(monkeypatch, ScriptedLanguage(errors={"fram": "HTTP 500"}))
    partial = run("ingest", lines(tmp_path / "a.jsonl", PASSAGES), "--corpus", "wiki")
    still = run("retry", "--corpus", "wiki", "--json")
    extracting_with(monkeypatch, ScriptedLanguage())
    mended = run("retry", "--corpus", "wiki")
    assert [result.exit_code for result in (partial, still, mended)] == [1, 1, 0]
    assert "HTTP 500" in partial.stdout
    assert "evireform retry" in partial.stdout
    assert [row["passage_key"] for row in json.loads(still.stdout)["failed"]] == ["fram"]


def test_a_spent_budget_says_what_was_not_done_and_exits_with_1(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spent(_: Passage) -> Extraction:
        return Extraction(error="the budget is spent", in_vain="budget")

    extracting_with(monkeypatch, ScriptedLanguage(extract=spent))
    result = run("ingest", lines(tmp_path / "a.jsonl", PASSAGES), "--corpus", "wiki")
    assert result.exit_code == 1
    assert "stopped: the budget is spent" in result.stdout
    assert f"{len(PASSAGES)} passages had been read and did not go in" in result.stdout
    again = run("ingest", tmp_path / "a.jsonl", "--corpus", "wiki", "--json")
    shown = json.loads(again.stdout)
    assert (shown["stopped"], shown["stopped_by"]) == ("the budget is spent", "budget")


def test_ctrl_c_shows_what_was_done_and_exits_with_130(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(_: Passage) -> Extraction:
        raise KeyboardInterrupt

    extracting_with(monkeypatch, ScriptedLanguage(extract=pressed))
    result = run("ingest", lines(tmp_path / "a.jsonl", PASSAGES), "--corpus", "wiki", "--json")
    assert result.exit_code == 130
    assert json.loads(result.stdout)["stopped"] == "interrupted"


def test_propositions_that_their_passage_does_not_support_are_noted(
    run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extracting_with(monkeypatch, ScriptedLanguage(extract=lambda _: Extraction(unsupported=2, dropped=1)))
    result = run("ingest", lines(tmp_path / "a.jsonl", PASSAGES[:1]), "--corpus", "wiki")
    assert "2 propositions with what the passage does not have: kept" in result.stdout
    assert "1 proposition with what the passage does not have: left out" in result.stdout


def test_a_huge_passage_is_announced(run: Command, tmp_path: Path) -> None:
    huge = {"id": "huge", "text": "Fram sailed. " * 5_000}
    result = run("ingest", lines(tmp_path / "a.jsonl", [huge]), "--corpus", "wiki")
    assert "working on huge (65,000 characters)" in result.stderr


def test_the_titles_of_a_corpus_cannot_be_switched(wiki: Command, tmp_path: Path) -> None:
    result = wiki("ingest", tmp_path / "wiki.jsonl", "--corpus", "wiki", "--titles", "off")
    assert result.exit_code == 2
    assert "titles on, not off" in result.stderr


def test_the_default_language_backend_is_named_once_on_standard_error(run: Command, tmp_path: Path) -> None:
    result = run("ingest", lines(tmp_path / "a.jsonl", PASSAGES), "--corpus", "wiki")
    assert result.stderr.count("`rules`") == 1
    assert "rules" not in result.stdout


def test_a_chosen_language_backend_is_not_announced(run: Command, tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", PASSAGES)
    assert run("ingest", path, "--corpus", "wiki", "--set", "language.backend=rules").stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("ingest", "wiki.jsonl"),
        ("ingest", "wiki.jsonl", "--estimate"),
        ("ingest", "wiki.jsonl", "--titles", "off"),
        ("retry",),
        ("search", QUESTION),
        ("answer", QUESTION),
    ],
    ids=" ".join,
)
def test_the_default_language_backend_is_not_named_again_once_there_is_the_corpus(
    wiki: Command, arguments: tuple[str, ...]
) -> None:
    assert "`rules`" not in wiki(*arguments, "--corpus", "wiki").stderr


def test_an_evaluation_names_the_default_language_backend_once_it_has_made_the_corpus(
    run: Command, dataset: Path
) -> None:
    wrong, first, second = (run("evaluate", dataset, "--methods", m) for m in ("magic", "base", "base"))
    assert ["`rules`" in result.stderr for result in (wrong, first, second)] == [False, True, False]


# search


def test_t17_each_ranked_passage_carries_terms_that_sum_to_its_score(wiki: Command) -> None:
    (ranking,) = json.loads(wiki("search", QUESTION, "--corpus", "wiki", "--json").stdout)["rankings"]
    assert ranking["passages"]
    for passage in ranking["passages"]:
        assert math.fsum(term["value"] for term in passage["trace"]) == pytest.approx(
            passage["score"], abs=1e-9
        )
        assert all(
            passage["text"][slice(*proposition["span"])] == proposition["text"]
            for proposition in passage["propositions"]
        )


def test_residual_queries_are_in_the_json(wiki: Command) -> None:
    (ranking,) = json.loads(wiki("search", QUESTION, "--corpus", "wiki", "--json").stdout)["rankings"]
    assert [query["text"] for query in ranking["residual_queries"]] == ["Colin Archer born in Larvik"]


def test_questions_come_from_the_line_and_from_standard_input(wiki: Command) -> None:
    result = wiki("search", "One?", "-", "Four?", "--corpus", "wiki", "--json", input="Two?\n\nThree?")
    asked = [ranking["question"] for ranking in json.loads(result.stdout)["rankings"]]
    assert asked == ["One?", "Two?", "Three?", "Four?"]


def test_a_question_that_is_not_utf8_is_named(wiki: Command) -> None:
    result = wiki("search", "-", "--corpus", "wiki", input=b"Two?\n\xff\n")
    assert result.exit_code == 1
    assert "line 2 of standard input is not UTF-8" in result.stderr


def test_k_limits_the_ranking(wiki: Command) -> None:
    (ranking,) = json.loads(wiki("search", QUESTION, "--corpus", "wiki", "-k", "1", "--json").stdout)[
        "rankings"
    ]
    assert len(ranking["passages"]) == 1


def test_rounds_are_a_flag_of_the_search(wiki: Command) -> None:
    result = wiki("search", QUESTION, "--corpus", "wiki", "--rounds", "2", "--json")
    (ranking,) = json.loads(result.stdout)["rankings"]
    assert {query["round_number"] for query in ranking["residual_queries"]} == {1, 2}


def test_a_final_set_is_chosen_and_its_decisions_are_told(wiki: Command) -> None:
    arguments = ("search", QUESTION, "--corpus", "wiki", "--set", "search.set_weight=0.5")
    (ranking,) = json.loads(wiki(*arguments, "--json").stdout)["rankings"]
    first = ranking["passages"][0]
    assert ranking["judged"][first["judged"] - 1] == first["passage_key"]
    tree = wiki(*arguments, "--explain").stdout
    assert f"placed by {first['blended']:.4f}" in tree


def test_a_variant_is_recorded_in_the_ranking(wiki: Command) -> None:
    result = wiki("search", QUESTION, "--corpus", "wiki", "--variant", "base", "--json")
    (ranking,) = json.loads(result.stdout)["rankings"]
    assert (ranking["method"], ranking["residual_queries"]) == ("base", [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--variant", "magic"], "no variant is called 'magic'"),
        (["-k", "0"], "k must lie between 1 and"),
        (["--rounds", "4"], "rounds must lie between 1 and 3"),
        (["--replay", "1"], "give questions or --replay, not both"),
        (["--set", "search.speed=9"], "no setting 'search.speed'"),
        (["--config", "absent.toml"], "absent.toml cannot be read"),
    ],
)
def test_a_wrong_argument_is_named(wiki: Command, arguments: list[str], message: str) -> None:
    result = wiki("search", QUESTION, "--corpus", "wiki", *arguments)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert result.stdout == ""


def test_the_explanation_draws_the_numbers_of_the_record(wiki: Command) -> None:
    exact = ("search", QUESTION, "--corpus", "wiki", "--exact")
    (ranking,) = json.loads(wiki(*exact, "--json").stdout)["rankings"]
    tree = wiki(*exact, "--explain").stdout
    for passage in ranking["passages"]:
        assert f"{passage['score']:.6f} = " in tree
        for proposition in passage["propositions"]:
            start, end = proposition["span"]
            assert f"{proposition['score']:.6f} [{start}–{end}] {proposition['text']}" in tree


def test_a_logged_search_is_ranked_again(wiki: Command) -> None:
    (ranking,) = json.loads(wiki("search", QUESTION, "--corpus", "wiki", "--json").stdout)["rankings"]
    result = wiki("search", "--corpus", "wiki", "--replay", ranking["log_id"], "--json")
    assert json.loads(result.stdout)["replay"]["same"] is True


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (["--set", "search.set_weight=0.5"], "search.set_weight"),
        (["--set", "language.model=some-model"], "language.model"),
        (["-k", "3"], "search.k"),
        (["--rounds", "2"], "search.rounds"),
        (["--exact"], "search.exact"),
        (["--budget", "1k"], "language.budget"),
        (["--no-cache"], "language.cache"),
        (["--variant", "base"], "--variant"),
        (["--explain"], "--explain"),
    ],
)
def test_what_a_replay_would_not_heed_is_refused(wiki: Command, given: list[str], named: str) -> None:
    result = wiki("search", "--corpus", "wiki", "--replay", "1", *given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"leave out {named}\n" in result.stderr


def test_a_search_needs_a_question_or_a_replay(wiki: Command) -> None:
    assert "give questions" in wiki("search", "--corpus", "wiki").stderr


def test_an_unknown_corpus_is_a_usage_error(run: Command) -> None:
    result = run("search", QUESTION, "--corpus", "absent", "--json")
    error = json.loads(result.stdout)["error"]
    assert result.exit_code == 2
    assert (error["type"], error["name"]) == ("CorpusNotFound", "absent")


# delete and status


def test_deleting_says_which_keys_were_there(wiki: Command) -> None:
    result = wiki("delete", "fram", "absent", "--corpus", "wiki", "--json")
    assert json.loads(result.stdout) == {"corpus": "wiki", "deleted": ["fram"], "missing": ["absent"]}
    assert result.exit_code == 1
    assert json.loads(wiki("status", "--json").stdout)["corpora"][0]["ready"] == 2


def test_a_whole_corpus_is_not_deleted_unasked(wiki: Command) -> None:
    result = wiki("delete", "--whole-corpus", "--corpus", "wiki")
    assert result.exit_code == 2
    assert "--yes" in result.stderr
    assert names(wiki("status", "--json")) == ["wiki"]


def test_a_whole_corpus_is_deleted_with_yes(wiki: Command) -> None:
    result = wiki("delete", "--whole-corpus", "--corpus", "wiki", "--yes")
    assert "deleted corpus wiki with 3 passages" in result.stdout
    assert names(wiki("status", "--json")) == []


@pytest.mark.parametrize("arguments", [["k\udcff", "--corpus", "wiki"], ["k", "--corpus", "wiki\udcff"]])
def test_a_key_or_name_that_is_not_utf8_is_refused(wiki: Command, arguments: list[str]) -> None:
    result = wiki("delete", *arguments)
    assert result.exit_code == 2
    assert "not valid UTF-8" in result.stderr


def test_on_a_terminal_the_answer_decides(wiki: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evireform.cli.commands._is_terminal", lambda: True)
    delete = ("delete", "--whole-corpus", "--corpus", "wiki")
    refused = wiki(*delete, input="\n")
    assert "Delete corpus wiki with 3 passages? [y/N]" in refused.stderr
    assert (refused.exit_code, names(wiki("status", "--json"))) == (1, ["wiki"])
    assert wiki(*delete, input="y\n").exit_code == 0
    assert names(wiki("status", "--json")) == []


def test_keys_and_whole_corpus_exclude_each_other(wiki: Command) -> None:
    assert wiki("delete", "fram", "--whole-corpus", "--corpus", "wiki", "--yes").exit_code == 2
    assert wiki("delete", "--corpus", "wiki").exit_code == 2


def test_status_shows_a_corpus_with_its_vector_space(wiki: Command) -> None:
    shown = wiki("status", "--corpus", "wiki").stdout
    assert "scripted/1" in shown
    assert "hash-64" in shown


# evaluate


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    folder = tmp_path / "ships"
    folder.mkdir()
    lines(folder / "corpus.jsonl", PASSAGES)
    question = {
        "id": "q1",
        "question": QUESTION,
        "answers": ["Larvik"],
        "gold_passage_ids": ["fram", "archer"],
    }
    lines(folder / "questions.jsonl", [question])
    return folder


def test_evaluation_measures_each_method_in_shares_of_one(run: Command, dataset: Path) -> None:
    methods = json.loads(run("evaluate", dataset, "--json").stdout)["methods"]
    assert list(methods) == ["dense", "base", "propagation", "reformulation", "full"]
    assert methods["full"]["recall@5"] == methods["full"]["chain@20"] == 1.0
    assert methods["full"]["recall@1"] == 0.5


def test_evaluation_prints_percent(run: Command, dataset: Path) -> None:
    result = run("evaluate", dataset, "--methods", "full, dense")
    assert "ships: 1 questions, titles on" in result.stdout
    assert "100.00" in result.stdout
    assert "propagation" not in result.stdout


def test_evaluation_writes_its_runs_beside_the_work(run: Command, dataset: Path, tmp_path: Path) -> None:
    run("evaluate", dataset, "--titles", "off", "--methods", "full")
    assert (tmp_path / "runs" / "ships-off" / "runs" / "full.run").read_text().startswith("q1 Q0 ")


def test_evaluation_writes_where_it_is_told(run: Command, dataset: Path, tmp_path: Path) -> None:
    run("evaluate", dataset, "--output", tmp_path / "here", "--methods", "full")
    assert (tmp_path / "here" / "results.json").is_file()
    assert not (tmp_path / "runs").exists()


def test_an_evaluation_that_falls_short_exits_with_1_and_says_what_is_missing(
    run: Command, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extracting_with(
        monkeypatch, ScriptedLanguage(errors=dict.fromkeys(("fram", "archer", "gjoa"), "HTTP 404"))
    )
    said = "3 of 3 passages are not in the corpus (3 failed, 0 rejected)"
    for arguments, folder in (
        (("--methods", "full"), "ships-on"),
        (("--study", "ablation"), "ships-on-ablation"),
    ):
        result = run("evaluate", dataset, *arguments)
        assert result.exit_code == 1
        assert f"degraded: {said}" in result.stdout
        written = tmp_path / "runs" / folder / "results.json"
        assert json.loads(written.read_text(encoding="utf-8"))["shortfalls"] == [said]


def test_an_evaluation_with_fall_backs_exits_with_1(
    run: Command, dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = ScriptedLanguage(reformulate=lambda *_: Reformulation(degraded="HTTP 401"))
    extracting_with(monkeypatch, refused)
    result = run("evaluate", dataset, "--methods", "base,full", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["shortfalls"] == ["full: 1 of 1 questions with a fall-back"]


def test_a_report_that_is_replaced_by_another_is_said_to_be(run: Command, dataset: Path) -> None:
    first, same, other = (run("evaluate", dataset, "--methods", m).stderr for m in ("base", "base", "full"))
    assert "was replaced" not in first + same
    assert "the report of `--methods base --titles on` in runs/ships-on was replaced" in other


def test_an_unknown_method_is_a_usage_error(run: Command, dataset: Path) -> None:
    assert run("evaluate", dataset, "--methods", "magic").exit_code == 2


def test_the_help_of_evaluate_names_every_method(run: Command) -> None:
    shown = run("evaluate", "--help", env={"COLUMNS": "500"}).stdout
    assert ", ".join(method_names()) in " ".join(shown.split())


def test_evaluate_offers_every_study() -> None:
    assert tuple(sorted(StudyOption)) == studies.NAMES


def test_a_study_is_shown_in_percent_and_written(run: Command, dataset: Path, tmp_path: Path) -> None:
    result = run("evaluate", dataset, "--study", "ablation")
    assert "What reformulation and propagation each contribute" in result.stdout
    assert "100.00" in result.stdout
    written = tmp_path / "runs" / "ships-on-ablation"
    assert all((written / name).is_file() for name in ("results.json", "report.md", "report.html"))


def test_a_study_is_one_document_as_json(run: Command, dataset: Path) -> None:
    document = json.loads(run("evaluate", dataset, "--study", "coverage", "--json").stdout)
    assert (document["name"], document["results"][0]["means"]["chain@5"]) == ("coverage", 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--study", "ablation", "--methods", "full"], "give --methods or --study, not both"),
        (["--embedding", "model=x"], "--embedding names models for --study embeddings"),
        (["--study", "embeddings", "--embedding", "x"], "'x' is not KEY=VALUE"),
        (["--study", "embeddings"], "name at least one more with --embedding"),
        (["--format", "magic"], "no format is called 'magic'"),
    ],
)
def test_a_wrong_use_of_evaluate_is_said(
    run: Command, dataset: Path, arguments: list[str], message: str
) -> None:
    result = run("evaluate", dataset, *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_an_embedding_is_given_by_its_settings() -> None:
    given = embedding_settings("backend=sentence-transformers, model=BAAI/bge-m3")
    assert given == EmbeddingSettings(backend="sentence-transformers", model="BAAI/bge-m3")


def test_a_sample_of_the_questions_is_asked(run: Command, dataset: Path) -> None:
    with (dataset / "questions.jsonl").open("a") as stream:
        for key in ("q2", "q3"):
            line = {"id": key, "question": QUESTION, "answers": [], "gold_passage_ids": ["fram"]}
            stream.write(json.dumps(line) + "\n")
    sampled = ("evaluate", dataset, "--sample", "2", "--seed", "3", "--methods", "base", "--json")
    assert json.loads(run(*sampled).stdout)["questions"] == 2


# doctor


def test_a_healthy_system_has_no_problem(wiki: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    result = wiki("doctor", "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["ok"] is True
    assert {"server", "extension", "tables", "embedding model", "language backend"} <= {
        check["name"] for check in document["checks"]
    }
    assert "sk-secret" not in result.stdout + result.stderr


def test_each_problem_comes_with_its_remedy(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", empty_database_url)
    arguments = ["doctor", "--json", "--set", "language.model=some-model", "--set", "embedding.model=absent"]
    result = CliRunner().invoke(app, arguments)
    broken = {c["name"]: c["remedy"] for c in json.loads(result.stdout)["checks"] if not c["ok"]}
    assert result.exit_code == 1
    assert broken["tables"] == "run `evireform init`"
    assert "OPENAI_API_KEY" not in broken["tables"]
    assert broken["language backend"].startswith("set it")
    assert "leave the model empty" in broken["embedding model"]


SERVED = ("language.model=scripted", "embedding.backend=openai", "embedding.model=scripted")


def looked_at(monkeypatch: pytest.MonkeyPatch, base_url: str) -> dict[str, dict[str, Any]]:
    """What `doctor` says of models behind a server, by what it looked at."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    sets = (*SERVED, f"language.base_url={base_url}", f"embedding.base_url={base_url}")
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", UNREACHABLE)
    result = CliRunner().invoke(app, ["doctor", "--json", *(part for s in sets for part in ("--set", s))])
    assert not re.search("sk-secret|hunter2", result.stdout + result.stderr)
    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    return {name: checks[name] for name in ("language backend", "embedding model")}


@pytest.mark.parametrize(
    ("models", "ok", "said"),
    [
        ([{"id": "scripted"}], True, "/v1/ answers"),
        ([{"id": "another"}], True, "answers, and does not list this model"),
        (Reply(status=404, content="none"), True, "answers, and does not list its models (HTTP 404)"),
        (Reply(status=401, content="who?"), False, "refuses the key (HTTP 401)"),
        (Reply(status=403, content="no"), False, "refuses the key (HTTP 403)"),
    ],
)
def test_the_server_of_a_model_is_asked_whether_it_is_there(
    monkeypatch: pytest.MonkeyPatch, models: Any, ok: bool, said: str
) -> None:
    with ScriptedOpenAI() as server:
        server.on("models", models)
        found = looked_at(monkeypatch, server.base_url)
        assert {request.purpose for request in server.requests} == {"models"}
    for check in found.values():
        assert (check["ok"], check["detail"].endswith(said)) == (ok, True)


def test_a_dead_server_of_a_model_is_a_problem_that_names_its_address_and_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = looked_at(monkeypatch, "http://someone:hunter2@127.0.0.1:1/v1")
    for name, setting in (("language backend", "language"), ("embedding model", "embedding")):
        assert (found[name]["ok"], found[name]["detail"]) == (False, "http://127.0.0.1:1/v1/ does not answer")
        assert f"{setting}.base_url" in found[name]["remedy"]


def test_a_server_that_cannot_be_reached_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", UNREACHABLE)
    result = CliRunner().invoke(app, ["doctor", "--json"])
    (broken,) = [check for check in json.loads(result.stdout)["checks"] if not check["ok"]]
    assert result.exit_code == 1
    assert broken["name"] == "connection"


# psql


def test_psql_runs_on_the_schema(wiki: Command, database_url: str) -> None:  # noqa: ARG001
    psql = process("psql", "--schema", "evireform", "-tAc", "SELECT name FROM corpus")
    out, err = psql.communicate(timeout=60)
    assert (out, err, psql.returncode) == ("wiki\n", "", 0)


def test_psql_ends_with_its_own_exit_code(wiki: Command) -> None:  # noqa: ARG001
    psql = process("psql", "-v", "ON_ERROR_STOP=1", "-c", "SELECT", "-c", "nonsense")
    _, err = psql.communicate(timeout=60)
    assert "syntax error" in err
    assert psql.returncode == 1


# errors


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["status", "--debug"], ["psql"]])
def test_no_password_is_written_when_the_server_cannot_be_reached(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", UNREACHABLE)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "no connection to the database" in result.stderr
    assert "hunter2" not in result.stdout + result.stderr
    assert "postgresql://" not in result.stdout + result.stderr


def test_an_error_of_ours_has_no_traceback(run: Command) -> None:
    assert "Traceback" not in run("status", "--corpus", "absent").stderr


def broken(*_: object) -> None:
    raise RuntimeError("of postgresql://host")


def test_an_unexpected_error_is_short_and_says_how_to_report_it(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evireform.store.corpora.list_corpora", broken)
    result = run("status")
    assert result.exit_code == 1
    assert "error: unexpected RuntimeError at test_cli.py" in result.stderr
    assert "report" in result.stderr
    assert "postgresql" not in result.stderr
    assert "Traceback" not in result.stderr


def test_debug_shows_where_an_error_came_from(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evireform.store.corpora.list_corpora", broken)
    result = run("status", "--debug")
    assert "Traceback" in result.stderr
    assert "of postgresql://host" in result.stderr


def test_an_unexpected_error_is_an_object_in_the_json(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evireform.store.corpora.list_corpora", broken)
    assert json.loads(run("status", "--json").stdout)["error"]["type"] == "RuntimeError"


def test_an_output_that_cannot_be_written_is_named(run: Command, dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    result = run("evaluate", dataset, "--output", tmp_path / "taken", "--methods", "full")
    assert result.exit_code == 2
    assert "taken" in result.stderr
    assert "cannot be written" in result.stderr


def test_settings_come_from_the_file_in_the_folder(run: Command, tmp_path: Path) -> None:
    (tmp_path / "evireform.toml").write_text("schema = 'elsewhere'")
    assert "schema 'elsewhere'" in run("status").stderr


def test_a_reader_that_leaves_ends_the_command_quietly(wiki: Command) -> None:  # noqa: ARG001
    leaving = process("status", "--json")
    assert leaving.stdout is not None
    leaving.stdout.close()
    assert leaving.stderr is not None
    assert leaving.stderr.read() == ""
    leaving.stderr.close()
    leaving.wait(timeout=60)


# with the models that the package brings


def passages_in(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM evireform.passage").fetchone()
    return 0 if row is None else int(row[0])


def test_ctrl_c_ends_an_ingestion_from_standard_input_and_what_was_written_stays(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", database_url)
    # Tests that a shell runs in the background ignore the signal, and so would the processes they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ingesting = process("ingest", "-", "--corpus", "wiki", stdin=subprocess.PIPE)
    assert ingesting.stdin is not None
    for number in range(64):
        ingesting.stdin.write(json.dumps({"id": number, "text": f"Ship {number} is in Oslo."}) + "\n")
    ingesting.stdin.flush()
    deadline = time.monotonic() + 120
    while passages_in(database_url) < 64 and ingesting.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    ingesting.send_signal(signal.SIGINT)
    _, err = ingesting.communicate(timeout=60)
    assert ingesting.returncode == 130
    assert err.splitlines()[-1] == "interrupted; what was written stays"
    assert passages_in(database_url) == 64


def test_the_demo_ranks_the_passages_that_answer_together(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", database_url)
    demo = process("demo", "--json")
    out, _ = demo.communicate(timeout=300)
    document = json.loads(out)
    ranked = [passage["passage_key"] for passage in document["ranking"]["passages"]]
    assert set(document["gold"]) <= set(ranked)
    assert len(document["questions"]) == 19


@pytest.mark.parametrize("on_the_path", [True, False])
def test_the_command_that_the_demo_ends_with_is_one_that_can_be_typed(
    wiki: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_the_path: bool
) -> None:
    installed = tmp_path / "my bin" / "evireform"
    installed.parent.mkdir()
    installed.write_text("#!/bin/sh\n")
    installed.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(installed), "demo"])
    monkeypatch.setenv("PATH", str(installed.parent if on_the_path else tmp_path))
    called = "evireform" if on_the_path else shlex.quote(str(installed))
    assert f'\n{called} search "YOUR QUESTION" --corpus sample --explain\n' in wiki("demo").stdout


# help


@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("name", [None, *sorted(typer.main.get_command(app).commands)])  # type: ignore[attr-defined]
def test_help_shows_flags_without_a_value_and_choices_whole(name: str | None, columns: str) -> None:
    choices = {"cost": [*By], "evaluate": [*StudyOption, *TitlesOption], "ingest": [*TitlesOption]}
    shown = CliRunner(env={"COLUMNS": columns}).invoke(app, [*([name] if name else []), "--help"]).stdout
    assert "bool" not in shown.lower()
    assert set(choices.get(name or "", [])) <= set(re.findall(r"[\w-]+", shown))


# output that cannot be written, and arguments that say nothing


def shell(command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """A line for the shell, with ``evireform`` as a process of its own."""
    called = command.replace("evireform", f"{sys.executable} -m evireform")
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | more
    return subprocess.run(["sh", "-c", called], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("options", ["", "--json"])
def test_a_full_disk_is_said_in_one_line(run: Command, options: str) -> None:  # noqa: ARG001
    ended = shell(f"evireform status {options} > /dev/full")
    assert (ended.returncode, ended.stderr) == (1, "error: standard output: No space left on device\n")


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("search", "q", "--json"), "MissingParameter"),
        (("search", "q", "--corpus", "wiki", "-k", "many", "--json"), "BadParameter"),
        (("search", "q", "--corpus", "w\udcff", "--json"), "BadParameter"),
        (("search", "q", "--corpus", "wiki", "--set", "nonsense", "--json"), "BadParameter"),
        (("ingest", "a.jsonl", "--corpus", "wiki", "--titles", "maybe", "--json"), "BadParameter"),
        (("entity", "show", "a", "--corpus", "wiki", "-n", "9" * 23, "--json"), "BadParameter"),
        (("entity", "nope", "--json"), "UsageError"),
        (("status", "--nope", "--json"), "NoSuchOption"),
        (("nope", "--json"), "UsageError"),
    ],
)
def test_what_the_parser_refuses_is_an_error_in_json_too(arguments: tuple[str, ...], kind: str) -> None:
    result = CliRunner().invoke(app, arguments)
    error = json.loads(result.stdout)["error"]
    assert (result.exit_code, error["type"].startswith(kind)) == (2, True), error
    assert error["message"]
    assert "Usage:" in result.stderr
    assert CliRunner().invoke(app, [part for part in arguments if part != "--json"]).stdout == ""


def test_an_error_of_the_system_is_one_in_json(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), "some/file")

    monkeypatch.setattr("evireform.database.Database.corpora", broken)
    result = run("status", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["message"] == "some/file: Permission denied"


@pytest.mark.parametrize("seconds", ["inf", "1e300", "nan", "86401", "0", "-1"])
def test_an_interval_is_at_most_a_day(seconds: str) -> None:
    result = CliRunner().invoke(app, ["status", "--watch", "--interval-s", seconds])
    assert result.exit_code == 2
    assert "--interval-s must lie between 0.1 and 86400 seconds" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("status",), ("status", "--watch"), ("generation", "status"), ("verify",), ("index",),
        ("space", "show"), ("entity", "log"), ("worker", "--drain"),
    ],
)  # fmt: skip
def test_an_empty_name_is_no_corpus(wiki: Command, arguments: tuple[str, ...]) -> None:
    result = wiki(*arguments, "--corpus", "")
    assert (result.exit_code, "a corpus needs a name" in result.stderr) == (2, True), result.output


@pytest.mark.parametrize("option", [("--read-url",), ("--database-url",), ("--set",)])
def test_a_url_that_is_not_utf8_is_refused(option: tuple[str], run: Command) -> None:
    value = "postgresql://a\udcff@127.0.0.1/b"
    result = run("status", *option, f"read_url={value}" if option == ("--set",) else value)
    assert (result.exit_code, "the database URL is not valid UTF-8" in result.stderr) == (2, True)


@pytest.mark.parametrize("content", [None, "schema = ", "nope = 1"])
def test_a_settings_file_that_is_wrong_is_bad_input(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "given.toml"
    if content is not None:
        path.write_text(content)
    assert CliRunner().invoke(app, ["status", "--config", str(path)]).exit_code == 2


def test_a_variable_of_ours_that_is_no_setting_is_said(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVIREFORM_NOPE", "secret")
    monkeypatch.setenv("EVIREFORM_DB_PASSWORD", "secret")
    result = run("status", "--json")
    assert result.exit_code == 0
    assert result.stderr == "note: there is no setting for EVIREFORM_NOPE: docs/configuration.md lists them\n"


def test_a_closed_standard_output_is_said_before_anything_is_done(run: Command) -> None:  # noqa: ARG001
    ended = shell("evireform status >&-")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "error: standard output is closed: there is nowhere to write the result to\n"


def test_a_closed_standard_error_is_no_error(run: Command) -> None:  # noqa: ARG001
    ended = shell("evireform status --json 2>&-")
    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"corpora": [], "workers": []})


@pytest.mark.parametrize("question", ["", "  "])
def test_an_empty_question_is_refused(wiki: Command, question: str) -> None:
    result = wiki("search", question, "--corpus", "wiki")
    assert (result.exit_code, result.stderr) == (2, "error: the question is empty\n")


def test_a_setting_is_not_given_in_two_ways(run: Command) -> None:
    result = run("status", "--schema", "one", "--set", "schema=two")
    assert result.exit_code == 2
    assert "schema is given by its own option already" in result.stderr


def test_init_of_a_new_embedded_home_says_that_it_created_the_tables() -> None:
    home = Path(tempfile.mkdtemp(prefix="evireform-new-"))
    home.chmod(0o755)
    try:
        first, second = (shell("evireform init --json", EVIREFORM_HOME=str(home / "home")) for _ in range(2))
        assert [json.loads(ended.stdout)["migrated_from"] == "" for ended in (first, second)] == [True, False]
        down = shell("evireform init --to 0003 --yes --json", EVIREFORM_HOME=str(home / "home"))
        assert json.loads(down.stdout)["migrated_to"] == "0003"
        assert "takes the embedded server to the newest migration again" in down.stderr
    finally:
        shutil.rmtree(home)
