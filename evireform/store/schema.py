"""The tables as SQLAlchemy Core sees them, for single rows by key.

The migrations make the tables; a test compares what they make with what this metadata would.
"""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import Column, ForeignKeyConstraint, Identity, Index, PrimaryKeyConstraint, Table
from sqlalchemy.dialects.postgresql import BYTEA, DOUBLE_PRECISION, JSONB, TIMESTAMP
from sqlalchemy.types import BigInteger, Boolean, Integer, Numeric, Text

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)
"""Tables without a schema name: every transaction sets its search path."""

_NAME = Text(collation="C")


def _id(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False)


def _identity(name: str) -> Column[int]:
    return Column(name, BigInteger, Identity(always=False), nullable=False)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _text_or_empty(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, server_default="")


def _name(name: str) -> Column[str]:
    return Column(name, _NAME, nullable=False)


def _integer(name: str, default: str | None = None) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=None if default is None else sa.text(default))


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=sa.false())


def _json(name: str, default: str | None = None) -> Column[object]:
    return Column(name, JSONB, nullable=False, server_default=default)


def _moment(name: str) -> Column[object]:
    return Column(name, TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now())


def _real(name: str, default: str | None = None) -> Column[float]:
    return Column(
        name,
        DOUBLE_PRECISION,
        nullable=False,
        server_default=None if default is None else sa.text(default),
    )


def _references(table: str, *columns: str, cascade: bool = False) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        columns, [f"{table}.{column}" for column in columns], ondelete="CASCADE" if cascade else None
    )


tenant = Table(
    "tenant",
    metadata,
    _identity("tenant_id"),
    _name("name"),
    _flag("shares_answers"),
    _moment("created_at"),
    PrimaryKeyConstraint("tenant_id"),
    sa.UniqueConstraint("name"),
)

tenant_member = Table(
    "tenant_member",
    metadata,
    _name("role_name"),
    _id("tenant_id"),
    _text("access"),
    _moment("created_at"),
    PrimaryKeyConstraint("role_name", "tenant_id"),
    _references("tenant", "tenant_id", cascade=True),
    sa.CheckConstraint("access IN ('writer', 'reader')", name="access"),
    Index("ix_tenant_member_tenant", "tenant_id"),
)

corpus = Table(
    "corpus",
    metadata,
    _identity("corpus_id"),
    _id("tenant_id"),
    _name("name"),
    _text("titles"),
    _text_or_empty("extractor"),
    _text_or_empty("language"),
    Column("shadow_of", BigInteger),
    Column("proposition_space_id", BigInteger),
    Column("passage_space_id", BigInteger),
    Column("deletions", BigInteger, nullable=False, server_default=sa.text("0")),
    _moment("created_at"),
    PrimaryKeyConstraint("corpus_id"),
    sa.UniqueConstraint("tenant_id", "name"),
    _references("tenant", "tenant_id"),
    *(
        ForeignKeyConstraint(
            ["corpus_id", column],
            ["vector_space.corpus_id", "vector_space.space_id"],
            name=f"fk_corpus_corpus_id_{column}_vector_space",
            use_alter=True,
        )
        for column in ("proposition_space_id", "passage_space_id")
    ),
    sa.CheckConstraint("titles IN ('off', 'on')", name="titles"),
    sa.CheckConstraint("name <> ''", name="name"),
    sa.UniqueConstraint("tenant_id", "corpus_id"),
    ForeignKeyConstraint(
        ["tenant_id", "shadow_of"],
        ["corpus.tenant_id", "corpus.corpus_id"],
        ondelete="SET NULL (shadow_of)",
    ),
    Index(
        "uq_corpus_shadow_of",
        "tenant_id",
        "shadow_of",
        unique=True,
        postgresql_where=sa.text("shadow_of IS NOT NULL"),
    ),
)

vector_space = Table(
    "vector_space",
    metadata,
    _id("corpus_id"),
    _identity("space_id"),
    _id("tenant_id"),
    _text("kind"),
    _text("model"),
    _integer("dimensions"),
    _json("prompts", "{}"),
    _moment("created_at"),
    Column("recall", DOUBLE_PRECISION),
    Column("recall_breadth", Integer),
    Column("recall_vectors", BigInteger),
    Column("recall_at", TIMESTAMP(timezone=True)),
    PrimaryKeyConstraint("corpus_id", "space_id"),
    _references("corpus", "corpus_id", cascade=True),
    sa.CheckConstraint("kind IN ('proposition', 'passage')", name="kind"),
    sa.CheckConstraint("dimensions BETWEEN 1 AND 16000", name="dimensions"),
)

passage = Table(
    "passage",
    metadata,
    _id("corpus_id"),
    _identity("passage_id"),
    _id("tenant_id"),
    _name("passage_key"),
    _text_or_empty("title"),
    _text("body"),
    Column("content_hash", BYTEA, nullable=False),
    _json("metadata", "{}"),
    _text("state"),
    _text_or_empty("reason"),
    _integer("proposition_count", "0"),
    _moment("created_at"),
    _moment("updated_at"),
    PrimaryKeyConstraint("corpus_id", "passage_id"),
    sa.UniqueConstraint("corpus_id", "passage_key"),
    _references("corpus", "corpus_id", cascade=True),
    sa.CheckConstraint("state IN ('ready', 'empty', 'failed')", name="state"),
    sa.CheckConstraint(
        "proposition_count >= 0 AND (proposition_count > 0) = (state = 'ready')", name="proposition_count"
    ),
    Index("ix_passage_unready", "corpus_id", "state", postgresql_where=sa.text("state <> 'ready'")),
)

proposition = Table(
    "proposition",
    metadata,
    _id("corpus_id"),
    _identity("proposition_id"),
    _id("tenant_id"),
    _id("passage_id"),
    _integer("ordinal"),
    _text("body"),
    Column("span_start", Integer),
    Column("span_end", Integer),
    PrimaryKeyConstraint("corpus_id", "proposition_id"),
    sa.UniqueConstraint("corpus_id", "passage_id", "ordinal"),
    _references("passage", "corpus_id", "passage_id", cascade=True),
    sa.CheckConstraint(
        "(span_start IS NULL AND span_end IS NULL) OR (0 <= span_start AND span_start < span_end)",
        name="span",
    ),
)

entity = Table(
    "entity",
    metadata,
    _id("corpus_id"),
    _identity("entity_id"),
    _id("tenant_id"),
    _name("canonical"),
    _text_or_empty("display"),
    _integer("degree", "0"),
    _real("max_weight", "0"),
    PrimaryKeyConstraint("corpus_id", "entity_id"),
    sa.UniqueConstraint("corpus_id", "canonical"),
    _references("corpus", "corpus_id", cascade=True),
)

entity_form = Table(
    "entity_form",
    metadata,
    _id("corpus_id"),
    _id("entity_id"),
    _name("form"),
    _id("tenant_id"),
    _integer("mention_count"),
    PrimaryKeyConstraint("corpus_id", "entity_id", "form"),
    _references("entity", "corpus_id", "entity_id", cascade=True),
)

mention = Table(
    "mention",
    metadata,
    _id("corpus_id"),
    _id("proposition_id"),
    _name("form"),
    _id("entity_id"),
    _id("tenant_id"),
    PrimaryKeyConstraint("corpus_id", "proposition_id", "form"),
    _references("proposition", "corpus_id", "proposition_id", cascade=True),
    _references("entity", "corpus_id", "entity_id"),
    Index("ix_mention_entity", "corpus_id", "entity_id"),
)

incidence = Table(
    "incidence",
    metadata,
    _id("corpus_id"),
    _id("proposition_id"),
    _id("entity_id"),
    _id("tenant_id"),
    PrimaryKeyConstraint("corpus_id", "proposition_id", "entity_id", postgresql_include=["tenant_id"]),
    _references("proposition", "corpus_id", "proposition_id", cascade=True),
    _references("entity", "corpus_id", "entity_id"),
    Index("ix_incidence_entity", "corpus_id", "entity_id", "proposition_id"),
)

passage_entity = Table(
    "passage_entity",
    metadata,
    _id("corpus_id"),
    _id("entity_id"),
    _id("passage_id"),
    _id("tenant_id"),
    _integer("proposition_count"),
    _integer("passage_size"),
    Column(
        "weight",
        DOUBLE_PRECISION,
        sa.Computed("proposition_count / sqrt(passage_size::double precision)", persisted=True),
    ),
    PrimaryKeyConstraint(
        "corpus_id",
        "entity_id",
        "passage_id",
        postgresql_include=["proposition_count", "passage_size", "tenant_id"],
    ),
    _references("passage", "corpus_id", "passage_id", cascade=True),
    _references("entity", "corpus_id", "entity_id"),
    sa.CheckConstraint("proposition_count BETWEEN 1 AND passage_size", name="counts"),
    Index("ix_passage_entity_passage", "corpus_id", "passage_id"),
    Index("ix_passage_entity_weight", "corpus_id", "entity_id", sa.text("weight DESC")),
)

embedding = Table(
    "embedding",
    metadata,
    _id("corpus_id"),
    _id("space_id"),
    _id("item_id"),
    _id("tenant_id"),
    Column("embedding", HALFVEC(), nullable=False),
    PrimaryKeyConstraint("corpus_id", "space_id", "item_id"),
    postgresql_partition_by="RANGE (corpus_id, space_id)",
)

model_call = Table(
    "model_call",
    metadata,
    _identity("call_id"),
    _id("tenant_id"),
    Column("corpus_id", BigInteger),
    Column("corpus_name", _NAME, nullable=False, server_default=""),
    Column("passage_key", Text),
    Column("question_id", BigInteger),
    _integer("round_number", "0"),
    _text("purpose"),
    _text("model"),
    _text_or_empty("prompt_version"),
    _text_or_empty("prompt_hash"),
    _json("parameters", "{}"),
    Column("bytes_sent", Integer),
    Column("tokens_in", Integer),
    Column("tokens_out", Integer),
    Column("tokens_cached", Integer),
    Column("cost", Numeric),
    _real("latency_s", "0"),
    _integer("attempts", "1"),
    _flag("cached"),
    _text_or_empty("error"),
    Column("cache_key", _NAME, nullable=False, server_default=""),
    Column("answer", Text),
    _moment("called_at"),
    PrimaryKeyConstraint("call_id"),
    Index("ix_model_call_corpus", "tenant_id", "corpus_name", "called_at"),
    Index("ix_model_call_answer", "tenant_id", "cache_key", postgresql_where=sa.text("answer IS NOT NULL")),
    Index("ix_model_call_passage", "tenant_id", "corpus_id", "passage_key"),
    Index(
        "ix_model_call_question",
        "tenant_id",
        "question_id",
        postgresql_where=sa.text("question_id IS NOT NULL"),
    ),
    Index(
        "ix_model_call_unlogged",
        "tenant_id",
        "corpus_id",
        postgresql_where=sa.text(
            "passage_key IS NULL AND question_id IS NULL "
            "AND (answer IS NOT NULL OR error NOT IN ('', 'deleted with its passage'))"
        ),
    ),
)

question_log = Table(
    "question_log",
    metadata,
    _id("corpus_id"),
    _identity("question_id"),
    _id("tenant_id"),
    _text("question"),
    _text("method"),
    _json("settings"),
    _json("candidates"),
    _json("selected"),
    _json("residual_queries"),
    _json("ranking"),
    _json("degraded"),
    _real("seconds"),
    _moment("asked_at"),
    _flag("forgotten"),
    PrimaryKeyConstraint("corpus_id", "question_id"),
    _references("corpus", "corpus_id", cascade=True),
    Index("ix_question_log_asked_at", "corpus_id", "asked_at"),
)

queued_passage = Table(
    "queued_passage",
    metadata,
    _id("corpus_id"),
    _name("passage_key"),
    _id("tenant_id"),
    _text_or_empty("title"),
    _text("body"),
    _json("metadata", "{}"),
    Column("extraction", JSONB),
    _identity("ticket"),
    _integer("attempts", "0"),
    _text_or_empty("reason"),
    Column("worker_id", BigInteger),
    Column("leased_until", TIMESTAMP(timezone=True)),
    _moment("queued_at"),
    PrimaryKeyConstraint("corpus_id", "passage_key"),
    _references("corpus", "corpus_id", cascade=True),
    Index("ix_queued_passage_turn", "corpus_id", "attempts", "ticket"),
)

worker = Table(
    "worker",
    metadata,
    _identity("worker_id"),
    _id("tenant_id"),
    _text("host"),
    _integer("process"),
    _moment("started_at"),
    _moment("seen_at"),
    _integer("written", "0"),
    _integer("failed", "0"),
    PrimaryKeyConstraint("worker_id"),
)

passage_metadata = Table(
    "passage_metadata",
    metadata,
    _id("corpus_id"),
    _id("passage_id"),
    _name("name"),
    _name("value"),
    _text("kind"),
    _id("tenant_id"),
    Column("number", DOUBLE_PRECISION),
    PrimaryKeyConstraint("corpus_id", "passage_id", "name", "kind", "value"),
    _references("passage", "corpus_id", "passage_id", cascade=True),
    sa.CheckConstraint("kind IN ('text', 'number', 'boolean')", name="kind"),
    sa.CheckConstraint("(kind = 'number') = (number IS NOT NULL)", name="number"),
    Index("ix_passage_metadata_value", "corpus_id", "name", "kind", "value", "passage_id"),
    Index(
        "ix_passage_metadata_number",
        "corpus_id",
        "name",
        "number",
        "passage_id",
        postgresql_where=sa.text("number IS NOT NULL"),
    ),
)

entity_decision = Table(
    "entity_decision",
    metadata,
    _id("corpus_id"),
    _name("canonical"),
    Column("passage_key", _NAME, nullable=False, server_default=""),
    _id("tenant_id"),
    _name("target"),
    Column("decided_by", Text, nullable=False, server_default=sa.func.current_user()),
    _moment("decided_at"),
    PrimaryKeyConstraint("corpus_id", "canonical", "passage_key"),
    _references("corpus", "corpus_id", cascade=True),
    sa.CheckConstraint("target <> canonical AND target <> ''", name="target"),
    Index("ix_entity_decision_target", "corpus_id", "target"),
    Index(
        "ix_entity_decision_passage",
        "corpus_id",
        "passage_key",
        postgresql_where=sa.text("passage_key <> ''"),
    ),
)

entity_log = Table(
    "entity_log",
    metadata,
    _id("corpus_id"),
    _identity("log_id"),
    _id("tenant_id"),
    _text("action"),
    _text("canonical"),
    _text("target"),
    _text_or_empty("passage_key"),
    Column("decided_by", Text, nullable=False, server_default=sa.func.current_user()),
    _moment("decided_at"),
    PrimaryKeyConstraint("corpus_id", "log_id"),
    _references("corpus", "corpus_id", cascade=True),
    sa.CheckConstraint("action IN ('merge', 'split')", name="action"),
    Index("ix_entity_log_passage", "corpus_id", "passage_key", postgresql_where=sa.text("passage_key <> ''")),
)

question_passage = Table(
    "question_passage",
    metadata,
    _id("corpus_id"),
    _name("passage_key"),
    _id("question_id"),
    _id("tenant_id"),
    # Without a foreign key: its checks, row by row, took ten times as long as writing the rows with a search.
    PrimaryKeyConstraint("corpus_id", "passage_key", "question_id"),
)
