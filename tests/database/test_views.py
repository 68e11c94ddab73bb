"""What people read: each view on a small corpus with known rows."""

from __future__ import annotations

import time
from dataclasses import replace
from decimal import Decimal

import numpy as np
import psycopg
import pytest

from evireform.canonical import canonical
from evireform.records import ModelCall, Passage, PassageState
from evireform.store import calls, corpora, queue, writing
from evireform.store.connection import Store
from evireform.store.searching import insert_question_log
from evireform.store.writing import PreparedPassage, PreparedProposition
from tests.database.roles import new_role, run_as_owner

TEXTS = {
    "oslo": (
        "Oslo is the capital of Norway. Norway borders Sweden.",
        [((0, 30), ["Oslo", "Norway"]), ((31, 53), ["Norway", "Sweden"])],
    ),
    "bergen": ("Bergen lies in Norway.", [((0, 22), ["Bergen", "Norway"])]),
}


def prepared(
    key: str, text: str, state: PassageState, reason: str, parts: list[PreparedProposition]
) -> PreparedPassage:
    return PreparedPassage(
        passage=Passage(key=key, text=text, title=key.title()),
        content_hash=key.encode(),
        state=state,
        reason=reason,
        propositions=tuple(parts),
        vectors=np.ones((len(parts), 2), dtype=np.float32) / np.float32(np.sqrt(2)),
    )


@pytest.fixture
def wiki(store: Store) -> Store:
    """Two ready passages with three propositions, an empty one, and one that failed."""
    batch = [
        prepared(
            key,
            text,
            "ready",
            "",
            [
                PreparedProposition(
                    text=text[start:end],
                    span=(start, end),
                    mentions=tuple((form, canonical(form)) for form in forms),
                )
                for (start, end), forms in parts
            ],
        )
        for key, (text, parts) in TEXTS.items()
    ]
    batch.append(prepared("blank", "---", "empty", "", []))
    batch.append(prepared("broken", "Too long.", "failed", "timeout", []))
    with store.transaction() as tx:
        corpus = corpora.create_corpus(tx, "wiki", titles="off")
        space = corpora.create_space(tx, corpus, kind="proposition", model="tiny", dimensions=2, prompts={})
        writing.write_passages(tx, corpus, space, batch)
    return store


def rows(store: Store, query: str) -> list[tuple[object, ...]]:
    with store.transaction(read_only=True) as tx:
        return tx.driver.execute(query.encode()).fetchall()


def test_corpus_overview(wiki: Store) -> None:
    assert rows(
        wiki,
        "SELECT corpus, tenant, titles, ready, empty, failed, propositions, entities, incidence, "
        "active_models FROM corpus_overview",
    ) == [("wiki", "default", "off", 2, 1, 1, 3, 4, 6, ["proposition: tiny (2-d)"])]


def test_corpus_overview_shows_a_corpus_without_passages(store: Store) -> None:
    with store.transaction() as tx:
        corpora.create_corpus(tx, "new", titles="on")
    query = "SELECT corpus, ready, propositions, entities, active_models FROM corpus_overview"
    assert rows(store, query) == [("new", 0, 0, 0, None)]


def test_proposition_detail(wiki: Store) -> None:
    assert rows(
        wiki,
        "SELECT ordinal, title, proposition, span_start, span_end, entities FROM proposition_detail "
        "WHERE corpus = 'wiki' AND passage_key = 'oslo' ORDER BY ordinal",
    ) == [
        (0, "Oslo", "Oslo is the capital of Norway.", 0, 30, ["Norway", "Oslo"]),
        (1, "Oslo", "Norway borders Sweden.", 31, 53, ["Norway", "Sweden"]),
    ]


def test_entity_neighbourhood(wiki: Store) -> None:
    assert rows(
        wiki,
        "SELECT entity, degree, neighbour, neighbour_degree, shared_propositions FROM entity_neighbourhood "
        "WHERE corpus = 'wiki' AND canonical = 'norway' ORDER BY neighbour",
    ) == [("Norway", 3, "Bergen", 1, 1), ("Norway", 3, "Oslo", 1, 1), ("Norway", 3, "Sweden", 1, 1)]


def test_ingestion_progress(wiki: Store) -> None:
    query = "SELECT corpus, state, passages, propositions FROM ingestion_progress ORDER BY state"
    assert rows(wiki, query) == [
        ("wiki", "empty", 1, 0),
        ("wiki", "failed", 1, 0),
        ("wiki", "ready", 2, 3),
    ]


def test_ingestion_failures(wiki: Store) -> None:
    query = "SELECT corpus, passage_key, reason FROM ingestion_failures"
    assert rows(wiki, query) == [("wiki", "broken", "timeout")]


def test_queue_progress(wiki: Store) -> None:
    with wiki.transaction() as tx:
        corpus = corpora.get_corpus(tx, "wiki")
        waiting = {key: (Passage(key=key, text="A text."), None) for key in ("a", "b", "c", "d")}
        queue.enqueue_passages(tx, corpus, waiting)
        queue.claim_queued(tx, corpus.corpus_id, 1, fetch=3, lease_s=600)
        queue.return_queued(tx, corpus.corpus_id, {"a": "no answer"})
    query = "SELECT corpus, waiting, on_lease, tried FROM queue_progress"
    assert rows(wiki, query) == [("wiki", 2, 2, 1)]


def call(purpose: str, tokens: int | None, error: str = "") -> ModelCall:
    return ModelCall(
        purpose=purpose,
        model="m-1",
        prompt_version="1",
        prompt_hash="h",
        tokens_in=tokens,
        tokens_out=tokens,
        latency_s=0.5,
        error=error,
    )


def record(store: Store, *made: ModelCall) -> None:
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, "wiki")
        for one in made:
            calls.insert_call(tx, corpus, one, key="", answer=None)


def test_cost_by_day(wiki: Store) -> None:
    priced = replace(call("select", 4), cost=Decimal("0.5"), tokens_cached=3)
    cached = replace(call("select", 0), cost=Decimal(0), cached=True)
    record(wiki, call("extract", 7), call("extract", None, "timeout"), priced, cached)
    found = rows(
        wiki,
        "SELECT corpus, model, purpose, calls, cached_calls, failed_calls, unpriced_calls, "
        "tokens_in, tokens_out, tokens_cached, cost, latency_s FROM cost_by_day "
        "WHERE day = (now() AT TIME ZONE 'UTC')::date ORDER BY purpose",
    )
    assert found == [
        ("wiki", "m-1", "extract", 2, 0, 1, 1, 7, 7, 0, None, 1.0),
        ("wiki", "m-1", "select", 2, 1, 0, 0, 4, 4, 3, Decimal("0.5"), 1.0),
    ]


def test_cost_outlives_its_corpus(wiki: Store) -> None:
    record(wiki, call("extract", 7))
    with wiki.transaction() as tx:
        corpora.delete_corpus(tx, "wiki")
    assert rows(wiki, "SELECT corpus, tokens_in FROM cost_by_day") == [("wiki", 7)]


def test_question_explained(wiki: Store) -> None:
    ids = {body: key for body, key in rows(wiki, "SELECT body, proposition_id FROM proposition")}
    oslo, bergen = ids["Oslo is the capital of Norway."], ids["Bergen lies in Norway."]
    trace = [
        {"query": 0, "seed_id": oslo, "entity": "", "value": 0.5},
        {"query": 2, "seed_id": bergen, "entity": "Norway", "value": 0.125},
        {"query": 0, "seed_id": 999, "entity": "Norway", "value": 0.0625},
    ]
    ranking = [{"rank": 1, "passage_key": "oslo", "score": 0.6875, "trace": trace}]
    residual = [{"text": "first?", "hits": []}, {"text": "second?", "hits": []}]
    with wiki.transaction() as tx:
        corpus = corpora.get_corpus(tx, "wiki")
        entry = {
            "question": "Which capital?",
            "method": "full",
            "seconds": 0.1,
            "ranking": ranking,
            "residual_queries": residual,
            **{name: [] for name in ("settings", "candidates", "selected", "degraded")},
        }
        insert_question_log(tx, corpus, entry, passage_keys=["oslo"], proposition_ids=[oslo, bergen])
    assert rows(
        wiki,
        "SELECT question, rank, passage_key, score, value, residual_query, seed, entity "
        "FROM question_explained ORDER BY value DESC",
    ) == [
        ("Which capital?", 1, "oslo", 0.6875, 0.5, None, "Oslo is the capital of Norway.", None),
        ("Which capital?", 1, "oslo", 0.6875, 0.125, "second?", "Bergen lies in Norway.", "Norway"),
        ("Which capital?", 1, "oslo", 0.6875, 0.0625, None, None, "Norway"),
    ]


def test_a_view_shows_what_the_asking_role_may_see(database_url: str) -> None:
    with new_role(database_url) as role:
        run_as_owner(database_url, "GRANT USAGE ON SCHEMA evireform TO {}", role)
        run_as_owner(database_url, "GRANT SELECT ON evireform.proposition_detail TO {}", role)
        with psycopg.connect(database_url) as connection:
            connection.execute(f"SET ROLE {role}".encode())
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied for table"):
                connection.execute("SELECT * FROM evireform.proposition_detail")


def test_every_table_and_view_says_what_it_is_for(store: Store) -> None:
    assert rows(
        store,
        "SELECT relname FROM pg_class WHERE relnamespace = 'evireform'::regnamespace "
        "AND relkind IN ('r', 'p', 'v') AND obj_description(oid, 'pg_class') IS NULL",
    ) == [("alembic_version",)]


@pytest.mark.slow
def test_t18_the_neighbourhood_of_any_entity_among_100_000_propositions_shows_in_a_second(
    store: Store,
) -> None:
    with store.transaction() as tx:
        corpus = corpora.create_corpus(tx, "large", titles="on")
        ids = (corpus.corpus_id, corpus.tenant_id)
        driver = tx.driver
        driver.execute(
            """
            INSERT INTO passage (corpus_id, tenant_id, passage_id, passage_key, body, content_hash, state,
                                 proposition_count)
            SELECT %s, %s, n, 'p' || n, '', '', 'ready', 10 FROM generate_series(1, 10000) AS n""",
            ids,
        )
        driver.execute(
            """
            INSERT INTO proposition (corpus_id, tenant_id, proposition_id, passage_id, ordinal, body)
            SELECT %s, %s, n, n / 10 + 1, n %% 10, '' FROM generate_series(0, 99999) AS n""",
            ids,
        )
        driver.execute(
            """
            INSERT INTO entity (corpus_id, tenant_id, entity_id, canonical)
            SELECT %s, %s, n, 'e' || n FROM generate_series(0, 30000) AS n""",
            ids,
        )
        # e0 is named by every second proposition, e1.. by three or four each.
        driver.execute(
            """
            INSERT INTO incidence (corpus_id, tenant_id, proposition_id, entity_id)
            SELECT %s, %s, n, e FROM generate_series(0, 99999) AS n
            CROSS JOIN LATERAL (VALUES (n %% 2 * -1), (n %% 30000 + 1)) AS named (e) WHERE e >= 0""",
            ids,
        )
        tx.run("analyze_corpus_tables", {})
    query = "SELECT * FROM entity_neighbourhood WHERE corpus = 'large' AND canonical = '{}'"
    sizes = []
    for name in ("e0", "e5"):
        start = time.perf_counter()
        sizes.append(len(rows(store, query.format(name))))
        assert time.perf_counter() - start < 1
    assert sizes == [15_000, 1]
