"""`verify` says nothing of a true index, and of a wrong one what is wrong; `--repair` mends what derives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from evireform import auditing, connect
from evireform.cli import app
from evireform.database import Database
from evireform.errors import CorpusNotFound, ModelUnavailable
from evireform.evaluation.passage_space import ensure_passage_space
from evireform.records import Finding, Passage, Verification
from evireform.store import corpora, entities
from evireform.store.connection import Store
from evireform.store.statements import statement
from evireform.store.writing import delete_passages
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import TABLES, contents, ingest, rows, search, untrue

PASSAGES = [
    Passage(key="a", title="A", text="Ada met Bob. Ada left Carl. It rained.", metadata={"year": 1843}),
    Passage(key="b", title="B", text="Bob met Carl.", metadata={"names": ["Bob", "Carl"]}),
    Passage(key="c", text="Nothing is said here."),
    Passage(key="d", text="Dora met Ada."),
]


@pytest.fixture
def built(emptied_store: Store) -> Store:
    """A database with one corpus and both of its vector spaces."""
    return build(emptied_store)


def build(store: Store) -> Store:
    ingest(store, "c", PASSAGES)
    ensure_passage_space(store, "c", HashEncoder())
    return store


@pytest.fixture
def own(store: Store) -> Store:
    """The same in a database of the test's own, of which it knows the URL."""
    return build(store)


def verify(store: Store, *, repair: bool = False, encoder: Any = HashEncoder, **options: Any) -> Verification:
    return auditing.verify(store, ["c"], encoder=encoder, repair=repair, **options)


def spoil(store: Store, *statements: str) -> None:
    """Change tables behind the back of triggers and constraints, as a disk or a hand might."""
    with store.transaction() as tx:
        tx.driver.execute("SET LOCAL session_replication_role = replica")
        for statement in statements:
            tx.driver.execute(statement.encode())


def everything(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    metadata = "SELECT passage_id, name, value, kind, number FROM passage_metadata ORDER BY 1, 2, 3"
    return {table: contents(store, "c", table) for table in TABLES} | {"metadata": rows(store, metadata)}


def test_t02_a_true_index_has_no_findings(built: Store) -> None:
    found = verify(built, beyond=True)
    assert (found.true, found.corpora, found.findings) == (True, ("c",), ())


def test_an_empty_corpus_has_no_findings(emptied_store: Store) -> None:
    store = emptied_store
    with store.transaction() as tx:
        corpora.create_corpus(tx, "c", titles="on")
    assert verify(store).findings == ()


WRONG = {
    "incidence that is missing": (
        ["DELETE FROM incidence WHERE proposition_id = (SELECT min(proposition_id) FROM proposition)"],
        "incidence", 2, "missing: a #0 names ada",
    ),
    "incidence that is too much": (
        [
            "INSERT INTO incidence SELECT corpus_id, (SELECT max(proposition_id) FROM proposition), "
            "entity_id, tenant_id FROM entity WHERE canonical = 'carl'"
        ],
        "incidence", 1, "surplus: d #0 names carl",
    ),
    "incidence of no proposition": (
        [
            "INSERT INTO incidence SELECT corpus_id, 999, entity_id, tenant_id FROM entity "
            "WHERE canonical = 'bob'"
        ],
        "incidence", 1, "surplus: ? #? names bob",
    ),
    "a form with a wrong number": (
        ["UPDATE entity_form SET mention_count = 7 WHERE form = 'Ada'"],
        "surface forms", 1, "Ada of ada: 7 mentions kept, 3 there",
    ),
    "a form that is missing": (
        ["DELETE FROM entity_form WHERE form = 'Bob'"],
        "surface forms", 1, "Bob of bob: 0 mentions kept, 2 there",
    ),
    "a form that nothing mentions": (
        [
            "INSERT INTO entity_form SELECT corpus_id, entity_id, 'Adah', tenant_id, 1 FROM entity "
            "WHERE canonical = 'ada'"
        ],
        "surface forms", 1, "Adah of ada: 1 mentions kept, 0 there",
    ),
    "a count of a passage that is wrong": (
        [
            "UPDATE passage_entity SET proposition_count = 1, passage_size = 2 WHERE entity_id = "
            "(SELECT entity_id FROM entity WHERE canonical = 'ada') AND passage_size = 3"
        ],
        "counts of passages", 1, "a names ada in 2 of 3 propositions, kept are 1 of 2",
    ),
    "a count of a passage that is missing": (
        [
            "DELETE FROM passage_entity WHERE passage_id = "
            "(SELECT passage_id FROM passage WHERE passage_key = 'b')"
        ],
        "counts of passages", 2, "b names bob in 1 of 1 propositions, kept are 0 of 0",
    ),
    "a count of no passage": (
        [
            "INSERT INTO passage_entity (corpus_id, entity_id, passage_id, tenant_id, proposition_count, "
            "passage_size) SELECT corpus_id, entity_id, 999, tenant_id, 1, 4 FROM entity "
            "WHERE canonical = 'dora'"
        ],
        "counts of passages", 1, "? names dora in 0 of 0 propositions, kept are 1 of 4",
    ),
    "a degree that is wrong": (
        ["UPDATE entity SET degree = 9 WHERE canonical = 'ada'"],
        "degrees, weights and names", 1, "ada (Ada): degree 3, kept 9",
    ),
    "a weight that is wrong in its last bit": (
        ["UPDATE entity SET max_weight = 1.154700538379252 WHERE canonical = 'ada'"],
        "degrees, weights and names", 1,
        "largest weight 1.1547005383792517, kept 1.154700538379252",
    ),
    "a display name that is wrong": (
        ["UPDATE entity SET display = 'Bobby' WHERE canonical = 'bob'"],
        "degrees, weights and names", 1, "bob (Bobby): degree 2, kept 2",
    ),
    "an entity that nothing names": (
        [
            "INSERT INTO entity (corpus_id, tenant_id, canonical) "
            "SELECT corpus_id, tenant_id, 'nobody' FROM corpus"
        ],
        "degrees, weights and names", 1, "nobody (): degree 0, kept 0",
    ),
    "metadata that is missing": (
        ["DELETE FROM passage_metadata WHERE name = 'year'"],
        "metadata to filter by", 1, "missing: year of a",
    ),
    "metadata that is too much": (
        ["UPDATE passage_metadata SET value = 'Dora' WHERE value = 'Bob'"],
        "metadata to filter by", 2, "missing: names of b",
    ),
    "a vector of no proposition": (
        [
            "UPDATE embedding SET item_id = 999 "
            "WHERE item_id = (SELECT max(proposition_id) FROM proposition) "
            "AND space_id = (SELECT proposition_space_id FROM corpus)"
        ],
        "vectors of nothing", 1, "proposition 999",
    ),
    "a vector of no passage": (
        [
            "UPDATE embedding SET item_id = 999 WHERE item_id = (SELECT min(passage_id) FROM passage) "
            "AND space_id = (SELECT passage_space_id FROM corpus)"
        ],
        "vectors of nothing", 1, "passage 999",
    ),
    "a proposition without a vector": (
        [
            "DELETE FROM embedding WHERE item_id = (SELECT min(proposition_id) FROM proposition) "
            "AND space_id = (SELECT proposition_space_id FROM corpus)"
        ],
        "propositions without a vector", 1, "a #0",
    ),
    "a mention that stands for another entity": (
        [
            "UPDATE mention SET entity_id = (SELECT entity_id FROM entity WHERE canonical = 'bob') "
            "WHERE form = 'Dora'"
        ],
        "entities that mentions stand for", 1, "Dora stands for bob, not for dora",
    ),
}  # fmt: skip
"""What is spoilt, by which statements, which check says so, of how many rows, and a part of an example."""


def finding(found: Verification, check: str) -> Finding:
    (one,) = [finding for finding in found.findings if finding.check == check]
    return one


@pytest.mark.parametrize("case", WRONG)
def test_t02_what_does_not_follow_is_found_and_mended(built: Store, case: str) -> None:
    statements, check, wrong, example = WRONG[case]
    before = everything(built)
    spoil(built, *statements)
    found = verify(built)
    one = finding(found, check)
    assert (found.true, one.corpus, one.wrong, one.mended) == (False, "c", wrong, False)
    assert any(example in line for line in one.examples), one.examples
    repaired = verify(built, repair=True)
    assert (repaired.true, finding(repaired, check).wrong) == (True, wrong)
    assert verify(built).findings == ()
    mended = everything(built)
    if case == "a vector of no passage":  # made again when a baseline needs it
        assert len(mended.pop("embedding")) == len(before.pop("embedding")) - 1
    assert mended == before
    assert untrue(built) == {}


def test_only_a_repair_writes(built: Store) -> None:
    spoil(built, "UPDATE entity SET degree = 9")
    spoilt = everything(built)
    verify(built)
    assert everything(built) == spoilt


def test_everything_wrong_at_once_is_mended(built: Store) -> None:
    before = everything(built)
    spoil(
        built,
        "DELETE FROM incidence",
        "DELETE FROM passage_entity",
        "DELETE FROM entity_form",
        "UPDATE entity SET degree = 0, display = '', max_weight = 0",
        "DELETE FROM passage_metadata",
        "DELETE FROM embedding WHERE space_id = (SELECT proposition_space_id FROM corpus)",
    )
    repaired = verify(built, repair=True)
    assert (len(repaired.findings), repaired.true) == (6, True)
    assert everything(built) == before


def test_t12_mentions_stand_for_what_was_decided(built: Store) -> None:
    with built.transaction() as tx:
        corpus = corpora.get_corpus(tx, "c")
        entities.decide(tx, corpus, "bob", "carl")
        entities.decide(tx, corpus, "ada", "another ada", passage_key="d")
    one = finding(verify(built), "entities that mentions stand for")
    assert (one.wrong, sorted(one.examples)) == (
        3, ["Ada stands for ada, not for another ada", "Bob stands for bob, not for carl"]
    )  # fmt: skip
    assert verify(built, repair=True).true
    assert verify(built).findings == ()
    assert [(row[0], row[2]) for row in contents(built, "c", "entity")] == [
        ("ada", 2), ("another ada", 1), ("carl", 3), ("dora", 1), ("it", 1), ("nothing", 1),
    ]  # fmt: skip


def test_examples_are_few_and_the_number_is_whole(emptied_store: Store) -> None:
    store = emptied_store
    ingest(store, "c", [Passage(key=f"p{n}", text=f"Name{n}a met Name{n}b.") for n in range(10)])
    spoil(store, "DELETE FROM incidence")
    one = finding(verify(store), "incidence")
    assert (one.wrong, len(one.examples)) == (20, 5)


def test_a_proposition_that_is_lost_is_said_and_not_covered_up(built: Store) -> None:
    spoil(
        built,
        "DELETE FROM mention WHERE proposition_id = (SELECT min(proposition_id) FROM proposition)",
        "DELETE FROM proposition WHERE proposition_id = (SELECT min(proposition_id) FROM proposition)",
    )
    repaired = verify(built, repair=True)
    one = finding(repaired, "propositions of a passage")
    assert (repaired.true, one.mended, one.examples) == (False, False, ("a has 2 of 3 propositions",))
    assert one.remedy == "delete these passages and ingest them again"
    assert [finding.check for finding in verify(built).findings] == ["propositions of a passage"]
    with built.transaction() as tx:
        delete_passages(tx, corpora.get_corpus(tx, "c").corpus_id, ["a"])
    ingest(built, "c", PASSAGES)
    assert verify(built).findings == ()


def test_propositions_of_a_lost_passage_go(built: Store) -> None:
    spoil(built, "DELETE FROM passage WHERE passage_key = 'a'")
    one = finding(verify(built), "rows that belong to nothing")
    assert (one.wrong, len(one.examples)) == (3, 3)
    assert one.examples[0].endswith(" of no passage: Ada met Bob.")
    assert verify(built, repair=True).true
    assert len(contents(built, "c", "proposition")) == 3
    assert untrue(built) == {}


def test_what_a_lost_search_had_in_hand_goes(built: Store) -> None:
    search(built, "c", "Ada met Bob", log=True)
    spoil(built, "DELETE FROM question_log")
    one = finding(verify(built), "rows that belong to nothing")
    assert (one.wrong, one.examples[0]) == (4, "a in the hand of no logged search")
    assert verify(built, repair=True).true
    assert rows(built, "SELECT * FROM question_passage") == []


def test_mentions_of_a_lost_entity_are_said(built: Store) -> None:
    spoil(built, "DELETE FROM entity WHERE canonical = 'dora'")
    one = finding(verify(built, repair=True), "mentions of no entity")
    assert (one.mended, one.examples) == (False, ("d #0 names Dora, which is no entity",))


def test_a_lost_partition_is_made_and_filled_again(built: Store) -> None:
    before = everything(built)
    (ids,) = rows(built, "SELECT corpus_id, proposition_space_id FROM corpus")
    with built.transaction() as tx:
        tx.run("drop_space_partition", {"corpus_id": ids[0], "space_id": ids[1]})
    found = verify(built)
    assert [(finding.check, finding.wrong) for finding in found.findings] == [
        ("partition of a vector space", 1), ("propositions without a vector", 6),
    ]  # fmt: skip
    assert verify(built, repair=True).true
    assert everything(built) == before


def test_vectors_of_another_model_are_not_made(built: Store) -> None:
    spoil(built, "DELETE FROM embedding")
    repaired = verify(built, repair=True, encoder=lambda: HashEncoder(32))
    one = finding(repaired, "propositions without a vector")
    assert (repaired.true, one.wrong) == (False, 6)
    assert one.remedy.startswith("set the embedding model to hash-64, and repair again: ")
    assert rows(built, "SELECT count(*) FROM embedding") == [(0,)]


def test_a_model_that_is_not_there_leaves_the_rest_mended(built: Store) -> None:
    def missing() -> HashEncoder:
        raise ModelUnavailable("there is no such file")

    spoil(built, "DELETE FROM embedding", "UPDATE entity SET degree = 9")
    repaired = verify(built, repair=True, encoder=missing)
    assert [(finding.check, finding.mended) for finding in repaired.findings] == [
        ("degrees, weights and names", True), ("propositions without a vector", False),
    ]  # fmt: skip
    assert repaired.findings[1].remedy.endswith("there is no such file")


def test_a_true_index_does_not_load_the_model(built: Store) -> None:
    def never() -> HashEncoder:
        raise AssertionError

    assert verify(built, repair=True, encoder=never).findings == ()


def test_rows_of_a_lost_corpus_are_found(own: Store) -> None:
    built = own
    ingest(built, "other", PASSAGES)
    spoil(built, "DELETE FROM corpus WHERE name = 'other'")
    one = finding(verify(built, beyond=True), "rows of no corpus")
    (lost,) = rows(built, "SELECT max(corpus_id) FROM passage")[0]
    assert (one.corpus, one.examples[0]) == ("", f"6 of embedding, corpus {lost}")


def test_the_look_for_lost_corpora_reads_every_table(shared_store: Store) -> None:
    tables = rows(
        shared_store,
        """
        SELECT relname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'evireform'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND attname = 'corpus_id' AND relname NOT IN ('corpus', 'model_call') ORDER BY relname""",
    )
    text = statement("audit_orphans")
    assert tables
    assert [table for (table,) in tables if f"'{table}', corpus_id FROM {table}" not in text] == []


def test_partitions_of_a_lost_space_are_found_and_dropped(built: Store) -> None:
    spoil(built, "CREATE TABLE embedding_77_88 PARTITION OF embedding FOR VALUES FROM (77, 88) TO (77, 89)")
    one = finding(verify(built, beyond=True), "partitions of no vector space")
    assert (one.wrong, one.examples, one.mended) == (1, ("embedding_77_88",), False)
    assert verify(built, beyond=True, repair=True).true
    assert rows(built, "SELECT to_regclass('embedding_77_88')::text") == [(None,)]


def test_a_missing_corpus_is_said(emptied_store: Store) -> None:
    with pytest.raises(CorpusNotFound, match="no corpus is called 'c'"):
        verify(emptied_store)


def test_progress_counts_every_check_of_a_corpus(built: Store) -> None:
    told: list[tuple[str, int, int]] = []
    verify(built, progress=lambda *step: told.append(step))
    assert set(told) == {("c", 1, len(told))}


# The face and the command.


@pytest.fixture
def database(database_url: str, own: Store) -> Iterator[Database]:  # noqa: ARG001
    with connect(database_url, encoder=HashEncoder(), language=ScriptedLanguage()) as opened:
        yield opened


def test_a_database_verifies_all_of_its_corpora_and_beyond(database: Database) -> None:
    database.corpus("other", create=True).ingest(PASSAGES)
    spoil(
        database.store,
        "UPDATE entity SET degree = 9 WHERE canonical = 'dora'",
        "CREATE TABLE embedding_77_88 PARTITION OF embedding FOR VALUES FROM (77, 88) TO (77, 89)",
    )
    found = database.verify()
    assert found.corpora == ("c", "other")
    assert [(finding.corpus, finding.check) for finding in found.findings] == [
        ("c", "degrees, weights and names"),
        ("other", "degrees, weights and names"),
        ("", "partitions of no vector space"),
    ]
    assert database.verify(repair=True).true
    assert database.verify().findings == ()


def test_a_corpus_verifies_itself_alone(database: Database) -> None:
    database.corpus("other", create=True).ingest(PASSAGES)
    spoil(database.store, "UPDATE entity SET degree = 9 WHERE canonical = 'dora'")
    assert [finding.corpus for finding in database.corpus("other").verify(repair=True).findings] == ["other"]
    assert [finding.corpus for finding in database.verify().findings] == ["c"]


def run(database_url: str, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["verify", "--database-url", database_url, *arguments])
    return result.exit_code, result.stdout


@pytest.mark.usefixtures("own")
def test_the_command_says_that_all_is_true(database_url: str) -> None:
    code, said = run(database_url)
    assert (code, said.partition(" (")[0]) == (0, "1 corpus: every row follows from what it derives from")


def test_the_command_says_what_is_wrong_and_fails(own: Store, database_url: str) -> None:
    spoil(own, "UPDATE entity SET degree = 9 WHERE canonical = 'dora'")
    code, said = run(database_url, "--corpus", "c")
    assert code == 1
    assert said.splitlines()[0] == "c: degrees, weights and names: 1 row wrong"
    assert said.splitlines()[1].startswith("  dora (Dora): degree 1, kept 9")
    assert said.splitlines()[2] == "  evireform verify --repair mends it"


def test_the_command_mends_and_succeeds(own: Store, database_url: str) -> None:
    spoil(own, "UPDATE entity SET degree = 9")
    code, said = run(database_url, "--repair")
    assert (code, said.splitlines()[0]) == (0, "c: degrees, weights and names: 6 rows mended")
    assert run(database_url)[0] == 0


def test_the_command_gives_json(own: Store, database_url: str) -> None:
    spoil(own, "UPDATE entity SET degree = 9 WHERE canonical = 'dora'")
    code, said = run(database_url, "--json")
    document = json.loads(said)
    assert (code, document["true"]) == (1, False)
    assert document["verification"]["findings"][0]["wrong"] == 1


def test_the_command_refuses_a_corpus_that_is_not_there(database_url: str) -> None:
    assert run(database_url, "--corpus", "nowhere")[0] == 2
