"""Searches and ingestions with a model that answers oddly, from the server to the database and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import evireform
from evireform import Passage
from evireform.settings import LanguageSettings, Settings
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_openai import Reply, Request, ScriptedOpenAI

PASSAGES = [
    Passage(key="fram", text="Fram was designed by Colin Archer."),
    Passage(key="archer", text="Colin Archer was born in Larvik."),
    Passage(key="belgica", text="Belgica wintered in the Antarctic."),
]
QUESTION = "Who designed Fram?"
ODD: dict[str, Any] = {
    "prose": "The first one, I think.",
    "Python code": "__import__('os').system('true')",
    "SQL": "'; DROP TABLE evireform.passage; --",
    "duplicate keys": '{"selected": ["A1"], "selected": [], "queries": ["a"], "queries": []}',
    "null": "null",
    "one megabyte": '{"' * 500_000,
    "refusal": Reply(refusal="I must not."),
    "nothing": Reply(no_choice=True),
    "no JSON": Reply(raw=b"<html>Bad gateway</html>"),
    "wrong key": Reply(status=401, content="wrong key"),
}


@pytest.fixture
def server() -> Iterator[ScriptedOpenAI]:
    with ScriptedOpenAI() as running:
        running.on("extract", as_sentences)
        yield running


@pytest.fixture
def db(
    database_url: str, server: ScriptedOpenAI, monkeypatch: pytest.MonkeyPatch
) -> Iterator[evireform.Database]:
    monkeypatch.setenv("OPENAI_API_KEY", "for tests")
    language = LanguageSettings(backend="openai", model="odd", base_url=server.base_url, attempts=1)
    with evireform.connect(
        database_url, encoder=HashEncoder(), settings=Settings(language=language)
    ) as opened:
        yield opened


def as_sentences(request: Request) -> dict[str, Any]:
    text = json.loads(request.messages[1]["content"])["text"]
    return {"propositions": [{"text": text, "entities": [text.split()[0]]}]}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_t07_a_search_falls_back_to_the_best_candidate_and_says_so(
    server: ScriptedOpenAI, db: evireform.Database, odd: Any
) -> None:
    corpus = db.corpus("ships", create=True)
    corpus.ingest(PASSAGES)
    server.on("select", odd)
    server.on("reformulate", odd)
    ranking = corpus.search(QUESTION)
    assert ranking.selected == (ranking.candidates[0].proposition_id,)
    assert ranking.residual_queries == ()
    assert [reason.partition(":")[0] for reason in ranking.degraded] == [
        "selection",
        "reformulation",
    ]
    assert ranking.passages[0].passage_key == "fram"


def test_t07_an_odd_extraction_fails_its_passage_alone(
    server: ScriptedOpenAI, db: evireform.Database
) -> None:
    def answer(request: Request) -> Any:
        odd = "Belgica" in request.messages[1]["content"]
        return "import os; os.remove('index')" if odd else as_sentences(request)

    server.on("extract", answer)
    summary = db.corpus("ships", create=True).ingest(PASSAGES)
    assert (summary.added, summary.empty) == (3, 0)
    assert [failed.passage_key for failed in summary.failed] == ["belgica"]
    assert "it is not JSON" in summary.failed[0].reason


def test_t07_what_was_forgiven_in_an_extraction_is_a_note(
    server: ScriptedOpenAI, db: evireform.Database
) -> None:
    server.on("extract", lambda request: f"```json\n{json.dumps(as_sentences(request))}\n```")
    summary = db.corpus("ships", create=True).ingest(PASSAGES)
    assert (summary.added, summary.failed) == (3, ())
    assert "extraction: the answer stood in a code fence" in summary.notes


def test_t08_the_ledger_holds_every_answer_of_a_faulty_server(
    server: ScriptedOpenAI, db: evireform.Database, database_url: str
) -> None:
    server.on("extract", "prose", Reply(no_choice=True), as_sentences)
    server.on("select", "prose", '["A0"]')
    server.on("reformulate", Reply(refusal="no"))
    corpus = db.corpus("ships", create=True)
    corpus.ingest(PASSAGES)
    corpus.search(QUESTION)
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "SELECT sum(tokens_in), sum(tokens_out), count(*) FROM evireform.model_call"
        ).fetchone()
    assert row == (server.tokens_in, server.tokens_out, len(server.requests))
