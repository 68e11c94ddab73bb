"""Ingestion as a stream: many extractions at once, none in the way of another, and an end that keeps all."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from evireform import ingestion
from evireform.ingestion import Interrupted, job
from evireform.ingestion.portions import CHARACTERS
from evireform.language.openai import OpenAILanguage, chat
from evireform.records import Extraction, IngestionSummary, ModelCall, Passage, Rejected
from evireform.settings import LanguageSettings
from evireform.store import writing
from evireform.store.connection import Store
from evireform.store.writing import Written
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage, split_sentences
from tests.doubles.scripted_openai import Reply, Request, ScriptedOpenAI
from tests.jobs.indexes import contents, differences, ingest, rows

names = (f"stream-{number}" for number in count())

PASSAGES = [
    Passage(key=f"p{number:02}", title=f"Title {number}", text=f"Ada met Bob {number}. Carl saw Ada.")
    for number in range(40)
]


@pytest.fixture
def name() -> str:
    return next(names)


def sentences(passage: Passage) -> Extraction:
    return Extraction(propositions=split_sentences(passage.text))


def language(extract: Callable[[Passage], Extraction] = sentences, *, at_once: int = 4) -> ScriptedLanguage:
    return ScriptedLanguage(extract=extract, concurrency=at_once)


def passage_keys(store: Store, name: str) -> list[str]:
    return [row[0] for row in contents(store, name, "passage")]


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline, "waited 10 s in vain"
        time.sleep(0.01)


# Many at once


def test_so_many_extractions_are_in_flight(shared_store: Store, name: str) -> None:
    together = threading.Barrier(4, timeout=10)

    def extract(passage: Passage) -> Extraction:
        together.wait()
        return sentences(passage)

    assert ingest(shared_store, name, PASSAGES, language=language(extract)).added == 40


def test_t01_the_index_is_the_same_whatever_the_order_in_which_results_arrive(
    shared_store: Store, name: str
) -> None:
    def extract(passage: Passage) -> Extraction:
        time.sleep(int(passage.key[1:]) * 3 % 7 / 1_000)
        return sentences(passage)

    ingest(shared_store, name, PASSAGES, language=language(extract, at_once=8))
    one_by_one = next(names)
    ingest(shared_store, one_by_one, PASSAGES, language=language(at_once=1))
    assert differences(shared_store, name, one_by_one) == {}


def test_a_slow_passage_holds_up_nothing(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "PATIENCE_S", 0.05)

    def extract(passage: Passage) -> Extraction:
        if passage.key == "p00":
            wait_until(lambda: len(passage_keys(shared_store, name)) == 39)
        return sentences(passage)

    assert ingest(shared_store, name, PASSAGES, language=language(extract)).added == 40


@pytest.mark.parametrize("at_once", [1, 4])
def test_t11_what_was_read_before_a_huge_text_is_written_before_it(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(job, "PATIENCE_S", 0.05)
    huge = Passage(key="huge", text="Ada met Bob. " * (CHARACTERS // 12))

    def extract(passage: Passage) -> Extraction:
        if passage is huge:
            wait_until(lambda: len(passage_keys(shared_store, name)) >= 10)
        return sentences(passage)

    stream = [*PASSAGES[:10], huge, *PASSAGES[10:]]
    assert ingest(shared_store, name, stream, language=language(extract, at_once=at_once)).added == 41


def test_t11_it_says_which_huge_text_it_works_on(shared_store: Store, name: str) -> None:
    told: list[str] = []
    huge = Passage(key="huge", text="Ada met Bob. " * (CHARACTERS // 12))
    ingest(shared_store, name, [*PASSAGES, huge], working_on=lambda passage: told.append(passage.key))
    assert told == ["huge"]


def test_one_call_at_once_gets_many_passages_where_it_is_quick(shared_store: Store, name: str) -> None:
    sizes: list[int] = []

    class Counting(ScriptedLanguage):
        def extract(self, passages: list[Passage]) -> list[Extraction]:  # type: ignore[override]
            sizes.append(len(passages))
            return super().extract(passages)

    ingest(shared_store, name, PASSAGES, language=Counting())
    assert sizes[0] == 1
    assert max(sizes) > 10


def test_an_exception_of_the_backend_ends_it_and_what_was_finished_is_written(
    shared_store: Store, name: str
) -> None:
    def extract(passage: Passage) -> Extraction:
        if passage.key == "p20":
            wait_until(lambda: len(backend.extracted) >= 22)
            raise KeyError("broken")
        return sentences(passage)

    backend = language(extract)
    with pytest.raises(KeyError, match="broken"):
        ingest(shared_store, name, PASSAGES, language=backend)
    assert len(passage_keys(shared_store, name)) >= 18


# The end of a budget


def spending(calls: int, *, at_once: int) -> ScriptedLanguage:
    """A backend that may make so many calls."""
    left = iter(range(calls))
    lock = threading.Lock()

    def extract(passage: Passage) -> Extraction:
        with lock:
            if next(left, None) is None:
                return Extraction(error="12 of 12 tokens are spent", in_vain="budget")
        return sentences(passage)

    return language(extract, at_once=at_once)


def done_and_not_done(summary: IngestionSummary) -> int:
    return summary.added + summary.not_done


def test_a_spent_budget_stops_it_and_what_was_finished_is_written(shared_store: Store, name: str) -> None:
    summary = ingest(shared_store, name, PASSAGES, language=spending(12, at_once=4))
    assert (summary.stopped, summary.stopped_by) == ("12 of 12 tokens are spent", "budget")
    assert (summary.added, summary.failed, len(passage_keys(shared_store, name))) == (12, (), 12)


def test_a_spent_budget_says_how_many_of_those_that_were_read_are_not_done(
    shared_store: Store, name: str
) -> None:
    summary = ingest(shared_store, name, PASSAGES, language=spending(12, at_once=4))
    assert summary.not_done == 28


def test_nothing_more_is_read_once_the_budget_is_spent(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "BATCH", 4)
    read: list[str] = []

    def stream() -> Iterator[Passage]:
        for passage in PASSAGES:
            read.append(passage.key)
            yield passage

    summary = ingest(shared_store, name, stream(), language=spending(5, at_once=2))
    assert len(read) < 40
    assert done_and_not_done(summary) == len(read)


@pytest.mark.parametrize("at_once", [1, 4])
def test_running_it_again_goes_on_where_the_budget_was_spent(
    shared_store: Store, name: str, at_once: int
) -> None:
    first = ingest(shared_store, name, PASSAGES, language=spending(12, at_once=at_once))
    backend = language(at_once=at_once)
    second = ingest(shared_store, name, PASSAGES, language=backend)
    assert (second.added, second.unchanged) == (40 - first.added, first.added)
    assert (second.stopped, second.stopped_by) == ("", "")
    assert len(backend.extracted) == 40 - first.added


# A server that takes no call


@pytest.mark.parametrize("fault", ["gone", "refuses"])
def test_a_server_that_takes_no_call_stops_it_and_no_passage_has_failed(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for tests")
    monkeypatch.setattr(chat, "_BACK_OFF", lambda _: 0.05)
    with ScriptedOpenAI() as server:
        server.on("extract", Reply(status=401, content="wrong key"))
        base_url = server.base_url if fault == "refuses" else "http://127.0.0.1:9/v1"
        settings = LanguageSettings(backend="openai", model="m", base_url=base_url)
        summary = ingest(shared_store, name, PASSAGES, language=OpenAILanguage(settings))
    assert summary.stopped.startswith(base_url)
    assert summary.stopped_by == "server"
    assert (summary.added, summary.failed, summary.not_done) == (0, (), 40)


# What it took


def called(**known: Any) -> ModelCall:
    return ModelCall(purpose="extract", model="m", prompt_version="1", prompt_hash="", **known)


PAID = called(tokens_in=10, tokens_out=2, cost=Decimal("0.5"))
CACHED = called(tokens_in=0, tokens_out=0, cost=Decimal(0), cached=True)


@pytest.mark.parametrize(
    ("calls", "took"),
    [
        ([PAID, CACHED], (80, 40, 400, 80, Decimal(20))),
        ([PAID, called(error="APITimeoutError")], (80, 0, 400, 80, Decimal(20))),
        ([PAID, called(tokens_in=1, tokens_out=1)], (80, 0, 440, 120, None)),
        ([PAID, called()], (80, 0, None, None, None)),
        ([], (0, 0, 0, 0, Decimal(0))),
    ],
    ids=["from the ledger", "not answered", "without a price", "not counted", "none"],
)
def test_the_summary_says_what_model_calls_took(
    shared_store: Store, name: str, calls: list[ModelCall], took: tuple[Any, ...]
) -> None:
    backend = language(lambda _: Extraction(calls=tuple(calls)))
    summary = ingest(shared_store, name, PASSAGES, language=backend)
    counts = (summary.model_calls, summary.cached, summary.tokens_in, summary.tokens_out, summary.cost)
    assert counts == took


# From one backend to another


def test_unchanged_passages_that_another_backend_would_read_are_told(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, PASSAGES, language=ScriptedLanguage(name="old/1"))
    summary = ingest(shared_store, name, PASSAGES, language=ScriptedLanguage(name="new/1"))
    (said,) = summary.notes
    assert said == (
        "the unchanged passages stay as old/1 extracted them: to have them extracted by new/1, "
        "make a new generation (`evireform generation start`)"
    )


def test_a_corpus_of_two_backends_names_both(shared_store: Store, name: str) -> None:
    for backend, given in (("old/1", PASSAGES[:2]), ("new/1", PASSAGES[2:4]), ("old/1", PASSAGES[4:6])):
        ingest(shared_store, name, given, language=ScriptedLanguage(name=backend))
    query = "SELECT extractor FROM corpus WHERE name = %(name)s"
    assert rows(shared_store, query, name=name) == [("old/1 + new/1",)]


# Ctrl-C


def test_ctrl_c_comes_with_what_was_done_and_is_still_ctrl_c(shared_store: Store, name: str) -> None:
    def press(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        ingest(shared_store, name, PASSAGES, language=language(at_once=1), progress=press)
    assert isinstance(caught.value, Interrupted)
    summary = caught.value.summary
    assert (summary.stopped, summary.stopped_by) == ("interrupted", "interrupted")
    assert (summary.added, summary.not_done) == (1, 39)


def test_after_ctrl_c_no_further_extraction_is_begun(shared_store: Store, name: str) -> None:
    released = threading.Event()

    def extract(passage: Passage) -> Extraction:
        released.wait(timeout=10)
        return sentences(passage)

    def read() -> Iterator[Passage]:
        yield from PASSAGES[:20]
        raise KeyboardInterrupt

    backend = language(extract)
    with pytest.raises(KeyboardInterrupt):
        ingest(shared_store, name, read(), language=backend)
    begun = len(backend.extracted)
    released.set()
    time.sleep(0.1)
    assert len(backend.extracted) == begun <= 4


def test_what_is_paid_for_is_written_one_by_one_also_with_one_call_at_once(
    shared_store: Store, name: str
) -> None:
    def extract(passage: Passage) -> Extraction:
        if passage.key == "p07":
            raise KeyboardInterrupt
        return sentences(passage)

    backend = ScriptedLanguage(extract=extract, one_by_one=True)
    with pytest.raises(Interrupted):
        ingest(shared_store, name, PASSAGES, language=backend)
    assert passage_keys(shared_store, name) == [f"p0{number}" for number in range(7)]


@pytest.mark.parametrize("at_once", [1, 4])
def test_what_is_paid_for_is_written_before_an_error_of_the_passages_is_raised(
    shared_store: Store, name: str, at_once: int
) -> None:
    def broken() -> Iterator[Passage]:
        yield from PASSAGES
        raise RuntimeError("the file ends here")

    backend = ScriptedLanguage(extract=sentences, one_by_one=True, concurrency=at_once)
    with pytest.raises(RuntimeError, match="the file ends here"):
        ingest(shared_store, name, broken(), language=backend)
    assert passage_keys(shared_store, name) == sorted(backend.extracted)


@pytest.mark.parametrize("at_once", [1, 4])
def test_ctrl_c_in_the_middle_of_writing_loses_nothing_that_was_finished(
    shared_store: Store, name: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = writing.write_passages
    interrupts = [KeyboardInterrupt()]

    def interrupted(*args: Any) -> Written:
        if interrupts:
            time.sleep(0.2)  # meanwhile all that may be extracted is
            raise interrupts.pop()
        return write(*args)

    monkeypatch.setattr(writing, "write_passages", interrupted)
    monkeypatch.setattr(ingestion, "BATCH", 4)
    backend = ScriptedLanguage(extract=sentences, one_by_one=True, concurrency=at_once)
    with pytest.raises(Interrupted) as caught:
        ingest(shared_store, name, PASSAGES, language=backend)
    assert passage_keys(shared_store, name) == sorted(backend.extracted)
    assert caught.value.summary.added == len(backend.extracted) < len(PASSAGES)


# Failures, and trying them again


def failing(*failed: str, at_once: int = 4) -> ScriptedLanguage:
    return ScriptedLanguage(errors=dict.fromkeys(failed, "HTTP 500"), concurrency=at_once)


def retry(store: Store, name: str, backend: ScriptedLanguage) -> IngestionSummary:
    return ingestion.retry(store, name, encoder=HashEncoder(), language=backend)


@pytest.fixture
def partial(shared_store: Store, name: str) -> str:
    """A corpus with four failed passages of forty."""
    ingest(shared_store, name, PASSAGES, language=failing("p03", "p13", "p23", "p33"))
    return name


def states(store: Store, name: str) -> dict[str, int]:
    query = """SELECT state, count(*) FROM passage JOIN corpus USING (corpus_id)
        WHERE name = %(name)s GROUP BY state"""
    return dict(rows(store, query, name=name))


def test_t06_errors_for_a_tenth_cost_a_tenth_and_none_passes_for_empty(
    shared_store: Store, name: str
) -> None:
    summary = ingest(shared_store, name, PASSAGES, language=failing("p03", "p13", "p23", "p33"))
    assert sorted(summary.failed, key=lambda row: row.passage_key) == [
        Rejected(passage_key=key, reason="HTTP 500") for key in ("p03", "p13", "p23", "p33")
    ]
    assert states(shared_store, name) == {"ready": 36, "failed": 4}


FAULTS = (
    Reply(status=500, content="overloaded"),
    Reply(content="I cannot do that."),
    Reply(refusal="not this"),
    Reply(content='{"propositions": [{"te', finish_reason="length"),
)


def test_t06_whatever_a_server_does_to_a_tenth_the_others_go_in(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "for tests")

    def answer(request: Request) -> Any:
        text = json.loads(request.messages[1]["content"])["text"]
        number = int(text.split("Bob ")[1].split(".")[0])
        if number % 10 == 3:
            return FAULTS[number // 10]
        return {"propositions": [{"text": p.text, "entities": p.entities} for p in split_sentences(text)]}

    with ScriptedOpenAI() as server:
        server.on("extract", answer)
        settings = LanguageSettings(backend="openai", model="m", base_url=server.base_url, attempts=1)
        summary = ingest(shared_store, name, PASSAGES, language=OpenAILanguage(settings))
    assert {failed.passage_key for failed in summary.failed} == {"p03", "p13", "p23", "p33"}
    assert all(failed.reason for failed in summary.failed)
    assert states(shared_store, name) == {"ready": 36, "failed": 4}


def test_t06_the_failed_ones_alone_are_extracted_again(shared_store: Store, partial: str) -> None:
    backend = failing("p13")
    summary = retry(shared_store, partial, backend)
    assert sorted(backend.extracted) == ["p03", "p13", "p23", "p33"]
    assert [failed.passage_key for failed in summary.failed] == ["p13"]
    assert states(shared_store, partial) == {"ready": 39, "failed": 1}


def test_t06_after_all_were_tried_again_the_index_is_as_if_none_had_failed(
    shared_store: Store, partial: str
) -> None:
    retry(shared_store, partial, failing())
    straight = next(names)
    ingest(shared_store, straight, PASSAGES)
    assert differences(shared_store, partial, straight) == {}


def test_what_was_tried_again_is_unchanged_when_it_is_ingested_again(
    shared_store: Store, partial: str
) -> None:
    retry(shared_store, partial, failing())
    assert ingest(shared_store, partial, PASSAGES).unchanged == 40


def test_nothing_failed_is_nothing_to_try_again(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, PASSAGES)
    summary = retry(shared_store, name, failing())
    assert (summary.added, summary.changed, summary.unchanged) == (0, 0, 0)


def test_more_failures_than_a_page_are_all_tried_again(
    shared_store: Store, partial: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "BATCH", 3)
    assert retry(shared_store, partial, failing("p03", "p33")).changed == 4
    assert states(shared_store, partial) == {"ready": 38, "failed": 2}


@pytest.mark.parametrize("change", ["replaced", "deleted"])
def test_a_failed_passage_that_somebody_changed_meanwhile_is_left_alone(
    shared_store: Store, partial: str, change: str
) -> None:
    new = Passage(key="p03", text="Dora sat.")

    def extract(passage: Passage) -> Extraction:
        if passage.key == "p03":
            ingestion.delete(shared_store, partial, ["p03"])
            if change == "replaced":
                ingest(shared_store, partial, [new])
        return sentences(passage)

    retry(shared_store, partial, language(extract, at_once=1))
    bodies = {row[0]: row[2] for row in contents(shared_store, partial, "passage")}
    assert bodies.get("p03") == (new.text if change == "replaced" else None)


def test_a_failed_passage_that_failed_again_with_another_text_is_left_alone(
    shared_store: Store, partial: str
) -> None:
    new = Passage(key="p03", text="Dora sat.")

    def extract(passage: Passage) -> Extraction:
        if passage.key == "p03":
            ingest(shared_store, partial, [new], language=failing("p03"))
        return sentences(passage)

    retry(shared_store, partial, language(extract, at_once=1))
    bodies = {row[0]: row[2] for row in contents(shared_store, partial, "passage")}
    assert bodies["p03"] == "Dora sat."
    assert states(shared_store, partial) == {"ready": 39, "failed": 1}


def test_unsupported_and_dropped_propositions_are_counted(shared_store: Store, name: str) -> None:
    backend = language(lambda _: Extraction(unsupported=2, dropped=1))
    summary = ingest(shared_store, name, PASSAGES[:3], language=backend)
    assert (summary.unsupported, summary.dropped_propositions) == (6, 3)


def test_the_corpus_records_what_its_extractions_depend_on(shared_store: Store, name: str) -> None:
    backend = ScriptedLanguage(name="everything/7")
    backend.extractor = "extraction/1"
    ingest(shared_store, name, PASSAGES, language=backend)
    query = "SELECT extractor FROM corpus WHERE name = %(name)s"
    assert rows(shared_store, query, name=name) == [("extraction/1",)]
