"""Export and import: a corpus as files, the same bytes for the same content, and back as it was."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evireform import connect, ingestion
from evireform.database import Database
from evireform.errors import (
    DatabaseUnreachable,
    EvireformError,
    InputError,
    ModelCallFailed,
    OutputError,
    UsageError,
    VectorSpaceMismatch,
)
from evireform.evaluation.passage_space import ensure_passage_space
from evireform.formats import exports
from evireform.records import ExtractedProposition, Extraction, Passage
from evireform.store import corpora, entities
from evireform.store.connection import Store
from tests.conftest import database as database_of
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import differences, ingest, rows, search, untrue

PASSAGES = [
    Passage(key="a", title="Ada", text="Ada met Bob. Bob is tall."),
    Passage(
        key="é\u2028",
        title="Łódź",
        text='東京 met "Dora".\nA second line.',
        metadata={"n": 1e23, "f": [0.1, -0.0, 7.0]},
    ),
    Passage(key="broken", text="Nobody reads this."),
    Passage(key="c", text="…", metadata={"deep": {"é": None, "b": True}, "big": 10**40, "small": 5e-324}),
    Passage(key="B", title="Bob", text="Bob lives in Oslo. Ada does too."),
]


Unharmed = tuple[Database, Path]


def language() -> ScriptedLanguage:
    return ScriptedLanguage(extract={"c": []}, errors={"broken": "no answer"})


class NoEncoder(HashEncoder):
    """An encoder that is not to be asked."""

    def encode_propositions(self, texts: Any) -> Any:
        raise AssertionError(f"asked to embed {texts}")


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """A database with the corpus ``wiki``, with a merge and a split by an operator."""
    with connect(url, encoder=HashEncoder(), language=ScriptedLanguage()) as database:
        ingest(database.store, "wiki", PASSAGES, language=language())
        decide(database.store, "wiki", "ada", "bob")
        decide(database.store, "wiki", "bob", "the other bob", "B")
        yield database


@pytest.fixture
def database(emptied_url: str) -> Iterator[Database]:
    with opened(emptied_url) as made:
        yield made


@pytest.fixture(scope="module")
def unharmed(
    server_url: str, template_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, Path]]:
    """One for all damaged files, which leave nothing in it, and an export to take them from."""
    folder = tmp_path_factory.mktemp("export") / "wiki"
    with database_of(server_url, template_database) as url, opened(url) as made:
        made.corpus("wiki").export(folder, vectors=True)
        yield made, folder


@pytest.fixture
def damaging(unharmed: Unharmed, tmp_path: Path) -> Path:
    """A copy of the export, to be damaged."""
    return shutil.copytree(unharmed[1], tmp_path / "wiki")


def decide(store: Store, name: str, canonical: str, target: str, passage_key: str = "") -> None:
    with store.transaction() as tx:
        corpus = corpora.get_corpus(tx, name)
        corpora.lock_corpus(tx, corpus.corpus_id)
        entities.decide(tx, corpus, canonical, target, passage_key=passage_key)
        entities.move_mentions(tx, corpus, canonical)


@pytest.fixture
def exported(database: Database, tmp_path: Path) -> Path:
    database.corpus("wiki").export(tmp_path / "wiki", vectors=True)
    return tmp_path / "wiki"


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().split("\n") if line]


# what is written


def test_the_files_of_an_export(unharmed: Unharmed) -> None:
    assert sorted(path.name for path in unharmed[1].iterdir()) == [
        "decisions.jsonl",
        "entities.jsonl",
        "manifest.json",
        "mentions.jsonl",
        "passages.jsonl",
        "proposition_vectors.npy",
        "propositions.jsonl",
    ]


def test_rows_are_written_out(unharmed: Unharmed) -> None:
    digest = hashlib.sha256(b'["Bob", "Bob lives in Oslo. Ada does too."]').hexdigest()
    first = {name: (unharmed[1] / name).read_text().split("\n")[0] for name in exports.TABLES}
    assert first == {
        "passages.jsonl": f'{{"content_hash":"{digest}","key":"B","metadata":{{}},"reason":"",'
        '"state":"ready","text":"Bob lives in Oslo. Ada does too.","title":"Bob"}',
        "propositions.jsonl": '{"ordinal":0,"passage_key":"B","span":[0,18],"text":"Bob lives in Oslo."}',
        "mentions.jsonl": '{"canonical":"the other bob","form":"Bob","ordinal":0,"passage_key":"B"}',
        "entities.jsonl": '{"canonical":"a","degree":1,"display":"A"}',
        "decisions.jsonl": '{"canonical":"ada","passage_key":"","target":"bob"}',
    }


def test_passages_stand_in_the_order_of_their_keys_with_their_metadata(unharmed: Unharmed) -> None:
    text = (unharmed[1] / "passages.jsonl").read_bytes().decode()
    found = [json.loads(line) for line in text.split("\n")[:-1]]
    assert [(one["key"], one["state"], one["reason"]) for one in found] == [
        ("B", "ready", ""),
        ("a", "ready", ""),
        ("broken", "failed", "no answer"),
        ("c", "empty", ""),
        ("é\u2028", "ready", ""),
    ]
    assert '"metadata":{"f":[0.1,0,7],"n":100000000000000000000000}' in text
    assert f'"metadata":{{"big":1{"0" * 40},"deep":{{"b":true,"é":null}},"small":5e-324}}' in text


def test_the_manifest_says_what_there_is(unharmed: Unharmed) -> None:
    manifest = json.loads((unharmed[1] / "manifest.json").read_text())
    assert manifest["corpus"] == {"extractor": "scripted/1", "name": "wiki", "titles": "on"}
    assert (manifest["format"], manifest["version"]) == ("evireform corpus", 1)
    assert manifest["spaces"] == [
        {"dimensions": 64, "kind": "proposition", "model": "hash-64", "prompts": {}, "vectors": True}
    ]
    assert {name: file["rows"] for name, file in manifest["files"].items()} == {
        "decisions.jsonl": 2,
        "entities.jsonl": 6,
        "mentions.jsonl": 9,
        "passages.jsonl": 5,
        "proposition_vectors.npy": 6,
        "propositions.jsonl": 6,
    }


def test_vectors_are_those_of_the_propositions_in_their_order(unharmed: Unharmed) -> None:
    vectors = np.load(unharmed[1] / "proposition_vectors.npy")
    expected = HashEncoder().encode_propositions(["Bob: Bob lives in Oslo."])[0].astype(np.float16)
    assert (vectors.dtype, vectors.shape) == (np.dtype("<f2"), (6, 64))
    assert np.array_equal(vectors[0], expected)


def test_without_vectors_none_are_written(database: Database, tmp_path: Path) -> None:
    manifest = database.corpus("wiki").export(tmp_path / "plain")
    assert [space.vectors for space in manifest.spaces] == [False]
    assert not list((tmp_path / "plain").glob("*.npy"))


def test_equal_content_gives_equal_bytes_whatever_its_history(
    database: Database, exported: Path, tmp_path: Path, server_url: str, template_database: str
) -> None:
    with (
        database_of(server_url, template_database) as url,
        connect(url, encoder=HashEncoder(), language=ScriptedLanguage()) as other,
    ):
        with other.store.transaction() as tx:
            corpora.create_corpus(tx, "first", titles="on")
        ingest(other.store, "wiki", [Passage(key="z", text="Zoe ran."), Passage(key="a", text="Ada left.")])
        for passage in reversed(PASSAGES):
            ingest(other.store, "wiki", [passage], language=language())
        ingestion.delete(other.store, "wiki", ["z"])
        decide(other.store, "wiki", "bob", "the other bob", "B")
        decide(other.store, "wiki", "ada", "bob")
        other.corpus("wiki").export(tmp_path / "other", vectors=True)
    assert bytes_of(tmp_path / "other") == bytes_of(exported)
    assert database.corpus("wiki").status().ready == 3


def test_an_export_is_of_one_moment(database: Database, tmp_path: Path) -> None:
    before = database.corpus("wiki").export(tmp_path / "before")

    def write(_: int) -> None:
        ingestion.delete(database.store, "wiki", ["a"])

    while_writing = database.corpus("wiki").export(tmp_path / "after", progress=write)
    assert while_writing == before
    assert database.corpus("wiki").status().ready == 2


def test_many_pages_are_one_export(database: Database, tmp_path: Path) -> None:
    many = [Passage(key=f"m{number:03}", text=f"Nora{number} ran.") for number in range(150)]
    ingest(database.store, "many", many)
    done: list[int] = []
    database.corpus("many").export(tmp_path / "many", vectors=True, progress=done.append)
    made = database.import_corpus(tmp_path / "many", name="again")
    assert done == [64, 64, 22]
    assert (made.passages, made.propositions) == (150, 150)
    assert differences(database.store, "many", "again") == {}


# where it is written


def test_a_folder_that_is_not_empty_is_refused(unharmed: Unharmed, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="is not empty"):
        unharmed[0].corpus("wiki").export(tmp_path)


def test_an_empty_folder_is_taken(unharmed: Unharmed, tmp_path: Path) -> None:
    (tmp_path / "wiki").mkdir()
    unharmed[0].corpus("wiki").export(tmp_path / "wiki")
    assert (tmp_path / "wiki" / "manifest.json").is_file()


def test_an_earlier_export_is_overwritten_on_demand(
    database: Database, exported: Path, tmp_path: Path
) -> None:
    ingestion.delete(database.store, "wiki", ["a"])
    with pytest.raises(UsageError, match="overwrite"):
        database.corpus("wiki").export(exported)
    database.corpus("wiki").export(exported, overwrite=True)
    assert exports.read_manifest(exported).files["passages.jsonl"].rows == 4
    assert [path.name for path in tmp_path.iterdir()] == ["wiki"]


def held(folder: Path) -> dict[str, str]:
    """What is below a folder: files with their contents, links with their targets."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_text("latin1")
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize(
    "files",
    [
        {"notes.txt": "mine"},
        {"passages.jsonl": "mine"},
        {"manifest.json": "mine"},
        {"manifest.json": '{"manifest_version": 3}'},
        {"manifest.json": '{"format": "evireform corpus", "version": 1}'},
        {"manifest.json": '{"manifest_version": 3}', "passages.jsonl/notes.txt": "mine"},
    ],
)
def test_what_is_no_export_is_never_overwritten(
    unharmed: Unharmed, tmp_path: Path, files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=r"holds no whole export .*: nothing was overwritten"):
        unharmed[0].corpus("wiki").export(tmp_path, overwrite=True)
    assert held(tmp_path) == files


def add_notes(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")


def add_vectors_of_passages(folder: Path) -> None:
    (folder / "passage_vectors.npy").write_text("mine")


def make_folder_of_passages(folder: Path) -> None:
    (folder / "passages.jsonl").unlink()
    (folder / "passages.jsonl").mkdir()
    (folder / "passages.jsonl" / "notes.txt").write_text("mine")


def make_link_of_passages(folder: Path) -> None:
    (folder / "passages.jsonl").rename(folder.parent / "passages.jsonl")
    (folder / "passages.jsonl").symlink_to(folder.parent / "passages.jsonl")


Change = Callable[[Path], None]
CHANGES = [add_notes, add_vectors_of_passages, make_folder_of_passages, make_link_of_passages]


@pytest.mark.parametrize("change", CHANGES)
def test_an_export_with_more_in_it_is_never_overwritten(
    unharmed: Unharmed, damaging: Path, change: Change
) -> None:
    change(damaging)
    before = held(damaging)
    with pytest.raises(UsageError, match=r"holds other files than an export, such as .*: nothing was over"):
        unharmed[0].corpus("wiki").export(damaging, overwrite=True)
    assert held(damaging) == before


def test_a_link_to_a_manifest_is_no_export(unharmed: Unharmed, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").symlink_to(unharmed[1] / "manifest.json")
    with pytest.raises(UsageError, match="holds no whole export"):
        unharmed[0].corpus("wiki").export(tmp_path, overwrite=True)
    assert (tmp_path / "manifest.json").is_symlink()


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_came_into_the_folder_meanwhile_is_never_overwritten(
    unharmed: Unharmed, tmp_path: Path, overwrite: bool
) -> None:
    folder = tmp_path / "wiki"
    folder.mkdir()
    with pytest.raises(UsageError, match=r"is not empty|holds no whole export"):
        unharmed[0].corpus("wiki").export(folder, overwrite=overwrite, progress=lambda _: add_notes(folder))
    assert held(tmp_path) == {"wiki/notes.txt": "mine"}


def test_a_name_of_many_bytes_is_taken(unharmed: Unharmed, tmp_path: Path) -> None:
    unharmed[0].corpus("wiki").export(tmp_path / ("東" * 84))
    assert (tmp_path / ("東" * 84) / "manifest.json").is_file()


def test_folders_may_be_texts(unharmed: Unharmed, tmp_path: Path) -> None:
    unharmed[0].corpus("wiki").export(str(tmp_path / "wiki"), vectors=True)
    made = unharmed[0].import_corpus(str(tmp_path / "wiki"), name="again")
    unharmed[0].delete_corpus("again")
    assert made.passages == 5


@pytest.mark.parametrize("name", ["file/wiki", "f" * 300])
def test_a_folder_that_cannot_be_is_named(unharmed: Unharmed, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OutputError, match=f"{name} cannot be written: ") as caught:
        unharmed[0].corpus("wiki").export(tmp_path / name)
    assert caught.value.path == tmp_path / name


def test_a_full_disk_is_named_and_leaves_nothing(
    unharmed: Unharmed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(exports.Writing, "finish", full)
    with pytest.raises(OutputError, match="wiki cannot be written: No space left on device"):
        unharmed[0].corpus("wiki").export(tmp_path / "wiki")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_the_folder_is_refused(unharmed: Unharmed, tmp_path: Path) -> None:
    (tmp_path / "wiki").write_text("mine")
    with pytest.raises(UsageError, match="is no folder"):
        unharmed[0].corpus("wiki").export(tmp_path / "wiki", overwrite=True)


def test_an_export_that_fails_leaves_nothing(database: Database, tmp_path: Path) -> None:
    def fail(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database.corpus("wiki").export(tmp_path / "wiki", progress=fail)
    assert list(tmp_path.iterdir()) == []


def test_an_overwriting_that_fails_leaves_the_earlier_export(database: Database, exported: Path) -> None:
    before = bytes_of(exported)
    with database.store.transaction() as tx:
        tx.driver.execute("DELETE FROM embedding WHERE item_id = (SELECT min(item_id) FROM embedding)")
    with pytest.raises(EvireformError, match="1 propositions have no vector"):
        database.corpus("wiki").export(exported, vectors=True, overwrite=True)
    assert bytes_of(exported) == before


# back


def test_an_import_is_what_was_exported(database: Database, exported: Path) -> None:
    database._encoder = NoEncoder()
    made = database.import_corpus(exported, name="again")
    assert (made.passages, made.propositions, made.entities, made.embedded, made.resumed) == (5, 6, 6, 0, 0)
    assert differences(database.store, "wiki", "again") == {}
    assert untrue(database.store) == {}
    found = rows(
        database.store,
        "SELECT name, canonical, passage_key, target FROM entity_decision JOIN corpus USING (corpus_id)"
        " ORDER BY 1, 2, 3",
    )
    assert found == [
        (name, *decision)
        for name in ("again", "wiki")
        for decision in (("ada", "", "bob"), ("bob", "B", "the other bob"))
    ]


def test_the_export_of_an_import_is_the_export(
    exported: Path, tmp_path: Path, server_url: str, template_database: str
) -> None:
    with database_of(server_url, template_database) as url, connect(url, encoder=NoEncoder()) as other:
        made = other.import_corpus(exported)
        other.corpus("wiki").export(tmp_path / "again", vectors=True)
    assert made.name == "wiki"
    assert bytes_of(tmp_path / "again") == bytes_of(exported)


def test_an_import_searches_as_what_was_exported(database: Database, exported: Path) -> None:
    database.import_corpus(exported, name="again")
    question = "Where does Bob live"
    assert [(p.passage_key, p.score) for p in search(database.store, "again", question).passages] == [
        (p.passage_key, p.score) for p in search(database.store, "wiki", question).passages
    ]


def test_passages_of_an_import_count_as_ingested(database: Database, exported: Path) -> None:
    database.import_corpus(exported, name="again")
    again = language()
    summary = ingest(database.store, "again", PASSAGES, language=again)
    assert (summary.added, summary.changed, summary.unchanged, again.extracted) == (0, 1, 4, ["broken"])


def test_hashes_of_ready_made_extractions_are_taken_as_they_are(database: Database, tmp_path: Path) -> None:
    extraction = Extraction(
        propositions=(ExtractedProposition(text="Bob saw Ada.", entities=("Bob", "Ada")),)
    )
    passages = [Passage(key="a", text="Bob saw Ada."), Passage(key="b", text="It rained.")]
    ingest(database.store, "ready", passages, extractions={"a": extraction})
    database.corpus("ready").export(tmp_path / "ready", vectors=True)
    assert database.import_corpus(tmp_path / "ready", name="again").unverified == 1
    assert differences(database.store, "ready", "again") == {}


def test_decisions_about_passages_that_are_not_there_yet_are_left_out(
    database: Database, tmp_path: Path
) -> None:
    decide(database.store, "wiki", "bob", "bobby", "not there yet")
    database.corpus("wiki").export(tmp_path / "wiki", vectors=True)
    made = database.import_corpus(tmp_path / "wiki", name="again")
    assert lines(tmp_path / "wiki", "decisions.jsonl") == [
        {"canonical": "ada", "passage_key": "", "target": "bob"},
        {"canonical": "bob", "passage_key": "B", "target": "the other bob"},
    ]
    assert made.passages == 5


def test_vectors_that_are_not_in_the_files_are_made(database: Database, tmp_path: Path) -> None:
    database.corpus("wiki").export(tmp_path / "plain")
    made = database.import_corpus(tmp_path / "plain", name="again")
    assert made.embedded == 6
    assert differences(database.store, "wiki", "again") == {}


def test_vectors_of_passages_come_along_where_every_passage_has_one(
    database: Database, tmp_path: Path
) -> None:
    ensure_passage_space(database.store, "wiki", HashEncoder())
    manifest = database.corpus("wiki").export(tmp_path / "wiki", vectors=True)
    database._encoder = NoEncoder()
    database.import_corpus(tmp_path / "wiki", name="again")
    assert manifest.files["passage_vectors.npy"].rows == 5
    assert differences(database.store, "wiki", "again") == {}


def test_vectors_of_passages_are_left_out_where_one_is_missing(database: Database, tmp_path: Path) -> None:
    ensure_passage_space(database.store, "wiki", HashEncoder())
    ingest(database.store, "wiki", [Passage(key="d", text="Dora sings.")])
    manifest = database.corpus("wiki").export(tmp_path / "wiki", vectors=True)
    assert [space.kind for space in manifest.spaces] == ["proposition"]
    assert not (tmp_path / "wiki" / "passage_vectors.npy").exists()


def test_an_empty_corpus_comes_back(database: Database, tmp_path: Path) -> None:
    database.corpus("empty", create=True, titles="off")
    database.corpus("empty").export(tmp_path / "empty", vectors=True)
    database.import_corpus(tmp_path / "empty", name="again")
    assert [(row.name, row.titles) for row in database.corpora()] == [
        ("again", "off"),
        ("empty", "off"),
        ("wiki", "on"),
    ]


def test_a_name_that_is_taken_is_refused(database: Database, exported: Path) -> None:
    with pytest.raises(UsageError, match="there is a corpus called 'wiki' already"):
        database.import_corpus(exported)


def test_an_interrupted_import_goes_on_where_it_was(database: Database, tmp_path: Path) -> None:
    many = [Passage(key=f"m{number:03}", text=f"Nora{number} ran.") for number in range(150)]
    ingest(database.store, "many", many)
    database.corpus("many").export(tmp_path / "many", vectors=True)

    def interrupt(stage: str, *_: int) -> None:
        if stage == "passages":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        database.import_corpus(tmp_path / "many", name="again", progress=interrupt)
    names = [row.name for row in database.corpora()]
    made = database.import_corpus(tmp_path / "many", name="again")
    assert names[0].startswith("again (import ")
    assert names[1:] == ["many", "wiki"]
    assert made.resumed == 64
    assert [row.name for row in database.corpora()] == ["again", "many", "wiki"]
    assert differences(database.store, "many", "again") == {}


def failing(error: Exception) -> Callable[..., None]:
    def fail(stage: str, *_: int) -> None:
        if stage == "passages":
            raise error

    return fail


@pytest.mark.parametrize("error", [RuntimeError("a fault"), OSError(5, "no such thing"), UsageError("taken")])
def test_an_import_that_fails_leaves_nothing(unharmed: Unharmed, error: Exception) -> None:
    with pytest.raises(type(error)):
        unharmed[0].import_corpus(unharmed[1], name="again", progress=failing(error))
    assert [row.name for row in unharmed[0].corpora()] == ["wiki"]


@pytest.mark.parametrize("error", [DatabaseUnreachable(), ModelCallFailed()])
def test_an_import_that_lost_a_server_goes_on_where_it_was(
    database: Database, exported: Path, error: Exception
) -> None:
    with pytest.raises(type(error)):
        database.import_corpus(exported, name="again", progress=failing(error))
    assert database.import_corpus(exported, name="again").resumed == 5
    assert [row.name for row in database.corpora()] == ["again", "wiki"]


def test_an_import_goes_on_with_the_embedding_model_that_it_began_with(
    database: Database, tmp_path: Path
) -> None:
    database.corpus("wiki").export(tmp_path / "plain")
    with pytest.raises(DatabaseUnreachable):
        database.import_corpus(tmp_path / "plain", name="again", progress=failing(DatabaseUnreachable()))
    database._encoder = HashEncoder(model="another")
    with pytest.raises(VectorSpaceMismatch):
        database.import_corpus(tmp_path / "plain", name="again")


# damage


def resign(folder: Path, change: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Let the manifest agree with what the files are now, as who forges them would."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name, file in manifest["files"].items():
        if not (folder / name).is_file():
            continue
        data = (folder / name).read_bytes()
        file |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        if name.endswith(".jsonl"):
            file["rows"] = data.count(b"\n")
    if change:
        change(manifest)
    del manifest["sha256"]
    manifest["sha256"] = hashlib.sha256(exports.canonical_json(manifest).encode()).hexdigest()
    path.write_text(json.dumps(manifest))


def refused(database: Database, folder: Path, message: str) -> None:
    """The import is refused and leaves nothing."""
    with pytest.raises(InputError, match=message):
        database.import_corpus(folder, name="again")
    assert [row.name for row in database.corpora()] == ["wiki"]
    counts = rows(database.store, "SELECT count(DISTINCT corpus_id) FROM passage")
    assert counts == [(1,)]


FILES = sorted(exports.NAMES - {"passage_vectors.npy"})


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_off_is_refused(unharmed: Unharmed, damaging: Path, name: str) -> None:
    path = damaging / name
    path.write_bytes(path.read_bytes()[:-20])
    refused(unharmed[0], damaging, f"{name} is damaged")


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_another_byte_is_refused(unharmed: Unharmed, damaging: Path, name: str) -> None:
    data = bytearray((damaging / name).read_bytes())
    data[len(data) // 2] ^= 1
    (damaging / name).write_bytes(data)
    refused(unharmed[0], damaging, f"{name} is damaged")


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_missing_is_refused(unharmed: Unharmed, damaging: Path, name: str) -> None:
    (damaging / name).unlink()
    refused(unharmed[0], damaging, f"{name} is missing")


@pytest.mark.parametrize("name", FILES)
def test_a_link_in_place_of_a_file_is_refused(
    unharmed: Unharmed, damaging: Path, tmp_path: Path, name: str
) -> None:
    shutil.move(damaging / name, tmp_path / name)
    (damaging / name).symlink_to(tmp_path / name)
    refused(unharmed[0], damaging, f"{name} is missing")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("passages.jsonl", "a row belongs to 'B', which is no passage"),
        ("propositions.jsonl", "another number of proposition vectors than the 5 of the rows"),
        ("entities.jsonl", "'bob' is not what the mentions make of it"),
        ("decisions.jsonl", "'Ada' does not stand for 'bob'|does not stand for"),
    ],
)
def test_a_first_line_that_somebody_took_out_is_refused(
    unharmed: Unharmed, damaging: Path, name: str, message: str
) -> None:
    path = damaging / name
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    resign(damaging)
    refused(unharmed[0], damaging, message)


def test_a_mention_that_somebody_took_out_is_refused(unharmed: Unharmed, damaging: Path) -> None:
    path = damaging / "mentions.jsonl"
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    resign(damaging)
    refused(unharmed[0], damaging, "entities.jsonl is damaged")


def edited(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    resign(folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("passages.jsonl", '"state":"ready"', '"state":"empty"', "'B' is empty with 2 propositions"),
        ("passages.jsonl", '"state":"ready"', '"state":"good"', "line 1 is damaged: state must be one of"),
        (
            "passages.jsonl",
            '"title":"Bob"',
            '"title":7',
            "title must be text, not a number",
        ),
        ("passages.jsonl", '"key":"a"', '"key":"A"', "'A' is out of order"),
        ("passages.jsonl", '"content_hash":"', '"content_hash":"00', "content_hash is none"),
        ("passages.jsonl", "lives in Oslo", "lives in Rome", "the content hash of 'B' is of another text"),
        ("passages.jsonl", '"title":"Bob"', '"title":"Rob"', "the content hash of 'B' is of another text"),
        ("passages.jsonl", "…", "-", "the content hash of 'c' is of another text"),
        ("decisions.jsonl", '"canonical":"ada"', '"canonical":"Ada"', "'Ada' is not in canonical form"),
        ("decisions.jsonl", '"target":"bob"', '"target":"Bob."', "'Bob.' is not in canonical form"),
        ("decisions.jsonl", '"canonical":"ada"', '"canonical":"zoe"', "one about 'bob' is out of order"),
        ("passages.jsonl", "Oslo", "\\u0000", "text holds a NUL character"),
        ("passages.jsonl", "{", "[", "line 1 is damaged: malformed JSON"),
        ("propositions.jsonl", '"ordinal":1', '"ordinal":2', "those of 'B' are not counted from 0"),
        ("propositions.jsonl", '"span":[0,18]', '"span":[0,99]', "one of 'B' lies beyond its text"),
        ("propositions.jsonl", '"span":[0,18]', '"span":[9,3]', "line 1 is damaged: span is none"),
        ("propositions.jsonl", '"passage_key":"B"', '"passage_key":"A"', "a row belongs to 'A'"),
        ("mentions.jsonl", '"form":"Bob"', '"form":"Rob"', "'Rob' does not stand for 'the other bob'"),
        ("mentions.jsonl", '"ordinal":0', '"ordinal":9', "one of 'B' is out of order"),
        ("entities.jsonl", '"degree":2', '"degree":3', "'bob' is not what the mentions make of it"),
        (
            "decisions.jsonl",
            '"target":"bob"',
            '"target":"ada"',
            "a name stands for itself",
        ),
    ],
)
def test_rows_that_cannot_be_are_refused(
    unharmed: Unharmed, damaging: Path, name: str, old: str, new: str, message: str
) -> None:
    edited(damaging, name, old, new)
    refused(unharmed[0], damaging, message)


def test_decisions_that_lead_in_a_circle_are_refused(unharmed: Unharmed, damaging: Path) -> None:
    path = damaging / "decisions.jsonl"
    path.write_text(
        '{"canonical":"ada","passage_key":"","target":"bob"}\n{"canonical":"bob","passage_key":"","target":"ada"}\n'
    )
    resign(damaging)
    refused(unharmed[0], damaging, "'ada' stands for itself")


def test_decisions_about_passages_that_are_not_there_are_refused(unharmed: Unharmed, damaging: Path) -> None:
    with (damaging / "decisions.jsonl").open("a") as stream:
        stream.write('{"canonical":"zoe","passage_key":"D","target":"zoey"}\n')
    resign(damaging)
    refused(unharmed[0], damaging, "decisions.jsonl is damaged: one is about 'D', which is no passage")


def test_decisions_that_lead_in_a_circle_in_one_passage_are_refused(
    unharmed: Unharmed, damaging: Path
) -> None:
    path = damaging / "decisions.jsonl"
    path.write_text(
        '{"canonical":"ada","passage_key":"","target":"bob"}\n{"canonical":"bob","passage_key":"B","target":"ada"}\n'
    )
    resign(damaging)
    refused(unharmed[0], damaging, "'bob' stands for itself")


@pytest.mark.parametrize("change", [str.upper, lambda digits: " ".join(digits), lambda digits: digits[:-2]])
def test_a_content_hash_that_is_none_is_refused(
    unharmed: Unharmed, damaging: Path, change: Callable[[str], str]
) -> None:
    digits = lines(damaging, "passages.jsonl")[0]["content_hash"]
    edited(damaging, "passages.jsonl", digits, change(digits))
    refused(unharmed[0], damaging, "line 1 is damaged: content_hash is none")


def test_hashes_of_another_titles_setting_are_refused(unharmed: Unharmed, damaging: Path) -> None:
    resign(damaging, lambda manifest: manifest["corpus"].update(titles="off"))
    refused(unharmed[0], damaging, "the content hash of 'B' is of another text")


@pytest.mark.parametrize("name", exports.TABLES)
def test_another_number_of_rows_is_refused(unharmed: Unharmed, damaging: Path, name: str) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["files"][name]["rows"] += 1
        if name == "propositions.jsonl":
            manifest["files"]["proposition_vectors.npy"]["rows"] += 1

    there = len(lines(damaging, name))
    resign(damaging, change)
    refused(unharmed[0], damaging, f"{name} is damaged: it has {there} rows and was written with {there + 1}")


def test_a_decision_that_stands_there_twice_is_refused(unharmed: Unharmed, damaging: Path) -> None:
    path = damaging / "decisions.jsonl"
    path.write_text('{"canonical":"ada","passage_key":"","target":"bob"}\n' * 2)
    resign(damaging)
    refused(unharmed[0], damaging, "a decision stands there twice")


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.zeros((5, 64), "<f2"), "does not hold 6 vectors of 64"),
        (np.zeros((6, 64), "<f4"), "does not hold 6 vectors of 64"),
        (np.full((6, 64), np.nan, "<f2"), "it holds what is no number"),
        (np.array([{"a": 1}] * 6, dtype=object), "does not hold 6 vectors of 64"),
    ],
)
def test_vectors_that_are_none_are_refused(
    unharmed: Unharmed, damaging: Path, vectors: np.ndarray, message: str
) -> None:
    np.save(damaging / "proposition_vectors.npy", vectors, allow_pickle=True)
    resign(damaging)
    refused(unharmed[0], damaging, message)


@pytest.mark.parametrize(
    ("factor", "message"),
    [(0, "a vector of length 0 in place of 1"), (100, "a vector of length 100 in place of 1"),
     (0.99, "a vector of length 0.99 in place of 1")],
)  # fmt: skip
@pytest.mark.parametrize("row", [0, 5])
def test_vectors_of_another_length_than_1_are_refused(
    unharmed: Unharmed, damaging: Path, factor: float, message: str, row: int
) -> None:
    vectors = np.load(damaging / "proposition_vectors.npy")
    vectors[row] *= factor
    np.save(damaging / "proposition_vectors.npy", vectors)
    resign(damaging)
    refused(unharmed[0], damaging, message)


@pytest.mark.parametrize("dimensions", [1, 3, 384, 16_000])
def test_16_bit_vectors_of_every_width_pass(dimensions: int) -> None:
    vectors = np.random.default_rng(dimensions).normal(size=(50, dimensions))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert exports.vectors_problem(vectors.astype(np.float16)) == ""


def header(text: str, version: bytes = b"\x01\x00") -> bytes:
    return b"\x93NUMPY" + version + (len(text) + 1).to_bytes(2, "little") + text.encode() + b"\n"


def shaped(shape: str, *, columns_first: bool = False, cell: str = "'<f2'") -> bytes:
    return header(f"{{'descr': {cell}, 'fortran_order': {columns_first}, 'shape': {shape}}}")


def archive() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, np.zeros((6, 64), "<f2"))
    return stream.getvalue()


VECTORS = bytes(6 * 64 * 2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not begin as"),
        (b"PK\x03\x04", "does not begin as"),
        (archive(), "does not begin as"),
        (b"\x93NUMPY\x01\x00", "does not begin as"),
        (header("{[]: 1}") + VECTORS, "does not begin as"),
        (header("(" * 9_000) + VECTORS, "does not begin as"),
        (header("0" * 20_000) + VECTORS, "does not begin as"),
        (shaped("(6, 64)", cell="'O'") + VECTORS, "does not hold 6 vectors of 64"),
        (shaped("(6, 64)", cell="'>f2'") + VECTORS, "does not hold 6 vectors of 64"),
        (shaped("(6, 64)", cell="[]") + VECTORS, "does not hold 6 vectors of 64"),
        (shaped("(6, 64)", columns_first=True) + VECTORS, "does not hold 6 vectors of 64"),
        (shaped(f"({10**30 - 1}, 384)") + VECTORS, "does not hold 6 vectors of 64"),
        (shaped("(-6, 384)") + VECTORS, "does not hold 6 vectors of 64"),
        (shaped("(6, 64)") + VECTORS[:-1], "does not hold 6 vectors of 64"),
        (shaped("(6, 64)") + VECTORS + b"0", "does not hold 6 vectors of 64"),
        (header("{'descr': '<f2'}", b"\x02\x00") + VECTORS, "does not begin as"),
    ],
)
def test_vectors_with_another_header_are_refused(
    unharmed: Unharmed, damaging: Path, data: bytes, message: str
) -> None:
    (damaging / "proposition_vectors.npy").write_bytes(data)
    resign(damaging)
    refused(unharmed[0], damaging, rf"proposition_vectors\.npy.* {message}")


def test_no_vectors_with_a_header_of_many_are_refused(database: Database, tmp_path: Path) -> None:
    database.corpus("empty", create=True, titles="on")
    ingest(database.store, "empty", [Passage(key="c", text="…")], language=language())
    database.corpus("empty").export(tmp_path / "empty", vectors=True)
    (tmp_path / "empty" / "proposition_vectors.npy").write_bytes(shaped(f"({10**12}, 64)"))
    resign(tmp_path / "empty")
    with pytest.raises(InputError, match="does not hold 0 vectors of 64"):
        database.import_corpus(tmp_path / "empty", name="again")
    assert [row.name for row in database.corpora()] == ["empty", "wiki"]


def test_files_of_many_gigabytes_are_read(damaging: Path) -> None:
    path = damaging / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["sha256"]
    manifest["files"]["proposition_vectors.npy"]["size"] = 10**12
    manifest["sha256"] = hashlib.sha256(exports.canonical_json(manifest).encode()).hexdigest()
    path.write_text(json.dumps(manifest))
    assert exports.read_manifest(damaging).files["proposition_vectors.npy"].size == 10**12


@pytest.mark.parametrize("version", [True, 1.0, "1", None, 0])
def test_a_version_that_is_none_is_refused(unharmed: Unharmed, damaging: Path, version: Any) -> None:
    resign(damaging, lambda manifest: manifest.update(version=version))
    refused(unharmed[0], damaging, "version must be a whole number from 1 on")


def test_a_name_that_is_too_long_is_refused_and_not_repeated(unharmed: Unharmed, damaging: Path) -> None:
    resign(damaging, lambda manifest: manifest["corpus"].update(name="n" * 5_000))
    with pytest.raises(UsageError, match=r"1 to 200 characters, not 'n{50}'$"):
        unharmed[0].import_corpus(damaging)


def test_a_manifest_that_holds_what_no_json_has_is_refused(unharmed: Unharmed, damaging: Path) -> None:
    path = damaging / "manifest.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 1, "more": 1e999'))
    refused(unharmed[0], damaging, "manifest.json is damaged: it holds a number that is too large")


def test_a_format_of_a_newer_version_is_refused(unharmed: Unharmed, damaging: Path) -> None:
    resign(damaging, lambda manifest: manifest.update(version=2))
    refused(unharmed[0], damaging, "written by a newer evireform .*: upgrade the package")


def rename_file(manifest: dict[str, Any], new: str) -> None:
    manifest["files"][new] = manifest["files"].pop("passages.jsonl")


@pytest.mark.parametrize("name", ["../passages.jsonl", "/etc/passwd", "notes.jsonl"])
def test_a_manifest_that_names_other_files_is_refused(unharmed: Unharmed, damaging: Path, name: str) -> None:
    resign(damaging, lambda manifest: rename_file(manifest, name))
    refused(unharmed[0], damaging, "it names other files than an export has")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(format="something"), "is not that of an exported corpus"),
        (lambda m: m["corpus"].update(titles="maybe"), "titles must be one of off, on"),
        (lambda m: m["corpus"].pop("extractor"), "extractor must be text, not null"),
        (lambda m: m["spaces"].append(m["spaces"][0]), "two vector spaces of a kind"),
        (lambda m: m["spaces"][0].update(prompts=[]), "prompts must be texts by name"),
        (lambda m: m["spaces"][0].update(vectors=1), "vectors must be true or false"),
        (lambda m: m["spaces"][0].update(dimensions=0), "dimensions must be a whole number from 1 to 16,000"),
        (lambda m: m["spaces"][0].update(dimensions=20_000), "dimensions must be a whole number from 1 to"),
        (lambda m: m["files"]["proposition_vectors.npy"].update(rows=7), "another number of proposition vec"),
        (lambda m: m["files"].update({"n" * 5_000: {"size": 0, "rows": 0, "sha256": ""}}), "as n{100}$"),
        (lambda m: m.update(spaces=[]), "it names no vector space of its propositions"),
        (lambda m: m.update(files=[]), "is damaged"),
        (lambda m: m.update(spaces=[7]), "is damaged"),
    ],
)
def test_a_manifest_that_cannot_be_is_refused(
    unharmed: Unharmed, damaging: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    resign(damaging, change)
    refused(unharmed[0], damaging, message)


def test_vectors_of_passages_that_are_none_are_refused(database: Database, tmp_path: Path) -> None:
    ensure_passage_space(database.store, "wiki", HashEncoder())
    database.corpus("wiki").export(tmp_path / "wiki", vectors=True)
    np.save(tmp_path / "wiki" / "passage_vectors.npy", np.zeros((5, 64), "<f2"))
    resign(tmp_path / "wiki")
    refused(database, tmp_path / "wiki", r"passage_vectors\.npy .* a vector of length 0 in place of 1")


def test_a_failed_passage_may_have_another_hash_which_is_counted(database: Database, exported: Path) -> None:
    edited(exported, "passages.jsonl", "Nobody reads this.", "Somebody reads this.")
    assert database.import_corpus(exported, name="again").unverified == 1


def test_a_folder_that_cannot_be_read_is_named(unharmed: Unharmed, tmp_path: Path) -> None:
    refused(unharmed[0], tmp_path / ("f" * 300), r"fff/manifest\.json cannot be read: File name too long")


def test_a_folder_without_a_manifest_is_refused(unharmed: Unharmed, tmp_path: Path) -> None:
    refused(unharmed[0], tmp_path / "nowhere", r"manifest\.json is missing")
