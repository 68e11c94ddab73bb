"""Every named statement fits the migrated tables: a wrong column or cast fails without data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from evireform.store.connection import Store
from evireform.store.migrate import init
from evireform.store.statements import read_statements, statement, statements
from tests.conftest import SCHEMA, database

_PARAMETER = re.compile(r"%\((\w+)\)s")
_COMMENT = re.compile(r"\A(--.*\n)+")

UTILITIES = {"create_extension", "drop_views"}
"""Statements that PostgreSQL cannot prepare; each is run by a test."""


WIDE = sorted(name for name, text in statements().items() if "-- wide: " in text)
"""Statements that search an index of signs where vectors are too wide for one of their own."""


def text_of(name: str, *, dimensions: int = 384) -> str:
    return statement(name, dimensions=dimensions if "halfvec({d})" in statements()[name] else None)


@pytest.fixture(scope="module")
def migrated(server_url: str) -> Iterator[Store]:
    """One database for all the statements, since preparing one leaves nothing behind."""
    with database(server_url) as url:
        store = Store(url, schema=SCHEMA)
        init(store)
        yield store
        store.close()


@pytest.mark.parametrize(
    ("name", "dimensions"),
    [*((name, 384) for name in sorted(statements().keys() - UTILITIES)), *((name, 4_096) for name in WIDE)],
)
def test_a_statement_can_be_prepared(migrated: Store, name: str, dimensions: int) -> None:
    numbers: dict[str, int] = {}
    numbered = _PARAMETER.sub(
        lambda found: f"${numbers.setdefault(found[1], len(numbers) + 1)}",
        text_of(name, dimensions=dimensions),
    )
    with migrated.transaction() as tx, tx.driver.cursor() as cursor:
        cursor.execute(f"PREPARE checked AS {numbered.replace('%%', '%')}".encode())
        cursor.execute("SELECT cardinality(parameter_types) FROM pg_prepared_statements")
        assert cursor.fetchone() == (len(numbers),)
        cursor.execute("DEALLOCATE checked")


@pytest.mark.parametrize("name", sorted(statements()))
def test_a_statement_says_what_it_is_for(name: str) -> None:
    assert _COMMENT.match(statements()[name])


def test_only_utilities_cannot_be_prepared() -> None:
    verbs = {name: _COMMENT.sub("", text).split()[0] for name, text in statements().items()}
    assert {
        name for name, verb in verbs.items() if verb not in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
    } == UTILITIES


def test_fresh_statistics_can_be_asked_for(store: Store) -> None:
    with store.transaction() as tx:
        assert tx.run("analyze_corpus_tables", {}) == [(None,)]


def test_views_are_dropped_by_name(store: Store) -> None:
    query = "SELECT count(*) FROM pg_views WHERE schemaname = current_schema()"
    with store.transaction() as tx:
        before = tx.driver.execute(query).fetchone()
        tx.run("drop_views", {})
        after = tx.driver.execute(query).fetchone()
    assert (before, after) == ((10,), (0,))


def test_the_comment_stays_with_its_statement(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("-- name: one\n-- What for.\nSELECT 1;\n\n-- name: two\nSELECT 2;\n")
    assert read_statements(tmp_path) == {"one": "-- What for.\nSELECT 1", "two": "SELECT 2"}


def test_a_script_holds_no_statements(tmp_path: Path) -> None:
    (tmp_path / "functions.sql").write_text("-- A function.\nSELECT 1;\n")
    assert read_statements(tmp_path) == {}


def test_two_statements_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("-- name: one\nSELECT 1;\n")
    (tmp_path / "b.sql").write_text("-- name: one\nSELECT 2;\n")
    with pytest.raises(ValueError, match=r"two statements are called 'one'; the second is in b\.sql"):
        read_statements(tmp_path)


def test_a_missing_statement_is_named() -> None:
    with pytest.raises(KeyError, match="no statement is called 'nothing'"):
        statement("nothing")


def test_dimensions_are_formatted_into_the_cast() -> None:
    text = statement("candidates", dimensions=384)
    assert "halfvec(384)" in text
    assert "{d}" not in text


@pytest.mark.parametrize("name", WIDE)
def test_wide_vectors_are_found_by_their_signs(name: str) -> None:
    signs = "ORDER BY binary_quantize(embedding.embedding::halfvec(4001))::bit(4001) <~> binary_quantize("
    assert signs in text_of(name, dimensions=4_001)
    assert "ORDER BY embedding.embedding::halfvec(4000) <#> " in text_of(name, dimensions=4_000)


def test_every_search_of_vectors_knows_wide_ones() -> None:
    assert sorted(name for name, text in statements().items() if "<#>" in text) == WIDE


@pytest.mark.parametrize("dimensions", [None, 0, -1, 3.0, True, "384"])
def test_only_a_positive_integer_is_formatted(dimensions: object) -> None:
    with pytest.raises(ValueError, match="statement 'candidates' needs its dimensions"):
        statement("candidates", dimensions=dimensions)  # type: ignore[arg-type]
