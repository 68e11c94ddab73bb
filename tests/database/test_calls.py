"""The ledger in the database: what is recorded, found, permitted and forgotten, and what costs add up to."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from evireform.errors import BudgetSpent, UsageError
from evireform.records import CorpusRow, ModelCall
from evireform.settings import LanguageSettings
from evireform.store import calls as ledger
from evireform.store import corpora, searching, writing
from evireform.store.calls import Calls
from evireform.store.connection import Store
from evireform.store.statements import statement as statement_text

CALL = ModelCall(
    purpose="extract",
    model="gpt-4.1",
    prompt_version="1",
    prompt_hash="h",
    parameters={"temperature": 0},
    bytes_sent=4_000,
    tokens_in=1_000,
    tokens_out=100,
    tokens_cached=400,
    latency_s=0.5,
    attempts=2,
    passage_key="oslo",
)
"""At the price of the package: 600 x 2 + 400 x 0.5 + 100 x 8 = 2200 millionths."""

SELECT = replace(CALL, purpose="select", passage_key=None, round_number=1, tokens_cached=None)


@pytest.fixture
def corpus(store: Store) -> CorpusRow:
    with store.transaction() as tx:
        return corpora.create_corpus(tx, "wiki", titles="on")


def calls(store: Store, **settings: Any) -> Calls:
    return Calls(store, LanguageSettings(backend="openai", **{"model": "gpt-4.1", **settings}))


def rows(store: Store, query: str) -> list[tuple[Any, ...]]:
    with store.transaction() as tx:
        return tx.driver.execute(query.encode()).fetchall()


# What is recorded.


def test_a_call_is_written_with_everything_that_is_known(store: Store, corpus: CorpusRow) -> None:
    recorded = calls(store).record(corpus, CALL, key="k", answer="{}")
    assert recorded == replace(CALL, call_id=recorded.call_id, cost=Decimal("0.0022"))
    assert rows(
        store,
        "SELECT call_id, tenant_id, corpus_id, corpus_name, passage_key, question_id, round_number, purpose, "
        "model, prompt_version, prompt_hash, parameters, bytes_sent, tokens_in, tokens_out, tokens_cached, "
        "cost, latency_s, attempts, cached, error, cache_key, answer FROM model_call",
    ) == [
        (
            recorded.call_id, corpus.tenant_id, corpus.corpus_id, "wiki", "oslo", None, 0, "extract",
            "gpt-4.1", "1", "h", {"temperature": 0}, 4_000, 1_000, 100, 400,
            Decimal("0.0022"), 0.5, 2, False, "", "k", "{}",
        )
    ]  # fmt: skip


def test_a_call_of_a_model_without_price_has_no_cost(store: Store, corpus: CorpusRow) -> None:
    recorded = calls(store, model="house").record(corpus, replace(CALL, model="house"), key="k", answer=None)
    assert recorded.cost is None
    assert rows(store, "SELECT cost, tokens_in FROM model_call") == [(None, 1_000)]


def test_a_call_that_the_server_did_not_count_has_no_cost(store: Store, corpus: CorpusRow) -> None:
    recorded = calls(store).record(corpus, replace(CALL, tokens_out=None), key="k", answer="{}")
    assert recorded.cost is None


def test_a_call_answered_from_the_ledger_takes_nothing_and_keeps_no_second_answer(
    store: Store, corpus: CorpusRow
) -> None:
    recorded = calls(store, model="house").record(corpus, replace(CALL, cached=True), key="k", answer="{}")
    assert (recorded.tokens_in, recorded.tokens_out, recorded.cost) == (0, 0, Decimal(0))
    assert rows(store, "SELECT tokens_in, cost, answer FROM model_call") == [(0, Decimal(0), None)]


@pytest.mark.parametrize("strange", ["\0", "\ud800"])
def test_what_no_database_holds_is_replaced(store: Store, corpus: CorpusRow, strange: str) -> None:
    call = replace(CALL, error=f"bad {strange}")
    calls(store).record(corpus, call, key="k", answer=f"{strange} end")
    assert rows(store, "SELECT error, answer FROM model_call") == [("bad \ufffd", "\ufffd end")]


def test_a_price_of_ones_own_counts(store: Store, corpus: CorpusRow, tmp_path: Path) -> None:
    own = tmp_path / "prices.toml"
    own.write_text('[[price]]\nmodels = ["house"]\nin = 1\nout = 10\n', encoding="utf-8")
    recorded = calls(store, model="house", prices=str(own)).record(corpus, CALL, key="k", answer=None)
    assert recorded.cost == Decimal("0.002")


def test_a_failure_to_record_is_a_warning_and_the_call_comes_back(
    store: Store, corpus: CorpusRow, caplog: pytest.LogCaptureFixture
) -> None:
    rows_before = rows(store, "SELECT count(*) FROM model_call")
    with caplog.at_level(logging.WARNING):
        recorded = calls(store).record(corpus, replace(CALL, tokens_in=2**40), key="k", answer=None)
    assert (recorded.call_id, recorded.tokens_in) == (None, 2**40)
    assert "a call of gpt-4.1 (extract) is missing in the ledger" in caplog.text
    assert rows(store, "SELECT count(*) FROM model_call") == rows_before


def test_once_the_store_is_closed_a_failure_to_record_is_no_warning(
    store: Store, corpus: CorpusRow, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = calls(store)
    store.close()
    with caplog.at_level(logging.WARNING):
        ledger.record(corpus, replace(CALL, tokens_in=2**40), key="k", answer=None)
    assert caplog.messages == []


def test_many_threads_record_at_once(store: Store, corpus: CorpusRow) -> None:
    ledger_of_run = calls(store)

    def record(number: int) -> int | None:
        return ledger_of_run.record(corpus, CALL, key=f"k{number}", answer="{}").call_id

    with ThreadPoolExecutor(24) as threads:
        ids = list(threads.map(record, range(200)))
    assert None not in ids
    assert rows(store, "SELECT count(DISTINCT call_id), sum(tokens_in) FROM model_call") == [(200, 200_000)]


# What is found.


def answered(store: Store, corpus: CorpusRow, *keys: str, **settings: Any) -> set[str]:
    with store.transaction() as tx:
        return ledger.answered(tx, corpus.tenant_id, keys, LanguageSettings(**settings))


def test_an_identical_call_is_answered_for_every_process(
    store: Store, corpus: CorpusRow, database_url: str
) -> None:
    calls(store).record(corpus, CALL, key="k", answer="first")
    other = Store(database_url, schema=store.schema)
    try:
        assert calls(other).find(corpus, "k") == "first"
    finally:
        other.close()


def test_the_newest_answer_counts(store: Store, corpus: CorpusRow) -> None:
    for answer in ("first", "second"):
        calls(store).record(corpus, CALL, key="k", answer=answer)
    assert calls(store).find(corpus, "k") == "second"


def test_another_call_is_not_answered(store: Store, corpus: CorpusRow) -> None:
    calls(store).record(corpus, CALL, key="k", answer="first")
    assert calls(store).find(corpus, "other") is None


def test_a_call_without_a_usable_answer_answers_nothing(store: Store, corpus: CorpusRow) -> None:
    calls(store).record(corpus, replace(CALL, error="not JSON"), key="k", answer=None)
    assert calls(store).find(corpus, "k") is None


def test_another_corpus_of_the_tenant_is_answered(store: Store, corpus: CorpusRow) -> None:
    calls(store).record(corpus, CALL, key="k", answer="first")
    with store.transaction() as tx:
        other = corpora.create_corpus(tx, "other", titles="on")
    assert calls(store).find(other, "k") == "first"


def test_another_tenant_is_not_answered(store: Store, corpus: CorpusRow) -> None:
    calls(store).record(corpus, CALL, key="k", answer="first")
    foreign = replace(corpus, tenant_id=corpus.tenant_id + 1)
    assert calls(store).find(foreign, "k") is None
    assert answered(store, foreign, "k") == set()


def test_answers_expire(store: Store, corpus: CorpusRow) -> None:
    calls(store).record(corpus, CALL, key="k", answer="first")
    rows(store, "UPDATE model_call SET called_at = now() - interval '8 days' RETURNING 1")
    days = (0, 7, 9)
    assert [calls(store, cache_days=n).find(corpus, "k") for n in days] == ["first", None, "first"]
    assert [answered(store, corpus, "k", cache_days=n) for n in days] == [{"k"}, set(), {"k"}]


def test_without_the_cache_nothing_is_found_but_answers_are_kept(store: Store, corpus: CorpusRow) -> None:
    off = calls(store, cache=False)
    off.record(corpus, CALL, key="k", answer="first")
    assert (off.find(corpus, "k"), answered(store, corpus, "k", cache=False)) == (None, set())
    assert calls(store).find(corpus, "k") == "first"


def test_which_calls_would_be_answered_is_told_for_many_at_once(store: Store, corpus: CorpusRow) -> None:
    for key, answer in (("a", "1"), ("b", None), ("c", "2"), ("c", "3")):
        calls(store).record(corpus, CALL, key=key, answer=answer)
    assert answered(store, corpus, "a", "b", "c", "d") == {"a", "c"}


@pytest.mark.parametrize("statement", ["find_answer", "answered_keys"])
def test_an_answer_is_found_by_its_index_in_a_large_ledger(
    store: Store, corpus: CorpusRow, statement: str
) -> None:
    rows(
        store,
        "INSERT INTO model_call (tenant_id, purpose, model, cache_key, answer) "
        f"SELECT {corpus.tenant_id}, 'extract', 'm', md5(n::text), 'x' FROM generate_series(1, 20000) AS n "
        "RETURNING 1",
    )
    parameters = {"tenant_id": corpus.tenant_id, "key": "k", "keys": ["k", "l"], "days": 0}
    with store.transaction() as tx:
        tx.driver.execute("ANALYZE model_call")
        plan = tx.driver.execute(f"EXPLAIN {statement_text(statement)}".encode(), parameters).fetchall()
    assert "ix_model_call_answer" in str(plan)


# What is permitted.


def test_a_budget_in_tokens_counts_what_calls_took(store: Store, corpus: CorpusRow) -> None:
    run = calls(store, budget="2k")
    run.permit(1_500)
    run.record(corpus, CALL, key="k", answer="{}")
    run.permit(900)
    with pytest.raises(BudgetSpent, match="1,100 tokens are spent"):
        run.permit(901)


def test_a_budget_in_money_counts_what_calls_cost(store: Store, corpus: CorpusRow) -> None:
    run = calls(store, budget="0.01")
    run.permit(1_250)  # at 8 per million
    run.record(corpus, CALL, key="k", answer="{}")
    run.permit(975)
    with pytest.raises(BudgetSpent, match=r"0\.0022 are spent"):
        run.permit(976)


def test_a_budget_in_money_needs_a_price(store: Store) -> None:
    with pytest.raises(UsageError, match="the price of 'house' is not known, so no budget in money"):
        calls(store, model="house", budget="1.50")


def test_a_budget_in_tokens_needs_none(store: Store) -> None:
    calls(store, model="house", budget="1k").permit(1_000)


def test_a_failed_call_that_was_not_counted_takes_nothing(store: Store, corpus: CorpusRow) -> None:
    run = calls(store, budget="1k")
    run.permit(1_000)
    failed = replace(CALL, tokens_in=None, tokens_out=None, error="503")
    run.record(corpus, failed, key="k", answer=None)
    run.permit(1_000)


def test_a_call_that_an_answering_server_did_not_count_takes_what_was_reserved(
    store: Store, corpus: CorpusRow
) -> None:
    run = calls(store, budget="1k")
    run.permit(800)
    run.record(corpus, replace(CALL, tokens_in=None, tokens_out=None), key="k", answer="{}")
    with pytest.raises(BudgetSpent, match="800 tokens are spent"):
        run.permit(201)


def test_a_call_answered_from_the_ledger_takes_nothing_of_the_budget(store: Store, corpus: CorpusRow) -> None:
    run = calls(store, budget="1k")
    run.record(corpus, replace(CALL, cached=True), key="k", answer=None)
    run.permit(1_000)


def test_a_call_that_could_not_be_recorded_counts_all_the_same(store: Store, corpus: CorpusRow) -> None:
    run = calls(store, budget="1k")
    run.permit(900)
    run.record(replace(corpus, tenant_id=2**70), replace(CALL, tokens_in=800), key="k", answer=None)
    with pytest.raises(BudgetSpent, match="900 tokens are spent"):
        run.permit(101)


def test_each_run_has_the_whole_budget(store: Store, corpus: CorpusRow) -> None:
    first = calls(store, budget="2k")
    first.permit(1_100)
    first.record(corpus, CALL, key="k", answer="{}")
    calls(store, budget="2k").permit(2_000)


# What an estimate learns from.


def rates(store: Store, corpus: CorpusRow, *, everywhere: bool = False) -> ledger.Rates:
    corpus_id = None if everywhere else corpus.corpus_id
    with store.transaction() as tx:
        return ledger.extraction_rates(tx, corpus.tenant_id, corpus_id, model="gpt-4.1", prompt_version="1")


def test_rates_count_first_calls_and_their_repairs(store: Store, corpus: CorpusRow) -> None:
    for call in (CALL, replace(CALL, bytes_sent=None, tokens_in=1_500)):
        calls(store).record(corpus, call, key="k", answer=None)
    assert rates(store, corpus) == ledger.Rates(
        calls=2, first_calls=1, usable=1, bytes_sent=4_000, tokens_in=2_500, tokens_out=200, tokens_cached=800
    )


@pytest.mark.parametrize(
    "other",
    [
        {"purpose": "select"},
        {"model": "house"},
        {"prompt_version": "2"},
        {"cached": True},
        {"tokens_in": None},
        {"tokens_out": None},
    ],
    ids=str,
)
def test_rates_leave_out_what_does_not_compare(
    store: Store, corpus: CorpusRow, other: dict[str, Any]
) -> None:
    calls(store).record(corpus, CALL, key="k", answer=None)
    alone = rates(store, corpus)
    calls(store).record(corpus, replace(CALL, **other), key="l", answer=None)
    assert rates(store, corpus) == alone


def test_rates_tell_the_first_calls_about_passages_that_ended_usably(store: Store, corpus: CorpusRow) -> None:
    failed = replace(CALL, error="the answer cannot be used")
    again = replace(CALL, bytes_sent=None)
    endings = {"whole": [CALL], "mended": [failed, again], "failed": [CALL, replace(again, error="cut off")]}
    for key, made in endings.items():
        for call in made:
            calls(store).record(corpus, replace(call, passage_key=key), key=key, answer=None)
    found = rates(store, corpus)
    assert (found.calls, found.first_calls, found.usable) == (5, 3, 2)


def test_rates_are_of_one_corpus_or_of_all(store: Store, corpus: CorpusRow) -> None:
    with store.transaction() as tx:
        other = corpora.create_corpus(tx, "other", titles="on")
    for place in (corpus, other, other):
        calls(store).record(place, CALL, key="k", answer=None)
    assert [rates(store, place).calls for place in (corpus, other)] == [1, 2]
    assert rates(store, corpus, everywhere=True).calls == 3


# What goes, and what stays.


def named(store: Store, *keys: str) -> None:
    """Passages of these keys in the corpus, without propositions."""
    for key in keys:
        rows(
            store,
            "INSERT INTO passage (corpus_id, tenant_id, passage_key, body, content_hash, state) "
            f"SELECT corpus_id, tenant_id, '{key}', 'x', '', 'empty' FROM corpus RETURNING 1",
        )


def test_what_models_said_of_a_deleted_passage_goes_and_its_cost_stays(
    store: Store, corpus: CorpusRow
) -> None:
    named(store, "oslo", "bergen")
    for key in ("oslo", "bergen"):
        calls(store).record(corpus, replace(CALL, passage_key=key), key=key, answer=f"{key} said")
        failed = replace(CALL, passage_key=key, error=f"refused: {key}")
        calls(store).record(corpus, failed, key=key, answer=None)
    with store.transaction() as tx:
        assert writing.delete_passages(tx, corpus.corpus_id, ["oslo"]) == ["oslo"]
    assert rows(store, "SELECT passage_key, answer, error, tokens_in FROM model_call ORDER BY call_id") == [
        ("oslo", None, "", 1_000),
        ("oslo", None, "deleted with its passage", 1_000),
        ("bergen", "bergen said", "", 1_000),
        ("bergen", None, "refused: bergen", 1_000),
    ]


def test_a_passage_that_never_got_in_is_forgotten_too(store: Store, corpus: CorpusRow) -> None:
    calls(store).record(corpus, CALL, key="k", answer="said")
    with store.transaction() as tx:
        assert writing.delete_passages(tx, corpus.corpus_id, ["oslo"]) == []
    assert calls(store).find(corpus, "k") is None


def test_a_deletion_that_is_rolled_back_takes_no_answer(store: Store, corpus: CorpusRow) -> None:
    named(store, "oslo")
    calls(store).record(corpus, CALL, key="k", answer="said")
    with store.transaction() as tx:
        writing.delete_passages(tx, corpus.corpus_id, ["oslo"])
        tx.driver.rollback()
    assert calls(store).find(corpus, "k") == "said"


def test_a_deleted_corpus_leaves_its_costs_and_nothing_that_was_said(store: Store, corpus: CorpusRow) -> None:
    calls(store).record(corpus, CALL, key="k", answer="said")
    calls(store).record(corpus, SELECT, key="l", answer="chosen")
    calls(store).record(corpus, replace(SELECT, error="quotes oslo"), key="m", answer=None)
    with store.transaction() as tx:
        corpora.delete_corpus(tx, "wiki")
        total = ledger.costs(tx, corpus="wiki").total
    assert (total.calls, total.tokens_in) == (3, 3_000)
    assert rows(store, "SELECT DISTINCT answer, error FROM model_call ORDER BY error") == [
        (None, ""),
        (None, "deleted with its corpus"),
    ]


def test_a_call_that_ends_after_its_corpus_was_deleted_keeps_no_answer(
    store: Store, corpus: CorpusRow
) -> None:
    with store.transaction() as tx:
        corpora.delete_corpus(tx, "wiki")
    calls(store).record(corpus, CALL, key="k", answer="said")
    assert rows(store, "SELECT corpus_name, tokens_in, answer FROM model_call") == [("wiki", 1_000, None)]


def test_a_call_that_ends_while_its_corpus_is_being_deleted_keeps_no_answer(
    store: Store, corpus: CorpusRow
) -> None:
    recording = threading.Thread(target=lambda: calls(store).record(corpus, CALL, key="k", answer="said"))
    with store.transaction() as tx:
        corpora.delete_corpus(tx, "wiki")
        recording.start()
        recording.join(0.3)
        assert recording.is_alive()
    recording.join()
    assert rows(store, "SELECT tokens_in, answer FROM model_call") == [(1_000, None)]


# What costs add up to.


def log_question(store: Store, corpus: CorpusRow, *of_search: ModelCall) -> int:
    nothing = {name: [] for name in ("settings", "candidates", "selected", "residual_queries", "ranking")}
    entry = {"question": "Which capital?", "method": "full", "seconds": 0.1, "degraded": [], **nothing}
    with store.transaction() as tx:
        log_id, _ = searching.insert_question_log(tx, corpus, entry, passage_keys=(), proposition_ids=())
        ledger.link_calls(tx, of_search, log_id)
    return log_id


@pytest.fixture
def spent(store: Store, corpus: CorpusRow) -> int:
    """Two calls for oslo, a cached one for bergen, a logged search (its id is given) and one that was not."""
    run, unpriced = calls(store), calls(store, model="house")
    run.record(corpus, CALL, key="a", answer=None)
    run.record(corpus, replace(CALL, error="not JSON", tokens_cached=None), key="a", answer=None)
    run.record(corpus, replace(CALL, passage_key="bergen", cached=True), key="b", answer=None)
    asked = run.record(corpus, SELECT, key="c", answer="[]")
    unpriced.record(corpus, replace(SELECT, model="house", round_number=2), key="d", answer="[]")
    return log_question(store, corpus, asked)


def groups(store: Store, by: str, **options: Any) -> list[tuple[Any, ...]]:
    with store.transaction() as tx:
        report = ledger.costs(tx, by=by, **options)
    return [(row.group, row.calls, row.tokens_in, row.cost, row.unpriced) for row in report.rows]


PAID, WITHOUT_CACHED = Decimal("0.0022"), Decimal("0.0028")
"""A call's cost with and without tokens from the provider's own cache."""


@pytest.mark.usefixtures("spent")
def test_costs_by_corpus(store: Store) -> None:
    assert groups(store, "corpus") == [("wiki", 5, 4_000, PAID + 2 * WITHOUT_CACHED, 1)]


@pytest.mark.usefixtures("spent")
def test_costs_by_passage(store: Store) -> None:
    assert groups(store, "passage") == [
        ("", 2, 2_000, WITHOUT_CACHED, 1),
        ("oslo", 2, 2_000, PAID + WITHOUT_CACHED, 0),
        ("bergen", 1, 0, 0, 0),
    ]


def test_costs_by_question(store: Store, spent: int) -> None:
    assert groups(store, "question") == [
        ("", 4, 3_000, PAID + WITHOUT_CACHED, 1),
        (str(spent), 1, 1_000, WITHOUT_CACHED, 0),
    ]


@pytest.mark.usefixtures("spent")
def test_costs_by_model_never_show_an_unknown_price_as_nothing(store: Store) -> None:
    assert groups(store, "model") == [
        ("gpt-4.1", 4, 3_000, PAID + 2 * WITHOUT_CACHED, 0),
        ("house", 1, 1_000, None, 1),
    ]


@pytest.mark.usefixtures("spent")
def test_costs_by_purpose(store: Store) -> None:
    assert groups(store, "purpose") == [
        ("extract", 3, 2_000, PAID + WITHOUT_CACHED, 0),
        ("select", 2, 2_000, WITHOUT_CACHED, 1),
    ]


@pytest.mark.usefixtures("spent")
def test_costs_by_round(store: Store) -> None:
    assert groups(store, "round") == [
        ("0", 3, 2_000, PAID + WITHOUT_CACHED, 0),
        ("1", 1, 1_000, WITHOUT_CACHED, 0),
        ("2", 1, 1_000, None, 1),
    ]


@pytest.mark.usefixtures("spent")
def test_costs_by_day_are_in_order(store: Store) -> None:
    rows(
        store, "UPDATE model_call SET called_at = '2026-02-01 23:30-02' WHERE purpose = 'select' RETURNING 1"
    )
    rows(store, "UPDATE model_call SET called_at = '2026-01-31 12:00Z' WHERE purpose = 'extract' RETURNING 1")
    assert [row[:2] for row in groups(store, "day")] == [("2026-01-31", 3), ("2026-02-02", 2)]


def test_a_question_is_shown_with_its_text_and_corpus(store: Store, spent: int) -> None:
    with store.transaction() as tx:
        row = ledger.costs(tx, by="question").rows[1]
    assert (row.corpus, row.group, row.question) == ("wiki", str(spent), "Which capital?")


@pytest.mark.usefixtures("spent")
def test_cached_and_failed_calls_are_counted(store: Store) -> None:
    with store.transaction() as tx:
        total = ledger.costs(tx).total
    assert (total.calls, total.cached, total.failed, total.tokens_cached, total.latency_s) == (
        5,
        1,
        1,
        400,
        2.5,
    )


@pytest.mark.parametrize("by", ["corpus", "passage", "question", "model", "purpose", "day", "round"])
@pytest.mark.usefixtures("spent")
def test_every_breakdown_adds_up_to_the_same_total(store: Store, by: str) -> None:
    with store.transaction() as tx:
        total, expected = ledger.costs(tx, by=by).total, ledger.costs(tx).total
    assert total == expected
    assert (total.tokens_in, total.tokens_out, total.cost) == (4_000, 400, PAID + 2 * WITHOUT_CACHED)


@pytest.mark.usefixtures("spent")
def test_costs_of_one_corpus(store: Store) -> None:
    with store.transaction() as tx:
        other = corpora.create_corpus(tx, "other", titles="on")
    calls(store).record(other, CALL, key="z", answer=None)
    assert groups(store, "purpose", corpus="other") == [("extract", 1, 1_000, PAID, 0)]


@pytest.mark.usefixtures("spent")
def test_costs_since_a_moment_which_is_in_utc(store: Store) -> None:
    rows(store, "UPDATE model_call SET called_at = '2026-02-01 00:00Z' WHERE purpose = 'select' RETURNING 1")
    rows(store, "UPDATE model_call SET called_at = '2026-01-31 23:59Z' WHERE purpose = 'extract' RETURNING 1")
    given = (datetime(2026, 2, 1), datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 2, 1, 0, 1))
    assert [groups(store, "purpose", since=moment)[:1] for moment in given] == [
        [("select", 2, 2_000, WITHOUT_CACHED, 1)],
        [("select", 2, 2_000, WITHOUT_CACHED, 1)],
        [],
    ]


def test_an_empty_ledger_costs_nothing(store: Store) -> None:
    with store.transaction() as tx:
        report = ledger.costs(tx)
    assert (report.rows, report.total.calls, report.total.cost) == ((), 0, Decimal(0))


def test_costs_are_not_told_apart_by_anything_else(store: Store) -> None:
    with (
        store.transaction() as tx,
        pytest.raises(UsageError, match=r"told apart by corpus, .*, not by 'colour'"),
    ):
        ledger.costs(tx, by="colour")


def test_a_failed_call_that_was_not_counted_is_not_unpriced(store: Store, corpus: CorpusRow) -> None:
    failed = replace(CALL, tokens_in=None, tokens_out=None, error="timeout")
    calls(store).record(corpus, failed, key="k", answer=None)
    assert groups(store, "corpus") == [("wiki", 1, 0, 0, 0)]


def test_calls_that_are_not_in_the_ledger_cannot_be_linked(store: Store, corpus: CorpusRow) -> None:
    log_question(store, corpus, SELECT)
    assert groups(store, "question") == []


@pytest.mark.usefixtures("spent")
def test_the_view_of_questions_says_what_a_search_took(store: Store) -> None:
    assert rows(
        store,
        "SELECT corpus, question, calls, cached_calls, failed_calls, unpriced_calls, rounds, tokens_in, "
        "tokens_out, cost, latency_s FROM cost_by_question",
    ) == [("wiki", "Which capital?", 1, 0, 0, 0, 1, 1_000, 100, WITHOUT_CACHED, 0.5)]
