"""The index depends on what the passages are, and on nothing else: order, batches, workers, history."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from evireform import connect, ingestion
from evireform.errors import CorpusNotFound
from evireform.evaluation.passage_space import ensure_passage_space
from evireform.records import Passage
from evireform.store import corpora, spaces
from evireform.store.connection import Store
from evireform.store.writing import delete_passages
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.histories import language, passage, rankings
from tests.jobs.indexes import (
    TABLES,
    contents,
    dangling,
    differences,
    ingest,
    keys,
    rows,
    search,
    untrue,
    versions,
)

names = (f"corpus-{number}" for number in count())

PASSAGES = [passage(f"p{number:02}") for number in range(30)]


@pytest.fixture(scope="module")
def reference(shared_store: Store) -> str:
    """A corpus with all thirty passages, ingested at once and in order."""
    ingest(shared_store, "reference", PASSAGES, language=language())
    return "reference"


@pytest.fixture
def name() -> str:
    return next(names)


def test_the_reference_holds_something_in_every_table(shared_store: Store, reference: str) -> None:
    sizes = {table: len(contents(shared_store, reference, table)) for table in TABLES}
    assert (sizes["passage"], sizes["entity"]) == (30, 8)
    assert min(sizes.values()) == 8


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("batches", [1, 10, 30])
def test_t01_neither_order_nor_batches_show_in_the_index(
    shared_store: Store, reference: str, name: str, order: int, batches: int
) -> None:
    shuffled = random.Random(order).sample(PASSAGES, len(PASSAGES))
    size = len(PASSAGES) // batches
    for start in range(0, len(PASSAGES), size):
        ingest(shared_store, name, shuffled[start : start + size], language=language())
    assert differences(shared_store, name, reference) == {}
    assert rankings(shared_store, name) == rankings(shared_store, reference)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_t01_the_order_does_not_show_in_rankings_by_index(
    shared_store: Store, reference: str, name: str, order: int
) -> None:
    ingest(shared_store, name, random.Random(order).sample(PASSAGES, len(PASSAGES)), language=language())
    for corpus_name in (reference, name):
        with shared_store.transaction() as tx:
            space = corpora.active_space(tx, corpora.get_corpus(tx, corpus_name).corpus_id, "proposition")
        spaces.ensure_index(shared_store, space, threshold=1)
    by_index = {"exact": False, "candidates": 20}
    assert rankings(shared_store, name, **by_index) == rankings(shared_store, reference, **by_index)


def in_parallel(*jobs: Callable[[], object]) -> None:
    """Run jobs in threads that start together; the first error of any is raised."""
    barrier = threading.Barrier(len(jobs))
    errors: list[BaseException] = []

    def run(job: Callable[[], object]) -> None:
        barrier.wait(timeout=30)
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


@pytest.fixture
def four_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several transactions an ingestion, so that writers meet."""
    monkeypatch.setattr(ingestion, "BATCH", 4)


@pytest.mark.usefixtures("four_batches")
def test_t01_four_writers_of_a_quarter_each_make_the_same_index(
    shared_store: Store, reference: str, name: str
) -> None:
    ingest(shared_store, name, [], language=language())
    shuffled = random.Random(4).sample(PASSAGES, len(PASSAGES))
    in_parallel(
        *(
            lambda part=shuffled[start::4]: ingest(shared_store, name, part, language=language())
            for start in range(4)
        )
    )
    assert differences(shared_store, name, reference) == {}
    assert rankings(shared_store, name) == rankings(shared_store, reference)


@pytest.mark.usefixtures("four_batches")
def test_t01_four_writers_of_the_same_passages_make_the_same_index(
    shared_store: Store, reference: str, name: str
) -> None:
    orders = [random.Random(number).sample(PASSAGES, len(PASSAGES)) for number in range(4)]
    in_parallel(
        *(lambda order=order: ingest(shared_store, name, order, language=language()) for order in orders)
    )
    assert differences(shared_store, name, reference) == {}


@pytest.mark.usefixtures("four_batches")
def test_t01_writers_that_change_and_delete_at_once_leave_a_true_index(
    shared_store: Store, reference: str, name: str
) -> None:
    ingest(shared_store, name, [passage(p.key, 1) for p in PASSAGES], language=language())
    every_key = [p.key for p in PASSAGES]

    def churn(number: int) -> None:
        chance = random.Random(number)
        for version in range(2, 5):
            changed = [passage(key, version) for key in chance.sample(every_key, 12)]
            ingest(shared_store, name, changed, language=language())
            ingestion.delete(shared_store, name, chance.sample(every_key, 6))

    in_parallel(*(lambda number=number: churn(number) for number in range(4)))
    ingest(shared_store, name, PASSAGES, language=language())
    assert differences(shared_store, name, reference) == {}


@pytest.mark.parametrize("turn", range(3))
def test_t15_four_that_build_the_index_together_build_one(shared_store: Store, name: str, turn: int) -> None:
    script = {"a": [(f"{turn} text {number}", []) for number in range(600)]}
    ingest(shared_store, name, [Passage(key="a", text="x")], language=ScriptedLanguage(extract=script))
    with shared_store.transaction() as tx:
        space = corpora.active_space(tx, corpora.get_corpus(tx, name).corpus_id, "proposition")
    in_parallel(*(lambda: spaces.ensure_index(shared_store, space, threshold=1) for _ in range(4)))
    with shared_store.transaction(read_only=True) as tx:
        assert corpora.active_space(tx, space.corpus_id, "proposition").indexed


def test_t15_four_writers_that_make_the_same_corpus_make_one(shared_store: Store, name: str) -> None:
    in_parallel(*(lambda: ingest(shared_store, name, PASSAGES, language=language()) for _ in range(4)))
    assert rows(shared_store, "SELECT count(*) FROM corpus WHERE name = %(name)s", name=name) == [(1,)]
    assert len(contents(shared_store, name, "passage")) == 30


def relabelled(label: str) -> list[Passage]:
    return [Passage(key=p.key, title=p.title, text=p.text, metadata={"label": label}) for p in PASSAGES]


def test_t01_writers_that_relabel_the_same_passages_do_not_block_each_other(
    shared_store: Store, name: str
) -> None:
    ingest(shared_store, name, PASSAGES, language=language())

    def relabel(number: int) -> None:
        for turn in range(6):
            part = random.Random(f"{number} {turn}").sample(relabelled(f"{number} {turn}"), len(PASSAGES))
            ingest(shared_store, name, part, language=language())

    in_parallel(*(lambda number=number: relabel(number) for number in range(4)))
    assert len(contents(shared_store, name, "passage")) == 30


def test_t01_what_is_ingested_again_is_not_written_again(store: Store) -> None:
    ingest(store, "c", PASSAGES, language=language())
    before = versions(store)
    summary = ingest(store, "c", PASSAGES[::-1], language=language())
    assert versions(store) == before
    assert (summary.added, summary.changed, summary.unchanged) == (0, 0, 30)


def test_t01_only_the_changed_passage_is_written_again(store: Store) -> None:
    ingest(store, "c", PASSAGES, language=language())
    query = "SELECT passage_key, xmin::text FROM passage ORDER BY passage_key"
    before = dict(rows(store, query))
    ingest(store, "c", [passage("p07", 1), *PASSAGES[8:]], language=language())
    after = dict(rows(store, query))
    assert [key for key in before if before[key] != after[key]] == ["p07"]


def test_t01_a_changed_passage_is_replaced(shared_store: Store, reference: str, name: str) -> None:
    older = [passage(p.key, 1) if p.key in ("p03", "p11") else p for p in PASSAGES]
    ingest(shared_store, name, older, language=language())
    ingest(shared_store, name, PASSAGES, language=language())
    assert differences(shared_store, name, reference) == {}


def test_t02_nothing_refers_to_a_deleted_passage(store: Store) -> None:
    ingest(store, "c", PASSAGES, language=language())
    ensure_passage_space(store, "c", HashEncoder())
    assert ingestion.delete(store, "c", ["p01", "p02", "p29", "not there"]) == ["p01", "p02", "p29"]
    found = dangling(store)
    assert found.keys() >= {
        "proposition.passage_id", "mention.proposition_id", "mention.entity_id", "entity_form.entity_id",
        "incidence.proposition_id", "incidence.entity_id", "passage_entity.passage_id",
        "passage_entity.entity_id", "embedding.item_id",
    }  # fmt: skip
    assert set(found.values()) == {0}
    assert rows(
        store, "SELECT count(*) FROM embedding JOIN vector_space USING (space_id) WHERE kind = 'passage'"
    ) == [(27,)]


def test_t02_the_audit_sees_a_dangling_row(store: Store) -> None:
    ingest(store, "c", PASSAGES, language=language())
    with store.transaction() as tx:
        tx.driver.execute("SET LOCAL session_replication_role = replica")
        tx.driver.execute("DELETE FROM proposition WHERE ordinal = 0")
    found = dangling(store)
    assert min(found["mention.proposition_id"], found["embedding.item_id"]) > 0


def test_t02_what_is_left_equals_a_fresh_build(shared_store: Store, name: str) -> None:
    ingest(shared_store, name, PASSAGES, language=language())
    ingestion.delete(shared_store, name, [p.key for p in PASSAGES[::3]])
    fresh = next(names)
    ingest(shared_store, fresh, [p for p in PASSAGES if p not in PASSAGES[::3]], language=language())
    assert differences(shared_store, name, fresh) == {}


def test_t02_degrees_weights_counts_and_names_follow_from_the_mentions(store: Store) -> None:
    ingest(store, "c", PASSAGES, language=language())
    built = untrue(store)
    ingestion.delete(store, "c", [p.key for p in PASSAGES[::3]])
    ingest(store, "c", [passage(p.key, 1) for p in PASSAGES[1::3]], language=language())
    assert (built, untrue(store)) == ({}, {})


def test_t02_the_check_sees_a_wrong_degree(store: Store) -> None:
    ingest(store, "c", PASSAGES, language=language())
    with store.transaction() as tx:
        tx.driver.execute("UPDATE entity SET degree = degree + 1 WHERE canonical = 'c++'")
    assert {table: len(found) for table, found in untrue(store).items()} == {"entity": 2}


def test_t02_an_entity_goes_with_its_last_proposition(store: Store) -> None:
    ingest(store, "c", [Passage(key="a", text="Ada saw Bob."), Passage(key="b", text="Ada ran.")])
    ingestion.delete(store, "c", ["a"])
    assert contents(store, "c", "entity") == [("ada", "Ada", 1, 1.0)]


def test_t02_rankings_are_as_before_an_addition_that_was_taken_back(
    shared_store: Store, reference: str, name: str
) -> None:
    ingest(shared_store, name, PASSAGES, language=language())
    ingest(shared_store, name, [passage("x", size=4), passage("a", size=3)], language=language())
    ingestion.delete(shared_store, name, ["x", "a"])
    assert differences(shared_store, name, reference) == {}
    assert rankings(shared_store, name) == rankings(shared_store, reference)


def test_t02_the_display_name_is_the_most_frequent_form(store: Store) -> None:
    script = {"a": [("one", ["ADA"])], "b": [("two", ["Ada"])], "c": [("three", ["Ada"])]}
    passages = [Passage(key=key, text=key) for key in script]
    ingest(store, "c", passages, language=ScriptedLanguage(extract=script))
    displayed = [contents(store, "c", "entity")[0][1]]
    ingestion.delete(store, "c", ["b"])
    displayed.append(contents(store, "c", "entity")[0][1])
    assert displayed == ["Ada", "ADA"]


READER = """
import sys

from evireform import connect
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

with connect(sys.argv[1], encoder=HashEncoder(), language=ScriptedLanguage()) as database:
    corpus = database.corpus("c")
    for line in sys.stdin:
        print(*(passage.passage_key for passage in corpus.search(line).passages), flush=True)
"""
"""Answers every line that it reads with the keys of a ranking, from the same connections all the time."""


def test_t03_what_one_process_deletes_another_with_warm_connections_does_not_return(
    store: Store, database_url: str
) -> None:
    texts = [Passage(key=key, text=f"Ada saw {key}.") for key in ("x", "y")]
    ingest(store, "c", texts)
    with subprocess.Popen(
        [sys.executable, "-c", READER, database_url],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    ) as reader:  # fmt: skip

        def ask() -> list[str]:
            assert reader.stdin
            assert reader.stdout
            reader.stdin.write("Ada saw x\n")
            reader.stdin.flush()
            return sorted(reader.stdout.readline().split())

        before = [ask() for _ in range(3)]
        ingestion.delete(store, "c", ["x"])
        after = [ask() for _ in range(3)]
        ingest(store, "c", texts)
        again = ask()
    assert before == [["x", "y"]] * 3
    assert after == [["y"]] * 3
    assert again == ["x", "y"]


def test_t04_a_deleted_corpus_leaves_nothing(store: Store) -> None:
    ingest(store, "c", PASSAGES, language=language())
    ensure_passage_space(store, "c", HashEncoder())
    with store.transaction() as tx:
        corpora.delete_corpus(tx, "c")
    tables = [*TABLES, "corpus", "vector_space"]
    assert {table: rows(store, f"SELECT count(*) FROM {table}") for table in tables} == {
        table: [(0,)] for table in tables
    }
    assert rows(store, "SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'") == []


@pytest.fixture
def two_texts() -> tuple[list[Passage], list[Passage]]:
    return [Passage(key="old", text="Ada met Bob.")], [Passage(key="new", text="Ada met Carl.")]


def test_t04_a_corpus_of_the_same_name_starts_anew(
    store: Store, two_texts: tuple[list[Passage], list[Passage]]
) -> None:
    ingest(store, "c", two_texts[0])
    with store.transaction() as tx:
        corpora.delete_corpus(tx, "c")
    ingest(store, "c", two_texts[1])
    assert keys(search(store, "c", "Ada met whom")) == ["new"]


def test_t04_a_handle_that_was_open_before_sees_the_new_corpus(
    database_url: str, two_texts: tuple[list[Passage], list[Passage]]
) -> None:
    with connect(database_url, encoder=HashEncoder(), language=ScriptedLanguage()) as database:
        handle = database.corpus("c", create=True)
        handle.ingest(two_texts[0])
        assert keys(handle.search("Ada met whom")) == ["old"]
        with connect(database_url, encoder=HashEncoder(), language=ScriptedLanguage()) as other:
            other.delete_corpus("c")
            other.corpus("c", create=True).ingest(two_texts[1])
        assert keys(handle.search("Ada met whom")) == ["new"]


def test_t04_a_handle_of_a_deleted_corpus_says_that_it_is_gone(database_url: str) -> None:
    with connect(database_url, encoder=HashEncoder(), language=ScriptedLanguage()) as database:
        handle = database.corpus("c", create=True)
        database.delete_corpus("c")
        with pytest.raises(CorpusNotFound, match="no corpus is called 'c'"):
            handle.status()


def test_t06_a_failed_passage_is_listed_with_its_reason(store: Store) -> None:
    summary = ingest(store, "c", PASSAGES, language=language("p04", "p14", "p24"))
    assert [(failure.passage_key, failure.reason) for failure in summary.failed] == [
        ("p04", "no answer"), ("p14", "no answer"), ("p24", "no answer"),
    ]  # fmt: skip
    assert rows(store, "SELECT passage_key, reason FROM passage WHERE state = 'failed' ORDER BY 1") == [
        ("p04", "no answer"), ("p14", "no answer"), ("p24", "no answer"),
    ]  # fmt: skip


def test_t06_a_failed_passage_does_not_pass_for_empty(store: Store) -> None:
    everything_fails = language(*(p.key for p in PASSAGES))
    assert ingest(store, "c", PASSAGES, language=everything_fails).empty == 0
    assert rows(store, "SELECT DISTINCT state, proposition_count FROM passage") == [("failed", 0)]


def test_t06_failed_passages_and_no_others_are_retried(
    shared_store: Store, reference: str, name: str
) -> None:
    ingest(shared_store, name, PASSAGES, language=language("p04", "p14"))
    again = language()
    summary = ingest(shared_store, name, PASSAGES, language=again)
    assert again.extracted == ["p04", "p14"]
    assert summary.failed == ()
    assert differences(shared_store, name, reference) == {}


def test_t06_a_passage_whose_new_text_fails_loses_its_old_propositions(
    shared_store: Store, name: str
) -> None:
    ingest(shared_store, name, [PASSAGES[0], passage("x", size=3)], language=language())
    ingest(shared_store, name, [passage("x", 1, size=3)], language=language("x"))
    fresh = next(names)
    ingest(shared_store, fresh, [PASSAGES[0], passage("x", 1, size=3)], language=language("x"))
    assert differences(shared_store, name, fresh) == {}


def test_a_deletion_that_is_rolled_back_changes_nothing(store: Store) -> None:
    ingest(store, "c", PASSAGES, language=language())
    before = versions(store)

    def fail() -> None:
        with store.transaction() as tx:
            delete_passages(tx, corpora.get_corpus(tx, "c").corpus_id, ["p01"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert versions(store) == before
