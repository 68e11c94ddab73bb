"""T14: many tenants with near-identical corpora at once, one of them hostile; and a search of a member."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict
from typing import Any
from unittest.mock import patch

import numpy as np
import psycopg
import pytest
from psycopg import sql

from benchmarks.doubles import PreparedEncoder, PreparedLanguage
from benchmarks.synthetic import DIMENSIONS, MODEL, SyntheticCorpus, load, questions
from evireform.database import Database, connect
from evireform.records import Passage
from evireform.retrieval import pipeline
from evireform.settings import LanguageSettings, SearchSettings, Settings
from evireform.store import tenants
from evireform.store.connection import Store, Transaction
from evireform.store.statements import statement
from tests.conftest import SCHEMA
from tests.database.roles import new_member, run_as_owner
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_openai import Request, ScriptedOpenAI
from tests.scale import scaled

TENANTS = scaled(5, 50)
PASSAGES = scaled(6, 30)

AT_ONCE = threading.Semaphore(20)
"""So many tenants work at the same moment, since a server has only so many connections."""

COMMON = Passage(key="common", text="Everybody knows that Oslo is the capital of Norway.")


def word(number: int) -> str:
    """What stands in all that a tenant has, and nowhere else."""
    return f"Wq{number:03}x"


def passages(number: int) -> list[Passage]:
    own = word(number)
    made = [
        Passage(
            key=f"p{n}-{own}",
            title=f"Ship {n} of {own}",
            text=f"The ship Fram{n} of {own} was built by Archer{n % 3}. "
            f"Archer{n % 3} of {own} lived in Larvik.",
            metadata={"owner": own},
        )
        for n in range(PASSAGES)
    ]
    return [*made, COMMON]


def data_of(request: Request) -> dict[str, Any]:
    return dict(json.loads(request.messages[1]["content"]))


def extraction(request: Request) -> dict[str, Any]:
    sentences = [part.strip() + "." for part in data_of(request)["text"].split(".") if part.strip()]
    return {
        "propositions": [
            {"text": text, "entities": [name.strip(".") for name in text.split() if name[0].isupper()]}
            for text in sentences
        ]
    }


class Member:
    """A tenant at work: its own login role, its own model server, and all that it was told."""

    def __init__(self, number: int, url: str, server: ScriptedOpenAI) -> None:
        self.number = number
        self.server = server
        server.on("extract", extraction)
        server.on("select", {"selected": ["A0", "A1"]})
        server.on("reformulate", {"queries": ["Where did Archer1 live?"]})
        language = LanguageSettings(backend="openai", model="m", base_url=server.base_url, concurrency=2)
        self.database: Database = connect(url, settings=Settings(language=language), encoder=HashEncoder())
        self.told: list[str] = []

    def work(self) -> None:
        with AT_ONCE, self.database:
            self.use()

    def use(self) -> None:
        corpus = self.database.corpus("wiki", create=True)
        corpus.ingest(passages(self.number))
        for question in ("Who built the ship Fram1?", "Where did the builder of Fram2 live?"):
            ranking = corpus.search(question, k=10)
            assert ranking.passages
            self.told.append(json.dumps(asdict(ranking), default=str))
            assert ranking.log_id is not None
            corpus.replay(ranking.log_id)
        self.told.append(json.dumps(asdict(corpus.status()), default=str))
        for by in ("passage", "question", "corpus"):
            self.told.append(json.dumps(asdict(self.database.cost(by=by)), default=str))
        corpus.delete([f"p0-{word(self.number)}"])

    def prompts(self) -> str:
        return "\n".join(json.dumps(request.body) for request in self.server.requests)


class Hostile:
    """A reader that tries what it can think of, over and over, and keeps all that the server says."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.add_notice_handler(lambda notice: self.heard.append(str(notice.message_primary)))
        self.heard: list[str] = []
        self.rounds = 0

    def work(self, finished: threading.Event) -> None:
        self.attempt("SET search_path = evireform, public, pg_temp")
        self.attempt(
            "CREATE FUNCTION pg_temp.tell(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001 AS "
            "$$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
        )
        self.attempt("LISTEN evireform")
        while not finished.is_set() or self.rounds < 2:
            self.once()
            self.rounds += 1
        self.connection.close()

    def once(self) -> None:
        seen = self.attempt(
            "SELECT relname, relkind::text FROM pg_class WHERE relnamespace = 'evireform'::regnamespace"
        )
        for name, kind in seen:
            relation = sql.Identifier(name)
            if kind in ("r", "p", "v", "S"):
                self.attempt(sql.SQL("SELECT * FROM {}").format(relation))
            if kind in ("r", "p", "v"):
                self.attempt(
                    sql.SQL("SELECT count(*) FROM {0} AS t WHERE pg_temp.tell(t::text)").format(relation)
                )
                self.attempt(sql.SQL("SELECT * FROM {0} AS t WHERE (t::text)::integer = 1").format(relation))
                self.attempt(sql.SQL("EXPLAIN (ANALYZE, VERBOSE, BUFFERS) SELECT * FROM {}").format(relation))
                self.attempt(sql.SQL("COPY {} TO STDOUT").format(relation))
                self.attempt(sql.SQL("DECLARE c CURSOR WITH HOLD FOR SELECT * FROM {}").format(relation))
                self.attempt("FETCH ALL FROM c")
                self.attempt("CLOSE c")
        for name, arguments in self.attempt(
            "SELECT proname, pronargs FROM pg_proc WHERE pronamespace = 'evireform'::regnamespace"
        ):
            for values in (["2"], ["1"], ["''"], ["'{}'"]):
                call = f"SELECT * FROM {name}({', '.join(values * arguments)})"
                self.attempt(call)
        for query in (
            "SELECT shared_answer(2, cache_key, 0) FROM (VALUES ('')) AS v (cache_key)",
            "SELECT * FROM pg_stats WHERE schemaname = 'evireform'",
            "SELECT * FROM pg_stats_ext",
            "SELECT * FROM pg_stat_activity",
            "SELECT * FROM pg_locks",
            "SELECT * FROM pg_cursors",
            "SELECT * FROM pg_prepared_statements",
            "SELECT * FROM pg_sequences",
            "SELECT relname, pg_relation_size(oid), reltuples FROM pg_class",
            "SET row_security = off",
            "SELECT * FROM passage",
            "RESET row_security",
            "SET session_replication_role = replica",
            "SET evireform.maintenance = 'on'",
            "SET ROLE evireform",
            "SELECT * FROM tenant_member",
        ):
            self.attempt(query)

    def attempt(self, query: sql.Composable | str) -> list[tuple[Any, ...]]:
        text = query if isinstance(query, sql.Composable) else sql.SQL(query)
        try:
            if "COPY" in text.as_string():
                with self.connection.cursor().copy(text) as out:
                    self.heard += [bytes(line).decode() for line in out]
                return []
            cursor = self.connection.execute(text)
            rows = cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            self.heard.append(str(error))
            return []
        self.heard.append(str(rows))
        return rows


@pytest.fixture(autouse=True)
def any_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")


def test_t14_tenants_at_once_learn_nothing_of_each_other(store: Store, database_url: str) -> None:
    with ExitStack() as opened:
        members = []
        for number in range(TENANTS):
            url = opened.enter_context(new_member(database_url, word(number)))
            members.append(Member(number, url, opened.enter_context(ScriptedOpenAI())))
        hostile = Hostile(opened.enter_context(new_member(database_url, word(0), "reader")))
        failed = _at_once([member.work for member in members], beside=hostile.work)
        assert failed == []
        words = {member.number: word(member.number) for member in members}
        for member in members:
            own = {"results": "\n".join(member.told), "prompts": member.prompts()}
            for place, text in own.items():
                assert words[member.number] in text
                assert [
                    other for other in words.values() if other != words[member.number] and other in text
                ] == [], place
            # The passage that all have in common was paid for by each, not answered from another's call.
            assert (
                sum(
                    COMMON.text in json.dumps(request.body)
                    for request in member.server.requests
                    if request.purpose == "extract"
                )
                == 1
            )
        heard = "\n".join(hostile.heard)
        assert words[0] in heard
        assert [other for other in list(words.values())[1:] if other in heard] == []
        assert hostile.rounds >= 2
        with store.transaction() as tx:
            strangers = tx.driver.execute(
                "SELECT count(*) FROM passage JOIN corpus USING (corpus_id) "
                "WHERE passage.tenant_id <> corpus.tenant_id OR (metadata ->> 'owner') <> "
                "(SELECT name FROM tenant WHERE tenant.tenant_id = corpus.tenant_id)"
            ).fetchone()
            held = tx.driver.execute("SELECT count(*) FROM passage").fetchone()
        assert (strangers, held) == ((0,), (TENANTS * PASSAGES,))


def test_a_search_under_row_security_looks_everything_up_by_key(store: Store, database_url: str) -> None:
    """Every statement enters its tables by the ids that it was given, and vectors by their index."""
    corpus = SyntheticCorpus(propositions=4_000)
    for tenant in ("ours", "theirs"):
        with store.transaction() as tx:
            tenants.create_tenant(tx, tenant)
        store.tenant = tenant
        load(store, "wiki", corpus)
    run_as_owner(database_url, "VACUUM evireform.passage_entity")
    (question,) = questions(np.concatenate(list(corpus.vectors())), count=1, seed=1)
    vectors = {question.text: question.vector}
    vectors |= dict(zip(question.queries, question.query_vectors, strict=True))
    plans: dict[str, Any] = {}
    run = Transaction.run

    def explained(
        tx: Transaction, name: str, parameters: Mapping[str, Any], **how: Any
    ) -> list[tuple[Any, ...]]:
        if name not in ("begin", "extension", "migration", "migration_table"):
            text = f"EXPLAIN (FORMAT JSON) {statement(name, **how)}"
            with tx.driver.cursor(binary=True) as cursor:
                plans[name] = cursor.execute(text.encode(), parameters).fetchone()[0][0]["Plan"]
        return run(tx, name, parameters, **how)

    with (
        new_member(database_url, "ours", "reader") as url,
        closing(Store(url, schema=SCHEMA)) as reader,
        patch.object(Transaction, "run", explained),
    ):
        (ranking,) = pipeline.search(
            reader,
            "wiki",
            [question.text],
            encoder=PreparedEncoder(model=MODEL, dimensions=DIMENSIONS, vectors=vectors),
            language=PreparedLanguage(questions={question.text: question}),
            settings=SearchSettings(log=False),
        )
    assert len(ranking.passages) == 5
    assert set(plans) > {"candidates", "observed_passages", "residual_hits", "seeds", "neighbourhood"}
    for name, plan in plans.items():
        for node in nodes(plan):
            table = node.get("Relation Name", "")
            if table in ("", "corpus", "vector_space", "tenant_member", "tenant"):
                continue
            assert "Index" in node["Node Type"], (name, node)
            given = node.get("Index Cond", node.get("Order By", ""))
            assert "_id" in given.replace("corpus_id", "") or "<#>" in given, (name, node)
    used = {name: {n["Index Name"] for n in nodes(plan) if "Index Name" in n} for name, plan in plans.items()}
    assert any(index.endswith("_hnsw") for index in used["candidates"])
    read = {
        n["Node Type"] for n in nodes(plans["neighbourhood"]) if n.get("Relation Name") == "passage_entity"
    }
    assert read == {"Index Only Scan"}


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """A node of a plan and all below it."""
    return [plan, *(node for part in plan.get("Plans", ()) for node in nodes(part))]


def _at_once(
    works: list[Callable[[], None]], *, beside: Callable[[threading.Event], None]
) -> list[BaseException]:
    """Run all in threads, and one beside them until they are done; what they raised."""
    failed: list[BaseException] = []
    finished = threading.Event()

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    besides = threading.Thread(target=guarded, args=(lambda: beside(finished),))
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in (besides, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    finished.set()
    besides.join()
    return failed
