"""A filled database with all of its rows to compare: for tests of backups and migrations."""

from __future__ import annotations

import psycopg
from psycopg import sql

from evireform.evaluation.passage_space import ensure_passage_space
from evireform.records import Passage
from evireform.store import corpora
from evireform.store.connection import Store
from tests.conftest import SCHEMA
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage
from tests.jobs.indexes import ingest, keys, search

QUESTION = "Whom did Ada Lovelace meet in Łódź?"

TEXTS = [
    Passage(key="a", title="Ada", text="Ada Lovelace met Charles Babbage. Ada Lovelace saw Łódź."),
    Passage(key="b", text="Charles Babbage built the Engine in London.", metadata={"year": 1837}),
    Passage(key="c", text="nothing that has a name is here."),
    Passage(key="d", text="Łódź was seen by Mary."),
    Passage(key="failed", text="Nobody could read this."),
]


def fill(store: Store) -> None:
    """Two corpora with both kinds of vectors, an HNSW index, a failed passage and a logged search."""
    for name in ("one", "two"):
        ingest(store, name, TEXTS, language=ScriptedLanguage(errors={"failed": "no answer"}))
    ensure_passage_space(store, "one", HashEncoder())
    with store.transaction() as tx:
        space = corpora.open_space(tx, "one", "proposition")[1]
        tx.run("create_space_index", {"corpus_id": space.corpus_id, "space_id": space.space_id})
    search(store, "one", QUESTION, log=True)


def found(store: Store) -> list[tuple[str, float]]:
    """What a search of the first corpus ranks, with the scores."""
    ranking = search(store, "one", QUESTION, k=10)
    assert keys(ranking)
    return [(passage.passage_key, passage.score) for passage in ranking.passages]


def content(url: str, *, only: frozenset[str] | None = None) -> dict[str, list[str]]:
    """Every row of every table (of ``only`` these) and the definition of every index, as text."""
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' "
            "AND relname <> 'alembic_version'",
            [SCHEMA],
        ).fetchall()
        held = {
            name: [
                str(row[0])
                for row in connection.execute(
                    sql.SQL("SELECT own::text FROM {} AS own ORDER BY 1").format(sql.Identifier(SCHEMA, name))
                )
            ]
            for (name,) in tables
            if only is None or name in only
        }
        indexes = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1", [SCHEMA]
        ).fetchall()
    return held if only is not None else {**held, "(indexes)": [row[0] for row in indexes]}
