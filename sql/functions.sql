-- Functions that change the shape of the database, created again by every `evireform init`.
-- They run with the rights of their owner, so that a role that only writes rows can add a vector space; so each
-- begins with `require_writer`: the policies `maintenance` are open to the owner when he is called by others. Every name
-- that they format is made of checked integers.

-- The tenant that a transaction works for: the one of this name, else the only one that the role belongs to, else,
-- for whom row-level security does not bind, the default one. NULL where there is none, or it is not the role's.
CREATE OR REPLACE FUNCTION current_tenant(p_name text)
RETURNS bigint
LANGUAGE sql
STABLE
AS $$
    SELECT CASE
        WHEN p_name <> '' THEN (
            SELECT tenant.tenant_id FROM tenant
            WHERE tenant.name = p_name
              AND (NOT row_security_active('corpus')
                   OR tenant.tenant_id IN (SELECT tenant_member.tenant_id FROM tenant_member
                                           WHERE tenant_member.role_name = current_user)))
        ELSE (
            SELECT CASE count(*) WHEN 1 THEN min(tenant_member.tenant_id)
                                 WHEN 0 THEN (SELECT tenant.tenant_id FROM tenant
                                              WHERE tenant.name = 'default' AND NOT row_security_active('corpus'))
                   END
            FROM tenant_member WHERE tenant_member.role_name = current_user)
    END
$$;

-- Who called a function that runs with the rights of the owner, as row-level security would name him.
CREATE OR REPLACE FUNCTION caller()
RETURNS text
LANGUAGE sql
STABLE
AS $$
    SELECT CASE current_setting('role') WHEN 'none' THEN session_user::text ELSE current_setting('role') END
$$;

-- Refuse a caller that is no writer of the tenant of a corpus; the owner, and a superuser, may do everything.
-- The same words for a corpus of others and for one that is not there.
CREATE OR REPLACE FUNCTION require_writer(p_corpus_id bigint)
RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF pg_has_role(caller(), current_user, 'USAGE') OR EXISTS (
        SELECT FROM corpus JOIN tenant_member USING (tenant_id)
        WHERE corpus.corpus_id = p_corpus_id AND tenant_member.role_name = caller()
          AND tenant_member.access = 'writer')
    THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'role % does not write corpus %', quote_ident(caller()), p_corpus_id
        USING ERRCODE = 'insufficient_privilege';
END
$$;

-- How many numbers the vectors of a space have. It says so where there is no such space.
CREATE OR REPLACE FUNCTION space_dimensions(p_corpus_id bigint, p_space_id bigint)
RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    d integer := (SELECT dimensions FROM vector_space WHERE corpus_id = p_corpus_id AND space_id = p_space_id);
BEGIN
    IF d IS NULL THEN
        RAISE EXCEPTION 'corpus % has no vector space %', p_corpus_id, p_space_id USING ERRCODE = 'no_data_found';
    END IF;
    RETURN d;
END
$$;

-- Lock the partition of a space until the transaction ends, and give the size of its vectors. It says so where the
-- space was dropped meanwhile, or has lost its partition.
CREATE OR REPLACE FUNCTION lock_space_partition(p_corpus_id bigint, p_space_id bigint, p_mode text)
RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    part text := format('embedding_%s_%s', p_corpus_id, p_space_id);
BEGIN
    BEGIN
        EXECUTE format('LOCK TABLE %I IN %s MODE', part, p_mode);
    EXCEPTION WHEN undefined_table THEN
        PERFORM space_dimensions(p_corpus_id, p_space_id);
        RAISE EXCEPTION 'vector space % of corpus % has no partition', p_space_id, p_corpus_id
            USING ERRCODE = 'no_data_found', HINT = 'evireform verify --repair makes it again';
    END;
    RETURN space_dimensions(p_corpus_id, p_space_id);
END
$$;

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
    PERFORM require_writer(p_corpus_id);
    d := space_dimensions(p_corpus_id, p_space_id);
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE embedding INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN embedding SET STORAGE %s',
                   part, CASE WHEN d <= 4000 THEN 'PLAIN' ELSE 'EXTERNAL' END);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN embedding SET STATISTICS 0', part);
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part);
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

-- Drop the partition of one space with its vectors. DROP waits for whoever reads vectors of any space, and every later
-- search waits for it: so it gives up soon where somebody reads on and on.
CREATE OR REPLACE FUNCTION drop_space_partition(p_corpus_id bigint, p_space_id bigint)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
SET lock_timeout = '5s'
AS $$
BEGIN
    PERFORM require_writer(p_corpus_id);
    EXECUTE format('DROP TABLE IF EXISTS %I', format('embedding_%s_%s', p_corpus_id, p_space_id));
END
$$;

-- What the HNSW index of a space holds: its vectors as they are, or, where they are too wide for that, the signs of
-- their elements (sql/search.sql then ranks the nearest of those by the vectors).
CREATE OR REPLACE FUNCTION space_index_key(p_dimensions integer)
RETURNS text
LANGUAGE sql
IMMUTABLE
AS $$
    SELECT format(CASE WHEN p_dimensions <= 4000
                       THEN '(embedding::halfvec(%1$s)) halfvec_ip_ops'
                       ELSE '(binary_quantize(embedding::halfvec(%1$s))::bit(%1$s)) bit_hamming_ops' END,
                  p_dimensions)
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
    PERFORM require_writer(p_corpus_id);
    -- Who comes second waits here, and then finds the index.
    d := lock_space_partition(p_corpus_id, p_space_id, 'SHARE ROW EXCLUSIVE');
    IF to_regclass('ix_' || part || '_hnsw') IS NOT NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE INDEX %I ON %I USING hnsw (%s)', 'ix_' || part || '_hnsw', part, space_index_key(d));
    -- Without statistics the planner takes the partition for a single row, and scans it.
    EXECUTE format('ANALYZE %I', part);
    RETURN true;
END
$$;

-- Build the HNSW index of one space a second time, beside the first, for `swap_space_index` to take. One that was left
-- by an interrupted run is kept: the server has kept it up to date.
-- Writers of the space wait while it is built; readers do not, and go on with the first.
CREATE OR REPLACE FUNCTION rebuild_space_index(p_corpus_id bigint, p_space_id bigint)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    part text := format('embedding_%s_%s', p_corpus_id, p_space_id);
    d integer;
BEGIN
    PERFORM require_writer(p_corpus_id);
    d := lock_space_partition(p_corpus_id, p_space_id, 'SHARE ROW EXCLUSIVE');
    EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON %I USING hnsw (%s)',
                   'ix_' || part || '_hnsw_new', part, space_index_key(d));
    EXECUTE format('ANALYZE %I', part);
END
$$;

-- Put the index that `rebuild_space_index` built in the place of the first, if there is one. It waits for the searches
-- of the space under way, and those that come meanwhile wait for it: a moment. It is a transaction of its own, because
-- what holds the lock of a build and then asks for this one may wait in a circle with a writer.
CREATE OR REPLACE FUNCTION swap_space_index(p_corpus_id bigint, p_space_id bigint)
RETURNS void
LANGUAGE plpgsql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
DECLARE
    part text := format('embedding_%s_%s', p_corpus_id, p_space_id);
BEGIN
    PERFORM require_writer(p_corpus_id);
    PERFORM lock_space_partition(p_corpus_id, p_space_id, 'ACCESS EXCLUSIVE');
    IF to_regclass('ix_' || part || '_hnsw_new') IS NULL THEN
        RETURN;
    END IF;
    EXECUTE format('DROP INDEX IF EXISTS %I', 'ix_' || part || '_hnsw');
    EXECUTE format('ALTER INDEX %I RENAME TO %I', 'ix_' || part || '_hnsw_new', 'ix_' || part || '_hnsw');
END
$$;

-- What a search can filter a passage by: the texts, numbers and booleans of its metadata, at the top level and in
-- lists there, each once. Not: nested objects, null, names above 100 characters, texts above 500, and numbers that
-- no 64-bit float holds. Runs with the caller's rights, so that the planner can write it out where it is used.
CREATE OR REPLACE FUNCTION filterable(metadata jsonb)
RETURNS TABLE (name text, value text, kind text, number double precision)
LANGUAGE sql
IMMUTABLE
AS $$
    SELECT DISTINCT held.name, COALESCE(held.number::text, held.said), held.kind, held.number
    FROM (
        SELECT entry.key AS name, element.value #>> '{}' AS said,
               CASE jsonb_typeof(element.value) WHEN 'string' THEN 'text'
                                                ELSE jsonb_typeof(element.value) END AS kind,
               CASE WHEN jsonb_typeof(element.value) <> 'number' THEN NULL
                    WHEN abs((element.value #>> '{}')::numeric) BETWEEN 5e-324 AND 1.7976931348623157e308
                      OR (element.value #>> '{}')::numeric = 0
                    THEN (element.value #>> '{}')::double precision END AS number
        FROM jsonb_each(metadata) AS entry
        CROSS JOIN LATERAL jsonb_array_elements(
            CASE jsonb_typeof(entry.value) WHEN 'array' THEN entry.value
                                           ELSE jsonb_build_array(entry.value) END) AS element
    ) AS held
    WHERE length(held.name) BETWEEN 1 AND 100
      AND (held.kind = 'boolean' OR held.number IS NOT NULL OR (held.kind = 'text' AND length(held.said) <= 500))
$$;

-- Fresh statistics of the tables that an ingestion fills, for writers, who own none of them.
CREATE OR REPLACE FUNCTION analyze_corpus_tables()
RETURNS void
LANGUAGE sql
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
    ANALYZE passage, passage_metadata, proposition, entity, incidence, passage_entity, mention, entity_form
$$;

-- The newest answer to an identical call of any tenant that shares its answers, for a caller whose own tenant does:
-- the text alone, and nothing about whose it is.
CREATE OR REPLACE FUNCTION shared_answer(p_tenant_id bigint, p_key text, p_days integer)
RETURNS text
LANGUAGE plpgsql
STABLE
SECURITY DEFINER
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM tenant WHERE tenant.tenant_id = p_tenant_id AND tenant.shares_answers)
       OR NOT (pg_has_role(caller(), current_user, 'USAGE') OR EXISTS (
        SELECT FROM tenant_member
        WHERE tenant_member.tenant_id = p_tenant_id AND tenant_member.role_name = caller()))
    THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT model_call.answer FROM model_call
        WHERE model_call.tenant_id = ANY (ARRAY(SELECT tenant.tenant_id FROM tenant WHERE tenant.shares_answers))
          AND model_call.cache_key = p_key AND model_call.answer IS NOT NULL
          AND (p_days = 0 OR model_call.called_at > now() - make_interval(days => p_days))
        ORDER BY model_call.called_at DESC LIMIT 1);
END
$$;

-- What a member of a tenant is granted: every table with a policy, every view, and the migration. Partitions are not
-- among them: their rows are reached through the table alone.
CREATE OR REPLACE FUNCTION granted_relations()
RETURNS TABLE (relation regclass, written boolean)
LANGUAGE sql
STABLE
AS $$
    SELECT pg_class.oid::regclass,
           pg_class.relkind <> 'v' AND pg_class.relname NOT IN ('tenant', 'tenant_member', 'alembic_version')
    FROM pg_class
    WHERE pg_class.relnamespace = quote_ident(current_schema())::regnamespace
      AND (pg_class.relname = 'alembic_version'
           OR EXISTS (SELECT FROM pg_policy WHERE polrelid = pg_class.oid AND polname = 'member_reads')
           OR (pg_class.relkind = 'v' AND pg_class.reloptions @> '{security_invoker=true}'))
$$;

-- Make a login role without a password, where it is missing; tells whether it was.
CREATE OR REPLACE FUNCTION make_role(p_role text)
RETURNS boolean
LANGUAGE plpgsql
AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = p_role) THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE ROLE %I LOGIN', p_role);
    RETURN true;
END
$$;

-- Give a role the rights that its memberships ask for, and no others: a reader selects, a writer changes rows
-- too, but for the numbers that the database gives out and that are unique across tenants. A role that has the owner's
-- rights is left alone.
CREATE OR REPLACE FUNCTION settle_access(p_role text)
RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    given text := (SELECT max(access) FROM tenant_member WHERE role_name = p_role);
    own text := current_schema();
    one record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = p_role)
       OR pg_has_role(p_role, (SELECT relowner FROM pg_class WHERE oid = 'corpus'::regclass), 'USAGE')
    THEN
        RETURN;
    END IF;
    EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %I', own, p_role);
    IF given IS NOT NULL THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', own, p_role);
    END IF;
    FOR one IN
        SELECT relation, written,
               (SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum)
                FROM pg_attribute
                WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
                  AND NOT (attidentity <> '' AND EXISTS (
                      SELECT FROM pg_index WHERE indrelid = relation AND indisprimary AND indnkeyatts = 1
                                             AND indkey[0] = attnum))) AS columns
        FROM granted_relations()
    LOOP
        EXECUTE format('REVOKE ALL ON %s FROM %I', one.relation, p_role);
        IF given IS NOT NULL THEN
            EXECUTE format('GRANT SELECT ON %s TO %I', one.relation, p_role);
        END IF;
        IF given = 'writer' AND one.written THEN
            EXECUTE format('GRANT DELETE, INSERT (%1$s), UPDATE (%1$s) ON %2$s TO %3$I',
                           one.columns, one.relation, p_role);
        END IF;
    END LOOP;
    FOR one IN
        SELECT oid::regprocedure AS called FROM pg_proc
        WHERE pronamespace = quote_ident(own)::regnamespace AND prosecdef AND proname <> 'shared_answer'
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM %I', one.called, p_role);
        IF given = 'writer' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', one.called, p_role);
        END IF;
    END LOOP;
END
$$;

-- Functions that run with the rights of the owner are for those who were granted them, but for `shared_answer`,
-- which gives nobody more than he may have. The policies that let the owner
-- maintain the tables are his by name: after a restore under another role they are made anew.
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT oid::regprocedure AS called FROM pg_proc
        WHERE pronamespace = quote_ident(current_schema())::regnamespace AND prosecdef AND proname <> 'shared_answer'
          AND has_function_privilege('public', oid, 'EXECUTE')
    LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', one.called);
    END LOOP;
    FOR one IN
        SELECT pg_class.oid::regclass AS relation FROM pg_class
        JOIN pg_policy ON polrelid = pg_class.oid
        WHERE relnamespace = quote_ident(current_schema())::regnamespace AND polname = 'maintenance'
          AND polroles <> ARRAY[relowner] AND pg_has_role(relowner, 'USAGE')
    LOOP
        EXECUTE format('ALTER POLICY maintenance ON %s TO CURRENT_USER', one.relation);
    END LOOP;
END
$$;
