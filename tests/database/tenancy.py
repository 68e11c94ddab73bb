"""Two tenants with the same corpus, the same ids and a row in every table; a word in every text differs."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA, DOUBLE_PRECISION, JSONB

from evireform.store import corpora, tenants
from evireform.store.connection import Store, Transaction
from evireform.store.schema import metadata

WORDS = {"ours": "marigold", "theirs": "foxglove"}
"""Tenant to the word that stands in all that it wrote."""

TABLES = sorted(
    (table for table in metadata.tables.values() if table.name not in ("tenant", "tenant_member", "corpus")),
    key=lambda table: table.name == "embedding",
)
"""Those that a tenant fills beside its corpora; the partition of vectors comes after its space."""

GIVEN: dict[str, Any] = {
    "state": "failed",
    "proposition_count": 0,
    "passage_entity.proposition_count": 1,
    "passage_size": 1,
    "vector_space.kind": "passage",
    "passage_metadata.kind": "text",
    "number": None,
    "action": "merge",
    "dimensions": 2,
    "span_start": None,
    "span_end": None,
    "embedding.embedding": [1, 0],
    "target": "not {word}",
    "proposition_space_id": None,
    "passage_space_id": None,
}
"""Values that a constraint asks for, by column, or by table and column; `{word}` is the tenant's."""

RANKING = [{"rank": 1, "passage_key": "", "score": 1.0, "trace": [{"query": 0, "seed_id": 1, "value": 1.0}]}]


def two_tenants(store: Store) -> dict[str, int]:
    """Make both, each with a corpus `wiki`. Gives the id of either's corpus."""
    ids = {}
    for name, word in WORDS.items():
        with store.transaction() as tx:
            tenants.create_tenant(tx, name)
        with store.transaction() as tx:
            tx.tenant = name
            corpus = corpora.create_corpus(tx, "wiki", titles="on")
            corpora.set_extractor(tx, corpus.corpus_id, word)
            _fill(tx, corpus.tenant_id, corpus.corpus_id, word)
            ids[name] = corpus.corpus_id
    return ids


def _fill(tx: Transaction, tenant_id: int, corpus_id: int, word: str) -> None:
    """One row in every table, whatever it refers to; and a second entity beside the first."""
    tx.driver.execute("SET LOCAL session_replication_role = replica")
    for table in TABLES:
        values = {c.name: _value(table.name, c, word) for c in table.c if c.computed is None}
        values |= {"tenant_id": tenant_id} | ({"corpus_id": corpus_id} if "corpus_id" in table.c else {})
        if table.name in ("model_call", "worker"):
            values[table.primary_key.columns.keys()[0]] = tenant_id
        if table.name == "embedding":
            tx.run("create_space_partition", {"corpus_id": corpus_id, "space_id": 1})
        tx.core(sa.insert(table).values(values))
        if table.name in ("entity", "incidence"):
            second = {"entity_id": 2} | ({"canonical": f"{word} too"} if table.name == "entity" else {})
            tx.core(sa.insert(table).values(values | second))
    tx.driver.execute("SET LOCAL session_replication_role = origin")


def _value(table: str, column: sa.Column[Any], word: str) -> Any:
    for name in (f"{table}.{column.name}", column.name):
        if name in GIVEN:
            given = GIVEN[name]
            return given.format(word=word) if isinstance(given, str) else given
    kind = column.type
    if isinstance(kind, JSONB):
        ranking = [{**RANKING[0], "passage_key": word}]
        return ranking if column.name == "ranking" else json.loads(f'["{word}"]')
    if isinstance(kind, BYTEA):
        return word.encode()
    if isinstance(kind, sa.Boolean):
        return False
    if isinstance(kind, sa.DateTime):
        return sa.func.now()
    if isinstance(kind, sa.Text):
        return word
    if isinstance(kind, sa.Integer | sa.BigInteger | sa.Numeric | DOUBLE_PRECISION):
        return 1
    raise TypeError(f"give a value for {table}.{column.name} ({kind})")
