"""Corpora and vector spaces as rows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from evireform.errors import CorpusNotFound, DatabaseError, UsageError, VectorSpaceMismatch
from evireform.records import CorpusRow, SpaceRow
from evireform.store import corpora
from evireform.store.connection import Store, Transaction


def create(store: Store, name: str = "wiki") -> CorpusRow:
    with store.transaction() as tx:
        return corpora.create_corpus(tx, name, titles="on")


def create_space(tx: Transaction, corpus: CorpusRow) -> SpaceRow:
    return corpora.create_space(
        tx, corpus, kind="proposition", model="tiny", dimensions=3, prompts={"question": "q: "}
    )


def at_once(store: Store, work: Callable[[Transaction], object]) -> list[object]:
    """What eight threads get that do the same in a transaction each, as nearly at once as can be."""
    barrier = threading.Barrier(8)

    def run(_: int) -> object:
        barrier.wait()
        with store.transaction() as tx:
            return work(tx)

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(run, range(8)))


def partitions(store: Store) -> list[str]:
    query = (
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'embedding'::regclass ORDER BY 1"
    )
    with store.transaction() as tx:
        return [row[0] for row in tx.driver.execute(query).fetchall()]


def test_a_corpus_is_found_by_its_name(store: Store) -> None:
    made = create(store)
    assert (made.name, made.titles, made.extractor, made.language) == ("wiki", "on", "", "")
    with store.transaction() as tx:
        assert corpora.get_corpus(tx, "wiki") == made
        assert made.tenant_id == corpora.current_tenant(tx)


def test_a_corpus_is_made_once(store: Store) -> None:
    assert create(store) == create(store)


def test_many_processes_make_one_corpus(store: Store) -> None:
    made = at_once(store, lambda tx: corpora.create_corpus(tx, "wiki", titles="on"))
    assert len(set(made)) == 1


def test_a_corpus_keeps_its_titles(store: Store) -> None:
    create(store)
    with pytest.raises(UsageError, match="corpus 'wiki' was made with titles on"), store.transaction() as tx:
        corpora.create_corpus(tx, "wiki", titles="off")


@pytest.mark.parametrize("name", ["", " ", "a\0b", "x" * 201])
def test_what_cannot_be_a_name_is_refused(store: Store, name: str) -> None:
    with pytest.raises(UsageError, match="a name of 1 to 200 characters"), store.transaction() as tx:
        corpora.create_corpus(tx, name, titles="on")


def test_a_missing_corpus_is_told_with_the_nearest_names(store: Store) -> None:
    for name in ("wiki", "news", "wiki-2"):
        create(store, name)
    with pytest.raises(CorpusNotFound) as caught, store.transaction() as tx:
        corpora.get_corpus(tx, "wikki")
    assert str(caught.value) == "no corpus is called 'wikki'; there is 'wiki', 'wiki-2'"
    assert caught.value.name == "wikki"


def test_in_an_empty_database_a_missing_corpus_says_so(store: Store) -> None:
    with pytest.raises(CorpusNotFound, match="there is none yet"), store.transaction() as tx:
        corpora.get_corpus(tx, "wiki")


def test_corpora_are_listed_by_name(store: Store) -> None:
    for name in ("b", "a", "Ä", "B"):
        create(store, name)
    with store.transaction() as tx:
        assert [corpus.name for corpus in corpora.list_corpora(tx)] == ["B", "a", "b", "Ä"]


def test_the_extractor_is_recorded(store: Store) -> None:
    corpus = create(store)
    with store.transaction() as tx:
        corpora.set_extractor(tx, corpus.corpus_id, "rules/1")
        assert corpora.get_corpus(tx, "wiki").extractor == "rules/1"


def test_a_space_is_made_with_its_partition(store: Store) -> None:
    corpus = create(store)
    with store.transaction() as tx:
        space = create_space(tx, corpus)
        assert corpora.active_space(tx, corpus.corpus_id, "proposition") == space
        assert corpora.spaces(tx, corpus.corpus_id) == [space]
    assert space == SpaceRow(
        corpus_id=corpus.corpus_id,
        space_id=space.space_id,
        kind="proposition",
        model="tiny",
        dimensions=3,
        prompts={"question": "q: "},
        active=True,
        indexed=False,
    )
    assert partitions(store) == [f"embedding_{corpus.corpus_id}_{space.space_id}"]


def test_many_processes_make_one_space(store: Store) -> None:
    corpus = create(store)
    made = at_once(store, lambda tx: create_space(tx, corpus).space_id)
    assert len(set(made)) == 1
    assert len(partitions(store)) == 1


def test_a_space_knows_whether_it_is_indexed(store: Store) -> None:
    corpus = create(store)
    with store.transaction() as tx:
        space = create_space(tx, corpus)
        tx.run("create_space_index", {"corpus_id": space.corpus_id, "space_id": space.space_id})
        assert corpora.active_space(tx, corpus.corpus_id, "proposition").indexed


def test_a_corpus_without_vectors_says_so(store: Store) -> None:
    corpus = create(store)
    with store.transaction() as tx:
        assert corpora.find_active_space(tx, corpus.corpus_id, "passage") is None
        with pytest.raises(UsageError, match="holds no passage vectors yet: ingest into it first"):
            corpora.active_space(tx, corpus.corpus_id, "passage")


@pytest.mark.parametrize(("model", "dimensions"), [("tiny", 1536), ("other", 3), ("other", 1536)])
def test_t09_another_model_is_refused_with_both_names(store: Store, model: str, dimensions: int) -> None:
    corpus = create(store)
    with store.transaction() as tx:
        space = create_space(tx, corpus)
    with pytest.raises(VectorSpaceMismatch) as caught:
        corpora.check_space(space, model=model, dimensions=dimensions, prompts=space.prompts)
    assert (caught.value.stored, caught.value.offered) == ("tiny (3-d)", f"{model} ({dimensions}-d)")
    assert caught.value.stored in str(caught.value)
    assert caught.value.offered in str(caught.value)


def test_the_model_of_a_space_is_accepted(store: Store) -> None:
    corpus = create(store)
    with store.transaction() as tx:
        space = create_space(tx, corpus)
        corpora.check_space(space, model="tiny", dimensions=3, prompts=dict(space.prompts))


def test_t09_the_same_model_with_other_prompts_is_refused_with_both(store: Store) -> None:
    corpus = create(store)
    with store.transaction() as tx:
        space = create_space(tx, corpus)
    with pytest.raises(
        VectorSpaceMismatch, match=r"tiny with prompts .* are opened with tiny with prompts .*query: "
    ):
        corpora.check_space(space, model="tiny", dimensions=3, prompts={"question": "query: {text}"})


def test_a_corpus_is_deleted_after_its_writers_and_leaves_no_partition(store: Store) -> None:
    """Found as a partition that stayed for ever: a space made while the corpus was being deleted."""
    corpus = create(store)
    done: list[str] = []

    def drop() -> None:
        with store.transaction() as tx:
            corpora.delete_corpus(tx, corpus.name)
        done.append("deleted")

    with store.transaction() as tx:
        create_space(tx, corpus)
        other = threading.Thread(target=drop)
        other.start()
        other.join(0.5)
        assert done == []
    other.join(20)
    assert done == ["deleted"]
    with store.transaction(read_only=True) as tx:
        query = "SELECT relname FROM pg_class WHERE relname LIKE 'embedding\\_%'"
        assert tx.driver.execute(query).fetchall() == []


def test_a_writer_is_told_that_its_corpus_was_deleted(store: Store) -> None:
    corpus = create(store)
    with store.transaction() as tx:
        corpora.delete_corpus(tx, corpus.name)
    with pytest.raises(CorpusNotFound, match="was deleted meanwhile"), store.transaction() as tx:
        create_space(tx, corpus)


def test_a_deleted_corpus_leaves_no_row_and_no_partition(store: Store) -> None:
    corpus = create(store)
    keep = create(store, "keep")
    with store.transaction() as tx:
        create_space(tx, corpus)
        kept = create_space(tx, keep)
        corpora.delete_corpus(tx, "wiki")
    with store.transaction() as tx:
        assert corpora.list_corpora(tx) == [keep]
        assert corpora.spaces(tx, corpus.corpus_id) == []
    assert partitions(store) == [f"embedding_{keep.corpus_id}_{kept.space_id}"]


def test_a_deleted_corpus_takes_partitions_along_whose_space_is_gone(store: Store) -> None:
    corpus = create(store)
    with store.transaction() as tx:
        create_space(tx, corpus)
        tx.driver.execute("UPDATE corpus SET proposition_space_id = NULL; DELETE FROM vector_space")
    with store.transaction() as tx:
        corpora.delete_corpus(tx, "wiki")
    assert partitions(store) == []


def test_a_deletion_gives_up_where_somebody_reads_vectors_on_and_on(store: Store) -> None:
    corpus = create(store)
    with store.transaction() as tx:
        create_space(tx, corpus)
        tx.driver.execute("ALTER FUNCTION drop_space_partition (bigint, bigint) SET lock_timeout = '50ms'")
    with store.transaction(read_only=True) as reader:
        reader.driver.execute("SELECT count(*) FROM embedding")
        with pytest.raises(DatabaseError, match="nothing was dropped"), store.transaction() as tx:
            corpora.delete_corpus(tx, "wiki")
    with store.transaction(read_only=True) as tx:
        assert corpora.find_corpus(tx, "wiki") == corpus


def test_a_missing_corpus_cannot_be_deleted(store: Store) -> None:
    with pytest.raises(CorpusNotFound), store.transaction() as tx:
        corpora.delete_corpus(tx, "wiki")


def test_t04_a_name_can_be_used_again(store: Store) -> None:
    old = create(store)
    with store.transaction() as tx:
        corpora.delete_corpus(tx, "wiki")
        new = corpora.create_corpus(tx, "wiki", titles="off")
    assert new.corpus_id != old.corpus_id
    assert new.titles == "off"


@pytest.mark.parametrize("name", ["", " ", "a\0b", "\ud800", "x" * 201])
def test_a_name_that_no_corpus_can_have_is_refused_wherever_it_is_asked_for(store: Store, name: str) -> None:
    with store.transaction() as tx, pytest.raises(UsageError, match="1 to 200 characters"):
        corpora.find_corpus(tx, name)
