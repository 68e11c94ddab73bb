"""Row-level security: a role sees and changes the rows of its own tenants, and no others.

Why it looks like this: whoever asks is `current_user`, which no setting changes, and rows know their tenant.
Where an index holds texts the policy asks for the corpora of these tenants instead, with which every key
begins, so that it is a condition of the index itself: otherwise the row counts of EXPLAIN ANALYZE, and the
time that a query takes, would tell whether another tenant has a key or an entity. For the same reason the
indexes of the ledger begin with the tenant. A row that is written must be of a corpus of its own tenant; that
is checked before any unique index or foreign key is looked at. Security is forced, so that the owner of the
tables is bound by it too, but for what it does as their owner: making and dropping partitions, deleting a
tenant.

A cheap comparison that gives nothing away may be made before a policy, on the rows of everybody, and a query
that computes something only when such a comparison held (a sub-select that moves a sequence) then learns of
them. So every policy begins with a condition that costs no more than a comparison and is no equality, which
the planner might put elsewhere: that is made first.

The planner's statistics are of all rows, and its estimates are shown to everybody. So none are kept of texts
that no statement looks up, and of those that are looked up only how many there are, with the extremes;
deleted texts do not live on in them either.

Revision ID: 0004
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TABLES = """
SELECT relname,
       relname <> 'corpus' AND attnotnull IS NOT DISTINCT FROM true,
       EXISTS (SELECT FROM pg_index
               JOIN pg_attribute AS key ON key.attrelid = indrelid AND key.attnum = ANY (indkey)
               WHERE indrelid = pg_class.oid AND key.atttypid = 'text'::regtype)
FROM pg_class
LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attname = 'corpus_id'
WHERE relnamespace = quote_ident(current_schema())::regnamespace
  AND relkind IN ('r', 'p') AND NOT relispartition
  AND relname NOT IN ('tenant', 'tenant_member')
  AND EXISTS (SELECT FROM pg_attribute AS own
              WHERE own.attrelid = pg_class.oid AND own.attname = 'tenant_id')
ORDER BY relname
"""
"""Tables with rows of tenants, whether each row belongs to a corpus, and whether an index holds texts."""

PARTITIONS = """
SELECT relname FROM pg_class
WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'r' AND relispartition
ORDER BY relname
"""

TEXTS = """
SELECT pg_class.relname, attname,
       EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND attnum = ANY (indkey)) AS looked_up
FROM pg_class
JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind IN ('r', 'p')
  AND relname NOT IN ('tenant', 'tenant_member', 'alembic_version')
  AND atttypid IN ('text'::regtype, 'jsonb'::regtype, 'bytea'::regtype, 'halfvec'::regtype)
ORDER BY relname, attname
"""
"""Columns with what tenants wrote, and whether an index finds them."""

MINE = """multirange_contains_elem(
    (SELECT range_agg(int8range(tenant_member.tenant_id, tenant_member.tenant_id, '[]'))
     FROM tenant_member WHERE tenant_member.role_name = current_user), tenant_id)"""
READABLE = "SELECT tenant_member.tenant_id FROM tenant_member WHERE tenant_member.role_name = current_user"
WRITABLE = f"{READABLE} AND tenant_member.access = 'writer'"
OF_TENANT = "tenant_id = ANY (ARRAY({}))"
READABLE_CORPORA = "corpus_id = ANY (ARRAY(SELECT corpus.corpus_id FROM corpus))"
OF_WRITABLE = f"FROM corpus WHERE corpus.tenant_id = ANY (ARRAY({WRITABLE}))"
WRITABLE_CORPORA = f"corpus_id = ANY (ARRAY(SELECT corpus.corpus_id {OF_WRITABLE}))"
WRITTEN = f"(corpus_id, tenant_id) IN (SELECT corpus.corpus_id, corpus.tenant_id {OF_WRITABLE})"
CALLER = "CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END"
SAID_SO = "current_setting('evireform.maintenance', true) IS NOT DISTINCT FROM 'on'"
MAINTENANCE = f"((SELECT current_user <> {CALLER} OR {SAID_SO}))"
"""Open to the owner in functions of his that others call, and where he says so for a transaction."""

LEDGER = """
DROP INDEX ix_model_call_corpus;
DROP INDEX ix_model_call_passage;
DROP INDEX ix_model_call_question;
CREATE INDEX ix_model_call_corpus ON model_call (tenant_id, corpus_name, called_at);
CREATE INDEX ix_model_call_passage ON model_call (tenant_id, corpus_id, passage_key);
CREATE INDEX ix_model_call_question ON model_call (tenant_id, question_id) WHERE question_id IS NOT NULL
"""

LEDGER_BEFORE = """
DROP INDEX ix_model_call_corpus;
DROP INDEX ix_model_call_passage;
DROP INDEX ix_model_call_question;
CREATE INDEX ix_model_call_corpus ON model_call (corpus_name, called_at);
CREATE INDEX ix_model_call_passage ON model_call (corpus_id, passage_key);
CREATE INDEX ix_model_call_question ON model_call (question_id) WHERE question_id IS NOT NULL
"""


COVERING = """
ALTER TABLE passage_entity DROP CONSTRAINT pk_passage_entity;
ALTER TABLE passage_entity ADD CONSTRAINT pk_passage_entity PRIMARY KEY (corpus_id, entity_id, passage_id)
    INCLUDE (proposition_count, passage_size, tenant_id);
ALTER TABLE incidence DROP CONSTRAINT pk_incidence;
ALTER TABLE incidence ADD CONSTRAINT pk_incidence PRIMARY KEY (corpus_id, proposition_id, entity_id)
    INCLUDE (tenant_id)
"""
"""What a search reads from the index alone, it reads so still: the policy needs the tenant there."""

COVERING_BEFORE = """
ALTER TABLE passage_entity DROP CONSTRAINT pk_passage_entity;
ALTER TABLE passage_entity ADD CONSTRAINT pk_passage_entity PRIMARY KEY (corpus_id, entity_id, passage_id)
    INCLUDE (proposition_count, passage_size);
ALTER TABLE incidence DROP CONSTRAINT pk_incidence;
ALTER TABLE incidence ADD CONSTRAINT pk_incidence PRIMARY KEY (corpus_id, proposition_id, entity_id)
"""


def rows(query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in op.get_bind().exec_driver_sql(query)]


def policies(table: str, *, of_corpus: bool, texts_in_index: bool) -> Iterator[str]:
    by_corpus = of_corpus and texts_in_index
    reads = f"{MINE} AND {READABLE_CORPORA if by_corpus else OF_TENANT.format(READABLE)}"
    writes = f"{MINE} AND {WRITABLE_CORPORA if by_corpus else OF_TENANT.format(WRITABLE)}"
    written = WRITTEN if of_corpus else writes
    yield f"CREATE POLICY member_reads ON {table} FOR SELECT USING ({reads})"
    yield f"CREATE POLICY writer_inserts ON {table} FOR INSERT WITH CHECK ({written})"
    yield f"CREATE POLICY writer_updates ON {table} FOR UPDATE USING ({writes}) WITH CHECK ({written})"
    yield f"CREATE POLICY writer_deletes ON {table} FOR DELETE USING ({writes})"
    yield f"CREATE POLICY maintenance ON {table} TO CURRENT_USER USING {MAINTENANCE} WITH CHECK {MAINTENANCE}"


def upgrade() -> None:
    for statement in (*LEDGER.split(";\n"), *COVERING.split(";\n")):
        op.execute(statement)
    op.execute("ALTER TABLE tenant_member ENABLE ROW LEVEL SECURITY")
    op.execute(
        "CREATE POLICY member_reads ON tenant_member FOR SELECT "
        "USING ((role_name <> (SELECT current_user::text)) IS NOT TRUE)"
    )
    op.execute("ALTER TABLE tenant ENABLE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY member_reads ON tenant FOR SELECT USING ({MINE})")
    for table, of_corpus, texts_in_index in rows(TABLES):
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        for policy in policies(table, of_corpus=of_corpus, texts_in_index=texts_in_index):
            op.execute(policy)
    for (partition,) in rows(PARTITIONS):
        op.execute(f"ALTER TABLE {partition} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    for table, column, looked_up in rows(TEXTS):
        op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS {1 if looked_up else 0}")


def downgrade() -> None:
    for table, column, _ in rows(TEXTS):
        op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS -1")
    for (table,) in [("tenant_member",), ("tenant",), *(row[:1] for row in rows(TABLES))]:
        for (policy,) in rows(
            f"SELECT polname FROM pg_policy WHERE polrelid = '{table}'::regclass ORDER BY polname"
        ):
            op.execute(f"DROP POLICY {policy} ON {table}")
        op.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY")
    for (partition,) in rows(PARTITIONS):
        op.execute(f"ALTER TABLE {partition} DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY")
    for statement in (*LEDGER_BEFORE.split(";\n"), *COVERING_BEFORE.split(";\n")):
        op.execute(statement)
