"""A dump and its restoration by PostgreSQL's own programs give the same index."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from evireform.embedded.binaries import installed_bin
from evireform.records import Passage
from evireform.store.connection import Store
from evireform.store.migrate import init
from tests.conftest import SCHEMA
from tests.database.roles import new_role, run_as_owner
from tests.jobs.indexes import ingest, keys, search
from tests.jobs.stored import TEXTS, content, fill, found


def run(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [installed_bin() / program, *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def dump(store: Store, database_url: str, tmp_path: Path) -> Path:
    """The schema of a filled database, in a file."""
    fill(store)
    file = tmp_path / "evireform.dump"
    made = run("pg_dump", "-Fc", "-n", SCHEMA, "-f", file, "-d", database_url)
    assert (made.returncode, made.stderr) == (0, "")
    return file


@pytest.fixture
def restored(dump: Path, empty_database_url: str) -> str:
    """URL of an empty database into which the schema was restored."""
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("CREATE EXTENSION vector")
    made = run("pg_restore", "--single-transaction", "-d", empty_database_url, dump)
    assert (made.returncode, made.stderr) == (0, "")
    return empty_database_url


def test_a_restored_schema_holds_the_same_rows_and_indexes(database_url: str, restored: str) -> None:
    before = content(database_url)
    assert {name for name, rows in before.items() if rows} >= {"passage", "embedding_1_1", "question_log"}
    assert content(restored) == before


def test_a_restored_schema_gives_the_same_rankings(store: Store, restored: str) -> None:
    other = Store(restored, schema=SCHEMA)
    assert found(other) == found(store)
    other.close()


def test_ingestion_goes_on_in_a_restored_schema(restored: str) -> None:
    other = Store(restored, schema=SCHEMA)
    summary = ingest(other, "one", [TEXTS[0], Passage(key="new", text="Zoe met Ada Lovelace.")])
    assert (summary.added, summary.unchanged) == (1, 1)
    assert "new" in keys(search(other, "one", "Zoe met Ada Lovelace", k=10))
    other.close()


def test_a_whole_database_needs_nothing_prepared(
    store: Store, database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    fill(store)
    file = tmp_path / "database.dump"
    assert run("pg_dump", "-Fc", "-f", file, "-d", database_url).stderr == ""
    assert run("pg_restore", "--single-transaction", "-d", empty_database_url, file).stderr == ""
    assert content(empty_database_url) == content(database_url)


@pytest.fixture
def owner_url(empty_database_url: str) -> Iterator[str]:
    """A filled database; the role that owns the tables is no superuser, and member of no tenant any more."""
    run_as_owner(empty_database_url, "CREATE EXTENSION vector")
    with new_role(empty_database_url) as role:
        run_as_owner(empty_database_url, "CREATE SCHEMA evireform AUTHORIZATION {}", role)
        url = make_conninfo(empty_database_url, user=role, password="secret")
        owned = Store(url, schema=SCHEMA)
        init(owned)
        fill(owned)
        owned.close()
        run_as_owner(empty_database_url, "DELETE FROM evireform.tenant_member")
        yield url


def dumped_passages(owner_url: str, *options: str, **environment: str) -> tuple[int, str]:
    """Exit code of a dump of the passages as plain text, and what it printed."""
    made = subprocess.run(
        [installed_bin() / "pg_dump", "-n", SCHEMA, "-t", f"{SCHEMA}.passage", *options, "-d", owner_url],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    return made.returncode, made.stdout + made.stderr


def test_the_owner_is_refused_rather_than_given_a_part(owner_url: str) -> None:
    code, said = dumped_passages(owner_url)
    assert code == 1
    assert "query would be affected by row-level security policy" in said


def test_the_owner_dumps_every_row_under_maintenance(owner_url: str) -> None:
    code, said = dumped_passages(owner_url, "--enable-row-security", PGOPTIONS="-c evireform.maintenance=on")
    assert code == 0
    assert all(passage.text in said for passage in TEXTS)


def test_row_security_without_maintenance_leaves_rows_out(owner_url: str) -> None:
    code, said = dumped_passages(owner_url, "--enable-row-security")
    assert code == 0
    assert not any(passage.text in said for passage in TEXTS)
