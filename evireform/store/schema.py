"""The tables as SQLAlchemy sees them, for statements on single rows; a test compares them with the migrations.

What a row means is said in ``sql/views.sql``, where people who look with SQL find it too.
"""

from __future__ import annotations

import sqlalchemy as sa
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy.dialects.postgresql import BYTEA, DOUBLE_PRECISION, JSONB

metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

CODE_POINTS = sa.Text(collation="C")


def _id(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, sa.Identity(always=False), nullable=False)


def _ref(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _text(name: str, default: str | None = None, kind: sa.Text | None = None) -> sa.Column[str]:
    server_default = None if default is None else sa.text(f"'{default}'")
    return sa.Column(name, kind or sa.Text(), nullable=False, server_default=server_default)


def _now(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now())


def _integer(name: str, default: int | None = None) -> sa.Column[int]:
    server_default = None if default is None else sa.text(str(default))
    return sa.Column(name, sa.Integer, nullable=False, server_default=server_default)


def _double(name: str) -> sa.Column[float]:
    return sa.Column(name, DOUBLE_PRECISION, nullable=False, server_default=sa.text("0"))


def _json(name: str, default: str | None = None) -> sa.Column[object]:
    server_default = None if default is None else sa.text(f"'{default}'")
    return sa.Column(name, JSONB, nullable=False, server_default=server_default)


def _to(table: str, *columns: str, cascade: bool = False) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        columns, [f"{table}.{column}" for column in columns], ondelete="CASCADE" if cascade else None
    )


tenant = sa.Table(
    "tenant", metadata,
    _id("tenant_id"), _text("name", kind=CODE_POINTS), _text("role_name"), _now("created_at"),
    sa.PrimaryKeyConstraint("tenant_id"), sa.UniqueConstraint("name"),
)  # fmt: skip

corpus = sa.Table(
    "corpus", metadata,
    _id("corpus_id"), _ref("tenant_id"), _text("name", kind=CODE_POINTS), _text("titles"),
    _text("extractor", ""), _text("language", ""), _now("created_at"),
    sa.PrimaryKeyConstraint("corpus_id"), sa.UniqueConstraint("tenant_id", "name"),
    _to("tenant", "tenant_id"),
    sa.CheckConstraint("titles IN ('off', 'on')", name="titles"),
    sa.CheckConstraint("name <> ''", name="name"),
)  # fmt: skip

vector_space = sa.Table(
    "vector_space", metadata,
    _ref("corpus_id"), _id("space_id"), _ref("tenant_id"), _text("kind"), _text("model"),
    _integer("dimensions"), _json("prompts", "{}"),
    sa.Column("active", sa.Boolean, nullable=False, server_default=sa.false()), _now("created_at"),
    sa.PrimaryKeyConstraint("corpus_id", "space_id"), _to("corpus", "corpus_id", cascade=True),
    sa.CheckConstraint("kind IN ('proposition', 'passage')", name="kind"),
    sa.CheckConstraint("dimensions BETWEEN 1 AND 16000", name="dimensions"),
    sa.Index("uq_vector_space_active", "corpus_id", "kind", unique=True, postgresql_where=sa.text("active")),
)  # fmt: skip

passage = sa.Table(
    "passage", metadata,
    _ref("corpus_id"), _id("passage_id"), _ref("tenant_id"), _text("passage_key", kind=CODE_POINTS),
    _text("title", ""), _text("body"), sa.Column("content_hash", BYTEA, nullable=False),
    _json("metadata", "{}"), _text("state"), _text("reason", ""), _integer("proposition_count", 0),
    _now("created_at"), _now("updated_at"),
    sa.PrimaryKeyConstraint("corpus_id", "passage_id"), sa.UniqueConstraint("corpus_id", "passage_key"),
    _to("corpus", "corpus_id", cascade=True),
    sa.CheckConstraint("state IN ('ready', 'empty', 'failed')", name="state"),
    sa.CheckConstraint(
        "proposition_count >= 0 AND (proposition_count > 0) = (state = 'ready')", name="proposition_count"
    ),
    sa.Index("ix_passage_unready", "corpus_id", "state", postgresql_where=sa.text("state <> 'ready'")),
)  # fmt: skip

proposition = sa.Table(
    "proposition", metadata,
    _ref("corpus_id"), _id("proposition_id"), _ref("tenant_id"), _ref("passage_id"), _integer("ordinal"),
    _text("body"), sa.Column("span_start", sa.Integer), sa.Column("span_end", sa.Integer),
    sa.PrimaryKeyConstraint("corpus_id", "proposition_id"),
    sa.UniqueConstraint(
        "corpus_id", "passage_id", "ordinal", name="uq_proposition_corpus_id_passage_id_ordinal"
    ),
    _to("passage", "corpus_id", "passage_id", cascade=True),
    sa.CheckConstraint(
        "(span_start IS NULL AND span_end IS NULL) OR (0 <= span_start AND span_start < span_end)",
        name="span",
    ),
)  # fmt: skip

entity = sa.Table(
    "entity", metadata,
    _ref("corpus_id"), _id("entity_id"), _ref("tenant_id"), _text("canonical", kind=CODE_POINTS),
    _text("display", ""), _integer("degree", 0), _double("max_weight"),
    sa.PrimaryKeyConstraint("corpus_id", "entity_id"), sa.UniqueConstraint("corpus_id", "canonical"),
    _to("corpus", "corpus_id", cascade=True),
)  # fmt: skip

entity_form = sa.Table(
    "entity_form", metadata,
    _ref("corpus_id"), _ref("entity_id"), _text("form", kind=CODE_POINTS), _ref("tenant_id"),
    _integer("mention_count"),
    sa.PrimaryKeyConstraint("corpus_id", "entity_id", "form"),
    _to("entity", "corpus_id", "entity_id", cascade=True),
)  # fmt: skip

mention = sa.Table(
    "mention", metadata,
    _ref("corpus_id"), _ref("proposition_id"), _text("form", kind=CODE_POINTS), _ref("entity_id"),
    _ref("tenant_id"),
    sa.PrimaryKeyConstraint("corpus_id", "proposition_id", "form"),
    _to("proposition", "corpus_id", "proposition_id", cascade=True), _to("entity", "corpus_id", "entity_id"),
    sa.Index("ix_mention_entity", "corpus_id", "entity_id"),
)  # fmt: skip

incidence = sa.Table(
    "incidence", metadata,
    _ref("corpus_id"), _ref("proposition_id"), _ref("entity_id"), _ref("tenant_id"),
    sa.PrimaryKeyConstraint("corpus_id", "proposition_id", "entity_id"),
    _to("proposition", "corpus_id", "proposition_id", cascade=True), _to("entity", "corpus_id", "entity_id"),
    sa.Index("ix_incidence_entity", "corpus_id", "entity_id", "proposition_id"),
)  # fmt: skip

passage_entity = sa.Table(
    "passage_entity", metadata,
    _ref("corpus_id"), _ref("entity_id"), _ref("passage_id"), _ref("tenant_id"),
    _integer("proposition_count"), _integer("passage_size"),
    sa.Column(
        "weight", DOUBLE_PRECISION,
        sa.Computed("proposition_count / sqrt(passage_size::double precision)", persisted=True),
        nullable=False,
    ),
    sa.PrimaryKeyConstraint(
        "corpus_id", "entity_id", "passage_id", postgresql_include=["proposition_count", "passage_size"]
    ),
    _to("passage", "corpus_id", "passage_id", cascade=True), _to("entity", "corpus_id", "entity_id"),
    sa.CheckConstraint("proposition_count BETWEEN 1 AND passage_size", name="counts"),
    sa.Index("ix_passage_entity_passage", "corpus_id", "passage_id"),
    sa.Index("ix_passage_entity_weight", "corpus_id", "entity_id", sa.text("weight DESC")),
)  # fmt: skip

embedding = sa.Table(
    "embedding", metadata,
    _ref("corpus_id"), _ref("space_id"), _ref("item_id"), _ref("tenant_id"),
    sa.Column("embedding", HALFVEC(), nullable=False),
    sa.PrimaryKeyConstraint("corpus_id", "space_id", "item_id"),
    postgresql_partition_by="RANGE (corpus_id, space_id)",
)  # fmt: skip

model_call = sa.Table(
    "model_call", metadata,
    _id("call_id"), _ref("tenant_id"), sa.Column("corpus_id", sa.BigInteger),
    sa.Column("passage_key", sa.Text), sa.Column("question_id", sa.BigInteger),
    _text("purpose"), _text("model"), _text("prompt_version", ""), _text("prompt_hash", ""),
    sa.Column("tokens_in", sa.Integer), sa.Column("tokens_out", sa.Integer),
    sa.Column("cost", sa.Numeric), _double("latency_s"), _integer("attempts", 1),
    sa.Column("cached", sa.Boolean, nullable=False, server_default=sa.false()), _text("error", ""),
    _now("called_at"),
    sa.PrimaryKeyConstraint("call_id"),
    sa.Index("ix_model_call_corpus", "corpus_id", "called_at"),
)  # fmt: skip

question_log = sa.Table(
    "question_log", metadata,
    _ref("corpus_id"), _id("question_id"), _ref("tenant_id"), _text("question"), _text("method"),
    _json("settings"), _json("candidates"), _json("selected"), _json("residual_queries"),
    _json("ranking"), _json("degraded"), sa.Column("seconds", DOUBLE_PRECISION, nullable=False),
    _now("asked_at"),
    sa.PrimaryKeyConstraint("corpus_id", "question_id"), _to("corpus", "corpus_id", cascade=True),
    sa.Index("ix_question_log_asked_at", "corpus_id", "asked_at"),
)  # fmt: skip
