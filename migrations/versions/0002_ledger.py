"""The ledger of model calls: answers to reuse, what was sent, and accounts that outlive their corpus.

Why: an identical call is answered from here instead of being paid again, which takes the answer and the key
that finds it; costs are read by round and by the name of a corpus, which stays when the corpus is deleted; an
estimate learns from the bytes that were sent. The answers of deleted passages are taken out by passage.

Revision ID: 0002
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STATEMENTS = """
ALTER TABLE model_call
    ADD COLUMN corpus_name text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN round_number integer NOT NULL DEFAULT 0,
    ADD COLUMN parameters jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN bytes_sent integer,
    ADD COLUMN tokens_cached integer,
    ADD COLUMN cache_key text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN answer text;
UPDATE model_call SET corpus_name = corpus.name FROM corpus WHERE corpus.corpus_id = model_call.corpus_id;
DROP INDEX ix_model_call_corpus;
CREATE INDEX ix_model_call_corpus ON model_call (corpus_name, called_at);
CREATE INDEX ix_model_call_answer ON model_call (tenant_id, cache_key) WHERE answer IS NOT NULL;
CREATE INDEX ix_model_call_passage ON model_call (corpus_id, passage_key);
CREATE INDEX ix_model_call_question ON model_call (question_id) WHERE question_id IS NOT NULL;
"""


def upgrade() -> None:
    for statement in STATEMENTS.split(";\n"):
        if statement.strip():
            op.execute(statement)


def downgrade() -> None:
    for index in ("question", "passage", "answer", "corpus"):
        op.execute(f"DROP INDEX ix_model_call_{index}")
    op.execute("CREATE INDEX ix_model_call_corpus ON model_call (corpus_id, called_at)")
    for column in (
        "answer", "cache_key", "tokens_cached", "bytes_sent", "parameters", "round_number", "corpus_name",
    ):  # fmt: skip
        op.execute(f"ALTER TABLE model_call DROP COLUMN {column}")
