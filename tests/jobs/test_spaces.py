"""Vector spaces: another model beside the active one, the switch, wide vectors, what indexes find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import psycopg
import pytest
from alembic import command

from evireform import Settings
from evireform.database import Corpus, Database
from evireform.embedding import Vectors
from evireform.errors import DatabaseError, UsageError, VectorSpaceMismatch
from evireform.evaluation.passage_space import ensure_passage_space
from evireform.records import Extraction, Passage, Reformulation, SpaceRow
from evireform.spaces import filling, indexing, switching
from evireform.store import corpora, searching
from evireform.store import spaces as store_spaces
from evireform.store.connection import Store
from evireform.store.statements import statement
from tests.conftest import SCHEMA, database
from tests.database.roles import new_member
from tests.database.test_schema import alembic_config
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.bulk import clustered, corpus_of
from tests.jobs.indexes import differences, ingest, keys, passages_of, rows, scores, search
from tests.scale import scaled

names = (f"spaces-{number}" for number in count())

SCRIPT = {
    "a": [("engine loom", ["Ada", "Loom"]), ("poem", ["Ada"])],
    "b": [("loom card", ["Loom"])],
    "c": [("river star", ["Star"]), ("city", ["Star", "Ada"])],
    "d": [("table", [])],
}
OLD, NEW = "hash-64", "new"


class OtherEncoder(HashEncoder):
    """Another model, which calls back before it encodes, with the number of texts that it has encoded."""

    def __init__(
        self, dimensions: int = 96, *, model: str = NEW, before: Callable[[int], object] | None = None
    ) -> None:
        super().__init__(dimensions, model=model)
        self.before = before

    def _encode(self, texts: Sequence[str]) -> Vectors:
        if self.before:
            self.before(len(self.encoded))
        return super()._encode(texts)


class Silent(ScriptedLanguage):
    """A language backend that nobody may ask to extract."""

    def extract(self, passages: Sequence[Passage]) -> list[Extraction]:
        raise AssertionError(f"{len(passages)} passages were extracted again")


@pytest.fixture
def name() -> str:
    return next(names)


@pytest.fixture
def corpus(shared_store: Store, name: str) -> Corpus:
    """Four passages, embedded by `OLD`; the object's own model is `NEW`."""
    fill(shared_store, name)
    return of_model(shared_store, name, OtherEncoder())


def fill(store: Store, name: str, **options: Any) -> None:
    ingest(store, name, passages_of(SCRIPT), language=ScriptedLanguage(extract=SCRIPT), **options)


def of_model(store: Store, name: str, encoder: HashEncoder) -> Corpus:
    return Corpus(Database(store, settings=Settings(), encoder=encoder, language=Silent()), name)


def active(store: Store, name: str) -> set[tuple[str, str]]:
    """Kind and model of the active spaces."""
    with store.transaction(read_only=True) as tx:
        found = corpora.spaces(tx, corpora.get_corpus(tx, name).corpus_id)
    return {(space.kind, space.model) for space in found if space.active}


def vectors_of(corpus: Corpus) -> dict[tuple[str, str], int]:
    """Vectors by kind and model."""
    return {(one.space.kind, one.space.model): one.vectors for one in corpus.spaces()}


# Another model.


def test_t10_a_space_of_another_model_is_built_beside_without_an_extraction(corpus: Corpus) -> None:
    assert corpus.build_space() == 6
    assert active(corpus.database.store, corpus.name) == {("proposition", OLD)}
    assert vectors_of(corpus) == {("proposition", OLD): 6, ("proposition", NEW): 6}


def test_t10_the_old_space_serves_while_the_new_one_is_built(shared_store: Store, name: str) -> None:
    fill(shared_store, name)
    before = search(shared_store, name, "engine loom")
    during = []
    other = OtherEncoder(before=lambda _: during.append(search(shared_store, name, "engine loom")))
    of_model(shared_store, name, other).build_space()
    assert [scores(ranking) for ranking in during] == [scores(before)]


def test_t10_building_goes_on_where_it_stopped(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "PAGE", 2)
    fill(shared_store, name)

    def fail(encoded: int) -> None:
        if encoded == 4:
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        of_model(shared_store, name, OtherEncoder(before=fail)).build_space()
    again = OtherEncoder()
    assert of_model(shared_store, name, again).build_space() == 2
    assert again.encoded == ["city", "table"]


def test_t10_the_switched_index_is_that_of_a_fresh_build(shared_store: Store, corpus: Corpus) -> None:
    corpus.build_space()
    corpus.switch_space()
    old = next(one.space.space_id for one in corpus.spaces() if not one.space.active)
    corpus.drop_space(old)
    fresh = next(names)
    fill(shared_store, fresh, encoder=OtherEncoder())
    assert differences(shared_store, corpus.name, fresh) == {}
    question = {"question": "engine loom", "encoder": OtherEncoder()}
    assert scores(search(shared_store, corpus.name, **question)) == scores(  # type: ignore[arg-type]
        search(shared_store, fresh, **question)  # type: ignore[arg-type]
    )


def test_t10_after_the_switch_the_old_model_is_refused_with_both_names(
    shared_store: Store, corpus: Corpus
) -> None:
    corpus.build_space()
    corpus.switch_space()
    with pytest.raises(VectorSpaceMismatch, match=r"with new \(96-d\) and are opened with hash-64 \(64-d\)"):
        search(shared_store, corpus.name, "engine loom")


def test_t10_switching_back_embeds_what_was_added_since(shared_store: Store, corpus: Corpus) -> None:
    corpus.build_space()
    corpus.switch_space()
    new = {"e": [("lake", ["Lake"])]}
    ingest(
        shared_store,
        corpus.name,
        passages_of(new),
        encoder=OtherEncoder(),
        language=ScriptedLanguage(extract=new),
    )
    old = HashEncoder()
    assert of_model(shared_store, corpus.name, old).switch_space() == 1
    assert old.encoded == ["lake"]
    assert active(shared_store, corpus.name) == {("proposition", OLD)}
    assert vectors_of(corpus) == {("proposition", OLD): 7, ("proposition", NEW): 7}


def test_t10_what_is_changed_while_a_space_is_built_is_embedded_as_it_is_now(
    shared_store: Store, name: str
) -> None:
    fill(shared_store, name)
    changed = {"e": [("lake", ["Lake"])], "b": [("loom wheel", ["Loom"])]}

    def write(encoded: int) -> None:
        if not encoded:
            ingest(shared_store, name, passages_of(changed), language=ScriptedLanguage(extract=changed))

    other = OtherEncoder(before=write)
    corpus = of_model(shared_store, name, other)
    assert corpus.build_space() == 7
    assert set(other.encoded[6:]) == {"loom wheel", "lake"}
    assert vectors_of(corpus) == {("proposition", OLD): 7, ("proposition", NEW): 7}


def test_t10_a_passage_that_changes_while_it_is_embedded_gets_the_vector_of_its_new_text(
    shared_store: Store, name: str
) -> None:
    fill(shared_store, name)

    def write(encoded: int) -> None:
        if not encoded:
            ingest(shared_store, name, passages_of({"b": [("loom wheel", ["Loom"])]}))

    ensure_passage_space(shared_store, name, OtherEncoder(model=OLD, before=write))
    again = OtherEncoder(model=OLD)
    ensure_passage_space(shared_store, name, again)
    assert again.encoded == ["loom wheel"]


def test_t10_what_is_added_after_the_build_is_embedded_by_the_switch(
    shared_store: Store, corpus: Corpus
) -> None:
    corpus.build_space()
    added = {"e": [("lake", ["Lake"]), ("lake star", ["Lake"])]}
    ingest(shared_store, corpus.name, passages_of(added), language=ScriptedLanguage(extract=added))
    assert corpus.switch_space() == 2
    assert vectors_of(corpus) == {("proposition", OLD): 8, ("proposition", NEW): 8}


def test_t10_the_last_few_are_embedded_while_no_writer_is_in_the_corpus(
    shared_store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.build_space()

    def fill_and_add(*given: Any, **options: Any) -> int:
        made = filling.fill(*given, **options)
        ingest(shared_store, corpus.name, passages_of({"late": [("Lake", [])]}))
        return made

    monkeypatch.setattr(switching, "fill", fill_and_add)
    assert corpus.switch_space() == 1
    assert active(shared_store, corpus.name) == {("proposition", NEW)}
    assert vectors_of(corpus) == {("proposition", OLD): 7, ("proposition", NEW): 7}


def test_t10_a_switch_gives_up_on_writers_that_are_faster(
    shared_store: Store, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.build_space()
    monkeypatch.setattr(switching, "ATTEMPTS", 3)
    monkeypatch.setattr(switching, "PAGE", 1)
    late = (f"late-{number}" for number in count())

    def fill_and_add(*given: Any, **options: Any) -> int:
        made = filling.fill(*given, **options)
        ingest(shared_store, corpus.name, [Passage(key=next(late), text="Lake. Star.")])
        return made

    monkeypatch.setattr(switching, "fill", fill_and_add)
    with pytest.raises(DatabaseError, match=r"more passages are added .*: repeat it while less is added"):
        corpus.switch_space()
    assert active(shared_store, corpus.name) == {("proposition", OLD)}


def test_t10_deleting_clears_every_space(corpus: Corpus) -> None:
    corpus.build_space()
    corpus.delete(["a"])
    assert vectors_of(corpus) == {("proposition", OLD): 4, ("proposition", NEW): 4}


def test_t10_the_spaces_of_both_kinds_are_switched_at_once(shared_store: Store, corpus: Corpus) -> None:
    ensure_passage_space(shared_store, corpus.name, HashEncoder())
    assert corpus.build_space() == 10
    corpus.switch_space()
    assert active(shared_store, corpus.name) == {("proposition", NEW), ("passage", NEW)}
    again = OtherEncoder()
    ensure_passage_space(shared_store, corpus.name, again)
    assert again.encoded == []


def test_t10_a_switch_shows_when_it_is_committed_and_not_before(shared_store: Store, corpus: Corpus) -> None:
    corpus.build_space()
    new = next(one.space for one in corpus.spaces() if one.space.model == NEW)
    with shared_store.transaction() as tx:
        corpora.find_locked(tx, corpus.name)
        corpora.point_at_spaces(tx, new.corpus_id, {"proposition": new.space_id})
        assert keys(search(shared_store, corpus.name, "engine loom"))[0] == "a"
    assert keys(search(shared_store, corpus.name, "engine loom", encoder=OtherEncoder()))[0] == "a"


def test_t10_a_search_across_the_switch_uses_one_space(shared_store: Store, corpus: Corpus) -> None:
    corpus.build_space()
    residual = ScriptedLanguage(reformulate={"engine loom": ["star"]})
    before = search(shared_store, corpus.name, "engine loom", language=residual)

    def switch(*_: object) -> Reformulation:
        corpus.switch_space()
        return Reformulation(queries=("star",))

    across = search(shared_store, corpus.name, "engine loom", language=ScriptedLanguage(reformulate=switch))
    assert active(shared_store, corpus.name) == {("proposition", NEW)}
    assert across.residual_queries == before.residual_queries
    assert scores(across) == scores(before)


def test_t10_a_search_whose_space_is_dropped_meanwhile_says_so(shared_store: Store, corpus: Corpus) -> None:
    corpus.build_space()
    old = corpus.spaces()[0].space

    def switch_and_drop(*_: object) -> Reformulation:
        corpus.switch_space()
        assert corpus.drop_space(old.space_id).model == OLD
        return Reformulation(queries=("star",))

    with pytest.raises(VectorSpaceMismatch, match=r"vectors of hash-64 \(64-d\) were dropped meanwhile"):
        search(
            shared_store, corpus.name, "engine loom", language=ScriptedLanguage(reformulate=switch_and_drop)
        )


def test_t10_an_ingestion_across_the_switch_is_refused_with_both_names(
    shared_store: Store, corpus: Corpus
) -> None:
    corpus.build_space()

    def extract(_: Passage) -> Extraction:
        corpus.switch_space()
        return Extraction(propositions=())

    with pytest.raises(
        VectorSpaceMismatch, match=r"switched from hash-64 \(64-d\) to new \(96-d\) meanwhile"
    ):
        ingest(
            shared_store,
            corpus.name,
            [Passage(key="e", text="Lake.")],
            language=ScriptedLanguage(extract=extract),
        )
    assert rows(shared_store, "SELECT 1 FROM passage WHERE passage_key = 'e' AND corpus_id = %(id)s",
                id=corpus.spaces()[0].space.corpus_id) == []  # fmt: skip


def test_a_model_is_not_switched_to_before_it_is_built(corpus: Corpus) -> None:
    with pytest.raises(UsageError, match=r"not embedded with new \(96-d\): run `evireform space build`"):
        corpus.switch_space()


def test_a_corpus_without_vectors_has_no_space_to_build_beside(shared_store: Store, name: str) -> None:
    with shared_store.transaction() as tx:
        corpora.create_corpus(tx, name, titles="on")
    with pytest.raises(UsageError, match="holds no vectors yet: ingest into it first"):
        of_model(shared_store, name, OtherEncoder()).build_space()


def test_the_active_space_is_not_dropped(corpus: Corpus) -> None:
    space_id = corpus.spaces()[0].space.space_id
    with pytest.raises(UsageError, match=f"space {space_id} of hash-64 is active: switch to another model"):
        corpus.drop_space(space_id)


def test_a_space_of_another_corpus_is_not_dropped(corpus: Corpus) -> None:
    own = corpus.spaces()[0].space.space_id
    with pytest.raises(UsageError, match=rf"has no space of the number 0; it has {own} \(propositions, "):
        corpus.drop_space(0)


def test_a_dropped_space_leaves_nothing(shared_store: Store, corpus: Corpus) -> None:
    corpus.build_space()
    new = next(one.space for one in corpus.spaces() if one.space.model == NEW)
    corpus.drop_space(new.space_id)
    partition = f"embedding_{new.corpus_id}_{new.space_id}"
    left = "SELECT count(*) FROM pg_class WHERE relname = %(partition)s"
    assert (vectors_of(corpus), rows(shared_store, left, partition=partition)) == (
        {("proposition", OLD): 6},
        [(0,)],
    )


# Dimensions.


def test_t09_a_model_of_other_dimensions_is_refused_with_both_names(shared_store: Store, name: str) -> None:
    fill(shared_store, name, encoder=HashEncoder(1_024))
    with pytest.raises(
        VectorSpaceMismatch,
        match=r"with hash-1024 \(1024-d\) and are opened with hash-1536 \(1536-d\): use the first one, or ",
    ):
        search(shared_store, name, "engine loom", encoder=HashEncoder(1_536))


def test_t09_a_model_of_4096_dimensions_works(shared_store: Store, name: str) -> None:
    wide = HashEncoder(4_096)
    fill(shared_store, name, encoder=wide)
    exact = search(shared_store, name, "engine loom", encoder=wide)
    with shared_store.transaction(read_only=True) as tx:
        space = corpora.active_space(tx, corpora.get_corpus(tx, name).corpus_id, "proposition")
    assert store_spaces.ensure_index(shared_store, space, threshold=1)
    assert scores(search(shared_store, name, "engine loom", encoder=wide, exact=False)) == scores(exact)


@pytest.fixture(scope="module")
def wide_space(shared_store: Store) -> SpaceRow:
    """Vectors of 4,096 dimensions with their index."""
    return corpus_of(shared_store, next(names), clustered(scaled(6_000, 12_000), 4_096, seed=3))


def test_t09_recall_of_4096_dimensions_is_0_99_of_exact_at_100(
    shared_store: Store, wide_space: SpaceRow
) -> None:
    questions = clustered(10, 4_096, seed=4)
    assert wide_space.indexed
    assert mean_recall(shared_store, wide_space, questions) >= 0.99


def test_t09_vectors_of_4096_dimensions_are_found_by_their_index(
    shared_store: Store, wide_space: SpaceRow
) -> None:
    parameters = {
        "corpus_id": wide_space.corpus_id,
        "space_id": wide_space.space_id,
        "vectors": clustered(1, 4_096, seed=4),
        "dimensions": 4_096,
        "fetch": 110,
        "sample": 1_100,
    }
    with shared_store.transaction(read_only=True) as tx:
        text = statement("nearest_items", dimensions=4_096)
        plan = str(tx.driver.execute(f"EXPLAIN {text}".encode(), parameters).fetchall())
    assert f"ix_embedding_{wide_space.corpus_id}_{wide_space.space_id}_hnsw" in plan


def mean_recall(store: Store, space: SpaceRow, questions: Vectors) -> float:
    """Of the 100 nearest by exact search, the share that a search by index finds, on average."""
    shares = []
    with store.transaction(read_only=True) as tx:
        for vector in questions:
            found, exact = (nearest(tx, space, vector, exact=exact) for exact in (False, True))
            shares.append(len(found & exact) / len(exact))
    return float(np.mean(shares))


def nearest(tx: object, space: SpaceRow, vector: Vectors, *, exact: bool) -> set[int]:
    """The candidates of a question."""
    tx.exact = exact  # type: ignore[attr-defined]
    (found,), _ = searching.candidates(
        tx, space, vector[None], limit=100, with_entities=False, titles="on"  # type: ignore[arg-type]
    )  # fmt: skip
    return {candidate.proposition_id for candidate in found}


# Corpora of all sizes.


@dataclass(frozen=True)
class Share:
    """A corpus of a tenant of its own, as a reader of that tenant sees it."""

    reader: Store
    space: SpaceRow
    size: int


@pytest.fixture(scope="module")
def shares(server_url: str, template_database: str) -> Iterator[dict[str, Share]]:
    """A corpus with all the rows of its tables, then others of 0.1, 2 and 30 % of what there is at last."""
    most = scaled(7_000, 100_000)
    sizes = {"100": most, "30": most * 30 // 68, "2": most * 2 // 68, "0.1": most // 680}
    made: dict[str, Share] = {}
    with ExitStack() as stack:
        url = stack.enter_context(database(server_url, template_database))
        for share, size in sizes.items():
            tenant = f"tenant of {share} %"
            stores = {
                access: Store(stack.enter_context(new_member(url, tenant, access)), schema=SCHEMA)
                for access in ("writer", "reader")
            }
            for store in stores.values():
                stack.callback(store.close)
            space = corpus_of(stores["writer"], "c", clustered(size, 48, seed=size))
            made[share] = Share(reader=stores["reader"], space=space, size=size)
        yield made


@pytest.mark.parametrize("share", ["0.1", "2", "30", "100"])
def test_t13_a_search_brings_a_full_hundred_of_a_corpus_of_any_share(
    shares: dict[str, Share], share: str
) -> None:
    one = shares[share]
    with one.reader.transaction(read_only=True) as tx:
        counts = {len(nearest(tx, one.space, vector, exact=False)) for vector in clustered(20, 48, seed=5)}
    assert counts == {min(100, one.size)}


@pytest.mark.parametrize("share", ["0.1", "2", "30", "100"])
def test_t13_recall_is_0_98_of_exact_in_a_corpus_of_any_share(shares: dict[str, Share], share: str) -> None:
    one = shares[share]
    assert mean_recall(one.reader, one.space, clustered(20, 48, seed=5)) >= 0.98


def test_t13_row_level_security_leaves_the_index_in_use(shares: dict[str, Share]) -> None:
    space = shares["100"].space
    parameters = {
        "corpus_id": space.corpus_id,
        "space_id": space.space_id,
        "vectors": clustered(1, 48, seed=5),
        "dimensions": 48,
        "fetch": 110,
        "sample": 110,
    }
    with shares["100"].reader.transaction(read_only=True) as tx:
        text = statement("nearest_items", dimensions=48)
        plan = str(tx.driver.execute(f"EXPLAIN {text}".encode(), parameters).fetchall())
    assert f"ix_embedding_{space.corpus_id}_{space.space_id}_hnsw" in plan


def test_t13_small_corpora_are_scanned_and_large_ones_have_an_index(shares: dict[str, Share]) -> None:
    assert {share: one.space.indexed for share, one in shares.items()} == {
        "0.1": False,
        "2": False,
        "30": True,
        "100": True,
    }


# Indexes and what they find.


@pytest.fixture
def indexed(shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """A corpus of 400 propositions that is large enough for an index, which it does not have yet."""
    corpus_of(shared_store, name, clustered(400, 16, seed=6))
    monkeypatch.setattr(store_spaces, "INDEX_THRESHOLD", 400)
    return Corpus(Database(shared_store, settings=Settings()), name)


def test_a_missing_index_is_built_and_measured(indexed: Corpus) -> None:
    (made,) = indexed.index(sample=10)
    report = made.report
    assert (made.action, made.sampled, report.space.indexed, report.vectors) == ("built", 10, True, 400)
    assert report.recall is not None
    assert 0.9 < report.recall <= 1.0
    assert report.breadth == 400
    assert report.index_bytes > 0


def test_a_measurement_is_kept(indexed: Corpus) -> None:
    (made,) = indexed.index(sample=10)
    assert indexed.spaces() == [made.report]


def test_an_index_that_is_there_is_kept(indexed: Corpus) -> None:
    indexed.index(sample=0)
    (again,) = indexed.index(sample=0)
    assert (again.action, again.sampled, again.report.recall) == ("kept", 0, None)


def test_a_space_below_the_threshold_is_scanned(corpus: Corpus) -> None:
    (made,) = corpus.index()
    assert (made.action, made.report.index_bytes, made.report.recall) == ("none", 0, None)


def index_oid(corpus: Corpus) -> int:
    space = corpus.spaces()[0].space
    name = f"ix_embedding_{space.corpus_id}_{space.space_id}_hnsw"
    found = rows(corpus.database.store, "SELECT oid FROM pg_class WHERE relname LIKE %(n)s", n=name + "%")
    ((oid,),) = found
    return int(oid)


def test_a_rebuilt_index_takes_the_place_of_the_first(indexed: Corpus) -> None:
    indexed.index(sample=0)
    before = index_oid(indexed)
    (again,) = indexed.index(rebuild=True, sample=0)
    assert again.action == "rebuilt"
    assert index_oid(indexed) != before


def test_searches_go_on_while_an_index_is_rebuilt(shared_store: Store, indexed: Corpus) -> None:
    indexed.index(sample=0)
    space = indexed.spaces()[0].space
    with shared_store.transaction() as tx:
        tx.run("rebuild_space_index", {"corpus_id": space.corpus_id, "space_id": space.space_id})
        with shared_store.transaction(read_only=True, statement_timeout_s=5) as reader:
            assert len(nearest(reader, space, clustered(1, 16, seed=7)[0], exact=False)) == 100


def test_a_rebuild_goes_on_where_it_was_interrupted(shared_store: Store, indexed: Corpus) -> None:
    indexed.index(sample=0)
    space = indexed.spaces()[0].space
    parameters = {"corpus_id": space.corpus_id, "space_id": space.space_id}
    with shared_store.transaction() as tx:
        tx.run("rebuild_space_index", parameters)
    built = rows(
        shared_store,
        "SELECT to_regclass(%(name)s)::oid",
        name=f"ix_embedding_{space.corpus_id}_{space.space_id}_hnsw_new",
    )
    indexed.index(rebuild=True, sample=0)
    assert index_oid(indexed) == built[0][0]


def test_recall_counts_what_an_index_misses(indexed: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    real = indexing.searching.nearest

    def lame(tx: object, *given: object, **options: object) -> searching.Found:
        found = real(tx, *given, **options)  # type: ignore[arg-type]
        if tx.exact:  # type: ignore[attr-defined]
            return found
        return searching.Found(rows=[of_one[:51] for of_one in found.rows], repeated=False)

    monkeypatch.setattr(indexing.searching, "nearest", lame)
    (made,) = indexed.index(sample=10)
    assert (made.report.recall, made.worst) == (0.5, 0.5)


def test_t10_a_writer_of_a_tenant_may_do_all_of_it(database_url: str) -> None:
    with new_member(database_url, "ours", "writer") as url:
        store = Store(url, schema=SCHEMA)
        fill(store, "c")
        corpus = of_model(store, "c", OtherEncoder())
        old = corpus.spaces()[0].space.space_id
        corpus.build_space()
        corpus.switch_space()
        corpus.drop_space(old)
        store_spaces.ensure_index(store, corpus.spaces()[0].space, threshold=1)
        (made,) = corpus.index(rebuild=True)
        found = search(store, "c", "engine loom", encoder=OtherEncoder(), exact=False)
        store.close()
    assert (made.action, made.report.recall, keys(found)[0]) == ("rebuilt", 1.0, "a")


def test_the_active_spaces_stay_active_through_the_migration_that_made_them_pointers(
    server_url: str, template_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = "SELECT kind, model FROM vector_space WHERE active ORDER BY kind"
    with database(server_url, template_database) as url:
        store = Store(url, schema=SCHEMA)
        fill(store, "c")
        ensure_passage_space(store, "c", HashEncoder())
        of_model(store, "c", OtherEncoder()).build_space()
        with store.transaction() as tx:
            tx.run("drop_views", {})
        config = alembic_config(url, monkeypatch)
        command.downgrade(config, "0002")
        with psycopg.connect(url, options=f"-csearch_path={SCHEMA}") as connection:
            assert connection.execute(flags).fetchall() == [("passage", OLD), ("proposition", OLD)]
        command.upgrade(config, "head")
        assert active(store, "c") == {("proposition", OLD), ("passage", OLD)}
        store.close()
