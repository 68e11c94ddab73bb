"""Generations and exports as roles use them that own nothing: within their own tenant."""

from __future__ import annotations

from pathlib import Path

import pytest

from evireform import connect
from evireform.database import Database
from evireform.errors import PermissionMissing
from evireform.records import Passage
from tests.database.roles import new_member
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

PASSAGES = [Passage(key="a", text="Ada met Bob."), Passage(key="b", text="Bob left.")]


def open_as(url: str, language: str = "scripted/1") -> Database:
    return connect(url, encoder=HashEncoder(), language=ScriptedLanguage(name=language))


def test_writers_of_two_tenants_have_generations_of_one_name(database_url: str) -> None:
    with new_member(database_url, "one") as first, new_member(database_url, "two") as second:
        for url in (first, second):
            with open_as(url) as db:
                db.corpus("wiki", create=True).ingest(PASSAGES)
            with open_as(url, "other/1") as db:
                assert db.generations() == []
                db.generation("wiki").start()
                assert db.generation("wiki").status().complete
                assert db.generation("wiki").switch() == "wiki-next"
                assert db.generations() == ["wiki"]
        with open_as(first) as db:
            db.generation("wiki").drop()
        with open_as(second) as db:
            assert [row.name for row in db.corpora()] == ["wiki", "wiki-next"]


def test_a_writer_exports_and_imports(database_url: str, tmp_path: Path) -> None:
    with new_member(database_url, "one") as writer, open_as(writer) as db:
        db.corpus("wiki", create=True).ingest(PASSAGES)
        db.corpus("wiki").export(tmp_path / "wiki", vectors=True)
        assert db.import_corpus(tmp_path / "wiki", name="again").propositions == 2
        db.corpus("again").export(tmp_path / "again", vectors=True)
    name = "propositions.jsonl"
    assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "wiki" / name).read_bytes()


def test_a_reader_exports_and_may_not_import(database_url: str, tmp_path: Path) -> None:
    with new_member(database_url, "one") as writer, open_as(writer) as db:
        db.corpus("wiki", create=True).ingest(PASSAGES)
        with new_member(database_url, "one", "reader") as reader, open_as(reader) as reading:
            reading.corpus("wiki").export(tmp_path / "wiki", vectors=True)
            with pytest.raises(PermissionMissing):
                reading.import_corpus(tmp_path / "wiki", name="again")
