"""Entities merged and split: the index equals that of a fresh ingestion under the same decisions."""

from __future__ import annotations

import random
import threading
import time
import unicodedata
from collections.abc import Mapping
from contextlib import closing, suppress
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from evireform import connect, entities, ingestion
from evireform.errors import CorpusNotFound, EntityNotFound, PermissionMissing, UsageError
from evireform.records import (
    EntityChange,
    EntityDegree,
    EntityForm,
    EntityMove,
    EntityNeighbour,
    EntityPassage,
    Passage,
)
from evireform.settings import WorkerSettings
from evireform.store import corpora
from evireform.store import entities as entities_of_store
from evireform.store.connection import Store
from evireform.store.statements import statement
from tests.conftest import SCHEMA
from tests.database.roles import new_member
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import (
    TABLES,
    Script,
    TableEncoder,
    contents,
    dangling,
    differences,
    ingest,
    passages_of,
    rows,
    search,
    untrue,
)
from tests.jobs.test_index_truth import in_parallel
from tests.scale import scaled

SCRIPT: Script = {
    "engine": [
        ("Ada Lovelace wrote about the engine.", ["Ada Lovelace", "engine"]),
        ("Countess Lovelace was born in London.", ["Countess Lovelace", "London"]),
        ("Ada Lovelace was Countess Lovelace.", ["Ada Lovelace", "Countess Lovelace"]),
    ],
    "london": [
        ("London is a city.", ["London"]),
        ("ADA LOVELACE died in London.", ["ADA LOVELACE", "London"]),
    ],
    "byron": [("Lady Byron was the mother of Ada Byron.", ["Lady Byron", "Ada Byron"])],
}

names = (f"entities-{number}" for number in count())


@pytest.fixture
def name() -> str:
    return next(names)


@pytest.fixture
def corpus(shared_store: Store, name: str) -> str:
    """A corpus with the three passages."""
    build(shared_store, name)
    return name


def build(store: Store, name: str, script: Script = SCRIPT) -> None:
    ingest(store, name, passages_of(script), language=ScriptedLanguage(extract=script))


def index(store: Store, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """All that the index says of a corpus, in words."""
    return {table: contents(store, name, table) for table in TABLES}


def degrees(store: Store, name: str) -> dict[str, int]:
    return {row[0]: row[2] for row in contents(store, name, "entity")}


def decisions(store: Store, name: str) -> list[tuple[Any, ...]]:
    """What is decided in a corpus: (name, passage, what it stands for)."""
    query = """SELECT canonical, passage_key, target FROM entity_decision JOIN corpus USING (corpus_id)
               WHERE name = %(name)s ORDER BY 1, 2"""
    return rows(store, query, name=name)


def fresh(store: Store, script: Script, decided: Mapping[tuple[str, str], str]) -> str:
    """A corpus into which the passages came after the decisions."""
    name = next(names)
    with store.transaction() as tx:
        corpus = corpora.create_corpus(tx, name, titles="on")
        for (canonical, key), target in decided.items():
            tx.driver.execute(
                "INSERT INTO entity_decision (corpus_id, tenant_id, canonical, passage_key, target)"
                " VALUES (%s, %s, %s, %s, %s)",
                (corpus.corpus_id, corpus.tenant_id, canonical, key, target),
            )
    build(store, name, script)
    return name


# Names


def test_t12_names_are_told_apart_and_their_forms_are_one(shared_store: Store, name: str) -> None:
    mentioned = [
        "東京", "北京大学", "Москва", "МОСКВА", "Łódź", unicodedata.normalize("NFD", "Łódź"), "ŁÓDŹ", "Lodz",
        "ＩＢＭ", "IBM", "ibm", "C", "C++", "C#", "Ｃ＃",
    ]  # fmt: skip
    build(shared_store, name, {"a": [(f"{number}", [form]) for number, form in enumerate(mentioned)]})
    assert degrees(shared_store, name) == {
        "東京": 1, "北京大学": 1, "москва": 2, "łódź": 3, "lodz": 1, "ibm": 3, "c": 1, "c++": 1, "c#": 2,
    }  # fmt: skip


# Merging


def test_t12_a_merge_makes_one_entity_of_two(shared_store: Store, corpus: str) -> None:
    change = entities.merge(shared_store, corpus, "Ada Lovelace", ["Countess Lovelace"])
    assert change.moves == (EntityMove(canonical="countess lovelace", propositions=2, passages=1),)
    assert change.degrees == (
        EntityDegree(canonical="countess lovelace", before=2, after=0),
        EntityDegree(canonical="ada lovelace", before=3, after=4),
    )
    assert degrees(shared_store, corpus) == {
        "ada byron": 1, "ada lovelace": 4, "engine": 1, "lady byron": 1, "london": 3,
    }  # fmt: skip


def test_t12_a_pair_that_both_had_counts_once(shared_store: Store, corpus: str) -> None:
    entities.merge(shared_store, corpus, "Ada Lovelace", ["Countess Lovelace"])
    named = [row for row in contents(shared_store, corpus, "passage_entity") if row[1] == "ada lovelace"]
    assert [row[:4] for row in named] == [("engine", "ada lovelace", 3, 3), ("london", "ada lovelace", 1, 2)]
    forms = [row[1:] for row in contents(shared_store, corpus, "entity_form") if row[0] == "ada lovelace"]
    assert forms == [("ADA LOVELACE", 1), ("Ada Lovelace", 2), ("Countess Lovelace", 2)]
    assert untrue(shared_store) == {}


def test_t12_a_merge_leaves_what_an_ingestion_after_it_builds(shared_store: Store, corpus: str) -> None:
    entities.merge(shared_store, corpus, "Ada Lovelace", ["Countess Lovelace", "Ada Byron"])
    decided = {("countess lovelace", ""): "ada lovelace", ("ada byron", ""): "ada lovelace"}
    assert differences(shared_store, corpus, fresh(shared_store, SCRIPT, decided)) == {}


def test_t12_a_wrong_merge_is_undone_exactly(shared_store: Store, corpus: str) -> None:
    before = index(shared_store, corpus)
    entities.merge(shared_store, corpus, "Ada Lovelace", ["Lady Byron"])
    assert index(shared_store, corpus) != before
    entities.split(shared_store, corpus, "Lady Byron")
    assert index(shared_store, corpus) == before
    assert decisions(shared_store, corpus) == []


def test_t12_a_split_gives_back_what_was_merged_into_the_name(shared_store: Store, corpus: str) -> None:
    entities.merge(shared_store, corpus, "Ada Byron", ["Countess Lovelace"])
    before = index(shared_store, corpus)
    entities.merge(shared_store, corpus, "London", ["Ada Byron"])
    assert degrees(shared_store, corpus)["london"] == 5
    entities.split(shared_store, corpus, "Ada Byron")
    assert index(shared_store, corpus) == before


def test_t12_the_kept_name_may_be_one_that_no_passage_names(shared_store: Store, corpus: str) -> None:
    entities.merge(shared_store, corpus, "Augusta Ada King", ["Ada Lovelace", "Ada Byron"])
    assert degrees(shared_store, corpus)["augusta ada king"] == 4


@pytest.mark.parametrize("form", ["ＡＤＡ ＬＯＶＥＬＡＣＥ", "“Ada  Lovelace”", "ada lovelace,"])
def test_t12_a_name_is_given_in_any_form(shared_store: Store, corpus: str, form: str) -> None:
    assert entities.show(shared_store, corpus, form).canonical == "ada lovelace"


# What comes later


def test_t12_a_merge_survives_the_same_and_a_changed_passage(shared_store: Store, corpus: str) -> None:
    entities.merge(shared_store, corpus, "Ada Lovelace", ["Countess Lovelace"])
    build(shared_store, corpus)
    script = {**SCRIPT, "engine": [("Countess Lovelace liked it.", ["Countess Lovelace"])]}
    changed = [
        Passage(key="engine", text="Countess Lovelace liked it."),
        *[passage for passage in passages_of(SCRIPT) if passage.key != "engine"],
    ]
    ingest(shared_store, corpus, changed, language=ScriptedLanguage(extract=script))
    other = fresh(shared_store, script, {("countess lovelace", ""): "ada lovelace"})
    assert differences(shared_store, corpus, other) == {}
    assert degrees(shared_store, corpus) == {
        "ada byron": 1, "ada lovelace": 2, "lady byron": 1, "london": 2,
    }  # fmt: skip


def test_t12_a_decision_waits_for_a_name_that_was_deleted(shared_store: Store, corpus: str) -> None:
    entities.merge(shared_store, corpus, "Ada Lovelace", ["Ada Byron"])
    ingestion.delete(shared_store, corpus, ["byron"])
    assert decisions(shared_store, corpus) == [("ada byron", "", "ada lovelace")]
    build(shared_store, corpus)
    assert (
        differences(shared_store, corpus, fresh(shared_store, SCRIPT, {("ada byron", ""): "ada lovelace"}))
        == {}
    )


def test_t12_a_merge_holds_for_what_a_worker_writes(shared_store: Store, name: str) -> None:
    language = ScriptedLanguage(extract=SCRIPT)
    ingest(shared_store, name, [], language=language)
    entities.merge(shared_store, name, "Ada Lovelace", ["Countess Lovelace"])
    ingestion.enqueue(shared_store, name, passages_of(SCRIPT))
    worker = ingestion.worker(
        shared_store, encoder=HashEncoder(), language=language, settings=WorkerSettings(), corpus=name
    )
    worker.run(drain=True)
    assert degrees(shared_store, name)["ada lovelace"] == 4
    other = fresh(shared_store, SCRIPT, {("countess lovelace", ""): "ada lovelace"})
    assert differences(shared_store, name, other) == {}


def plan_of(store: Store, name: str, **parameters: Any) -> list[dict[str, Any]]:
    """The nodes of the plan of a statement that was run."""
    with store.transaction(read_only=True) as tx:
        text = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement(name)}"
        found = tx.driver.execute(text.encode(), parameters).fetchone()
    assert found is not None
    waiting, nodes = [found[0][0]["Plan"]], []
    while waiting:
        nodes.append(waiting.pop())
        waiting += nodes[-1].get("Plans", [])
    return nodes


def rows_read(nodes: list[dict[str, Any]]) -> int:
    """How many rows of tables the nodes of a plan looked at."""
    return round(
        sum(
            node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
            for node in nodes
            if "Relation Name" in node
        )
    )


def test_a_corpus_without_decisions_is_asked_once_whatever_a_batch_names(store: Store) -> None:
    build(store, "c")
    many = {"canonicals": [f"name {n}" for n in range(500)], "passage_keys": [""], "all_passages": False}
    nodes = plan_of(store, "entity_decisions", corpus_id=1, **many)
    looks = sum(node["Actual Loops"] for node in nodes if "Relation Name" in node)
    assert (looks, rows_read(nodes)) == (2, 0)  # whether there is any, and what no name leads to


# Two of one name

SMITHS: Script = {
    "painter": [("John Smith painted the bay.", ["John Smith", "bay"]), ("J. Smith died.", ["J. Smith"])],
    "smith": [("John Smith shod the mare.", ["John Smith", "mare"])],
    "both": [("J. Smith met John Smith at the bay.", ["J. Smith", "John Smith", "bay"])],
}
PAINTER = "John Smith (painter)"


@pytest.fixture
def smiths(shared_store: Store, name: str) -> str:
    build(shared_store, name, SMITHS)
    return name


def test_t12_two_people_of_one_name_are_told_apart(shared_store: Store, smiths: str) -> None:
    change = entities.split(shared_store, smiths, "John Smith", passage_keys=["painter"], into=PAINTER)
    assert change.moves == (EntityMove(canonical="john smith", propositions=1, passages=1),)
    assert degrees(shared_store, smiths) == {
        "bay": 2, "j. smith": 2, "john smith": 2, "john smith (painter)": 1, "mare": 1,
    }  # fmt: skip
    other = fresh(shared_store, SMITHS, {("john smith", "painter"): "john smith (painter)"})
    assert differences(shared_store, smiths, other) == {}


def test_t12_what_was_merged_into_the_name_is_told_apart_with_it(shared_store: Store, smiths: str) -> None:
    entities.merge(shared_store, smiths, "John Smith", ["J. Smith"])
    entities.split(shared_store, smiths, "John Smith", passage_keys=["painter"], into=PAINTER)
    named = entities.show(shared_store, smiths, PAINTER)
    assert named.forms == (EntityForm(form="J. Smith", mentions=1), EntityForm(form="John Smith", mentions=1))
    entities.split(shared_store, smiths, "J. Smith")
    assert entities.show(shared_store, smiths, "J. Smith").degree == 2
    assert entities.show(shared_store, smiths, PAINTER).degree == 1


def test_t12_telling_apart_survives_a_changed_passage(shared_store: Store, smiths: str) -> None:
    entities.split(shared_store, smiths, "John Smith", passage_keys=["painter"], into=PAINTER)
    script = {**SMITHS, "painter": [("John Smith painted two bays.", ["John Smith", "bay"])]}
    build(shared_store, smiths, script)
    other = fresh(shared_store, script, {("john smith", "painter"): "john smith (painter)"})
    assert differences(shared_store, smiths, other) == {}


def test_t12_telling_apart_is_undone_exactly_by_a_merge(shared_store: Store, smiths: str) -> None:
    before = index(shared_store, smiths)
    entities.split(shared_store, smiths, "John Smith", passage_keys=["painter", "both"], into=PAINTER)
    entities.merge(shared_store, smiths, "John Smith", [PAINTER])
    assert index(shared_store, smiths) == before
    assert decisions(shared_store, smiths) == []


def test_t12_telling_apart_is_undone_for_one_passage(shared_store: Store, smiths: str) -> None:
    entities.split(shared_store, smiths, "John Smith", passage_keys=["painter"], into=PAINTER)
    before = index(shared_store, smiths)
    entities.split(shared_store, smiths, "John Smith", passage_keys=["both"], into=PAINTER)
    entities.merge(shared_store, smiths, "John Smith", [PAINTER], passage_keys=["both"])
    assert index(shared_store, smiths) == before


def test_t12_a_merge_holds_beyond_a_split_for_a_name_that_passages_have(
    shared_store: Store, smiths: str
) -> None:
    entities.split(shared_store, smiths, "John Smith", passage_keys=["painter"], into="J. Smith")
    entities.merge(shared_store, smiths, "John Smith", ["J. Smith"])
    assert decisions(shared_store, smiths) == [("j. smith", "", "john smith")]
    assert (
        differences(shared_store, smiths, fresh(shared_store, SMITHS, {("j. smith", ""): "john smith"})) == {}
    )


def test_t02_what_was_decided_about_a_deleted_passage_goes_with_it(shared_store: Store, smiths: str) -> None:
    entities.split(shared_store, smiths, "John Smith", passage_keys=["painter", "both"], into=PAINTER)
    ingestion.delete(shared_store, smiths, ["painter"])
    assert decisions(shared_store, smiths) == [("john smith", "both", "john smith (painter)")]
    assert [entry.passage_key for entry in entities.log(shared_store, smiths)] == ["both"]
    assert set(dangling(shared_store).values()) == {0}


def test_t04_a_deleted_corpus_leaves_no_decision(store: Store) -> None:
    build(store, "c", SMITHS)
    entities.merge(store, "c", "John Smith", ["J. Smith"])
    with store.transaction() as tx:
        corpora.delete_corpus(tx, "c")
    assert rows(
        store, "SELECT (SELECT count(*) FROM entity_decision), (SELECT count(*) FROM entity_log)"
    ) == [(0, 0)]


# Any history

NAMES = ("ada", "bob", "carl", "dora", "東京", "Łódź", "C++")
KEYS = ("k0", "k1", "k2", "k3")


def said(key: str, version: int) -> list[tuple[str, list[str]]]:
    """Propositions of a passage, of a version of its own, that name many of the names together."""
    chance = random.Random(f"{key} {version}")
    return [
        (
            f"{key} {version} {number}.",
            [chance.choice((n, n.upper(), f"“{n}”")) for n in chance.sample(NAMES, chance.randrange(1, 4))],
        )
        for number in range(chance.randrange(1, 4))
    ]


merges = st.tuples(st.just("merge"), st.sampled_from(NAMES), st.sampled_from(NAMES))
splits = st.tuples(st.just("split"), st.sampled_from(NAMES))
partings = st.tuples(
    st.just("part"), st.sampled_from(NAMES), st.sampled_from(KEYS), st.sampled_from(("ada (2)", *NAMES))
)
joinings = st.tuples(
    st.just("join"), st.sampled_from(NAMES), st.sampled_from(KEYS), st.sampled_from(("ada (2)", *NAMES))
)
ingestions = st.tuples(st.just("ingest"), st.sampled_from(KEYS), st.integers(0, 2))
deletions = st.tuples(st.just("delete"), st.sampled_from(KEYS))
histories = st.lists(
    st.one_of(merges, merges, splits, partings, joinings, ingestions, deletions), min_size=1, max_size=12
)


def apply(store: Store, name: str, step: tuple[Any, ...], there: dict[str, int]) -> None:
    """One thing that happens to a corpus; what is refused changes nothing."""
    match step:
        case "ingest", key, version:
            there[key] = version
            build(store, name, {key: said(key, version)})
        case "delete", key:
            there.pop(key, None)
            ingestion.delete(store, name, [key])
        case "merge", kept, other:
            with suppress(UsageError):
                entities.merge(store, name, kept, [other])
        case "split", other:
            with suppress(UsageError):
                entities.split(store, name, other)
        case "part", one, key, into:
            with suppress(UsageError):
                entities.split(store, name, one, passage_keys=[key], into=into)
        case "join", one, key, other:
            with suppress(UsageError):
                entities.merge(store, name, one, [other], passage_keys=[key])


@given(history=histories)
@settings(
    max_examples=scaled(12, 200),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_t12_after_any_history_the_index_follows_from_passages_and_decisions(
    shared_store: Store, history: list[tuple[Any, ...]]
) -> None:
    name = next(names)
    there = dict.fromkeys(KEYS, 0)
    build(shared_store, name, {key: said(key, 0) for key in KEYS})
    for step in history:
        apply(shared_store, name, step, there)
    decided = {(row[0], row[1]): row[2] for row in decisions(shared_store, name)}
    script = {key: said(key, version) for key, version in there.items()}
    assert differences(shared_store, name, fresh(shared_store, script, decided)) == {}
    assert {key for _, key in decided if key} <= there.keys()


@given(history=histories, kept=st.sampled_from(NAMES), other=st.sampled_from(NAMES))
@settings(
    max_examples=scaled(6, 100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_t12_a_split_right_after_a_merge_gives_the_tables_as_before(
    shared_store: Store, history: list[tuple[Any, ...]], kept: str, other: str
) -> None:
    name = next(names)
    build(shared_store, name, {key: said(key, 0) for key in KEYS})
    for step in history:
        apply(shared_store, name, step, {})
    before, decided = index(shared_store, name), decisions(shared_store, name)
    with suppress(UsageError):
        made = entities.merge(shared_store, name, kept, [other]).log
        assume(made and not any(entry.passage_key for entry in made))
        entities.split(shared_store, name, other)
    assert (index(shared_store, name), decisions(shared_store, name)) == (before, decided)


# Together with others


def test_t12_merges_beside_writers_leave_a_true_index(
    shared_store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "BATCH", 2)
    many = [f"k{number}" for number in range(12)]
    last = {key: said(key, 2) for key in many}
    build(shared_store, name, {key: said(key, 0) for key in many})

    def write(number: int) -> None:
        for version in (1, 2):
            build(shared_store, name, {key: said(key, version) for key in many[number::2]})

    def decide() -> None:
        for other in ("bob", "carl", "東京"):
            entities.merge(shared_store, name, "ada", [other])
        entities.split(shared_store, name, "carl")

    in_parallel(lambda: write(0), lambda: write(1), decide)
    decided = {("bob", ""): "ada", ("東京", ""): "ada"}
    assert differences(shared_store, name, fresh(shared_store, last, decided)) == {}


def test_t12_a_merge_waits_for_a_writer_and_brings_over_what_it_wrote(
    shared_store: Store, corpus: str
) -> None:
    done: list[EntityChange] = []
    with shared_store.transaction() as tx:
        corpora.hold_corpus(tx, corpora.get_corpus(tx, corpus).corpus_id)
        other = threading.Thread(
            target=lambda: done.append(entities.merge(shared_store, corpus, "Ada Lovelace", ["Ada Byron"]))
        )
        other.start()
        other.join(0.3)
        assert done == []
    other.join(20)
    assert degrees(shared_store, corpus)["ada lovelace"] == 4


def test_t12_a_merge_opens_a_way_for_the_search(shared_store: Store, name: str) -> None:
    script: Script = {
        "ship": [("Fram was designed by Archer.", ["Fram", "Archer"])],
        "man": [("Colin Archer was born in Larvik.", ["Colin Archer", "Larvik"])],
        "town": [("Nothing is like Oslo.", ["Oslo"])],
    }
    encoder = TableEncoder(
        {
            "Where was the designer of Fram born?": [1.0, 0.0, 0.0],
            "Fram was designed by Archer.": [1.0, 0.0, 0.0],
            "Colin Archer was born in Larvik.": [0.0, 1.0, 0.0],
            "Nothing is like Oslo.": [0.0, 0.0, 1.0],
        }
    )
    ranked: list[list[str]] = []
    language = ScriptedLanguage(extract=script)
    ingest(shared_store, name, passages_of(script), language=language, encoder=encoder)

    def rank() -> None:
        found = search(shared_store, name, "Where was the designer of Fram born?", encoder=encoder)
        ranked.append(sorted(passage.passage_key for passage in found.passages if passage.score > 0))

    rank()
    entities.merge(shared_store, name, "Colin Archer", ["Archer"])
    rank()
    entities.split(shared_store, name, "Archer")
    rank()
    assert ranked == [["ship"], ["man", "ship"], ["ship"]]


# What is shown


def test_an_entity_is_shown_with_its_neighbourhood(shared_store: Store, corpus: str) -> None:
    entities.merge(shared_store, corpus, "Ada Lovelace", ["Countess Lovelace"])
    shown = entities.show(shared_store, corpus, "countess lovelace")
    assert (shown.asked, shown.canonical, shown.display) == (
        "countess lovelace",
        "ada lovelace",
        "Ada Lovelace",
    )
    assert (shown.degree, shown.max_weight) == (4, pytest.approx(3 / 3**0.5))
    assert shown.forms == (
        EntityForm(form="Ada Lovelace", mentions=2),
        EntityForm(form="Countess Lovelace", mentions=2),
        EntityForm(form="ADA LOVELACE", mentions=1),
    )
    assert shown.passages == (
        EntityPassage(passage_key="engine", title="", propositions=3, passage_size=3),
        EntityPassage(passage_key="london", title="", propositions=1, passage_size=2),
    )
    assert shown.neighbours == (
        EntityNeighbour(canonical="london", display="London", degree=3, shared=2),
        EntityNeighbour(canonical="engine", display="engine", degree=1, shared=1),
    )
    assert [(d.canonical, d.target, d.passage_key) for d in shown.decisions] == [
        ("countess lovelace", "ada lovelace", "")
    ]
    assert [(entry.action, entry.canonical, entry.target) for entry in shown.log] == [
        ("merge", "countess lovelace", "ada lovelace")
    ]


def test_the_first_rows_are_shown_and_all_are_counted(shared_store: Store, corpus: str) -> None:
    shown = entities.show(shared_store, corpus, "London", fetch=1)
    assert [passage.passage_key for passage in shown.passages] == ["london"]
    assert [neighbour.canonical for neighbour in shown.neighbours] == ["ada lovelace"]
    assert (shown.passage_count, shown.neighbour_count) == (2, 2)


def test_a_name_that_only_a_decision_knows_is_shown(shared_store: Store, corpus: str) -> None:
    entities.merge(shared_store, corpus, "Nobody", ["Anybody"])
    shown = entities.show(shared_store, corpus, "Anybody")
    assert (shown.canonical, shown.display, shown.degree, shown.passages) == ("nobody", "", 0, ())


def test_a_missing_entity_is_refused_with_near_names(shared_store: Store, corpus: str) -> None:
    with pytest.raises(EntityNotFound, match="names 'ada lovelas'; there is 'ada lovelace', 'ada byron'"):
        entities.show(shared_store, corpus, "Ada Lovelas")


def test_every_decision_is_logged_with_who_and_when(shared_store: Store, smiths: str) -> None:
    entities.merge(shared_store, smiths, "John Smith", ["J. Smith"])
    entities.split(shared_store, smiths, "J. Smith")
    entities.split(shared_store, smiths, "John Smith", passage_keys=["painter"], into=PAINTER)
    entities.merge(shared_store, smiths, "John Smith", [PAINTER])
    log = entities.log(shared_store, smiths)
    assert [(entry.action, entry.canonical, entry.target, entry.passage_key) for entry in log] == [
        ("merge", "john smith", "john smith (painter)", "painter"),
        ("split", "john smith", "john smith (painter)", "painter"),
        ("split", "j. smith", "john smith", ""),
        ("merge", "j. smith", "john smith", ""),
    ]
    assert {entry.decided_by for entry in log} == set(rows(shared_store, "SELECT current_user::text")[0])
    moments = [entry.decided_at for entry in log]
    assert moments == sorted(moments, reverse=True)


def test_pairs_that_are_probably_one_are_suggested(shared_store: Store, name: str) -> None:
    mentioned = [
        ["Coca-Cola", "C", "J. R. Smith"], ["Coca-Cola", "The Coca Cola Co.", "C++"],
        ["John Ronald Smith", "P. Jones", "C#"], ["Paul Jones", "Peter Jones", "Café"], ["cafe", "C. Ives"],
    ]  # fmt: skip
    build(shared_store, name, {"a": [(f"{number}", forms) for number, forms in enumerate(mentioned)]})
    found = entities.suggest(shared_store, name)
    assert [(pair.canonical, pair.other, pair.reason) for pair in found] == [
        ("coca-cola", "the coca cola co", "spelling"),
        ("cafe", "café", "spelling"),
        ("john ronald smith", "j. r. smith", "initials"),
    ]
    assert (found[0].degree, found[0].other_degree) == (2, 1)
    assert len(entities.suggest(shared_store, name, fetch=1)) == 1


def test_a_dry_run_says_what_would_change_and_changes_nothing(shared_store: Store, corpus: str) -> None:
    before = index(shared_store, corpus)
    tried = entities.merge(shared_store, corpus, "Ada Lovelace", ["Countess Lovelace"], dry_run=True)
    assert (index(shared_store, corpus), decisions(shared_store, corpus)) == (before, [])
    assert entities.log(shared_store, corpus) == []
    done = entities.merge(shared_store, corpus, "Ada Lovelace", ["Countess Lovelace"])
    assert (tried.dry_run, tried.moves, tried.degrees) == (True, done.moves, done.degrees)


def test_a_decision_about_a_name_that_nothing_names_says_so(shared_store: Store, corpus: str) -> None:
    change = entities.merge(shared_store, corpus, "Ada Lovelace", ["Ada Lovelas"])
    assert change.notes == (
        "no proposition names 'ada lovelas' now: it will hold for what is ingested later; "
        "there is 'ada lovelace', 'ada byron'",
    )


def test_a_merge_that_holds_already_is_left_alone(shared_store: Store, corpus: str) -> None:
    entities.merge(shared_store, corpus, "Ada Lovelace", ["Ada Byron"])
    again = entities.merge(shared_store, corpus, "Ada Lovelace", ["Ada Byron"])
    assert (again.log, again.moves, again.notes) == (
        (),
        (),
        ("'ada byron' stands for 'ada lovelace' already",),
    )


@pytest.fixture
def large(store: Store) -> tuple[int, int]:
    """A corpus of so many propositions that name three entities each, as three name each entity."""
    size = scaled(5_000, 100_000)
    with store.transaction() as tx:
        corpus = corpora.create_corpus(tx, "large", titles="on")
        own = {"corpus": corpus.corpus_id, "tenant": corpus.tenant_id, "size": size, "passages": size // 5}
        for query in (
            """INSERT INTO passage
                   (corpus_id, tenant_id, passage_key, body, content_hash, state, proposition_count)
               SELECT %(corpus)s, %(tenant)s, n, 'x', '', 'ready', 5
               FROM generate_series(1, %(passages)s) AS n""",
            """INSERT INTO proposition (corpus_id, tenant_id, passage_id, ordinal, body)
               SELECT %(corpus)s, %(tenant)s, passage_id, ordinal, 'x'
               FROM passage CROSS JOIN generate_series(0, 4) AS ordinal WHERE corpus_id = %(corpus)s""",
            """INSERT INTO entity (corpus_id, tenant_id, canonical, display, degree)
               SELECT %(corpus)s, %(tenant)s, 'e' || n, 'E' || n, 3
               FROM generate_series(0, %(size)s - 1) AS n""",
            """INSERT INTO incidence (corpus_id, tenant_id, proposition_id, entity_id)
               SELECT DISTINCT %(corpus)s, %(tenant)s, numbered.proposition_id, entity.entity_id
               FROM (SELECT proposition_id, row_number() OVER (ORDER BY proposition_id) AS n
                     FROM proposition WHERE corpus_id = %(corpus)s) AS numbered
               CROSS JOIN (VALUES (1), (7), (31)) AS step (factor)
               JOIN entity ON entity.corpus_id = %(corpus)s
                          AND canonical = 'e' || ((n * factor + factor) %% %(size)s)""",
        ):
            tx.driver.execute(query.encode(), own)
        tx.run("analyze_corpus_tables", {})
    return corpus.corpus_id, size


def test_t18_a_neighbourhood_costs_what_the_entity_has_not_what_the_corpus_has(
    store: Store, large: tuple[int, int]
) -> None:
    corpus_id, size = large
    with store.transaction(read_only=True) as tx:
        entity = entities_of_store.find_entities(tx, corpus_id, ["e1"])["e1"]
    nodes = plan_of(store, "entity_neighbours", corpus_id=corpus_id, entity_id=entity.entity_id, fetch=20)
    assert size >= 5_000
    assert rows_read(nodes) < 50
    if size == 100_000:
        began = time.perf_counter()
        assert entities.show(store, "large", "E1").neighbour_count == 6
        assert time.perf_counter() - began < 1


def test_t14_a_writer_decides_for_its_tenant_and_a_reader_only_looks(store: Store, database_url: str) -> None:
    build(store, "c", SMITHS)
    with new_member(database_url) as url, closing(Store(url, schema=SCHEMA)) as writer:
        assert entities.merge(writer, "c", "John Smith", ["J. Smith"]).moves[0].propositions == 2
        writers = {entry.decided_by for entry in entities.log(writer, "c")}
        assert writers == {conninfo_to_dict(url)["user"]}
    with new_member(database_url, access="reader") as url, closing(Store(url, schema=SCHEMA)) as reader:
        assert entities.show(reader, "c", "J. Smith").degree == 4
        with pytest.raises(PermissionMissing):
            entities.split(reader, "c", "J. Smith")
    with (
        new_member(database_url, tenant="other") as url,
        closing(Store(url, schema=SCHEMA)) as foreign,
        pytest.raises(CorpusNotFound),
    ):
        entities.split(foreign, "c", "J. Smith")


# What is refused


@pytest.mark.parametrize(
    ("kept", "others", "message"),
    [
        ("Ada", ["ADA"], "merged into itself: both are 'ada'"),
        ("Ada", [], "at least one name"),
        ("…", ["  ", "Ada"], "a name has 1 to 300 characters"),
        ("Ada", ["a\0"], "NUL"),
        (
            "London",
            ["Ada Byron"],
            "'ada byron' stands for 'ada lovelace' already: merge 'ada lovelace' instead",
        ),
        ("Ada Byron", ["Ada Lovelace"], "split 'ada byron' first to keep it instead"),
    ],
)
def test_a_merge_that_cannot_be_is_refused(
    shared_store: Store, corpus: str, kept: str, others: list[str], message: str
) -> None:
    entities.merge(shared_store, corpus, "Ada Lovelace", ["Ada Byron"])
    before = index(shared_store, corpus)
    with pytest.raises(UsageError, match=message):
        entities.merge(shared_store, corpus, kept, others)
    assert index(shared_store, corpus) == before


@pytest.mark.parametrize(
    ("one", "passages", "into", "message"),
    [
        ("Ada Byron", [], None, "'ada byron' was not merged into anything; to tell two"),
        ("John Smith", [], None, "'j. smith' was merged into it: split that"),
        ("John Smith", ["painter"], None, "give the passages and the other's name"),
        ("John Smith", [], "Painter", "give the passages and the other's name"),
        ("John Smith", ["painter"], "JOHN SMITH", "both are 'john smith'"),
        ("John Smith", ["painter"], "J. Smith", "are one entity: split one of them first"),
        ("mare", ["painter", "smith"], "horse", "passage 'painter' does not name 'mare'"),
        ("mare", ["gone"], "horse", "passage 'gone' does not name 'mare', or is not in the corpus"),
        ("John Smith", ["both"], "Painter", "stands for 'john smith of the bay' already"),
    ],
)
def test_a_split_that_cannot_be_is_refused(
    shared_store: Store, smiths: str, one: str, passages: list[str], into: str | None, message: str
) -> None:
    entities.merge(shared_store, smiths, "John Smith", ["J. Smith"])
    entities.split(shared_store, smiths, "John Smith", passage_keys=["both"], into="John Smith of the bay")
    before = index(shared_store, smiths)
    with pytest.raises(UsageError, match=message):
        entities.split(shared_store, smiths, one, passage_keys=passages, into=into)
    assert index(shared_store, smiths) == before


def chain(store: Store, corpus: str) -> None:
    """In passage both: John Smith is Painter, and Painter is Bay Man everywhere."""
    entities.split(store, corpus, "John Smith", passage_keys=["both"], into="Painter")
    entities.merge(store, corpus, "Bay Man", ["Painter"])


@pytest.mark.parametrize(
    ("one", "other"), [("Painter", "John Smith"), ("Bay Man", "John Smith"), ("mare", "John Smith")]
)
def test_a_split_that_would_close_a_circle_in_its_passage_is_refused(
    shared_store: Store, smiths: str, one: str, other: str
) -> None:
    chain(shared_store, smiths)
    if one == "mare":
        entities.merge(shared_store, smiths, "mare", ["Bay Man"])
    before = index(shared_store, smiths), decisions(shared_store, smiths)
    with pytest.raises(UsageError, match="entity merge 'john smith' 'painter' --passage 'both'"):
        entities.split(shared_store, smiths, one, passage_keys=["both"], into=other)
    assert (index(shared_store, smiths), decisions(shared_store, smiths)) == before


def test_a_merge_that_would_close_a_circle_in_a_passage_is_refused(shared_store: Store, smiths: str) -> None:
    chain(shared_store, smiths)
    with pytest.raises(UsageError, match="entity merge 'john smith' 'painter' --passage 'both'"):
        entities.merge(shared_store, smiths, "John Smith", ["Bay Man"])


def test_the_undo_that_a_refused_circle_names_opens_the_way(shared_store: Store, smiths: str) -> None:
    before = index(shared_store, smiths)
    entities.split(shared_store, smiths, "John Smith", passage_keys=["both"], into="Painter")
    entities.merge(shared_store, smiths, "John Smith", ["Painter"], passage_keys=["both"])
    assert (index(shared_store, smiths), decisions(shared_store, smiths)) == (before, [])


def test_a_split_the_other_way_round_in_another_passage_is_made(shared_store: Store, smiths: str) -> None:
    entities.split(shared_store, smiths, "John Smith", passage_keys=["both"], into="mare")
    assert entities.split(shared_store, smiths, "mare", passage_keys=["smith"], into="John Smith").moves


@pytest.mark.parametrize(
    ("key", "problem"), [("a\ud800", "lone surrogate"), ("", "is empty"), ("a\0", "NUL")]
)
def test_a_key_that_no_passage_can_have_is_refused(
    shared_store: Store, smiths: str, key: str, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        entities.split(shared_store, smiths, "John Smith", passage_keys=[key], into="Painter")
    with pytest.raises(UsageError, match=problem):
        entities.merge(shared_store, smiths, "John Smith", ["Painter"], passage_keys=[key])


def test_a_split_that_was_never_made_cannot_be_taken_back(shared_store: Store, smiths: str) -> None:
    with pytest.raises(UsageError, match="'john smith' was not split into 'mare' in passage 'smith'"):
        entities.merge(shared_store, smiths, "John Smith", ["mare"], passage_keys=["smith"])


def test_a_missing_corpus_is_named(shared_store: Store) -> None:
    with pytest.raises(CorpusNotFound, match="no corpus is called 'nothing'"):
        entities.merge(shared_store, "nothing", "a", ["b"])


def test_the_library_shows_merges_splits_and_lists(database_url: str) -> None:
    with connect(database_url, encoder=HashEncoder(), language=ScriptedLanguage(extract=SMITHS)) as database:
        corpus = database.corpus("c", create=True)
        corpus.ingest(passages_of(SMITHS))
        corpus.merge_entities("John Smith", ["J. Smith"])
        corpus.split_entity("John Smith", passage_keys=["painter"], into=PAINTER)
        assert corpus.entity("john smith", limit=1).degree == 2
        assert corpus.entity(PAINTER).degree == 2
        assert [entry.action for entry in corpus.entity_log(limit=1)] == ["split"]
        corpus.split_entity("J. Smith", dry_run=True)
        assert corpus.suggest_entities(limit=1) == []
        with pytest.raises(UsageError, match="others must be a list of texts"):
            corpus.merge_entities("John Smith", "J. Smith")
