"""Generations: a shadow is made beside a corpus, says what it lacks, and takes its name."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal

import pytest

from evireform import connect, ingestion
from evireform.database import Database
from evireform.errors import CorpusNotFound, CorpusSwitched, UsageError, VectorSpaceMismatch
from evireform.generations import Difference
from evireform.records import ModelCall, Passage, Question
from evireform.store import calls, corpora, entities, generations, writing
from evireform.store.connection import Store
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import contents, dangling, differences, ingest, keys, rows, search, untrue
from tests.scale import scaled

PASSAGES = [
    Passage(key="a", title="Ada", text="Ada met Bob. Bob is tall.", metadata={"n": 1e23, "é": [0.5, None]}),
    Passage(key="b", title="Bob", text="Bob lives in Oslo."),
    Passage(key="c", title="Carl", text="Carl met Dora."),
]


def other(**options: object) -> ScriptedLanguage:
    """Another extractor: a proposition a passage, which names the passage's first word."""
    script = {
        p.key: [(p.text, [p.text.split()[0]])] for p in [*PASSAGES, Passage(key="d", text="Dora sings.")]
    }
    return ScriptedLanguage(extract=script, name="other/1", **options)  # type: ignore[arg-type]


@pytest.fixture
def database(emptied_url: str) -> Iterator[Database]:
    """The corpus ``wiki``, and what the next generation is made with."""
    with connect(emptied_url, encoder=HashEncoder(), language=other()) as opened:
        ingest(opened.store, "wiki", PASSAGES)
        yield opened


def passage_keys(store: Store, name: str) -> list[str]:
    return [row[0] for row in contents(store, name, "passage")]


def propositions(store: Store, name: str) -> int:
    return len(contents(store, name, "proposition"))


# start


def test_a_shadow_is_what_a_fresh_ingestion_with_its_extractor_is(database: Database) -> None:
    summary = database.generation("wiki").start()
    ingest(database.store, "fresh", PASSAGES, language=other())
    assert (summary.added, summary.failed, summary.notes) == (3, (), ())
    assert differences(database.store, "wiki-next", "fresh") == {}
    assert untrue(database.store) == {}


def test_a_corpus_serves_as_it_was_while_its_shadow_is_made(database: Database) -> None:
    ingest(database.store, "fresh", PASSAGES)
    database.generation("wiki").start()
    assert differences(database.store, "wiki", "fresh") == {}


def test_a_shadow_may_have_a_name_and_a_titles_setting_of_its_own(database: Database) -> None:
    database.generation("wiki").start(as_name="wiki 2", titles="off")
    assert [(row.name, row.titles) for row in database.corpora()] == [("wiki", "on"), ("wiki 2", "off")]


def test_starting_again_goes_on_where_it_was(database: Database) -> None:
    breaking = other(errors={"b": "no answer"})
    database._language = breaking
    failed = database.generation("wiki").start()
    database._language = again = other()
    summary = database.generation("wiki").start()
    assert [failure.passage_key for failure in failed.failed] == ["b"]
    assert (again.extracted, summary.changed, summary.unchanged) == (["b"], 1, 2)


def test_an_interrupted_start_goes_on_where_it_was(database: Database) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    database.generation("wiki").start()
    ingest(database.store, "wiki", [Passage(key="d", text="Dora sings.")])
    with pytest.raises(ingestion.Interrupted):
        database.generation("wiki").start(progress=interrupt)
    database.generation("wiki").start()
    assert database.generation("wiki").status().complete


def test_starting_again_follows_what_was_added_changed_and_deleted_meanwhile(database: Database) -> None:
    database.generation("wiki").start()
    changed = Passage(key="a", title="Ada", text="Ada left.", metadata={"n": 2})
    ingest(database.store, "wiki", [changed, Passage(key="d", text="Dora sings.")])
    with database.store.transaction() as tx:
        writing.delete_passages(tx, corpora.get_corpus(tx, "wiki").corpus_id, ["c"])
    standing = database.generation("wiki").status()
    assert standing.differences == (
        Difference(kind="changed", passages=1, keys=("a",)),
        Difference(kind="extra", passages=1, keys=("c",)),
        Difference(kind="missing", passages=1, keys=("d",)),
    )
    summary = database.generation("wiki").start()
    ingest(
        database.store,
        "fresh",
        [changed, PASSAGES[1], Passage(key="d", text="Dora sings.")],
        language=other(),
    )
    assert summary.notes == ("passages deleted that wiki has no longer: 1",)
    assert differences(database.store, "wiki-next", "fresh") == {}
    assert database.generation("wiki").status().complete
    assert set(dangling(database.store).values()) == {0}


def test_a_change_of_metadata_alone_is_brought_over(database: Database) -> None:
    database.generation("wiki").start()
    ingest(
        database.store, "wiki", [Passage(key="b", title="Bob", text="Bob lives in Oslo.", metadata={"n": 2})]
    )
    before = database.generation("wiki").status().differences
    database.generation("wiki").start()
    assert before == (Difference(kind="changed", passages=1, keys=("b",)),)
    assert database.generation("wiki").status().complete


def test_a_shadow_has_one_extractor(database: Database) -> None:
    database.generation("wiki").start()
    database._language = ScriptedLanguage(name="third/1")
    with pytest.raises(UsageError, match="was extracted by other/1, and third/1 is set now"):
        database.generation("wiki").start()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"as_name": "else"}, "the other generation of 'wiki' is called 'wiki-next'"),
        ({"titles": "off"}, "'wiki-next' was made with titles on"),
    ],
)
def test_a_shadow_that_is_there_is_not_made_as_another(
    database: Database, given: dict[str, str], message: str
) -> None:
    database.generation("wiki").start()
    with pytest.raises(UsageError, match=message):
        database.generation("wiki").start(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", ["start", "estimate"])
def test_a_name_that_is_taken_is_refused_before_anything_is_made(database: Database, verb: str) -> None:
    ingest(database.store, "wiki-next", PASSAGES[:1])
    with pytest.raises(UsageError, match="there is a corpus called 'wiki-next' already"):
        getattr(database.generation("wiki"), verb)()
    assert database.generations() == []


def test_a_shadow_has_no_shadow(database: Database) -> None:
    database.generation("wiki").start()
    with pytest.raises(UsageError, match="'wiki-next' is itself the other generation of 'wiki'"):
        database.generation("wiki-next").start()


def test_another_embedding_model_cannot_go_on_with_a_shadow(database: Database) -> None:
    database.generation("wiki").start()
    database._encoder = HashEncoder(32)
    with pytest.raises(VectorSpaceMismatch, match=r"hash-64 .* hash-32"):
        database.generation("wiki").start()


def test_an_estimate_makes_no_corpus(database: Database) -> None:
    expected = database.generation("wiki").estimate()
    assert (expected.passages, expected.unchanged) == (3, 0)
    assert [row.name for row in database.corpora()] == ["wiki"]


def test_an_estimate_counts_what_the_shadow_has_already(database: Database) -> None:
    database.generation("wiki").start()
    ingest(database.store, "wiki", [Passage(key="d", text="Dora sings.")])
    expected = database.generation("wiki").estimate()
    assert (expected.passages, expected.unchanged) == (1, 3)


# decisions about entities


def decide(store: Store, name: str, canonical: str, target: str, passage_key: str = "") -> None:
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, name)
        corpora.lock_corpus(tx, corpus.corpus_id)
        entities.decide(tx, corpus, canonical, target, passage_key=passage_key)
        entities.move_mentions(tx, corpus, canonical)


def take_back(store: Store, name: str, canonical: str, target: str, passage_key: str = "") -> None:
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, name)
        corpora.lock_corpus(tx, corpus.corpus_id)
        entities.take_back(tx, corpus, canonical, target, passage_key=passage_key)
        entities.move_mentions(tx, corpus, target)


def same_decisions(store: Store) -> None:
    """The shadow is what a fresh ingestion is that knew the corpus's decisions from the start."""
    with store.transaction() as tx:
        wiki, fresh = corpora.get_corpus(tx, "wiki"), corpora.create_corpus(tx, "fresh", titles="on")
        for one in list(generations.decisions(tx, wiki.corpus_id)):
            entities.decide(tx, fresh, one.canonical, one.target, passage_key=one.passage_key)
    ingest(store, "fresh", PASSAGES, language=ScriptedLanguage(name="plain"))
    assert differences(store, "wiki-next", "fresh") == {}
    assert untrue(store) == {}


@pytest.fixture
def plain(database: Database) -> Database:
    """The next generation is extracted as the first was, with every name in it."""
    database._language = ScriptedLanguage(name="plain")
    return database


def test_decisions_about_entities_hold_in_a_new_shadow(plain: Database) -> None:
    decide(plain.store, "wiki", "ada", "bob")
    decide(plain.store, "wiki", "bob", "the other bob", "b")
    assert plain.generation("wiki").start().notes == ("decisions about entities brought over from wiki: 2",)
    same_decisions(plain.store)


def test_decisions_that_were_made_meanwhile_are_brought_over(plain: Database) -> None:
    plain.generation("wiki").start()
    decide(plain.store, "wiki", "ada", "bob")
    decide(plain.store, "wiki", "bob", "carl")
    decide(plain.store, "wiki", "bob", "the other bob", "b")
    assert plain.generation("wiki").status().decisions == 3
    plain.generation("wiki").start()
    assert plain.generation("wiki").status().complete
    same_decisions(plain.store)


def test_decisions_that_were_taken_back_meanwhile_are_undone(plain: Database) -> None:
    decide(plain.store, "wiki", "ada", "bob")
    decide(plain.store, "wiki", "bob", "the other bob", "b")
    plain.generation("wiki").start()
    take_back(plain.store, "wiki", "bob", "the other bob", "b")
    take_back(plain.store, "wiki", "ada", "bob")
    assert plain.generation("wiki").start().notes == ("decisions about entities brought over from wiki: 2",)
    same_decisions(plain.store)


# status


def test_passages_that_failed_in_the_shadow_alone_are_named(database: Database) -> None:
    ingest(database.store, "wiki", [Passage(key="d", text="Dora sings.")], language=other(errors={"d": "no"}))
    database._language = other(errors={"b": "no answer", "d": "no answer"})
    database.generation("wiki").start()
    standing = database.generation("wiki").status()
    assert standing.differences == (Difference(kind="failed", passages=1, keys=("b",)),)
    assert [failure.passage_key for failure in standing.shadow.failures] == ["b", "d"]


def test_status_says_what_made_either(database: Database) -> None:
    database.generation("wiki").start()
    standing = database.generation("wiki").status()
    assert (standing.serving.name, standing.serving.extractor) == ("wiki", "scripted/1")
    assert (standing.shadow.name, standing.shadow.extractor) == ("wiki-next", "other/1")
    assert (standing.serving.propositions, standing.shadow.propositions) == (4, 3)


def test_without_a_shadow_status_says_how_to_make_one(database: Database) -> None:
    with pytest.raises(UsageError, match="`evireform generation start` makes one"):
        database.generation("wiki").status()


def test_only_the_first_keys_of_a_difference_are_listed(database: Database) -> None:
    database.generation("wiki").start()
    more = [Passage(key=f"m{number:02}", text="Ada ran.") for number in range(25)]
    ingest(database.store, "wiki", more)
    (missing,) = database.generation("wiki").status().differences
    assert (missing.passages, missing.keys) == (25, tuple(f"m{number:02}" for number in range(20)))


# switch


def test_a_switch_swaps_the_names(database: Database) -> None:
    database.generation("wiki").start()
    ids = {row.name: row.corpus_id for row in database.corpora()}
    assert database.generation("wiki").switch() == "wiki-next"
    assert {row.name: row.corpus_id for row in database.corpora()} == {
        "wiki": ids["wiki-next"],
        "wiki-next": ids["wiki"],
    }
    assert database.generations() == ["wiki"]


def test_switching_again_switches_back(database: Database) -> None:
    database.generation("wiki").start()
    before = database.corpora()
    database.generation("wiki").switch()
    database.generation("wiki").switch()
    assert database.corpora() == before


def test_handles_of_other_processes_see_a_switch_at_once(database: Database, emptied_url: str) -> None:
    database._language = ScriptedLanguage(extract={"a": [("Zoe flew.", ["Zoe"])]}, name="other/1")
    database.generation("wiki").start()
    with connect(emptied_url, encoder=HashEncoder(), language=ScriptedLanguage()) as reader:
        handle = reader.corpus("wiki")
        before = handle.search("Zoe flew").passages[0].propositions[0].text
        database.generation("wiki").switch()
        assert handle.search("Zoe flew").passages[0].propositions[0].text == "Zoe flew."
        assert before != "Zoe flew."


def test_a_shadow_that_lacks_passages_is_not_switched_to(database: Database) -> None:
    database.generation("wiki").start()
    ingest(database.store, "wiki", [Passage(key="d", text="Dora sings.")])
    with pytest.raises(
        UsageError, match=r"1 missing \(such as 'd'\).*`evireform generation start --corpus wiki`"
    ):
        database.generation("wiki").switch()
    assert len(passage_keys(database.store, "wiki")) == 4


def test_a_shadow_that_lacks_decisions_is_not_switched_to(database: Database) -> None:
    database.generation("wiki").start()
    decide(database.store, "wiki", "ada", "bob")
    with pytest.raises(UsageError, match="1 decisions about entities are only in one of both"):
        database.generation("wiki").switch()


def test_a_shadow_that_lacks_something_is_switched_to_by_force(database: Database) -> None:
    database.generation("wiki").start()
    ingest(database.store, "wiki", [Passage(key="d", text="Dora sings.")])
    database.generation("wiki").switch(force=True)
    assert passage_keys(database.store, "wiki") == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["wiki", "wiki-next"])
def test_nothing_is_switched_while_passages_wait_for_a_worker(database: Database, name: str) -> None:
    database.generation("wiki").start()
    with database.store.transaction() as tx:
        tx.driver.execute(
            "INSERT INTO queued_passage (corpus_id, tenant_id, passage_key, body)"
            " SELECT corpus_id, tenant_id, 'q', 'Quiet.' FROM corpus WHERE name = %s",
            (name,),
        )
    with pytest.raises(UsageError, match=f"1 passages of '{name}' wait for a worker"):
        database.generation("wiki").switch(force=True)
    assert database.generation("wiki").status().waiting == 1


def test_what_was_spent_under_a_name_stays_under_it(database: Database) -> None:
    call = ModelCall(
        purpose="extract",
        model="m",
        prompt_version="1",
        prompt_hash="h",
        tokens_in=5,
        tokens_out=1,
        cost=Decimal(1),
    )

    def spend(name: str) -> None:
        with database.store.transaction() as tx:
            calls.insert_call(tx, corpora.get_corpus(tx, name), call, key="", answer=None)

    spend("wiki")
    database.generation("wiki").start()
    spend("wiki-next")
    spend("wiki-next")
    database.generation("wiki").switch()
    spend("wiki")
    assert {row.group: row.calls for row in database.cost().rows} == {"wiki": 2, "wiki-next": 2}


def test_dropping_deletes_what_does_not_serve(database: Database) -> None:
    database.generation("wiki").start()
    database.generation("wiki").switch()
    assert database.generation("wiki").drop() == "wiki-next"
    assert [(row.name, row.extractor) for row in database.corpora()] == [("wiki", "other/1")]
    assert rows(database.store, "SELECT count(*) FROM pg_inherits JOIN pg_class ON oid = inhparent"
                                " WHERE relname = 'embedding'") == [(1,)]  # fmt: skip


def test_a_shadow_outlives_what_it_was_to_replace_as_a_corpus(database: Database) -> None:
    database.generation("wiki").start()
    database.delete_corpus("wiki")
    assert database.generations() == []
    assert keys(search(database.store, "wiki-next", "Carl met Dora"))[0] == "c"


# writers meanwhile


def test_an_ingestion_during_a_switch_stops_and_goes_on_in_the_new_generation(database: Database) -> None:
    database.generation("wiki").start()
    given = [Passage(key=f"n{number:03}", text=f"Nora saw {number}.") for number in range(130)]
    switched = threading.Event()

    def feed() -> Iterator[Passage]:
        yield from given[:64]
        database.generation("wiki").switch(force=True)
        switched.set()
        yield from given[64:]

    summary = ingest(database.store, "wiki", feed())
    assert switched.is_set()
    assert "corpus 'wiki' was switched to another generation meanwhile" in summary.stopped
    assert summary.stopped_by == "switched"
    assert "n000" not in passage_keys(database.store, "wiki")
    ingest(database.store, "wiki", given, language=other())
    assert len(passage_keys(database.store, "wiki")) == 3 + 130


def test_a_write_into_a_generation_that_has_lost_its_name_is_refused(database: Database) -> None:
    with database.store.transaction() as tx:
        corpus = corpora.get_corpus(tx, "wiki")
        space = corpora.active_space(tx, corpus.corpus_id, "proposition")
    database.generation("wiki").start()
    database.generation("wiki").switch()
    with pytest.raises(CorpusSwitched), database.store.transaction() as tx:
        writing.write_passages(tx, corpus, space, [])


def test_a_switch_waits_for_a_writer_and_then_sees_what_he_wrote(database: Database) -> None:
    database.generation("wiki").start()
    problem: list[UsageError] = []

    def switch() -> None:
        try:
            database.generation("wiki").switch()
        except UsageError as error:
            problem.append(error)

    thread = threading.Thread(target=switch)
    with database.store.transaction() as tx:
        corpus = corpora.get_corpus(tx, "wiki")
        corpora.hold_named(tx, corpus)
        thread.start()
        wait_for_lock(database.store)
        writing.delete_passages(tx, corpus.corpus_id, ["a"])
    thread.join()
    assert "1 extra (such as 'a')" in str(problem[0])


def test_a_writer_who_waits_for_a_switch_is_told(database: Database) -> None:
    database.generation("wiki").start()
    with database.store.transaction() as tx:
        corpus = corpora.get_corpus(tx, "wiki")
    told: list[CorpusSwitched] = []

    def write() -> None:
        try:
            with database.store.transaction() as tx:
                corpora.hold_named(tx, corpus)
        except CorpusSwitched as error:
            told.append(error)

    thread = threading.Thread(target=write)
    with database.store.transaction() as tx:
        serving = corpora.get_corpus(tx, "wiki")
        shadow = generations.find_shadow(tx, serving)
        assert shadow is not None
        generations.lock(tx, serving, shadow)
        thread.start()
        wait_for_lock(database.store)
        generations.swap_names(tx, serving, shadow)
    thread.join()
    assert [error.name for error in told] == ["wiki"]


def test_a_deletion_that_waits_for_a_switch_is_made_in_both_generations(database: Database) -> None:
    database.generation("wiki").start()
    thread = threading.Thread(target=ingestion.delete, args=(database.store, "wiki", ["a"]))
    with database.store.transaction() as tx:
        serving = corpora.get_corpus(tx, "wiki")
        shadow = generations.find_shadow(tx, serving)
        assert shadow is not None
        generations.lock(tx, serving, shadow)
        thread.start()
        wait_for_lock(database.store)
        generations.swap_names(tx, serving, shadow)
    thread.join()
    assert [passage_keys(database.store, name) for name in ("wiki", "wiki-next")] == [["b", "c"]] * 2


@pytest.mark.parametrize("switched", [False, True])
def test_t02_a_deletion_reaches_the_generation_beside_the_corpus(database: Database, switched: bool) -> None:
    database.generation("wiki").start()
    if switched:
        database.generation("wiki").switch()
    assert database.corpus("wiki").delete(["a"]) == ["a"]
    assert [passage_keys(database.store, name) for name in ("wiki", "wiki-next")] == [["b", "c"]] * 2


def test_a_deletion_in_a_shadow_leaves_what_serves(database: Database) -> None:
    database.generation("wiki").start()
    database.corpus("wiki-next").delete(["a"])
    assert passage_keys(database.store, "wiki") == ["a", "b", "c"]


def test_writers_and_switches_lose_nothing_and_wait_in_no_circle(database: Database) -> None:
    database._language = ScriptedLanguage()
    database.generation("wiki").start()
    free, ended = threading.Event(), threading.Event()
    written: list[str] = []
    errors: list[Exception] = []

    def write(who: str) -> None:
        for number in itertools.count():
            free.wait()
            if ended.is_set():
                return
            try:
                if not ingest(
                    database.store, "wiki", [Passage(key=f"{who}{number}", text="Ada met Bob.")]
                ).stopped:
                    written.append(f"{who}{number}")
            except Exception as error:
                errors.append(error)

    def switched() -> bool:
        database.generation("wiki").start()
        with suppress(UsageError):
            database.generation("wiki").switch()
            return True
        return False

    writers = [threading.Thread(target=write, args=(who,)) for who in "xy"]
    for thread in writers:
        thread.start()
    for _ in range(scaled(3, 60)):
        free.set()
        switched()  # among writers: mostly it lacks what was just written
        free.clear()
        while not switched():
            pass
    ended.set()
    free.set()
    for thread in writers:
        thread.join()
    assert errors == []
    assert written
    assert set(written) <= set(passage_keys(database.store, "wiki"))
    assert untrue(database.store) == {}


def wait_for_lock(store: Store) -> None:
    """Until somebody waits for a lock in this database."""
    query = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    while rows(store, query) == [(0,)]:
        pass


# compare


def with_zoe() -> ScriptedLanguage:
    """Another reading of passage a, and a search that selects only the proposition that it asks for."""
    return ScriptedLanguage(
        extract={"a": [("Zoe flew.", ["Zoe"])]},
        select={"Zoe flew": ["Zoe flew."], "Bob lives in Oslo": ["Bob lives in Oslo."]},
        name="other/1",
    )


def test_generations_with_gold_are_measured(database: Database) -> None:
    database._language = with_zoe()
    database.generation("wiki").start()
    questions = [
        Question(key="1", text="Zoe flew", gold=("a",)),
        Question(key="2", text="Bob lives in Oslo", gold=("b",)),
    ]
    found = database.generation("wiki").compare(questions, k=1)
    assert (found.serving, found.shadow, found.questions, found.judged) == ("wiki", "wiki-next", 2, 2)
    recall = found.measures[0]
    assert (recall.measure, recall.first, recall.second, recall.difference) == ("recall@1", 0.5, 1.0, 0.5)
    assert (recall.low, recall.high, recall.better, recall.worse) == (0.0, 1.0, 1, 0)


def test_generations_without_gold_are_compared_by_their_rankings(database: Database) -> None:
    database._language = with_zoe()
    database.generation("wiki").start()
    questions = [Question(key="1", text="Zoe flew"), Question(key="2", text="Bob lives in Oslo")]
    found = database.generation("wiki").compare(questions, k=1)
    assert (found.measures, found.judged, found.shared, found.same_first, found.same) == ((), 0, 0.5, 1, 1)
    (change,) = found.changed
    assert (change.question, change.shared, change.same_first, change.entered) == ("1", 0, False, ("a",))
    assert change.left == ("c",)


def test_a_comparison_is_not_logged(database: Database) -> None:
    database.generation("wiki").start()
    database.generation("wiki").compare([Question(key="1", text="Zoe flew")])
    assert rows(database.store, "SELECT count(*) FROM question_log") == [(0,)]


def test_a_shadow_with_another_embedding_model_is_searched_with_its_own_settings(
    database: Database, emptied_url: str
) -> None:
    with connect(emptied_url, encoder=HashEncoder(32), language=other()) as next_one:
        next_one.generation("wiki").start()
        question = [Question(key="1", text="Carl met Dora")]
        with pytest.raises(VectorSpaceMismatch):
            database.generation("wiki").compare(question)
        assert database.generation("wiki").compare(question, shadow=next_one).same_first == 1


def test_there_must_be_a_question(database: Database) -> None:
    with pytest.raises(UsageError, match="there is no question"):
        database.generation("wiki").compare([])


def test_a_corpus_that_is_not_there_has_no_generation(database: Database) -> None:
    with pytest.raises(CorpusNotFound):
        database.generation("nowhere")
