"""Two jobs at once on one corpus, and what vanishes under a job: nothing is doubled, and words are clear."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evireform import auditing, connect, ingestion, spaces
from evireform.database import Database
from evireform.errors import (
    CorpusNotFound,
    DatabaseError,
    EvireformError,
    ExtractorMismatch,
    UsageError,
)
from evireform.evaluation.passage_space import ensure_passage_space
from evireform.generations import making
from evireform.records import CorpusRow, Passage, SpaceRow
from evireform.settings import WorkerSettings
from evireform.spaces import filling
from evireform.store import corpora, writing
from evireform.store import spaces as store_spaces
from evireform.store.connection import Store
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import differences, ingest, rows, search
from tests.scale import scaled

PASSAGES = [Passage(key=f"p{number}", text=f"Ada met Bob{number}. It rained.") for number in range(5)]
OTHER = HashEncoder(32)
"""The model of a second space beside the active one."""


@pytest.fixture
def store(emptied_store: Store) -> Store:
    """A database with one corpus of ten propositions, ``c``."""
    ingest(emptied_store, "c", PASSAGES)
    return emptied_store


@pytest.fixture
def database(emptied_url: str) -> Iterator[Database]:
    """The same with a database object, whose language model is another one."""
    with connect(emptied_url, encoder=HashEncoder(), language=of("other/1")) as opened:
        ingest(opened.store, "c", PASSAGES)
        yield opened


def of(name: str) -> ScriptedLanguage:
    return ScriptedLanguage(name=name)


def space_of(store: Store, model: str) -> SpaceRow:
    return next(one.space for one in spaces.reports(store, "c") if one.space.model == model)


def drop_other(store: Store) -> None:
    """Drop the space of `OTHER`, also where it is the active one."""
    space = space_of(store, OTHER.model)
    if space.active:
        spaces.switch(store, "c", encoder=HashEncoder())
    spaces.drop(store, "c", space.space_id)


def delete_corpus(store: Store) -> None:
    with store.transaction() as tx:
        corpora.delete_corpus(tx, "c")


def at_once(*jobs: Callable[[], Any]) -> list[Any]:
    """What the jobs give, or the errors of ours that they raise, each in a thread of its own."""
    ended: list[Any] = []

    def run(job: Callable[[], Any]) -> None:
        try:
            ended.append(job())
        except EvireformError as error:
            ended.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ended


# Verification


def verify(store: Store) -> list[str]:
    found = auditing.verify(store, ["c"], encoder=HashEncoder)
    return [finding.check for finding in found.findings]


def verified(store: Store, meanwhile: Callable[[Store], None], *, beyond: bool = False) -> list[str]:
    """The checks that find something, where something happens after the snapshot was taken."""
    todo = [meanwhile]
    found = auditing.verify(
        store,
        ["c"],
        encoder=HashEncoder,
        beyond=beyond,
        progress=lambda *_: todo.pop()(store) if todo else None,
    )
    assert todo == []
    return [finding.check for finding in found.findings]


@pytest.mark.parametrize("active", [False, True])
@pytest.mark.parametrize("beyond", [False, True])
def test_t02_a_space_that_is_dropped_while_it_is_verified_is_not_wrong(
    store: Store, active: bool, beyond: bool
) -> None:
    ensure_passage_space(store, "c", HashEncoder())
    spaces.build(store, "c", encoder=OTHER)
    if active:
        spaces.switch(store, "c", encoder=OTHER)
    assert verified(store, drop_other, beyond=beyond) == []


@pytest.mark.parametrize("beyond", [False, True])
def test_t02_a_corpus_that_is_deleted_while_it_is_verified_is_not_wrong(store: Store, beyond: bool) -> None:
    assert verified(store, delete_corpus, beyond=beyond) == []


def test_t02_what_is_wrong_with_the_rest_is_still_found(store: Store) -> None:
    spaces.build(store, "c", encoder=OTHER)
    with store.transaction() as tx:
        tx.driver.execute(
            "DELETE FROM embedding WHERE item_id = (SELECT min(proposition_id) FROM proposition)"
        )
        tx.driver.execute("UPDATE entity SET degree = degree + 1 WHERE canonical = 'ada'")
    assert verified(store, drop_other) == ["degrees, weights and names", "propositions without a vector"]


# Extractors


def extractor(store: Store, name: str) -> str:
    with store.transaction(read_only=True) as tx:
        return corpora.get_corpus(tx, name).extractor


def test_what_another_job_records_meanwhile_is_not_overwritten(emptied_store: Store) -> None:
    def passages() -> Iterator[Passage]:
        ingest(emptied_store, "c", PASSAGES[:2], language=of("x"))
        yield from PASSAGES[2:]

    summary = ingest(emptied_store, "c", passages(), language=of("y"))
    assert extractor(emptied_store, "c") == "x + y"
    assert summary.notes == (
        "the corpus was extracted by x so far and by y from now on: its propositions are of two kinds",
    )


def test_jobs_of_several_extractors_at_once_are_all_recorded(emptied_store: Store) -> None:
    names = ("x", "y", "z")
    for turn in range(scaled(3, 50)):
        corpus = f"c{turn}"
        with emptied_store.transaction() as tx:
            corpora.create_corpus(tx, corpus, titles="on")
        jobs = [
            lambda name=name, corpus=corpus: (
                ingest(
                    emptied_store, corpus, [Passage(key=name, text="Ada met Bob.")], language=of(name)
                ).added
            )
            for name in (*names, *names)
        ]
        ended = at_once(*jobs)
        assert sorted(ended) == [0, 0, 0, 1, 1, 1]
        assert sorted(extractor(emptied_store, corpus).split(" + ")) == ["x", "y", "z"]


@pytest.mark.parametrize("opened", [False, True])
def test_a_shadow_that_is_started_twice_at_once_has_one_extractor(
    database: Database, monkeypatch: pytest.MonkeyPatch, opened: bool
) -> None:
    real = making._passages

    def start_another() -> None:
        monkeypatch.undo()
        database._language = of("third/1")
        database.generation("c").start()

    def passages(store: Store, *read: CorpusRow) -> Iterator[Passage]:
        if not opened:  # before the first one reads what extracts the shadow, or after
            start_another()

        def read_on() -> Iterator[Passage]:
            if opened:
                start_another()
            yield from real(store, *read)

        return read_on()

    monkeypatch.setattr(making, "_passages", passages)
    with pytest.raises(
        ExtractorMismatch,
        match="'c-next' was extracted by third/1, and other/1 is set now: a generation has one extractor",
    ):
        database.generation("c").start()
    ingest(database.store, "fresh", PASSAGES, language=of("third/1"))
    assert differences(database.store, "c-next", "fresh") == {}
    assert extractor(database.store, "c-next") == "third/1"


def test_a_shadow_that_another_job_began_to_extract_meanwhile_has_one_extractor(database: Database) -> None:
    database.generation("c").start()
    with database.store.transaction() as tx:
        shadow = corpora.get_corpus(tx, "c-next")
        corpora.set_extractor(tx, shadow.corpus_id, "")

    def passages() -> Iterator[Passage]:
        ingest(database.store, "c-next", [Passage(key="new", text="Ada left.")], language=of("third/1"))
        yield Passage(key="newer", text="Bob left.")

    with pytest.raises(ExtractorMismatch, match="was extracted by third/1, and other/1 is set now"):
        ingest(database.store, "c-next", passages(), language=of("other/1"))
    assert extractor(database.store, "c-next") == "third/1"


def test_a_worker_leaves_a_shadow_of_another_extractor_to_others(database: Database) -> None:
    database.generation("c").start()
    for corpus in ("c", "c-next"):
        ingestion.enqueue(database.store, corpus, [Passage(key="new", text="Ada left.")])
    summary = ingestion.worker(
        database.store, encoder=HashEncoder(), language=ScriptedLanguage(), settings=WorkerSettings()
    ).run(drain=True)
    (refused,) = summary.refused
    assert (summary.written, summary.reason) == (1, "")
    assert "corpus 'c-next' is left to other workers: 'c-next' was extracted by other/1" in refused
    assert rows(database.store, "SELECT passage_key, attempts FROM queued_passage") == [("new", 0)]


# Vectors


@pytest.mark.parametrize("job", [spaces.build, spaces.switch])
def test_t10_a_space_that_two_fill_at_once_holds_every_vector_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, job: Callable[..., int]
) -> None:
    spaces.build(store, "c", encoder=OTHER)
    ingest(store, "c", [Passage(key="new", text="Carl left. Dora left.")])
    both = threading.Barrier(2, timeout=60)
    met: set[int] = set()
    real = filling.write

    def write(*given: Any) -> int:
        if threading.get_ident() not in met:  # the first page of each: both have seen that it is missing
            met.add(threading.get_ident())
            both.wait()
        return real(*given)

    monkeypatch.setattr(filling, "write", write)
    made = at_once(*[lambda: job(store, "c", encoder=OTHER)] * 2)
    assert sorted(made) == [0, 2]
    assert {one.space.model: (one.items, one.vectors) for one in spaces.reports(store, "c")} == {
        "hash-64": (12, 12), "hash-32": (12, 12),
    }  # fmt: skip
    assert verify(store) == []


def test_a_vector_that_is_there_stays(store: Store) -> None:
    space = space_of(store, "hash-64")
    vectors = "SELECT item_id, embedding::text FROM embedding ORDER BY item_id"
    before = rows(store, vectors)
    items = [row[0] for row in before[:2]]
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, "c")
        ones = HashEncoder().encode_propositions(["another text"] * 2)
        made = writing.fill_vectors(tx, space, tenant_id=corpus.tenant_id, item_ids=items, vectors=ones)
    assert made == 0
    assert rows(store, vectors) == before


# What vanishes


VANISHING = pytest.mark.parametrize(
    ("vanish", "kind", "message"),
    [
        (drop_other, UsageError, r"space \d+ \(propositions, hash-32\) was dropped meanwhile"),
        (delete_corpus, CorpusNotFound, "the corpus was deleted meanwhile"),
    ],
)


class Vanishing(HashEncoder):
    """`OTHER`, while whose first call something vanishes."""

    def __init__(self, vanish: Callable[[], None]) -> None:
        super().__init__(OTHER.dimensions)
        self._vanish = [vanish]

    def encode_propositions(self, texts: Any) -> Any:
        if self._vanish:
            self._vanish.pop()()
        return super().encode_propositions(texts)


@VANISHING
def test_a_build_says_what_vanished(
    store: Store, vanish: Callable[[Store], None], kind: type[EvireformError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        spaces.build(store, "c", encoder=Vanishing(lambda: vanish(store)))


@VANISHING
@pytest.mark.parametrize("rebuild", [False, True])
@pytest.mark.parametrize("when", [0, 1])
def test_an_index_job_says_what_vanished(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    vanish: Callable[[Store], None],
    kind: type[EvireformError],
    message: str,
    rebuild: bool,
    when: int,
) -> None:
    spaces.build(store, "c", encoder=OTHER)
    monkeypatch.setattr(store_spaces, "INDEX_THRESHOLD", 1)
    spaces.index(store, "c", sample=0)
    # The space of OTHER comes second: it vanishes while the first is measured, or while it is itself.
    todo: list[Callable[[Store], None]] = [vanish, *[lambda _: None] * (2 * when)]
    with pytest.raises(kind, match=message):
        spaces.index(store, "c", rebuild=rebuild, progress=lambda *_: todo.pop()(store) if todo else None)
    assert todo == []


@VANISHING
@pytest.mark.parametrize(
    "job", [store_spaces.rebuild_index, lambda *a: store_spaces.ensure_index(*a, threshold=0)]
)
def test_building_an_index_says_what_vanished(
    store: Store,
    vanish: Callable[[Store], None],
    kind: type[EvireformError],
    message: str,
    job: Callable[..., Any],
) -> None:
    spaces.build(store, "c", encoder=OTHER)
    space = space_of(store, OTHER.model)
    vanish(store)
    with pytest.raises(kind, match=message):
        job(store, space)


FUNCTIONS = ("create_space_partition", "create_space_index", "rebuild_space_index", "swap_space_index")


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_functions_name_the_space_that_is_not_there(store: Store, function: str) -> None:
    corpus_id = space_of(store, "hash-64").corpus_id
    with (
        pytest.raises(DatabaseError, match=f"corpus {corpus_id} has no vector space 99") as caught,
        store.transaction() as tx,
    ):
        tx.run(function, {"corpus_id": corpus_id, "space_id": 99})
    assert caught.value.sqlstate == "P0002"


@pytest.mark.parametrize("function", FUNCTIONS[1:])
def test_the_functions_name_the_space_that_lost_its_partition(store: Store, function: str) -> None:
    space = space_of(store, "hash-64")
    with store.transaction() as tx:
        tx.driver.execute(f"DROP TABLE embedding_{space.corpus_id}_{space.space_id}".encode())
    with (
        pytest.raises(
            DatabaseError, match=f"vector space {space.space_id} of corpus {space.corpus_id} has no"
        ),
        store.transaction() as tx,
    ):
        tx.run(function, {"corpus_id": space.corpus_id, "space_id": space.space_id})


@pytest.mark.parametrize("stage", ["checking", "passages"])
def test_an_import_that_another_one_overtakes_says_so(database: Database, tmp_path: Path, stage: str) -> None:
    database.corpus("c").export(tmp_path / "c")

    def overtake(at: str, *_: int) -> None:
        if at == stage and todo:
            todo.pop()
            database.import_corpus(tmp_path / "c", name="copy")

    todo = [True]
    with pytest.raises(UsageError, match=r"(another import of the same files made|there is) .*'copy'"):
        database.import_corpus(tmp_path / "c", name="copy", progress=overtake)
    assert [row.name for row in database.corpora()] == ["c", "copy"]
    assert differences(database.store, "c", "copy") == {}


def test_an_import_whose_corpus_is_deleted_says_so(database: Database, tmp_path: Path) -> None:
    database.corpus("c").export(tmp_path / "c")

    def delete(at: str, *_: int) -> None:
        if at == "passages":
            (under_way,) = [row.name for row in database.corpora() if row.name.startswith("copy (import")]
            with database.store.transaction() as tx:
                corpora.delete_corpus(tx, under_way)

    with pytest.raises(CorpusNotFound, match="what was imported so far was deleted meanwhile"):
        database.import_corpus(tmp_path / "c", name="copy", progress=delete)


# Logged questions


def test_a_replay_names_the_generation_that_logged_the_question(database: Database) -> None:
    first = search(database.store, "c", "Who met Ada?", log=True).log_id
    database.generation("c").start()
    database.generation("c").switch()
    second = search(database.store, "c", "Who met Ada?", log=True).log_id
    assert first is not None
    assert second is not None
    for asked, log_id, other in (("c", first, "c-next"), ("c-next", second, "c")):
        message = (
            f"corpus '{asked}' has no logged question {log_id}: the other generation, '{other}', answered"
        )
        with pytest.raises(UsageError, match=message):
            database.corpus(asked).replay(log_id)
        assert database.corpus(other).replay(log_id).same


def test_a_question_that_nobody_logged_may_be_of_a_generation_that_was_dropped(database: Database) -> None:
    with pytest.raises(UsageError, match=r"has no logged question 9; it may be .* that was dropped since"):
        database.corpus("c").replay(9)
