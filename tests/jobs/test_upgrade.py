"""Going down and up again by migrations keeps what the older tables hold."""

from __future__ import annotations

import json

import psycopg
import pytest
from typer.testing import CliRunner

from evireform import Passage, connect
from evireform.cli import app
from evireform.errors import SchemaMissing, UsageError
from evireform.store.connection import Store
from evireform.store.migrate import init
from evireform.store.revisions import known_revisions
from tests.conftest import SCHEMA
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.stored import content, fill, found

FIRST = "0002"
"""The oldest migration that went out with data in its tables."""


def tables_at(url: str) -> frozenset[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' "
            "AND relname <> 'alembic_version'",
            [SCHEMA],
        ).fetchall()
    return frozenset(row[0] for row in rows)


def test_to_the_first_and_back_keeps_all_that_the_first_knows(store: Store, database_url: str) -> None:
    fill(store)
    ranked = found(store)
    assert init(store, to=FIRST).migrated_to == FIRST
    old = tables_at(database_url)
    before = content(database_url, only=old)
    assert {name for name, rows in before.items() if rows} >= {"passage", "embedding_1_1", "question_log"}
    assert init(store).migrated_from == FIRST
    init(store, to=FIRST)
    assert content(database_url, only=old) == before
    init(store)
    assert found(store) == ranked


@pytest.mark.parametrize("revision", known_revisions()[known_revisions().index(FIRST) : -1])
def test_one_step_down_and_up_gives_the_tables_as_they_are_made(
    store: Store, database_url: str, empty_database_url: str, revision: str
) -> None:
    fill(store)
    init(store, to=revision)
    init(store)
    fresh = Store(empty_database_url, schema=SCHEMA)
    init(fresh)
    fresh.close()
    assert shape(database_url) == shape(empty_database_url)


def shape(url: str) -> list[tuple[object, ...]]:
    """Columns, constraints, indexes, policies and functions, but not those of single vector spaces."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            """
            SELECT 'column', attrelid::regclass::text, attname::text, format_type(atttypid, atttypmod)
                   || attnotnull || COALESCE(pg_get_expr(adbin, adrelid), '')
            FROM pg_attribute
            JOIN pg_class ON pg_class.oid = attrelid
            LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
            WHERE relnamespace = to_regnamespace(%(schema)s) AND attnum > 0 AND NOT attisdropped
              AND relkind IN ('r', 'p', 'v') AND relname !~ '^embedding_'
            UNION ALL
            SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
            FROM pg_constraint
            WHERE connamespace = to_regnamespace(%(schema)s) AND conrelid::regclass::text !~ 'embedding_'
            UNION ALL
            SELECT 'index', tablename, indexname, indexdef FROM pg_indexes
            WHERE schemaname = %(schema)s AND tablename !~ '^embedding_'
            UNION ALL
            SELECT 'policy', tablename, policyname, COALESCE(qual, '') || COALESCE(with_check, '')
            FROM pg_policies WHERE schemaname = %(schema)s
            UNION ALL
            SELECT 'function', proname::regproc::text, '', md5(prosrc) FROM pg_proc
            WHERE pronamespace = to_regnamespace(%(schema)s)
            ORDER BY 1, 2, 3, 4
            """,
            {"schema": SCHEMA},
        ).fetchall()


def test_an_old_schema_is_refused_until_it_is_brought_up(store: Store, database_url: str) -> None:
    init(store, to=FIRST)
    other = Store(database_url, schema=SCHEMA)
    with pytest.raises(SchemaMissing, match=f"those of migration {FIRST}"), other.transaction():
        pass
    init(other)
    with other.transaction():
        pass
    other.close()


def test_the_command_line_goes_down_and_up(store: Store, database_url: str) -> None:
    fill(store)
    moves = []
    for options in (["--to", FIRST, "--yes"], []):
        ran = CliRunner().invoke(app, ["init", "--json", "--database-url", database_url, *options])
        report = json.loads(ran.stdout)
        moves.append((report["migrated_from"], report["migrated_to"]))
    newest = known_revisions()[-1]
    assert moves == [(newest, FIRST), (FIRST, newest)]


def test_the_command_line_does_not_go_down_unasked(store: Store, database_url: str) -> None:
    ran = CliRunner().invoke(app, ["init", "--to", FIRST, "--database-url", database_url])
    assert (ran.exit_code, "give --yes" in ran.stderr) == (2, True)
    assert init(store).migrated_from == known_revisions()[-1]


def test_a_migration_that_there_is_not_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="there is no migration '9999': this evireform knows 0001, 0002"):
        init(store, to="9999")


def test_what_a_lost_merge_left_is_mended(database_url: str) -> None:
    given = [Passage(key="a", text="John Smith met Ada."), Passage(key="b", text="Jack Smith met Bob.")]
    with connect(database_url, encoder=HashEncoder(), language=ScriptedLanguage()) as db:
        corpus = db.corpus("c", create=True)
        corpus.ingest(given)
        corpus.merge_entities("John Smith", ["Jack Smith"])
        db.init(to=FIRST)
    with connect(database_url, encoder=HashEncoder(), language=ScriptedLanguage()) as db:
        db.init()
        corpus = db.corpus("c")
        assert (corpus.entity("John Smith").degree, corpus.entity_log()) == (2, [])
        db.verify(repair=True)
        assert (corpus.entity("John Smith").degree, corpus.entity("Jack Smith").degree) == (1, 1)
        assert db.verify().true
