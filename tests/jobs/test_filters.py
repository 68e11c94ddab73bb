"""Filtered searches against a filter by hand: the same passages and scores, and nothing of the others."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from psycopg.conninfo import make_conninfo

from evireform import answering, ingestion
from evireform.filters import Filter, conditions, intervals, parse
from evireform.records import Control, Passage, Ranking, Reading, Selection, SpaceRow
from evireform.retrieval.replay import replay
from evireform.settings import VARIANTS, AnswerSettings, SearchSettings
from evireform.store import corpora, filtering, searching, writing
from evireform.store.connection import Store
from evireform.store.corpora import active_space, get_corpus
from evireform.store.spaces import ensure_index
from evireform.store.statements import statement
from tests.conftest import SCHEMA
from tests.database.roles import new_member
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.bulk import clustered
from tests.jobs.indexes import ingest, keys, passages_of, rows, scores, search
from tests.jobs.test_exactness import Case, Dense, cases, check_ranking, check_trace, parameters, read
from tests.scale import scaled

names = (f"filtered-{number}" for number in count())

EXAMPLES = settings(
    max_examples=scaled(10, 200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


# What can be filtered by.

ODD: Mapping[str, Any] = {
    "year": 2020,
    "lang": ["en", "de", "en"],
    "public": True,
    "mixed": [1, 1.0, "1", False, None, {"deep": 1}, [2]],
    "none": None,
    "object": {"year": 1},
    "long": "x" * 501,
    "longest": "ł" * 500,
    "x" * 101: "a name too long",
    "huge": 10**400,
    "tiny": 5e-324,
    "empty": "",
    "big": 2**53 + 1,
    "": "no name",
}


def held(store: Store, name: str) -> list[tuple[str, str, str, float | None]]:
    """Name, kind, value and number of every row of a corpus."""
    found = rows(
        store,
        "SELECT own.name, kind, value, number FROM passage_metadata AS own JOIN corpus USING (corpus_id)"
        " WHERE corpus.name = %(corpus)s ORDER BY own.name, kind, value",
        corpus=name,
    )
    return [(row[0], row[1], row[2], row[3]) for row in found]


HELD = [
    ("big", "number", "9.007199254740992e+15", 2.0**53),
    ("empty", "text", "", None),
    ("lang", "text", "de", None),
    ("lang", "text", "en", None),
    ("longest", "text", "ł" * 500, None),
    ("mixed", "boolean", "false", None),
    ("mixed", "number", "1", 1.0),
    ("mixed", "text", "1", None),
    ("public", "boolean", "true", None),
    ("tiny", "number", "5e-324", 5e-324),
    ("year", "number", "2020", 2020.0),
]


def test_scalars_of_the_top_level_and_of_lists_there_can_be_filtered_by(shared_store: Store) -> None:
    name = next(names)
    ingest(shared_store, name, [Passage(key="a", text="Ada ran.", metadata=ODD)])
    assert held(shared_store, name) == HELD


def test_a_passage_that_is_relabelled_is_filtered_by_its_new_metadata(shared_store: Store) -> None:
    name = next(names)
    ingest(shared_store, name, [Passage(key="a", text="Ada ran.", metadata={"year": 1, "lang": "en"})])
    ingest(shared_store, name, [Passage(key="a", text="Ada ran.", metadata={"year": 2, "lang": "en"})])
    assert held(shared_store, name) == [("lang", "text", "en", None), ("year", "number", "2", 2.0)]


def test_a_passage_that_is_changed_is_filtered_by_its_new_metadata(shared_store: Store) -> None:
    name = next(names)
    ingest(shared_store, name, [Passage(key="a", text="Ada ran.", metadata={"year": 1})])
    ingest(shared_store, name, [Passage(key="a", text="Ada sat.")])
    assert held(shared_store, name) == []


def test_a_deleted_passage_leaves_nothing_to_filter_by(shared_store: Store) -> None:
    name = next(names)
    ingest(shared_store, name, [Passage(key=key, text="Ada ran.", metadata={"key": key}) for key in "ab"])
    ingestion.delete(shared_store, name, ["a"])
    assert held(shared_store, name) == [("key", "text", "b", None)]


def test_rows_that_do_not_follow_from_the_metadata_are_mended(shared_store: Store) -> None:
    name = next(names)
    ingest(shared_store, name, [Passage(key="a", text="Ada ran.", metadata={"year": 2020, "lang": "en"})])
    with shared_store.transaction() as tx:
        corpus_id = get_corpus(tx, name).corpus_id
        tx.driver.execute(
            "UPDATE passage_metadata SET number = 7 WHERE corpus_id = %s AND kind = 'number'", [corpus_id]
        )
        tx.driver.execute(
            "UPDATE passage_metadata SET value = 'xx' WHERE corpus_id = %s AND kind = 'text'", [corpus_id]
        )
        writing.derive_metadata(tx, corpus_id, None)
    assert held(shared_store, name) == [("lang", "text", "en", None), ("year", "number", "2020", 2020.0)]


# Random metadata and filters.

SCALARS = (0, 1, 2.5, -1, 2020, True, False, "", "a", "ab", "b", "\U0001f600", "\ue000", "1", "true")
scalars = st.sampled_from(SCALARS)
metadata = st.dictionaries(
    st.sampled_from(("x", "y")), st.one_of(scalars, st.lists(scalars, max_size=3), st.none()), max_size=2
)
comparable = st.sampled_from([value for value in SCALARS if not isinstance(value, bool)])
filters = st.lists(
    st.one_of(
        st.builds(
            lambda name, values: {name: values}, st.sampled_from(("x", "y")), st.lists(scalars, max_size=4)
        ),
        st.builds(
            lambda name, operator, value: {name: {operator: value}},
            st.sampled_from(("x", "y")),
            st.sampled_from(("<", "<=", ">", ">=", "=")),
            comparable,
        ),
    ),
    min_size=1,
    max_size=3,
).map(lambda several: tuple(one for where in several for one in conditions(where)))


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def compares(value: Any, operator: str, asked: Any) -> bool:
    """Whether a value is on the wanted side of another of its kind."""
    if isinstance(value, bool) != isinstance(asked, bool) or is_number(value) != is_number(asked):
        return False
    if isinstance(value, str):
        value, asked = [ord(c) for c in value], [ord(c) for c in asked]
    return {
        "=": value == asked,
        "<": value < asked,
        "<=": value <= asked,
        ">": value > asked,
        ">=": value >= asked,
    }[operator]


def meets(held: Mapping[str, Any], where: Filter) -> bool:
    """Whether metadata meet every condition."""

    def values(name: str) -> list[Any]:
        found = held.get(name)
        found = found if isinstance(found, list) else [found]
        return [value for value in found if value is not None]

    return all(
        any(compares(value, one.operator, asked) for value in values(one.name) for asked in one.values)
        for one in where
    )


def check_shown(ranking: Ranking, language: ScriptedLanguage, within: set[str]) -> None:
    """Every passage that a search had in hand, at every step, is one of these."""
    shown = {candidate.passage_key for _, found in language.selected_from for candidate in found}
    shown |= {passage.passage_key for _, read in language.reformulated_from for passage in read}
    shown |= {key for _, read in language.controlled_from for key in read}
    shown |= {p.passage_key for _, read, pool in language.judged_from for p in (*read, *pool)}
    shown |= {candidate.passage_key for candidate in ranking.candidates}
    shown |= {seed.passage_key for seed in ranking.seeds} | set(ranking.observed) | set(keys(ranking))
    assert shown - within == set()


def check_best(
    dense: Dense, query: str, hits: Sequence[tuple[int, float]], limit: int, within: set[str]
) -> None:
    """The best allowed propositions for a query: as many as there are, up to the limit."""
    similarity = dense.similarities(query)
    allowed = [row for row, key in enumerate(dense.keys) if key in within and similarity[row] > 1e-6]
    assert len(hits) == min(limit, len(allowed))
    worst = min((u for _, u in hits), default=0.0)
    found = {row for row, _ in hits}
    assert found <= set(allowed)
    assert all(similarity[row] <= worst + 1e-6 for row in set(allowed) - found)


def index(store: Store, name: str) -> None:
    """Build the HNSW index of a corpus, however small it is."""
    with store.transaction() as tx:
        corpus = get_corpus(tx, name)
        space = active_space(tx, corpus.corpus_id, "proposition")
    ensure_index(store, space, threshold=1)


@pytest.mark.parametrize("listed", [0, 50])
@given(data=st.data(), case=cases(), given_settings=parameters, hub_degree=st.integers(0, 3), where=filters)
@EXAMPLES
def test_a_filtered_search_agrees_with_the_dense_definition(
    shared_store: Store,
    listed: int,
    data: st.DataObject,
    case: Case,
    given_settings: dict[str, Any],
    hub_degree: int,
    where: Filter,
) -> None:
    """Where what is allowed is listed, and where it is tested as the index search goes."""
    name = next(names)
    of_passage = {key: data.draw(metadata, label=key) for key in case.script}
    within = {key for key, said in of_passage.items() if meets(said, where)}
    passages = [replace(p, metadata=of_passage[p.key]) for p in passages_of(case.script)]
    ingest(shared_store, name, passages, language=case.language)
    index(shared_store, name)
    options = {**given_settings, "hub_degree": hub_degree, "exact": False, "where": where, "set_weight": 0.5}
    for variant in VARIANTS:
        language = case.language
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(filtering, "LISTED", listed)
            ranking = search(shared_store, name, case.question, language=language, variant=variant, **options)
        check_shown(ranking, language, within)
        configuration = SearchSettings(**options).variant(variant)
        found = read(shared_store, name, case, ranking, configuration)
        row_at = {place: row for row, place in enumerate(found.dense.places)}
        candidates = [(row_at[c.passage_key, c.ordinal], c.similarity) for c in ranking.candidates]
        check_best(found.dense, case.question, candidates, configuration.candidates, within)
        for query, hits in zip(ranking.residual_queries, found.residual, strict=True):
            check_best(found.dense, query.text, hits, configuration.hits_per_query, within)
        if ranking.candidates:
            expected = found.dense.readout(found.z())
            check_ranking(ranking, {key: expected[key] for key in expected.keys() & within}, configuration.k)
            for passage in ranking.passages:
                check_trace(found, passage)


# Rows, recall and plans, with the index in place.

BULK = scaled(4_000, 60_000)
SHARES = {0.001: "thousandth", 0.02: "fiftieth", 0.3: "third", 1.0: "all"}


@pytest.fixture(scope="module")
def bulk(shared_store: Store) -> tuple[SpaceRow, NDArray[np.float32]]:
    """One passage a proposition, which says of which shares of the corpus it is a part."""
    vectors = clustered(BULK, 32, seed=1)
    name = next(names)
    with shared_store.transaction() as tx:
        corpus = corpora.create_corpus(tx, name, titles="off")
        space = corpora.create_space(
            tx, corpus, kind="proposition", model="bulk", dimensions=vectors.shape[1], prompts={}
        )
        given = {
            "corpus": corpus.corpus_id,
            "tenant": corpus.tenant_id,
            "count": BULK,
            **{word: share for share, word in SHARES.items()},
        }
        tx.driver.execute(
            """
            INSERT INTO passage (corpus_id, tenant_id, passage_key, body, content_hash, metadata, state,
                                 proposition_count)
            SELECT %(corpus)s, %(tenant)s, 'p' || i, 'text', '',
                   jsonb_build_object(
                       'place', i,
                       'parts', to_jsonb(array_remove(ARRAY[
                           CASE WHEN i <= %(count)s * %(thousandth)s THEN 'thousandth' END,
                           CASE WHEN i <= %(count)s * %(fiftieth)s THEN 'fiftieth' END,
                           CASE WHEN i <= %(count)s * %(third)s THEN 'third' END, 'all'], NULL))), 'ready', 1
            FROM generate_series(1, %(count)s) AS i""",
            given,
        )
        tx.driver.execute(
            "INSERT INTO proposition (corpus_id, tenant_id, passage_id, ordinal, body)"
            " SELECT corpus_id, tenant_id, passage_id, 0, 'text' FROM passage WHERE corpus_id = %(corpus)s"
            " ORDER BY passage_id",
            given,
        )
        ids = [
            row[0]
            for row in tx.driver.execute(
                "SELECT proposition_id FROM proposition WHERE corpus_id = %(corpus)s ORDER BY passage_id",
                given,
            )
        ]
        writing.insert_vectors(tx, space, tenant_id=corpus.tenant_id, item_ids=ids, vectors=vectors)
        writing.derive_metadata(tx, corpus.corpus_id, None)
        tx.run("analyze_corpus_tables", {})
    ensure_index(shared_store, space, threshold=1)
    with shared_store.transaction(read_only=True) as tx:
        return active_space(tx, space.corpus_id, "proposition"), vectors


def found_in_bulk(
    store: Store,
    space: SpaceRow,
    vectors: NDArray[np.float32],
    where: Filter,
    *,
    listed: int,
    exact: bool = False,
) -> tuple[list[list[str]], bool]:
    """Keys of the 100 nearest of each vector, and whether what is allowed was listed."""
    with pytest.MonkeyPatch.context() as patch, store.transaction(read_only=True, exact=exact) as tx:
        patch.setattr(filtering, "LISTED", listed)
        allowed = filtering.allowed_in_space(tx, space, where)
        lists, _ = searching.candidates(
            tx, space, vectors, limit=100, with_entities=False, titles="off", allowed=allowed
        )
    return [[one.passage_key for one in found] for found in lists], allowed is not None and allowed.few


@pytest.mark.parametrize("listed", [0, 50])
@pytest.mark.parametrize("share", SHARES)
def test_t13_a_filter_never_starves_a_search(
    shared_store: Store, bulk: tuple[SpaceRow, NDArray[np.float32]], share: float, listed: int
) -> None:
    space, vectors = bulk
    asked = clustered(8, 32, seed=2)
    where = conditions({"parts": SHARES[share]})
    found, few = found_in_bulk(shared_store, space, asked, where, listed=listed)
    assert few == (share * BULK <= listed * BULK**0.5)
    size = round(share * BULK)
    half = vectors[:size].astype(np.float16).astype(np.float32)
    similarity = asked.astype(np.float16).astype(np.float32) @ half.T
    best = [{f"p{i + 1}" for i in np.argsort(-row)[:100]} for row in similarity]
    assert [len(one) for one in found] == [min(100, size)] * 8
    assert np.mean(
        [len(set(one) & nearest) / len(nearest) for one, nearest in zip(found, best, strict=True)]
    ) >= (1.0 if few else 0.98)


def test_a_filtered_index_search_recalls_as_much_as_one_without_a_filter(
    shared_store: Store, bulk: tuple[SpaceRow, NDArray[np.float32]]
) -> None:
    space, _ = bulk
    asked = clustered(16, 32, seed=3)
    recall = []
    for where in ((), conditions({"parts": "third"})):
        exact, _ = found_in_bulk(shared_store, space, asked, where, listed=0, exact=True)
        found, few = found_in_bulk(shared_store, space, asked, where, listed=0)
        assert not few
        recall.append(sum(len(set(a) & set(b)) for a, b in zip(exact, found, strict=True)) / 1_600)
    assert recall[1] >= recall[0] - 0.005


def plan(
    store: Store, space: SpaceRow, name: str, parameters: Mapping[str, Any], *, exact: bool = False
) -> str:
    """How the server runs a statement, as text."""
    text = statement(name, dimensions=space.dimensions, exact=exact)
    with store.transaction(read_only=True) as tx, tx.driver.cursor() as cursor:
        cursor.execute(b"EXPLAIN (COSTS OFF) " + text.encode(), parameters)
        return "\n".join(row[0] for row in cursor.fetchall())


def parameters_of(space: SpaceRow, where: Filter, **more: Any) -> dict[str, Any]:
    """What the statements of a filtered search are given."""
    return {
        "corpus_id": space.corpus_id, "space_id": space.space_id, "conditions": len(where),
        "intervals": json.dumps([{k: str(v) for k, v in one.items()} for one in intervals(where)]),
        "vectors": np.zeros((1, space.dimensions), dtype=np.float32), "dimensions": space.dimensions,
        "fetch": 110, "sample": 800, "item_ids": None, **more,
    }  # fmt: skip


def test_a_filter_is_looked_up_by_index_conditions(
    shared_store: Store, bulk: tuple[SpaceRow, NDArray[np.float32]]
) -> None:
    space, _ = bulk
    given = parameters_of(space, parse(["place<9", "parts=third"]))
    found = plan(shared_store, space, "allowed_propositions", given).replace('"', "")
    assert "Seq Scan on passage_metadata" not in found
    for columns in (
        "(name = asked.name) AND (kind = asked.kind) AND (value >= asked.low) AND (value < asked.high)",
        "(name = asked.name) AND (number >= asked.least) AND (number <= asked.most)",
    ):
        assert re.search(rf"Index Cond: \(\(corpus_id = [^)]+\) AND {re.escape(columns)}\)", found)


@pytest.mark.parametrize("name", ["candidates", "residual_hits"])
def test_a_large_selection_is_tested_as_the_index_is_searched(
    shared_store: Store, bulk: tuple[SpaceRow, NDArray[np.float32]], name: str
) -> None:
    space, _ = bulk
    found = plan(shared_store, space, name, parameters_of(space, parse(["parts=all"]), with_entities=False))
    assert "_hnsw on embedding" in found
    assert "Seq Scan on passage_metadata" not in found
    assert "Seq Scan on embedding" not in found


@pytest.mark.parametrize("name", ["candidates", "residual_hits"])
def test_a_small_selection_is_read_by_key(
    shared_store: Store, bulk: tuple[SpaceRow, NDArray[np.float32]], name: str
) -> None:
    space, _ = bulk
    given = parameters_of(space, (), with_entities=False, conditions=None, intervals=None, item_ids=[1, 2, 3])
    found = plan(shared_store, space, name, given, exact=True)
    assert "item_id = ANY ('{1,2,3}'::bigint[])" in found
    assert "Seq Scan on embedding" not in found


def test_a_member_of_the_tenant_looks_up_by_the_same_conditions(
    server_url: str, shared_store: Store, bulk: tuple[SpaceRow, NDArray[np.float32]]
) -> None:
    """Row-level security leaves conditions to an index only where their operators cannot leak."""
    space, _ = bulk
    asked = clustered(4, 32, seed=4)
    given = parameters_of(space, parse(["place<9", "parts=third"]))
    ((database,),) = rows(shared_store, "SELECT current_database()::text")
    with new_member(make_conninfo(server_url, dbname=database), access="reader") as url:
        member = Store(url, schema=SCHEMA)
        found = plan(member, space, "allowed_propositions", given).replace('"', "")
        for where in (parse(["parts=fiftieth"]), parse(["parts=third"])):
            own, _ = found_in_bulk(shared_store, space, asked, where, listed=0)
            assert found_in_bulk(member, space, asked, where, listed=0) == (own, False)
        member.close()
    assert "Seq Scan on passage_metadata" not in found
    assert "AND (name = asked.name) AND (number >= asked.least) AND (number <= asked.most)" in found
    assert "(kind = asked.kind) AND (value >= asked.low) AND (value < asked.high)" in found


# What a filter does to the steps of a search.

CHAIN = {
    "a": [("the engine", ["Ada"])],
    "b": [("the loom", ["Ada", "Card"])],
    "c": [("the card", ["Card"])],
}
LABELS: Mapping[str, Mapping[str, Any]] = {"a": {"year": 2020}, "b": {"year": 2021}, "c": {"year": 2022}}


def labelled(script: Mapping[str, Any], labels: Mapping[str, Mapping[str, Any]]) -> list[Passage]:
    return [replace(p, metadata=labels.get(p.key, {})) for p in passages_of(script)]


def test_degrees_stay_those_of_the_corpus(shared_store: Store) -> None:
    # The engine hands half of its mass to the loom, which the filter excludes, and gets none back.
    name = next(names)
    language = ScriptedLanguage(extract=CHAIN, select={"the engine": ["the engine"]})
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=language)
    options = {"language": language, "variant": "propagation"}
    whole = search(shared_store, name, "the engine", **options)
    part = search(shared_store, name, "the engine", where=parse(["year=2020,2022"]), **options)
    assert scores(whole) == {"a": 0.5, "b": 0.5}
    assert scores(part) == {"a": 0.5}


def test_a_filter_that_allows_nothing_asks_no_model(shared_store: Store) -> None:
    name = next(names)
    language, encoder = ScriptedLanguage(extract=CHAIN), HashEncoder()
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=language)
    ranking = search(
        shared_store,
        name,
        "the engine",
        language=language,
        encoder=encoder,
        where=parse(["year>2022", "langg=en"]),
    )
    reason = (
        "the filter year>2022 and langg=en allows no proposition of the corpus: "
        "no passage has a value under 'langg'"
    )
    assert (ranking.passages, ranking.reason, ranking.notes) == ((), reason, ())
    assert (language.selected_from, language.reformulated_from, encoder.encoded) == ([], [], [])


def test_a_filter_by_another_kind_of_value_than_there_is_says_so(shared_store: Store) -> None:
    name = next(names)
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=ScriptedLanguage(extract=CHAIN))
    ranking = search(shared_store, name, "the engine", where=parse(['year="2020"']))
    assert ranking.reason.endswith("of the corpus: the values under 'year' are of the kind number")


def test_a_filter_without_any_value_allows_nothing(shared_store: Store) -> None:
    name = next(names)
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=ScriptedLanguage(extract=CHAIN))
    ranking = search(shared_store, name, "the engine", where=conditions({"year": []}))
    assert ranking.reason == "the filter year= allows no proposition of the corpus"


def test_the_ranking_says_what_was_allowed_and_how_it_was_searched(shared_store: Store) -> None:
    name = next(names)
    language = ScriptedLanguage(extract=CHAIN)
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=language)
    where = parse(["year>=2021"])
    few = search(shared_store, name, "the engine", language=language, where=where)
    index(shared_store, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filtering, "LISTED", 0.5)
        many = search(
            shared_store, name, "the engine", language=language, where=where, exact=False, candidates=2
        )
    assert few.where == many.where == where
    assert few.notes == ("filter: year>=2021 allows 2 propositions; each was compared",)
    assert many.notes == ("filter: year>=2021 allows more than 1 propositions; the index was searched",)


def test_a_passage_that_is_excluded_meanwhile_is_read_by_nobody(shared_store: Store) -> None:
    """It is a candidate, and then its owner takes it out of what the filter allows."""
    name = next(names)

    def withdraw(_question: str, found: Sequence[Any]) -> Selection:
        ingest(shared_store, name, labelled(CHAIN, {**LABELS, "b": {"year": 1}}), language=language)
        return Selection(positions=tuple(range(len(found))))

    language = ScriptedLanguage(extract=CHAIN, select=withdraw)
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=language)
    ranking = search(shared_store, name, "the engine", language=language, where=parse(["year>2000"]))
    ((_, read),) = language.reformulated_from
    assert {passage.passage_key for passage in read} == set(keys(ranking)) == {"a", "c"}
    assert ranking.degraded == (
        "observation: a selected passage was deleted or excluded meanwhile",
        "seeds: 1 were deleted or excluded between selection and ranking",
    )


def test_rounds_reach_allowed_passages_alone(shared_store: Store) -> None:
    name = next(names)
    language = ScriptedLanguage(
        extract=CHAIN,
        select={"the engine": ["the engine"]},
        reformulate={"the engine": ["the loom"]},
        control=lambda *_: Control(sufficient=False, queries=("the card",)),
    )
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=language)
    ranking = search(
        shared_store, name, "the engine",
        language=language, variant="rounds", hits_per_query=1, where=parse(["year=2020,2022"]),
    )  # fmt: skip
    check_shown(ranking, language, {"a", "c"})
    assert (
        language.controlled_from
        == [("the engine", ("a",)), ("the engine", ("a", "c"))][: len(language.controlled_from)]
    )
    assert set(keys(ranking)) == {"a", "c"}


HUB = {
    "a": [("engine loom", ["Hub", "Ada"])],
    "b": [("poem", ["Ada"])],
    "z": [(f"city {number}", ["Hub"]) for number in range(9)],
    **{f"c{number:02}": [("river", ["Hub"])] for number in range(30)},
}
"""One seed that names a hub of 40 propositions; its heaviest passage, z, sets the bound of the hub."""


@pytest.mark.parametrize("hub_degree", [0, 3])
@pytest.mark.parametrize("k", [2, 5])
@pytest.mark.parametrize("listed", [0, 50])
def test_hubs_of_filtered_searches_are_exact(
    shared_store: Store, hub_degree: int, k: int, listed: int
) -> None:
    # w = 39/40 + 1/2, x = 1/w: Ada hands x/2 to b, the hub x/40 to each c; half of it counts.
    name = next(names)
    language = ScriptedLanguage(extract=HUB, select={"engine loom": ["engine loom"]})
    labels = {key: {"heavy": key == "z"} for key in HUB}
    ingest(shared_store, name, labelled(HUB, labels), language=language)
    index(shared_store, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filtering, "LISTED", listed)
        ranking = search(
            shared_store, name, "engine loom",
            language=language, variant="propagation", k=k, hub_degree=hub_degree, exact=False, candidates=1,
            where=parse(["heavy=false"]),
        )  # fmt: skip
    x = 40 / 59
    expected = {"a": 0.5, "b": x / 4, "c00": x / 80, "c01": x / 80, "c02": x / 80}
    assert scores(ranking) == pytest.approx(dict(list(expected.items())[:k]), rel=0, abs=1e-12)


def test_the_judge_chooses_from_allowed_passages(shared_store: Store) -> None:
    name = next(names)
    language = ScriptedLanguage(extract=CHAIN)
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=language)
    search(shared_store, name, "the engine", language=language, set_weight=0.5, where=parse(["year<=2021"]))
    ((_, _, pool),) = language.judged_from
    assert {passage.passage_key for passage in pool} == {"a", "b"}


def test_a_reader_sees_only_what_is_allowed(shared_store: Store) -> None:
    name = next(names)
    language = ScriptedLanguage(extract=CHAIN, read=lambda *_: Reading(text="a card", cited=(0,)))
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=language)
    answer = answering.answer(
        shared_store, name, "the card",
        encoder=HashEncoder(), language=language,
        search=SearchSettings(where=parse(["year=2022"])), settings=AnswerSettings(),
    )  # fmt: skip
    assert (answer.text, answer.read) == ("a card", ("c",))
    assert [[p.passage_key for p in read] for _, read in language.read_from] == [["c"]]


def test_a_ranked_passage_that_is_excluded_meanwhile_is_not_read(shared_store: Store) -> None:
    name = next(names)
    language = ScriptedLanguage(extract=CHAIN)
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=language)
    ranking = search(shared_store, name, "the card", language=language, where=parse(["year>2020"]))
    ingest(shared_store, name, labelled(CHAIN, {**LABELS, "b": {}}), language=language)
    answer = answering.from_ranking(shared_store, name, ranking, language=language, settings=AnswerSettings())
    assert answer.read == ("c",)
    assert "context: 1 ranked passages were deleted or excluded meanwhile" in answer.degraded


def test_a_replay_filters_again(shared_store: Store) -> None:
    name = next(names)
    language = ScriptedLanguage(extract=CHAIN)
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=language)
    ranking = search(
        shared_store, name, "the engine", language=language, where=parse(["year<2022"]), log=True
    )
    assert ranking.log_id is not None
    same = replay(shared_store, name, ranking.log_id)
    ingest(shared_store, name, labelled(CHAIN, {**LABELS, "a": {"year": 2022}}), language=language)
    changed = replay(shared_store, name, ranking.log_id)
    assert (same.same, same.missing, {p.passage_key for p in same.passages}) == (True, 0, {"a", "b"})
    assert (changed.same, changed.missing, {p.passage_key for p in changed.passages}) == (False, 1, {"b"})


def test_the_log_says_what_a_search_was_filtered_by(shared_store: Store) -> None:
    name = next(names)
    language = ScriptedLanguage(extract=CHAIN)
    ingest(shared_store, name, labelled(CHAIN, LABELS), language=language)
    search(shared_store, name, "the engine", language=language, where=parse(["year<2022"]), log=True)
    query = "SELECT settings -> 'where' FROM question_log JOIN corpus USING (corpus_id) WHERE name = %(name)s"
    assert rows(shared_store, query, name=name) == [([{"name": "year", "operator": "<", "values": [2022]}],)]
