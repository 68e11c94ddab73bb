"""Small corpora for the tests of the jobs, and comparisons of whole indexes by what people can name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from psycopg import sql

from evireform import ingestion
from evireform.embedding import Encoder, Vectors
from evireform.language import Language
from evireform.records import IngestionSummary, Passage, Ranking, Rejected, Titles
from evireform.retrieval import pipeline
from evireform.settings import SearchSettings
from evireform.store import corpora
from evireform.store.connection import Store
from tests.doubles.hash_encoder import HashEncoder
from tests.doubles.scripted_language import ScriptedLanguage

Script = Mapping[str, Sequence[tuple[str, Sequence[str]]]]
"""Passage key to its propositions, each with the entities it names."""

_OWN = "own.corpus_id = (SELECT corpus_id FROM corpus WHERE name = %(corpus)s)"

TABLES = {
    "passage": f"""
        SELECT own.passage_key, own.title, own.body, own.content_hash, own.metadata, own.state, own.reason,
               own.proposition_count
        FROM passage AS own WHERE {_OWN}""",
    "proposition": f"""
        SELECT passage_key, own.ordinal, own.body, own.span_start, own.span_end
        FROM proposition AS own JOIN passage USING (corpus_id, passage_id) WHERE {_OWN}""",
    "mention": f"""
        SELECT passage_key, ordinal, own.form, canonical
        FROM mention AS own JOIN proposition USING (corpus_id, proposition_id)
        JOIN passage USING (corpus_id, passage_id) JOIN entity USING (corpus_id, entity_id) WHERE {_OWN}""",
    "entity": f"""
        SELECT own.canonical, own.display, own.degree, own.max_weight
        FROM entity AS own WHERE {_OWN}""",
    "entity_form": f"""
        SELECT canonical, own.form, own.mention_count
        FROM entity_form AS own JOIN entity USING (corpus_id, entity_id) WHERE {_OWN}""",
    "incidence": f"""
        SELECT passage_key, ordinal, canonical
        FROM incidence AS own JOIN proposition USING (corpus_id, proposition_id)
        JOIN passage USING (corpus_id, passage_id) JOIN entity USING (corpus_id, entity_id) WHERE {_OWN}""",
    "passage_entity": f"""
        SELECT passage_key, canonical, own.proposition_count, own.passage_size, own.weight
        FROM passage_entity AS own JOIN passage USING (corpus_id, passage_id)
        JOIN entity USING (corpus_id, entity_id) WHERE {_OWN}""",
    "passage_metadata": f"""
        SELECT passage_key, own.name, own.kind, own.value, own.number
        FROM passage_metadata AS own JOIN passage USING (corpus_id, passage_id) WHERE {_OWN}""",
    "embedding": f"""
        SELECT kind, passage_key, ordinal, own.embedding::text
        FROM embedding AS own JOIN vector_space USING (corpus_id, space_id)
        LEFT JOIN proposition ON kind = 'proposition' AND proposition.corpus_id = own.corpus_id
                             AND proposition_id = item_id
        LEFT JOIN passage ON passage.corpus_id = own.corpus_id
                         AND passage.passage_id = CASE kind WHEN 'passage' THEN item_id
                                                            ELSE proposition.passage_id END
        WHERE {_OWN}""",
}
"""What each table of the index says of a corpus, in words that outlive a rebuild: no ids, no times."""

PARENTS = {
    "passage_id": "passage",
    "proposition_id": "proposition",
    "entity_id": "entity",
    "question_id": "question_log",
}


class TableEncoder:
    """`Encoder` with the vectors that the test wrote down; a text that it does not name is an error."""

    def __init__(self, vectors: Mapping[str, Sequence[float]], *, model: str = "table") -> None:
        self._vectors = {text: np.array(vector, dtype=np.float32) for text, vector in vectors.items()}
        self.model = model
        self.dimensions = len(next(iter(self._vectors.values())))
        self.prompts: Mapping[str, str] = {}

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts)

    def encode_propositions(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts)

    def truncated(self, texts: Sequence[str]) -> list[int]:  # noqa: ARG002
        return []

    def _encode(self, texts: Sequence[str]) -> Vectors:
        return np.array([self._vectors[text] for text in texts], dtype=np.float32).reshape(
            len(texts), self.dimensions
        )


def passages_of(script: Script) -> list[Passage]:
    """A passage for each key, whose text is its propositions in a row."""
    return [
        Passage(key=key, text=" ".join(text for text, _ in propositions) or "Nothing is said here.")
        for key, propositions in script.items()
    ]


def ingest(
    store: Store,
    name: str,
    passages: Iterable[Passage | Rejected],
    *,
    encoder: Encoder | None = None,
    language: Language | None = None,
    titles: Titles = "on",
    **options: Any,
) -> IngestionSummary:
    """Ingest into a corpus that is made where it is missing."""
    with store.transaction() as tx:
        corpora.create_corpus(tx, name, titles=titles)
    return ingestion.ingest(
        store,
        name,
        passages,
        encoder=encoder or HashEncoder(),
        language=language or ScriptedLanguage(),
        **options,
    )


def search(
    store: Store,
    name: str,
    question: str,
    *,
    encoder: Encoder | None = None,
    language: Language | None = None,
    variant: str = "full",
    **settings: Any,
) -> Ranking:
    """One question by exact scan, not logged unless asked."""
    return pipeline.search(
        store,
        name,
        [question],
        encoder=encoder or HashEncoder(),
        language=language or ScriptedLanguage(),
        settings=SearchSettings(**{"exact": True, "log": False, **settings}).variant(variant),
        method=variant,
    )[0]


def keys(ranking: Ranking) -> list[str]:
    """The keys of a ranking, best first."""
    return [passage.passage_key for passage in ranking.passages]


def scores(ranking: Ranking) -> dict[str, float]:
    """Passage key to score."""
    return {passage.passage_key: passage.score for passage in ranking.passages}


def rows(store: Store, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a query over the tables."""
    with store.transaction(read_only=True) as tx:
        return list(tx.driver.execute(query.encode(), parameters or None).fetchall())


def contents(store: Store, name: str, table: str) -> list[tuple[Any, ...]]:
    """What one table of the index says of a corpus, sorted."""
    return sorted(rows(store, TABLES[table], corpus=name), key=repr)


def differences(store: Store, one: str, other: str) -> dict[str, list[tuple[Any, ...]]]:
    """What the index of one corpus says and that of the other does not, either way, by table."""
    found = {}
    for table, query in TABLES.items():
        first, second = query, query.replace("%(corpus)s", "%(other)s")
        either = f"({first} EXCEPT ALL {second}) UNION ALL ({second} EXCEPT ALL {first})"
        if different := rows(store, either, corpus=one, other=other):
            found[table] = different
    return found


def dangling(store: Store) -> dict[str, int]:
    """Rows that refer to a passage, proposition, entity or question that is not there, by ``table.column``.

    The references are read from the catalogue, so that a table that comes later is looked at too.
    """
    columns = rows(
        store,
        """
        SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = 'evireform'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
          AND attname IN ('passage_id', 'proposition_id', 'entity_id', 'question_id') AND NOT attisdropped""",
    )
    found = {}
    for table, column in columns:
        query = sql.SQL(
            "SELECT count(*) FROM {table} AS child WHERE {column} IS NOT NULL"
            " AND NOT EXISTS (SELECT FROM {parent} AS parent"
            " WHERE parent.corpus_id = child.corpus_id AND parent.{column} = child.{column})"
        ).format(
            table=sql.Identifier(table), parent=sql.Identifier(PARENTS[column]), column=sql.Identifier(column)
        )
        found[f"{table}.{column}"] = rows(store, query.as_string())[0][0]
    found["embedding.item_id"] = rows(
        store,
        """
        SELECT count(*) FROM embedding LEFT JOIN vector_space USING (corpus_id, space_id)
        WHERE kind IS NULL
           OR NOT EXISTS (SELECT FROM passage WHERE kind = 'passage' AND passage_id = item_id
                                                AND passage.corpus_id = embedding.corpus_id)
          AND NOT EXISTS (SELECT FROM proposition WHERE kind = 'proposition' AND proposition_id = item_id
                                                    AND proposition.corpus_id = embedding.corpus_id)""",
    )[0][0]
    return found


PAIRS = """
WITH size AS MATERIALIZED (
    SELECT corpus_id, passage_id, count(*)::integer AS size FROM proposition GROUP BY 1, 2
), pair AS MATERIALIZED (
    SELECT corpus_id, passage_id, entity_id, count(DISTINCT proposition_id)::integer AS named
    FROM mention JOIN proposition USING (corpus_id, proposition_id) GROUP BY 1, 2, 3
), weighed AS MATERIALIZED (
    SELECT *, round((named / sqrt(size))::numeric, 12) AS weight
    FROM pair JOIN size USING (corpus_id, passage_id)
), form AS MATERIALIZED (
    SELECT corpus_id, entity_id, form, count(*)::integer AS mention_count FROM mention GROUP BY 1, 2, 3
), display AS MATERIALIZED (
    SELECT DISTINCT ON (corpus_id, entity_id) corpus_id, entity_id, form AS display
    FROM form ORDER BY corpus_id, entity_id, mention_count DESC, form
)
"""
"""Counts of the propositions and mentions, from which the rest follows."""

DERIVED = {
    "passage": (
        "SELECT corpus_id, passage_id, proposition_count FROM passage WHERE proposition_count > 0",
        "SELECT corpus_id, passage_id, size FROM size",
    ),
    "entity": (
        "SELECT corpus_id, entity_id, degree, round(max_weight::numeric, 12), display FROM entity",
        """
        SELECT corpus_id, entity_id, sum(named)::integer, max(weight), display
        FROM weighed JOIN display USING (corpus_id, entity_id) GROUP BY corpus_id, entity_id, display""",
    ),
    "entity_form": (
        "SELECT corpus_id, entity_id, form, mention_count FROM entity_form",
        "SELECT corpus_id, entity_id, form, mention_count FROM form",
    ),
    "incidence": (
        "SELECT corpus_id, proposition_id, entity_id FROM incidence",
        "SELECT DISTINCT corpus_id, proposition_id, entity_id FROM mention",
    ),
    "passage_entity": (
        """
        SELECT corpus_id, passage_id, entity_id, proposition_count, passage_size, round(weight::numeric, 12)
        FROM passage_entity""",
        "SELECT corpus_id, passage_id, entity_id, named, size, weight FROM weighed",
    ),
    "passage_metadata": (
        "SELECT corpus_id, passage_id, name, kind, value, number FROM passage_metadata",
        """
        SELECT corpus_id, passage_id, held.name, held.kind, held.value, held.number
        FROM passage CROSS JOIN LATERAL filterable(metadata) AS held""",
    ),
    "embedding": (
        """
        SELECT corpus_id, item_id FROM embedding JOIN vector_space USING (corpus_id, space_id)
        WHERE kind = 'proposition'""",
        "SELECT corpus_id, proposition_id FROM proposition",
    ),
}
"""What is kept of each table, and what follows from propositions and mentions by definition."""


def untrue(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of derived tables that do not follow from the mentions, or are missing, by table."""
    found = {}
    for table, (kept, defined) in DERIVED.items():
        either = f"{PAIRS} ({kept} EXCEPT ALL {defined}) UNION ALL ({defined} EXCEPT ALL {kept})"
        if different := rows(store, either):
            found[table] = different
    return found


def versions(store: Store) -> set[tuple[str, str, str]]:
    """Every stored version of every row: table, place and the transaction that wrote it."""
    tables = rows(
        store,
        """
        SELECT relname FROM pg_class
        WHERE relnamespace = 'evireform'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition""",
    )
    found = set()
    for (table,) in tables:
        query = sql.SQL("SELECT tableoid::regclass::text, ctid::text, xmin::text FROM {}").format(
            sql.Identifier(table)
        )
        found.update(rows(store, query.as_string()))
    return found
