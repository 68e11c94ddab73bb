"""What model calls cost, end to end: the ledger against the counters of the server that answered."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from evireform.cli import app
from evireform.cli.cost import By
from evireform.database import Database, connect
from evireform.errors import BudgetSpent, UsageError
from evireform.language.prompts import load
from evireform.records import CostReport, Estimate, Extraction, Passage, Rejected
from evireform.settings import LanguageSettings, SearchSettings, Settings
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_openai import Reply, Request, ScriptedOpenAI

WORDS = (
    "Fram",
    "Archer",
    "Larvik",
    "Gjøa",
    "harbour",
    "ice",
    "polar",
    "ship",
    "hull",
    "built",
    "winter",
    "crew",
)
MODEL = "gpt-4.1-mini"
PROMPT = f"{MODEL} and prompt {load('extract').version}"


def passages(numbers: Iterable[int], *, longest: int = 120) -> list[Passage]:
    """Passages of different lengths and words, each with one sentence of its own."""
    made = []
    for number in numbers:
        length = 20 + number * 37 % longest
        words = [WORDS[(number * 7 + place * place) % len(WORDS)] for place in range(length)]
        text = f"Number {number}. {' '.join(words)}."
        made.append(Passage(key=f"p{number}", title=f"Title {number}", text=text))
    return made


def data_of(request: Request) -> dict[str, Any]:
    return dict(json.loads(request.messages[1]["content"]))


def extraction(request: Request) -> dict[str, Any]:
    """Propositions about twice as long as the passage, as models write them."""
    words = data_of(request)["text"].split()
    parts = [words[start : start + 8] for start in range(0, len(words), 8)]
    return {
        "propositions": [
            {"text": f"{' '.join(part)}.", "entities": [part[0], part[-1].strip(".")]} for part in parts
        ]
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedOpenAI]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    with ScriptedOpenAI() as scripted:
        scripted.on("extract", extraction)
        scripted.on("select", {"selected": ["A0", "A1"]})
        scripted.on("reformulate", {"queries": ["Who built the hull?"]})
        yield scripted


Open = Callable[..., Database]


@pytest.fixture
def opened(database_url: str, server: ScriptedOpenAI) -> Iterator[Open]:
    """Opens the test's database as another run would, with the scripted server as its model."""
    runs: list[Database] = []

    def open_run(*, log: bool = True, **settings: Any) -> Database:
        given = {"model": MODEL, "base_url": server.base_url, "concurrency": 4, **settings}
        language, search = LanguageSettings(backend="openai", **given), SearchSettings(log=log)
        chosen = Settings(language=language, search=search)
        runs.append(connect(database_url, settings=chosen, encoder=HashEncoder()))
        return runs[-1]

    yield open_run
    for run in runs:
        run.close()


def billed(server: ScriptedOpenAI) -> tuple[int, int]:
    return server.tokens_in, server.tokens_out


def told(report: CostReport) -> tuple[int, int]:
    return report.total.tokens_in, report.total.tokens_out


BREAKDOWNS = ("corpus", "passage", "question", "model", "purpose", "day", "round")


def badly(request: Request) -> Any:
    """For every fifth passage prose at first, and the object when told so; for every seventh prose always."""
    number = int(re.findall(r"\d+", data_of(request)["title"])[0])
    repair = len(request.messages) > 2
    if number % 7 == 0 or (number % 5 == 0 and not repair):
        return f"I found no propositions in number {number}, sorry."
    return extraction(request)


def failing_once() -> Callable[[Request], Any]:
    """Every third passage gets a 503 first."""
    failed: set[str] = set()

    def answer(request: Request) -> Any:
        key = data_of(request)["title"]
        if int(key.split()[1]) % 3 == 0 and key not in failed:
            failed.add(key)
            return Reply(status=503, content="busy", headers={"Retry-After": "0"})
        return badly(request)

    return answer


@pytest.mark.parametrize("by", BREAKDOWNS)
def test_t08_costs_reconcile_with_the_server_through_retries_repairs_failures_and_cache_hits(
    opened: Open, server: ScriptedOpenAI, by: str
) -> None:
    server.on("extract", failing_once())
    db = opened()
    first, second = db.corpus("first", create=True), db.corpus("second", create=True)
    summary = first.ingest(passages(range(1, 22)))
    assert (len(summary.failed), summary.added) == (3, 21)
    second.ingest(passages(range(15, 25)))  # the first of them are answered from the ledger
    for question in ("Who built Fram?", "Who built Fram?", "Where is Larvik?"):
        first.search(question)
    report = db.cost(by=by)
    assert told(report) == billed(server)
    assert report.total.cached > 5
    assert report.total.failed > 5
    assert sum(row.tokens_in for row in report.rows) == server.tokens_in


def test_t08_what_a_passage_cost_is_what_the_server_was_asked_about_it(
    opened: Open, server: ScriptedOpenAI
) -> None:
    asked: dict[str, int] = {}

    def answer(request: Request) -> Any:
        title = data_of(request)["title"]
        asked[title] = asked.get(title, 0) + len(json.dumps(request.messages).split())
        return badly(request)

    server.on("extract", answer)
    db = opened(concurrency=1)
    db.corpus("wiki", create=True).ingest(passages(range(1, 12)))
    rows = {row.group: row.tokens_in for row in db.cost(by="passage").rows}
    assert rows == {f"p{title.split()[1]}": tokens for title, tokens in asked.items()}


def test_t08_the_same_text_under_many_keys_is_paid_once(opened: Open, server: ScriptedOpenAI) -> None:
    server.on("extract", lambda request: Reply(content=extraction(request), delay_s=0.1))
    db = opened(concurrency=8)
    same = [Passage(key=f"k{number}", text="The Fram was built in Larvik.") for number in range(16)]
    expected = db.estimate("wiki", same).calls
    assert db.corpus("wiki", create=True).ingest(same).added == 16
    total = db.cost().total
    assert (len(server.requests), expected, total.calls, total.cached) == (1, 1, 16, 15)


def test_t08_the_same_question_in_a_batch_is_paid_once(opened: Open, server: ScriptedOpenAI) -> None:
    corpus = opened().corpus("wiki", create=True)
    corpus.ingest(passages(range(5)))
    server.on("select", Reply(content={"selected": ["A0"]}, delay_s=0.1))
    corpus.search_many(["Who built Fram?"] * 8)
    assert [len(server.requests_for(verb)) for verb in ("select", "reformulate")] == [1, 1]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_t08_a_spent_budget_keeps_every_passage_that_was_paid(
    opened: Open, server: ScriptedOpenAI, concurrency: int
) -> None:
    db = opened(concurrency=concurrency, budget="6k", cache=False)
    summary = db.corpus("wiki", create=True).ingest(passages(range(1, 60)))
    assert summary.stopped
    assert summary.added == len(server.requests) > 1


def test_t08_what_a_logged_question_cost(opened: Open, server: ScriptedOpenAI) -> None:
    db = opened()
    corpus = db.corpus("wiki", create=True)
    corpus.ingest(passages(range(5)))
    before = billed(server)
    ranking = corpus.search("Who built Fram?")
    took = tuple(after - earlier for after, earlier in zip(billed(server), before, strict=True))
    row = next(row for row in db.cost(by="question").rows if row.group == str(ranking.log_id))
    assert ((row.tokens_in, row.tokens_out), row.question, row.calls) == (took, "Who built Fram?", 2)
    assert (ranking.cost.tokens_in, ranking.cost.tokens_out) == took


def test_t08_a_question_that_is_not_logged_is_accounted_for(opened: Open, server: ScriptedOpenAI) -> None:
    opened().corpus("wiki", create=True).ingest(passages(range(5)))
    db = opened(log=False)
    assert db.corpus("wiki").search("Who built Fram?").log_id is None
    report = db.cost(by="question")
    assert told(report) == billed(server)
    assert [row.group for row in report.rows] == [""]


PROCESS = """
import sys
from evireform.database import connect
from evireform.settings import LanguageSettings, Settings
from tests.doubles.hash_encoder import HashEncoder
from tests.jobs.test_cost import passages
url, base_url, corpus = sys.argv[1:]
language = LanguageSettings(backend="openai", model="gpt-4.1-mini", base_url=base_url)
with connect(url, settings=Settings(language=language), encoder=HashEncoder()) as db:
    db.corpus(corpus, create=True).ingest(passages(range(12)))
"""


def test_t08_another_process_is_answered_from_the_ledger_and_both_reconcile(
    opened: Open, server: ScriptedOpenAI, database_url: str
) -> None:
    db = opened()
    db.corpus("here", create=True).ingest(passages(range(8)))
    subprocess.run(
        [sys.executable, "-c", PROCESS, database_url, server.base_url, "there"],
        check=True,
        cwd=Path(__file__).parents[2],
    )
    here, there = (db.cost(corpus=name).total for name in ("here", "there"))
    assert (here.calls, here.cached, there.calls, there.cached) == (8, 0, 12, 8)
    assert told(db.cost()) == billed(server)
    assert len(server.requests_for("extract")) == 12


def test_without_the_cache_everything_is_asked_again(opened: Open, server: ScriptedOpenAI) -> None:
    for number, cache in enumerate((True, False, True)):
        opened(cache=cache).corpus(f"c{number}", create=True).ingest(passages(range(4)))
    assert len(server.requests_for("extract")) == 8


def test_expired_answers_are_asked_again(opened: Open, server: ScriptedOpenAI) -> None:
    db = opened(cache_days=7)
    db.corpus("first", create=True).ingest(passages(range(4)))
    with db.store.transaction() as tx:
        tx.driver.execute(
            "UPDATE model_call SET called_at = now() - interval '8 days' WHERE passage_key <> 'p0'"
        )
    db.corpus("second", create=True).ingest(passages(range(4)))
    assert len(server.requests_for("extract")) == 4 + 3


def test_a_deleted_passage_is_asked_about_again(opened: Open, server: ScriptedOpenAI) -> None:
    db = opened()
    corpus = db.corpus("wiki", create=True)
    corpus.ingest(passages(range(3)))
    corpus.delete(["p1"])
    corpus.ingest(passages(range(3)))
    assert [data_of(request)["title"] for request in server.requests_for("extract")].count("Title 1") == 2
    assert told(db.cost()) == billed(server)


# Estimates.


def took_of(db: Database, server: ScriptedOpenAI, run: Callable[[], object]) -> tuple[int, int, Decimal]:
    """Tokens in and out that the server billed for a run, and what the ledger says they cost."""
    tokens_in, tokens_out = billed(server)
    earlier = db.cost().total.cost or Decimal(0)
    run()
    return server.tokens_in - tokens_in, server.tokens_out - tokens_out, (db.cost().total.cost or 0) - earlier


def assert_close(expected: Estimate, took: tuple[int, int, Decimal]) -> None:
    """Within 15 %, each of tokens in, tokens out and money."""
    assert expected.cost is not None
    for estimated, real in zip((expected.tokens_in, expected.tokens_out, expected.cost), took, strict=True):
        assert float(estimated) == pytest.approx(float(real), rel=0.15)


SAMPLE, REST = passages(range(30)), passages(range(100, 170), longest=300)
"""A sample, and passages that are about twice as long."""


def test_t08_an_estimate_from_the_ledger_lies_within_15_percent(opened: Open, server: ScriptedOpenAI) -> None:
    db = opened()
    db.corpus("sample", create=True).ingest(SAMPLE)
    expected = db.estimate("wiki", REST)
    assert expected.basis == f"what the last 30 calls for extraction with {PROMPT} took in all corpora"
    assert_close(expected, took_of(db, server, lambda: db.corpus("wiki", create=True).ingest(REST)))


def test_t08_an_estimate_counts_repairs_and_failures(opened: Open, server: ScriptedOpenAI) -> None:
    server.on("extract", badly)
    db = opened()
    corpus = db.corpus("wiki", create=True)
    corpus.ingest(SAMPLE)
    expected = db.estimate("wiki", [*SAMPLE[:25], *REST])
    assert (expected.unchanged, expected.passages) == (21, 74)  # 4 of the 25 failed, and are tried again
    assert "in this corpus" in expected.basis
    assert_close(expected, took_of(db, server, lambda: corpus.ingest([*SAMPLE[:25], *REST])))


def test_t08_an_estimate_does_not_go_by_a_run_that_failed(opened: Open, server: ScriptedOpenAI) -> None:
    server.on("extract", Reply(content='{"propositions": [{"text": "Number', finish_reason="length"))
    db = opened()
    corpus = db.corpus("wiki", create=True)
    corpus.ingest(SAMPLE)
    server.on("extract", in_bytes)
    expected = db.estimate("wiki", REST)
    assert expected.basis.startswith("assumptions")
    assert_close(expected, took_of(db, server, lambda: corpus.ingest(REST)))


def test_t08_an_estimate_counts_every_piece_of_a_long_passage(opened: Open, server: ScriptedOpenAI) -> None:
    long = [Passage(key="long", title="Long", text=" ".join(p.text for p in REST))]
    db = opened()
    db.corpus("sample", create=True).ingest(SAMPLE)
    expected = db.estimate("wiki", long)
    assert expected.calls > 5
    assert_close(expected, took_of(db, server, lambda: db.corpus("wiki", create=True).ingest(long)))


def test_t08_what_the_ledger_answers_is_free(opened: Open, server: ScriptedOpenAI) -> None:
    db = opened()
    db.corpus("sample", create=True).ingest(SAMPLE)
    both = [*SAMPLE, *REST[:10]]
    expected = db.estimate("wiki", both)
    assert (expected.passages, expected.answered, expected.calls) == (40, 30, 10)
    assert_close(expected, took_of(db, server, lambda: db.corpus("wiki", create=True).ingest(both)))


def test_without_the_cache_nothing_is_free(opened: Open) -> None:
    db = opened(cache=False)
    db.corpus("sample", create=True).ingest(SAMPLE[:5])
    expected = db.estimate("wiki", SAMPLE[:5])
    assert (expected.passages, expected.answered, expected.calls) == (5, 0, 5)


def test_a_passage_that_is_given_twice_under_two_keys_is_paid_once(opened: Open) -> None:
    twin = replace(SAMPLE[0], key="twin")
    expected = opened().estimate("wiki", [SAMPLE[0], twin])
    assert (expected.passages, expected.answered, expected.calls) == (2, 1, 1)


def in_bytes(request: Request) -> Reply:
    """An answer billed by its bytes, four a token, as the assumptions have it."""
    answer = json.dumps(extraction(request))
    asked = sum(len(message["content"].encode()) for message in request.messages)
    return Reply(content=answer, usage=(asked // 4, len(answer.encode()) // 4))


def test_t08_without_a_ledger_the_estimate_says_what_it_assumes_and_holds_where_that_does(
    opened: Open, server: ScriptedOpenAI
) -> None:
    server.on("extract", in_bytes)
    db = opened()
    expected = db.estimate("wiki", REST)
    assert expected.basis == (
        "assumptions (4 bytes a token, an answer 2 times as long as its passage), for the ledger has few "
        f"usable extractions, or none, with {PROMPT}: ingest a sample first"
    )
    assert_close(expected, took_of(db, server, lambda: db.corpus("wiki", create=True).ingest(REST)))


def test_an_estimate_asks_nothing_and_writes_nothing(opened: Open, server: ScriptedOpenAI) -> None:
    db = opened()
    db.estimate("wiki", SAMPLE)
    assert (server.requests, db.corpora(), db.cost().total.calls) == ([], [], 0)


def test_an_estimate_tells_what_takes_no_call(opened: Open) -> None:
    db = opened()
    db.corpus("wiki", create=True).ingest(SAMPLE[:3])
    changed = replace(SAMPLE[1], text="Something else.")
    given = [SAMPLE[0], changed, SAMPLE[2], Passage(key="x", text=""), SAMPLE[4], Rejected(reason="broken")]
    expected = db.estimate("wiki", given, extractions={"p4": Extraction()})
    counts = (expected.passages, expected.unchanged, expected.given, expected.rejected, expected.calls)
    assert counts == (1, 2, 1, 2, 1)


def test_an_estimate_for_a_corpus_without_titles_sends_none(opened: Open) -> None:
    db = opened()
    on, off = (db.estimate("wiki", SAMPLE, titles=titles).tokens_in for titles in ("on", "off"))
    assert off < on


def test_an_estimate_keeps_to_the_titles_of_the_corpus(opened: Open) -> None:
    db = opened()
    db.corpus("wiki", create=True, titles="off")
    assert db.estimate("wiki", SAMPLE) == db.estimate("new", SAMPLE, titles="off")
    with pytest.raises(UsageError, match="corpus 'wiki' was made with titles off, not on"):
        db.estimate("wiki", SAMPLE, titles="on")


def test_the_estimated_cost_of_a_model_without_price_is_unknown(opened: Open) -> None:
    expected = opened(model="house").estimate("wiki", SAMPLE)
    assert expected.tokens_in > 0
    assert expected.cost is None


def test_the_rules_cost_nothing(database_url: str) -> None:
    with connect(database_url) as db:
        expected = db.estimate("wiki", SAMPLE)
    assert (expected.passages, expected.calls, expected.cost, expected.model) == (30, 0, Decimal(0), "")
    assert expected.basis == ""


# Budgets.


def test_t08_a_budget_stops_an_ingestion_that_goes_on_where_it_was(
    opened: Open, server: ScriptedOpenAI
) -> None:
    given = passages(range(40))
    summary = opened(budget="6k tokens").corpus("wiki", create=True).ingest(given)
    assert "the budget of 6,000 tokens has no room for the next model call" in summary.stopped
    assert summary.stopped_by == "budget"
    assert sum(billed(server)) <= 6_000
    assert 0 < summary.added < 40
    again = opened().corpus("wiki").ingest(given)
    assert (again.stopped, summary.added + again.added) == ("", 40)
    assert len(server.requests_for("extract")) == 40
    assert told(opened().cost()) == billed(server)


def test_t08_a_budget_in_money_is_never_gone_beyond(opened: Open) -> None:
    db = opened(budget="0.01")
    summary = db.corpus("wiki", create=True).ingest(passages(range(60)))
    spent = db.cost().total.cost
    assert spent is not None
    assert summary.stopped
    assert Decimal("0.005") < spent <= Decimal("0.01")


def test_a_budget_in_money_for_a_model_without_price_is_refused_before_any_call(
    opened: Open, server: ScriptedOpenAI
) -> None:
    db = opened(model="house", budget="1.50")
    corpus = db.corpus("wiki", create=True)
    with pytest.raises(UsageError, match="the price of 'house' is not known"):
        corpus.ingest(SAMPLE)
    assert server.requests == []


def test_a_search_beyond_the_budget_says_so(opened: Open) -> None:
    opened().corpus("wiki", create=True).ingest(SAMPLE[:3])
    with pytest.raises(BudgetSpent, match="raise the budget"):
        opened(budget="10 tokens").corpus("wiki").search("Who built Fram?")


# The command line.


@pytest.fixture
def command(
    database_url: str, server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Result]:
    """Runs a command on the test's database with the scripted server; ``given.jsonl`` holds ten passages."""
    monkeypatch.setattr("evireform.database.load_encoder", lambda _: HashEncoder())
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", database_url)
    monkeypatch.setenv("EVIREFORM_LANGUAGE_MODEL", MODEL)
    monkeypatch.setenv("EVIREFORM_LANGUAGE_BASE_URL", server.base_url)
    monkeypatch.chdir(tmp_path)
    lines = [{"id": p.key, "title": p.title, "text": p.text} for p in passages(range(10))]
    Path("given.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def run(*arguments: str) -> Result:
        return CliRunner(env={"COLUMNS": "200"}).invoke(app, list(arguments))

    return run


INGEST = ("ingest", "given.jsonl", "--corpus", "wiki")


def test_cost_of_a_fresh_database(command: Callable[..., Result]) -> None:
    result = command("cost")
    assert (result.exit_code, result.stdout.strip()) == (0, "no model call is in the ledger")


def test_cost_adds_up(command: Callable[..., Result], server: ScriptedOpenAI) -> None:
    assert command(*INGEST).exit_code == 0
    result = command("cost", "--by", "passage", "--json")
    report = json.loads(result.stdout)
    assert (report["total"]["tokens_in"], report["total"]["tokens_out"]) == billed(server)
    assert {row["group"] for row in report["rows"]} == {f"p{number}" for number in range(10)}
    assert Decimal(report["total"]["cost"]) > 0


def test_cost_is_drawn_with_its_sum(command: Callable[..., Result], server: ScriptedOpenAI) -> None:
    command(*INGEST)
    text = command("cost", "--by", "passage").stdout
    assert "wiki p0" in text
    assert re.search(rf"all .* 10 .* {server.tokens_in:,} .* {server.tokens_out:,} ", text)


@pytest.mark.parametrize("by", By)
def test_every_breakdown_adds_up_to_the_same(command: Callable[..., Result], by: By) -> None:
    command(*INGEST)
    command("ingest", "given.jsonl", "--corpus", "again")
    command("ingest", "given.jsonl", "--corpus", "other", "--set", "language.model=house")
    total = json.loads(command("cost", "--by", by, "--json").stdout)["total"]
    assert total == json.loads(command("cost", "--json").stdout)["total"]


def test_cost_that_is_unknown_is_said_to_be(command: Callable[..., Result]) -> None:
    command(*INGEST, "--set", "language.model=house")
    text = command("cost", "--by", "model").stdout
    assert re.search(r"house .* \?$", text, re.MULTILINE)
    assert "what 10 calls cost is not known (`?`) and stays so" in text
    totals = [json.loads(command("cost", "--by", by, "--json").stdout)["total"] for by in By]
    assert [total["cost"] for total in totals] == [None] * len(totals)


def test_cost_since_a_day(command: Callable[..., Result]) -> None:
    command(*INGEST)
    assert json.loads(command("cost", "--since", "2999-01-01", "--json").stdout)["rows"] == []
    assert len(json.loads(command("cost", "--since", "2020-01-01", "--json").stdout)["rows"]) == 1


def test_an_estimate_is_drawn(command: Callable[..., Result], server: ScriptedOpenAI) -> None:
    result = command(*INGEST, "--estimate")
    assert (result.exit_code, server.requests) == (0, [])
    assert f"corpus wiki: what an ingestion would ask of {MODEL}" in result.stdout
    assert "this rests on assumptions" in result.stdout


def test_an_estimate_as_json(command: Callable[..., Result]) -> None:
    document = json.loads(command(*INGEST, "--estimate", "--json").stdout)
    assert (document["corpus"], document["estimate"]["passages"], document["estimate"]["calls"]) == (
        "wiki",
        10,
        10,
    )


def test_a_budget_that_is_spent_ends_the_command_with_1(
    command: Callable[..., Result], server: ScriptedOpenAI
) -> None:
    result = command(*INGEST, "--budget", "1500 tokens")
    assert result.exit_code == 1
    assert 0 < len(server.requests) < 10
    assert command(*INGEST).exit_code == 0
    assert len(server.requests) == 10


def test_a_budget_that_is_none_ends_the_command_with_2(command: Callable[..., Result]) -> None:
    result = command(*INGEST, "--budget", "much")
    assert (result.exit_code, "a budget must be tokens" in result.stderr) == (2, True)


def test_no_cache_asks_again(command: Callable[..., Result], server: ScriptedOpenAI) -> None:
    command(*INGEST)
    command("ingest", "given.jsonl", "--corpus", "second")
    assert len(server.requests) == 10
    command("ingest", "given.jsonl", "--corpus", "third", "--no-cache")
    assert len(server.requests) == 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ten passages and two questions to evaluate."""
    made = tmp_path / "data"
    made.mkdir()
    lines = [{"id": p.key, "title": p.title, "text": p.text} for p in passages(range(10))]
    asked = [
        {"id": f"q{n}", "question": f"What is number {n}?", "gold_passage_ids": [f"p{n}"]} for n in (1, 2)
    ]
    for name, of_file in (("corpus", lines), ("questions", asked)):
        text = "".join(json.dumps(line) + "\n" for line in of_file)
        (made / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return made


@pytest.mark.parametrize("prepaid", [False, True], ids=["ingesting", "asking"])
def test_an_evaluation_beyond_its_budget_says_so(
    command: Callable[..., Result], server: ScriptedOpenAI, folder: Path, prepaid: bool
) -> None:
    if prepaid:
        assert command("ingest", str(folder / "corpus.jsonl"), "--corpus", "measured").exit_code == 0
    evaluate = ("evaluate", str(folder), "--corpus", "measured", "--methods", "full")
    result = command(*evaluate, "--budget", "10 tokens")
    assert result.exit_code == 1
    assert "error: the budget of 10 tokens has no room for the next model call" in result.stderr
    assert len(server.requests) == (10 if prepaid else 0)
    assert command(*evaluate).exit_code == 0
