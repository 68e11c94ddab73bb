-- name: begin
-- The first statement of every transaction: what it needs, for itself alone. A client that is cut off leaves
-- nothing behind: its statement is given up within two seconds (where the server can look), its open transaction
-- when nothing was heard of it for as long as a statement may run. The role is the login role (`none`) unless told
-- otherwise, whatever a pooler's last client left behind.
SELECT set_config('role', %(role)s, true),
       set_config('search_path', %(search_path)s, true),
       set_config('statement_timeout', %(statement_timeout)s, true),
       set_config('idle_in_transaction_session_timeout', %(statement_timeout)s, true),
       set_config('client_connection_check_interval', CASE WHEN version() LIKE '%%linux%%' THEN '2s' ELSE '0' END,
                  true),
       set_config('hnsw.ef_search', %(ef_search)s, true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true);

-- name: take_role
-- Whose rights a transaction has, for itself alone.
SELECT set_config('role', %(role)s, true);

-- name: tenants_of_role
-- The tenant that a transaction works for (see functions.sql), the role, and the tenants that it belongs to: for
-- saying what is wrong. Look-ups.
SELECT current_tenant(%(tenant)s), current_user::text,
       ARRAY(SELECT tenant.name FROM tenant_member JOIN tenant USING (tenant_id)
             WHERE tenant_member.role_name = current_user ORDER BY tenant.name);

-- name: extension
-- Version and schema of pgvector, where it is installed.
SELECT extension.extversion, namespace.nspname
FROM pg_extension AS extension
JOIN pg_namespace AS namespace ON namespace.oid = extension.extnamespace
WHERE extension.extname = 'vector';

-- name: migration_table
-- A row when the schema has a table of migrations, and whether the role may use the schema: one that it may
-- not use is passed over in the search path.
SELECT has_schema_privilege(pg_namespace.oid, 'USAGE')
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE pg_namespace.nspname = %(schema)s AND pg_class.relname = 'alembic_version';

-- name: migration
-- The migration of the tables.
SELECT version_num FROM alembic_version;

-- name: server_facts
-- What the server is and what the role may do on it, for `init` and `doctor`.
SELECT current_setting('server_version_num')::integer,
       current_setting('server_version'),
       current_database()::text,
       current_user::text,
       pg_is_in_recovery(),
       has_database_privilege(current_database(), 'CREATE'),
       (SELECT has_schema_privilege(oid, 'CREATE, USAGE') FROM pg_namespace WHERE nspname = %(schema)s),
       (SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = 'public'),
       (SELECT default_version FROM pg_available_extensions WHERE name = 'vector'),
       (SELECT has_schema_privilege(extnamespace, 'USAGE') FROM pg_extension WHERE extname = 'vector');

-- name: init_lock
-- One `init` at a time in a database; the transaction's end frees it.
SELECT pg_advisory_xact_lock(hashtextextended('evireform init', 0));

-- name: create_extension
-- Into the first schema of the search path; upstream's pgvector asks for a superuser.
CREATE EXTENSION vector;

-- name: drop_views
-- Views stand in the way of a migration that changes a column which they show.
DROP VIEW IF EXISTS corpus_overview, proposition_detail, entity_neighbourhood, question_explained,
                    call_cost, cost_by_day, cost_by_question, ingestion_progress, ingestion_failures,
                    queue_progress;

-- name: primary_facts
-- Which cluster this is, and how far its log is written; a standby does not write one.
SELECT system_identifier, CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_lsn()::text END
FROM pg_control_system();

-- name: standby_facts
-- Which cluster this is a copy of, whether it still replays its log, how many bytes it is behind a position of the
-- primary, and the age of the last commit that it has replayed.
SELECT system_identifier, pg_is_in_recovery(),
       GREATEST(pg_wal_lsn_diff(%(written)s::text::pg_lsn, pg_last_wal_replay_lsn()), 0)::bigint,
       extract(epoch FROM now() - pg_last_xact_replay_timestamp())::double precision
FROM pg_control_system();

-- name: space_facts
-- Every vector space of the tenant with its partition and its index, for `doctor`. One look at the catalogue a space.
SELECT corpus.name, space.kind, space.model, space.dimensions,
       space.space_id IN (corpus.proposition_space_id, corpus.passage_space_id) IS TRUE,
       partition.oid IS NOT NULL,
       COALESCE(partition.reltuples, 0)::bigint,
       to_regclass(format('ix_embedding_%%s_%%s_hnsw', space.corpus_id, space.space_id)) IS NOT NULL,
       space.recall, space.recall_breadth, COALESCE(space.recall_vectors, 0)
FROM vector_space AS space
JOIN corpus USING (corpus_id)
LEFT JOIN pg_class AS partition
       ON partition.oid = to_regclass(format('embedding_%%s_%%s', space.corpus_id, space.space_id))
WHERE corpus.tenant_id = (SELECT current_tenant(%(tenant)s))
ORDER BY corpus.name, space.kind, space.space_id;
