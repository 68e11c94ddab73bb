-- Functions that change the shape of the database, created again by every `evireform init`.
-- They run with the rights of their owner, so that a role that only writes rows can add a vector space;
-- every name that they format is made of checked integers.

-- Create the partition that holds the vectors of one space.
-- It is made beside the parent and attached, because CREATE TABLE ... PARTITION OF waits for every reader.
CREATE OR REPLACE FUNCTION create_space_partition(p_corpus_id bigint, p_space_id bigint)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    part text := format('embedding_%s_%s', p_corpus_id, p_space_id);
    d integer;
BEGIN
    SELECT dimensions INTO STRICT d
    FROM vector_space WHERE corpus_id = p_corpus_id AND space_id = p_space_id;
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE embedding INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN embedding SET STORAGE %s',
                   part, CASE WHEN d <= 4000 THEN 'PLAIN' ELSE 'EXTERNAL' END);
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I CHECK (vector_dims(embedding) = %s)',
                   part, 'ck_' || part || '_dimensions', d);
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I CHECK (corpus_id = %s AND space_id = %s)',
                   part, 'ck_' || part || '_key', p_corpus_id, p_space_id);
    EXECUTE format('ALTER TABLE %I ADD CONSTRAINT %I PRIMARY KEY (corpus_id, space_id, item_id)',
                   part, 'pk_' || part);
    EXECUTE format('ALTER TABLE embedding ATTACH PARTITION %I FOR VALUES FROM (%s, %s) TO (%s, %s)',
                   part, p_corpus_id, p_space_id, p_corpus_id, p_space_id + 1);
END
$$;

-- Drop the partition of one space with its vectors. DETACH and DROP wait for readers of the space.
CREATE OR REPLACE FUNCTION drop_space_partition(p_corpus_id bigint, p_space_id bigint)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
BEGIN
    EXECUTE format('DROP TABLE IF EXISTS %I', format('embedding_%s_%s', p_corpus_id, p_space_id));
END
$$;

-- Build the HNSW index of one space, if it is not there. Returns whether it built one.
-- Writers of the space wait while it is built; readers do not.
CREATE OR REPLACE FUNCTION create_space_index(p_corpus_id bigint, p_space_id bigint)
RETURNS boolean
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    part text := format('embedding_%s_%s', p_corpus_id, p_space_id);
    d integer;
BEGIN
    SELECT dimensions INTO STRICT d
    FROM vector_space WHERE corpus_id = p_corpus_id AND space_id = p_space_id;
    IF d > 4000 THEN
        RETURN false;
    END IF;
    -- Who comes second waits here, and then finds the index.
    EXECUTE format('LOCK TABLE %I IN SHARE ROW EXCLUSIVE MODE', part);
    IF to_regclass('ix_' || part || '_hnsw') IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE INDEX %I ON %I USING hnsw ((embedding::halfvec(%s)) halfvec_ip_ops)',
                   'ix_' || part || '_hnsw', part, d);
    -- Without statistics the planner takes the partition for a single row, and scans it.
    EXECUTE format('ANALYZE %I', part);
    RETURN true;
END
$$;
