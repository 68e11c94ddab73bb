"""What a deletion forgets: every trace of a passage, whatever was under way, and nothing that it need not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from psycopg import sql

from evireform import connect, ingestion
from evireform.errors import UsageError
from evireform.language import Language
from evireform.records import (
    Control,
    Judgement,
    ModelCall,
    Passage,
    Ranking,
    Reading,
    Reformulation,
    Selection,
)
from evireform.retrieval.replay import replay
from evireform.settings import LanguageSettings
from evireform.store import calls as ledger
from evireform.store import corpora, entities
from evireform.store.connection import Store
from evireform.store.writing import delete_passages
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import dangling, ingest, keys, rows, search

MARK = "Xyzzy"
"""A word that only the deleted passages have: in their keys, titles, texts, metadata and entities."""

GONE = Passage(
    key=f"{MARK}-1",
    title=f"Title {MARK}",
    text=f"Ada met Bob {MARK}. Carl built {MARK} Engine.",
    metadata={f"name {MARK}": f"value {MARK}"},
)
FAILED = Passage(key=f"{MARK}-2", text=f"Nobody reads {MARK}.")
KEPT = Passage(key="kept", title="Kept", text="Ada met Carl. Ada left Bob.", metadata={"name": "value"})

QUESTION = "Ada met Bob and Carl"

UNQUOTING = {
    "alembic_version": {"version_num"},
    "tenant": {"name"},
    "tenant_member": {"role_name", "access"},
    "corpus": {"name", "titles", "extractor", "language"},
    "vector_space": {"kind", "model", "prompts"},
    "worker": {"host"},
    "passage": {"state"},
    "passage_metadata": {"kind"},
    "entity_decision": {"decided_by"},
    "entity_log": {"action", "decided_by"},
    "model_call": {"corpus_name", "purpose", "model", "prompt_version", "parameters"},
    "question_log": {"question", "method", "settings"},
}
"""Columns that never hold what a passage says: names and settings that people and programs choose, and the
question, which is the words of who asked."""

ACCOUNTS = {"model_call.passage_key"}
"""What stays, as docs/truth.md says: under which key money was spent."""

CALL = ModelCall(
    purpose="select", model="m", prompt_version="1", prompt_hash=MARK, tokens_in=10, tokens_out=1
)


def text_columns(store: Store) -> list[tuple[str, str]]:
    """Table and column of everything that can hold words."""
    return rows(
        store,
        """
        SELECT relname, attname
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid JOIN pg_type ON pg_type.oid = atttypid
        LEFT JOIN pg_type AS element ON element.oid = pg_type.typelem AND pg_type.typcategory = 'A'
        WHERE relnamespace = 'evireform'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND attnum > 0 AND NOT attisdropped
          AND COALESCE(element.typname, pg_type.typname)
              IN ('text', 'varchar', 'bpchar', 'json', 'jsonb', 'name', 'xml')
        ORDER BY relname, attname""",
    )


def quoting(store: Store) -> set[str]:
    """The columns in which the marked word stands now, as ``table.column``."""
    found = set()
    for table, column in text_columns(store):
        query = sql.SQL("SELECT count(*) FROM {} WHERE {}::text ILIKE {}").format(
            sql.Identifier(table), sql.Identifier(column), sql.Literal(f"%{MARK}%")
        )
        if rows(store, query.as_string())[0][0]:
            found.add(f"{table}.{column}")
    return found


def quoting_language(store: Store) -> ScriptedLanguage:
    """Every verb quotes what it reads, and its call is in the ledger."""

    def made(purpose: str, **given: Any) -> ModelCall:
        with store.transaction() as tx:
            corpus = corpora.get_corpus(tx, "c")
        run = ledger.Calls(store, LanguageSettings())
        return run.record(
            corpus, replace(CALL, purpose=purpose, **given), key=f"key {MARK}", answer=f"said {MARK}"
        )

    def read(_: str, __: Any) -> Reading:
        return Reading(text=f"Bob {MARK}", cited=(0,), calls=(made("read"),))

    return ScriptedLanguage(
        select=lambda *_: Selection(positions=(0, 1), degraded=f"not JSON: {MARK}", calls=(made("select"),)),
        reformulate=lambda *_: Reformulation(
            queries=(f"Who is Bob {MARK}?",),
            calls=(made("reformulate"), made("reformulate", error=f"not {MARK}")),
        ),
        read=read,
        errors={FAILED.key: f"the model said: {MARK}"},
    )


@pytest.fixture
def full(emptied_store: Store) -> Store:
    """A database whose every quoting column quotes the passages that are to go."""
    return filled(emptied_store)


def filled(store: Store) -> Store:
    said = quoting_language(store)
    ingest(store, "c", [GONE, FAILED, KEPT], language=said)
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, "c")
        run = ledger.Calls(store, LanguageSettings())
        entities.decide(tx, corpus, f"bob {MARK}", f"other {MARK}", passage_key=GONE.key)
        tx.driver.execute(
            """
            INSERT INTO queued_passage
                   (corpus_id, tenant_id, passage_key, title, body, metadata, extraction, reason)
            SELECT corpus_id, tenant_id, passage_key, title, body, metadata, to_jsonb(body), body FROM passage
            WHERE passage_key = %(key)s""",
            {"key": GONE.key},
        )
    extraction = replace(CALL, purpose="extract", passage_key=GONE.key)
    run.record(corpus, extraction, key=f"key {MARK}", answer=f"said {MARK}")
    run.record(corpus, replace(extraction, error=f"not JSON: {MARK}"), key="", answer=None)
    search(store, "c", QUESTION, language=said, log=True)
    search(store, "c", QUESTION, language=said, log=False)
    return store


def test_t02_no_word_of_a_deleted_passage_is_left_in_any_column(full: Store) -> None:
    everything = {f"{table}.{column}" for table, column in text_columns(full)}
    plain = {f"{table}.{column}" for table, columns in UNQUOTING.items() for column in columns}
    assert plain <= everything, "a column that is listed here is there no more"
    assert quoting(full) == everything - plain, (
        "a column is neither filled by this test nor listed as one that never quotes a passage: "
        "fill it in `full`, and see that a deletion empties it"
    )
    ingestion.delete(full, "c", [GONE.key, FAILED.key])
    assert quoting(full) == ACCOUNTS
    assert set(dangling(full).values()) == {0}


def test_t02_what_another_passage_says_is_left(full: Store) -> None:
    ingestion.delete(full, "c", [GONE.key, FAILED.key])
    assert keys(search(full, "c", QUESTION)) == ["kept"]
    assert rows(full, "SELECT name, value FROM passage_metadata") == [("name", "value")]


def test_t02_a_new_table_that_quotes_is_noticed(store: Store) -> None:
    full = filled(store)
    with full.transaction() as tx:
        tx.driver.execute("CREATE TABLE note AS SELECT corpus_id, body AS words FROM passage")
    everything = {f"{table}.{column}" for table, column in text_columns(full)}
    ingestion.delete(full, "c", [GONE.key, FAILED.key])
    assert "note.words" in everything
    assert quoting(full) == {*ACCOUNTS, "note.words"}


def test_accounts_outlive_the_passage_and_the_search(full: Store) -> None:
    query = (
        "SELECT purpose, count(*), sum(tokens_in), count(question_id) FROM model_call GROUP BY 1 ORDER BY 1"
    )
    before = rows(full, query)
    ingestion.delete(full, "c", [GONE.key, FAILED.key])
    assert rows(full, query) == before
    assert before == [("extract", 2, 20, 0), ("reformulate", 4, 40, 2), ("select", 2, 20, 1)]


def test_a_failed_call_stays_a_failed_call(full: Store) -> None:
    query = "SELECT count(*) FROM model_call WHERE error <> ''"
    before = rows(full, query)
    ingestion.delete(full, "c", [GONE.key])
    assert (before, rows(full, query)) == ([(3,)], [(3,)])
    assert rows(full, "SELECT DISTINCT error FROM model_call ORDER BY 1") == [
        ("",), ("deleted with its passage",),
    ]  # fmt: skip


# The log.


def logged(store: Store, language: Language | None = None, **settings: Any) -> Ranking:
    return search(store, "c", QUESTION, language=language, log=True, **settings)


@pytest.fixture
def two(emptied_store: Store) -> Store:
    """A passage that is to go, and one that stays; both answer the question."""
    ingest(emptied_store, "c", [GONE, KEPT])
    return emptied_store


def test_a_forgotten_search_keeps_what_was_asked_and_how(two: Store) -> None:
    logged(two)
    query = "SELECT question, method, settings ->> 'alpha', seconds > 0, asked_at FROM question_log"
    before = rows(two, query)
    ingestion.delete(two, "c", [GONE.key])
    assert rows(two, query) == before
    assert rows(
        two, "SELECT forgotten, candidates, selected, residual_queries, ranking, degraded FROM question_log"
    ) == [(True, [], [], [], [], [])]


def test_a_search_without_the_passage_is_left_whole(two: Store) -> None:
    ingest(two, "c", [Passage(key="far", text="Zoo zebra zinc.")])
    logged(two, candidates=2)
    before = rows(two, "SELECT * FROM question_log")
    ingestion.delete(two, "c", ["far"])
    assert rows(two, "SELECT * FROM question_log") == before


def test_a_search_of_another_corpus_is_left_whole(two: Store) -> None:
    ingest(two, "other", [GONE, KEPT])
    ranking = search(two, "other", QUESTION, log=True)
    ingestion.delete(two, "c", [GONE.key])
    assert ranking.log_id
    assert replay(two, "other", ranking.log_id).same


def test_the_log_is_kept_where_it_is_to_be(two: Store) -> None:
    logged(two)
    ingestion.delete(two, "c", [GONE.key], keep_log=True)
    assert rows(two, "SELECT forgotten, candidates @> %(gone)s FROM question_log", gone=_place(GONE.key)) == [
        (False, True)
    ]


def _place(key: str) -> str:
    return f'[{{"passage_key": "{key}"}}]'


def test_a_kept_log_is_forgotten_by_a_second_deletion(two: Store) -> None:
    logged(two)
    ingestion.delete(two, "c", [GONE.key], keep_log=True)
    assert ingestion.delete(two, "c", [GONE.key]) == []
    assert rows(two, "SELECT forgotten FROM question_log") == [(True,)]


def test_the_setting_keeps_the_log(database_url: str) -> None:
    from evireform.settings import Settings

    options = {"encoder": HashEncoder(), "language": ScriptedLanguage()}
    with connect(database_url, settings=Settings(keep_log=True), **options) as db:
        corpus = db.corpus("c", create=True)
        corpus.ingest([GONE, KEPT])
        kept, forgotten = corpus.search("Ada"), corpus.search("Ada")
        corpus.delete([GONE.key])
        assert kept.log_id
        assert corpus.replay(kept.log_id).missing == 1
        corpus.delete([GONE.key], keep_log=False)
        assert forgotten.log_id
        with pytest.raises(UsageError, match="a passage that it had in hand was deleted"):
            corpus.replay(forgotten.log_id)


def test_a_view_says_that_a_search_is_forgotten(two: Store) -> None:
    ranking = logged(two)
    columns = "question_id, question, forgotten, passage_key"
    query = f"SELECT DISTINCT {columns} FROM question_explained ORDER BY passage_key"
    before = rows(two, query)
    ingestion.delete(two, "c", [GONE.key])
    asked = (ranking.log_id, QUESTION)
    assert before == [(*asked, False, GONE.key), (*asked, False, "kept")]
    assert rows(two, query) == [(*asked, True, None)]


def test_every_passage_in_hand_is_linked_to_the_search(emptied_store: Store) -> None:
    store = emptied_store
    passages = [
        Passage(key="a", text="Ada met Bob."),
        Passage(key="b", text="Bob met Carl."),
        Passage(key="c", text="Carl met Dora."),
        Passage(key="d", text="Dora met Emil."),
        Passage(key="far", text="Nothing here."),
    ]
    ingest(store, "c", passages)
    said = ScriptedLanguage(
        select=lambda *_: Selection(positions=(0,)),
        reformulate=lambda *_: Reformulation(queries=("Bob met Carl",)),
        control=lambda *_: Control(sufficient=False, queries=("Carl met Dora",)),
        judge=lambda *_: Judgement(positions=(0,)),
    )
    search(
        store, "c", "Ada met whom", language=said, log=True,
        candidates=1, hits_per_query=1, rounds=2, k=1, set_weight=0.5,
    )  # fmt: skip
    assert rows(store, "SELECT passage_key FROM question_passage ORDER BY 1") == [
        ("a",), ("b",), ("c",), ("d",),
    ]  # fmt: skip


def test_a_corpus_takes_what_its_searches_had_in_hand_with_it(two: Store) -> None:
    logged(two)
    with two.transaction() as tx:
        corpora.delete_corpus(tx, "c")
    assert rows(two, "SELECT * FROM question_passage") == []


# What is under way.


def during(act: Callable[[], object]) -> ScriptedLanguage:
    """A language backend during whose reformulation something happens, once."""
    waiting = [act]

    def reformulate(_: str, observed: Any) -> Reformulation:
        if waiting:
            waiting.pop()()
        return Reformulation(queries=tuple(passage.text for passage in observed))

    return ScriptedLanguage(reformulate=reformulate)


def test_a_search_that_a_deletion_overtakes_is_logged_without_what_it_found(two: Store) -> None:
    ranking = logged(two, during(lambda: ingestion.delete(two, "c", [GONE.key])))
    assert keys(ranking) == ["kept"]
    assert ranking.notes[-1:] == ("logged without its passages: one of them was deleted meanwhile",)
    assert rows(two, "SELECT question_id, forgotten, residual_queries FROM question_log") == [
        (ranking.log_id, True, [])
    ]
    assert rows(two, "SELECT passage_key FROM question_passage") == [("kept",)]


def test_a_passage_that_comes_again_meanwhile_is_another_one(two: Store) -> None:
    def replace_it() -> None:
        ingestion.delete(two, "c", [GONE.key])
        ingest(two, "c", [replace(GONE, text="Ada met Zoe.")])

    logged(two, during(replace_it))
    assert rows(two, "SELECT forgotten, residual_queries FROM question_log") == [(True, [])]


def test_a_search_that_a_deletion_elsewhere_overtakes_is_logged_whole(two: Store) -> None:
    ingest(two, "c", [Passage(key="far", text="Zoo zebra zinc.")])
    ranking = logged(two, during(lambda: ingestion.delete(two, "c", ["far"])), candidates=2)
    assert (set(keys(ranking)), ranking.notes) == ({"kept", GONE.key}, ())
    assert rows(two, "SELECT forgotten FROM question_log") == [(False,)]


def waits_for(store: Store, thread: threading.Thread) -> bool:
    """Whether a thread that was started waits for a lock in the database; False when it ends without."""
    while thread.is_alive():
        if rows(store, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != [(0,)]:
            return True
    return False


def test_a_search_waits_for_a_deletion_before_it_is_logged(two: Store) -> None:
    found: list[Ranking] = []
    asking = threading.Thread(target=lambda: found.append(logged(two)))
    with two.transaction() as tx:
        delete_passages(tx, corpora.get_corpus(tx, "c").corpus_id, [GONE.key])
        asking.start()
        assert waits_for(two, asking)
    asking.join(timeout=60)
    assert set(keys(found[0])) == {"kept", GONE.key}
    assert rows(two, "SELECT forgotten FROM question_log") == [(True,)]


def test_a_deletion_waits_for_a_log_that_is_written_and_then_finds_it(two: Store) -> None:
    from evireform.store import searching

    nothing = dict.fromkeys(("settings", "candidates", "selected", "residual_queries", "degraded"), "[]")
    entry = {"question": "q", "method": "full", "seconds": 0.1, "ranking": f'["{MARK}"]', **nothing}
    deleting = threading.Thread(target=lambda: ingestion.delete(two, "c", [GONE.key]))
    with two.transaction() as tx:
        corpus = corpora.get_corpus(tx, "c")
        searching.insert_question_log(tx, corpus, entry, passage_keys=[GONE.key], proposition_ids=[])
        deleting.start()
        assert waits_for(two, deleting)
    deleting.join(timeout=60)
    assert rows(two, "SELECT forgotten, ranking FROM question_log") == [(True, [])]


# The ledger.


def record(store: Store, corpus: Any, **given: Any) -> None:
    ledger.Calls(store, LanguageSettings()).record(
        corpus, replace(CALL, **given), key=f"key {MARK}", answer=f"said {MARK}"
    )


def answers(store: Store) -> list[tuple[Any, ...]]:
    return rows(store, "SELECT answer, cache_key, prompt_hash, tokens_in FROM model_call ORDER BY call_id")


WHOLE = (f"said {MARK}", f"key {MARK}", MARK, 10)
EMPTIED = (None, "", "", 10)


def before(store: Store) -> Any:
    """The corpus as a search or an ingestion sees it that began before what comes next."""
    with store.transaction() as tx:
        return corpora.get_corpus(tx, "c")


def test_an_answer_in_a_search_is_not_kept_when_a_deletion_came_first(two: Store) -> None:
    corpus = before(two)
    ingestion.delete(two, "c", [GONE.key])
    record(two, corpus)
    record(two, before(two))
    assert answers(two) == [EMPTIED, WHOLE]


def test_an_error_in_a_search_does_not_quote_what_was_deleted(two: Store) -> None:
    corpus = before(two)
    ingestion.delete(two, "c", [GONE.key])
    record(two, corpus, error=f"not JSON: {MARK}")
    assert rows(two, "SELECT error FROM model_call") == [("deleted with its passage",)]


def test_an_extraction_is_not_kept_when_its_passage_was_deleted_meanwhile(two: Store) -> None:
    corpus = before(two)
    ingestion.delete(two, "c", [GONE.key])
    record(two, corpus, purpose="extract", passage_key=GONE.key)
    assert answers(two) == [EMPTIED]


def test_the_extraction_of_another_passage_is_kept(two: Store) -> None:
    corpus = before(two)
    ingestion.delete(two, "c", [GONE.key])
    record(two, corpus, purpose="extract", passage_key="kept")
    assert answers(two) == [WHOLE]


def test_the_extraction_of_a_passage_that_waits_in_the_queue_is_kept(two: Store) -> None:
    corpus = before(two)
    ingestion.delete(two, "c", [GONE.key])
    with two.transaction() as tx:
        tx.driver.execute(
            "INSERT INTO queued_passage (corpus_id, tenant_id, passage_key, body) "
            "SELECT corpus_id, tenant_id, 'new', 'x' FROM corpus"
        )
    record(two, corpus, purpose="extract", passage_key="new")
    assert answers(two) == [WHOLE]


def test_an_answer_waits_for_a_deletion_under_way(two: Store) -> None:
    corpus = before(two)
    recording = threading.Thread(target=lambda: record(two, corpus))
    with two.transaction() as tx:
        delete_passages(tx, corpus.corpus_id, [GONE.key])
        recording.start()
        assert waits_for(two, recording)
    recording.join(timeout=60)
    assert answers(two) == [EMPTIED]


def test_a_deletion_empties_the_answers_of_searches_that_nobody_logged(two: Store) -> None:
    record(two, before(two))
    ingestion.delete(two, "c", [GONE.key])
    assert answers(two) == [EMPTIED]


def test_a_deletion_leaves_the_answers_of_another_corpus(two: Store) -> None:
    record(two, before(two))
    ingest(two, "other", [GONE])
    ingestion.delete(two, "other", [GONE.key])
    assert answers(two) == [WHOLE]


def test_a_kept_log_keeps_its_answers(two: Store) -> None:
    record(two, before(two))
    ingestion.delete(two, "c", [GONE.key], keep_log=True)
    assert answers(two) == [WHOLE]


def test_the_reading_of_a_forgotten_search_goes_with_the_next_passage(two: Store) -> None:
    ranking = logged(two)
    ingestion.delete(two, "c", [GONE.key])
    call = ledger.Calls(two, LanguageSettings()).record(
        before(two), replace(CALL, purpose="read"), key=f"key {MARK}", answer=f"said {MARK}"
    )
    assert ranking.log_id
    with two.transaction() as tx:
        ledger.link_calls(tx, [call], ranking.log_id)
    held = answers(two)
    ingestion.delete(two, "c", ["kept"])
    assert (held, answers(two)) == ([WHOLE], [EMPTIED])


def test_a_deletion_that_is_rolled_back_forgets_nothing(two: Store) -> None:
    ranking = logged(two)

    def fail() -> None:
        with two.transaction() as tx:
            delete_passages(tx, corpora.get_corpus(tx, "c").corpus_id, [GONE.key])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert ranking.log_id
    assert replay(two, "c", ranking.log_id).same
