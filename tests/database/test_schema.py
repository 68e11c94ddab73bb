"""What the migrations make is what the metadata says, down to operator classes and collations."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from psycopg.types.json import Jsonb

from evireform.store.connection import Store
from evireform.store.migrate import init
from evireform.store.revisions import known_revisions
from evireform.store.schema import metadata
from evireform.store.statements import resource_dir
from tests.conftest import SCHEMA, database

CATALOGUE = {
    "tables": """
        SELECT relname::text, relkind::text, pg_get_partkeydef(oid) FROM pg_class
        WHERE relnamespace = 'evireform'::regnamespace AND relkind IN ('r', 'p')
          AND relname <> 'alembic_version'
        ORDER BY relname""",
    "columns": """
        SELECT attrelid::regclass::text, attname::text, format_type(atttypid, atttypmod), attnotnull,
               pg_get_expr(adbin, adrelid), attidentity::text, attgenerated::text,
               attcollation::regcollation::text, attstorage::text
        FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = 'evireform'::regnamespace AND relkind IN ('r', 'p') AND attnum > 0
          AND NOT attisdropped AND relname <> 'alembic_version'
        ORDER BY relname, attname""",
    "indexes": """
        SELECT pg_get_indexdef(indexrelid), indisunique, indisprimary
        FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
        WHERE relnamespace = 'evireform'::regnamespace AND relname <> 'alembic_version'
        ORDER BY 1""",
    "constraints": """
        SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid)
        FROM pg_constraint
        WHERE connamespace = 'evireform'::regnamespace AND conrelid::regclass::text <> 'alembic_version'
        ORDER BY 1, 2""",
}


def catalogue(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        connection.execute("SET LOCAL search_path = evireform, public")
        return connection.execute(query.encode()).fetchall()


@pytest.fixture(scope="module")
def created_url(server_url: str) -> Iterator[str]:
    """A database whose tables were made from the metadata."""
    with database(server_url) as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE EXTENSION vector")
            connection.execute("CREATE SCHEMA evireform")
        engine = sa.create_engine(
            "postgresql+psycopg://", creator=lambda: psycopg.connect(url), poolclass=sa.NullPool
        )
        with engine.begin() as connection:
            connection.exec_driver_sql("SET LOCAL search_path = evireform, public")
            metadata.create_all(connection, checkfirst=False)
        yield url


@pytest.mark.parametrize("kind", CATALOGUE)
def test_metadata_and_migrations_agree(created_url: str, database_url: str, kind: str) -> None:
    from_metadata = catalogue(created_url, CATALOGUE[kind])
    assert len(from_metadata) >= len(metadata.tables)
    assert from_metadata == catalogue(database_url, CATALOGUE[kind])


def test_every_key_begins_with_the_corpus(database_url: str) -> None:
    without = {"tenant", "tenant_member", "corpus", "model_call", "worker"}
    first = catalogue(
        database_url,
        """
        SELECT indrelid::regclass::text, attname::text
        FROM pg_index
        JOIN pg_class ON pg_class.oid = indrelid
        JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
        WHERE relnamespace = 'evireform'::regnamespace AND relname <> 'alembic_version'""",
    )
    assert {column for table, column in first if table not in without} == {"corpus_id"}


def test_every_table_knows_its_tenant() -> None:
    assert [name for name, table in metadata.tables.items() if "tenant_id" not in table.c] == []


def alembic_config(url: str, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("EVIREFORM_DATABASE_URL", url)
    return Config(resource_dir("migrations").parent / "alembic.ini")


def test_down_and_up_again_gives_the_same_tables(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = alembic_config(empty_database_url, monkeypatch)
    command.upgrade(config, "head")
    before = {kind: catalogue(empty_database_url, query) for kind, query in CATALOGUE.items()}
    command.downgrade(config, "base")
    between = catalogue(empty_database_url, CATALOGUE["tables"])
    command.upgrade(config, "head")
    after = {kind: catalogue(empty_database_url, query) for kind, query in CATALOGUE.items()}
    assert between == []
    assert len(before["tables"]) == len(metadata.tables)
    assert after == before


def test_tables_of_alembic_alone_are_taken_over_by_init(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.upgrade(alembic_config(empty_database_url, monkeypatch), "head")
    store = Store(empty_database_url, schema=SCHEMA)
    report = init(store)
    store.close()
    assert report.migrated_from == report.migrated_to == known_revisions()[-1]


def test_the_revisions_are_those_that_alembic_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = ScriptDirectory.from_config(alembic_config("", monkeypatch))
    seen = [script.revision for script in scripts.walk_revisions("base", "heads")]
    assert tuple(reversed(seen)) == known_revisions()


def test_the_ledger_of_the_first_version_keeps_its_corpora_by_name(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = alembic_config(empty_database_url, monkeypatch)
    command.upgrade(config, "0001")
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("SET search_path = evireform")
        connection.execute("INSERT INTO tenant (tenant_id, name, role_name) VALUES (1, 'default', 'x')")
        connection.execute(
            "INSERT INTO corpus (corpus_id, tenant_id, name, titles) VALUES (7, 1, 'wiki', 'on')"
        )
        calls = "INSERT INTO model_call (tenant_id, corpus_id, purpose, model) VALUES (1, %s, 'extract', 'm')"
        for corpus_id in (7, 8):
            connection.execute(calls, [corpus_id])
    command.upgrade(config, "head")
    found = catalogue(empty_database_url, "SELECT corpus_id, corpus_name FROM model_call ORDER BY corpus_id")
    assert found == [(7, "wiki"), (8, "")]


METADATA = {
    "year": 2020,
    "lang": ["en", "de", "en"],
    "mixed": [1, 1.0, "1", False, None, {"deep": 1}, [2]],
    "none": None,
    "long": "x" * 501,
    "x" * 101: "a name too long",
    "huge": 10**400,
    "": "no name",
}


def test_passages_that_are_there_can_be_filtered_after_the_migration(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.upgrade(alembic_config(empty_database_url, monkeypatch), "0002")
    with psycopg.connect(empty_database_url) as connection:
        connection.execute("SET search_path = evireform")
        connection.execute("INSERT INTO tenant (tenant_id, name, role_name) VALUES (1, 'default', 'x')")
        connection.execute(
            "INSERT INTO corpus (corpus_id, tenant_id, name, titles) VALUES (7, 1, 'wiki', 'on')"
        )
        connection.execute(
            "INSERT INTO passage"
            " (corpus_id, passage_id, tenant_id, passage_key, body, content_hash, metadata, state)"
            " VALUES (7, 1, 1, 'a', 'text', '', %s, 'empty'), (7, 2, 1, 'b', 'text', '', '{}', 'empty')",
            [Jsonb(METADATA)],
        )
    store = Store(empty_database_url, schema=SCHEMA)
    init(store)
    store.close()
    filled = "SELECT passage_id, name, kind, value, number FROM passage_metadata ORDER BY name, kind, value"
    derived = """
        SELECT passage_id, held.name, held.kind, held.value, held.number
        FROM passage CROSS JOIN LATERAL filterable(metadata) AS held
        ORDER BY held.name COLLATE "C", held.kind, held.value COLLATE "C"
    """
    expected = [
        (1, "lang", "text", "de", None),
        (1, "lang", "text", "en", None),
        (1, "mixed", "boolean", "false", None),
        (1, "mixed", "number", "1", 1.0),
        (1, "mixed", "text", "1", None),
        (1, "year", "number", "2020", 2020.0),
    ]
    assert catalogue(empty_database_url, filled) == expected
    assert catalogue(empty_database_url, derived) == expected
