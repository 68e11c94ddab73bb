-- name: begin
-- The first statement of every transaction: what it needs, for itself alone.
SELECT set_config('search_path', %(search_path)s, true),
       set_config('statement_timeout', %(statement_timeout)s, true),
       set_config('hnsw.ef_search', %(ef_search)s, true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true);

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
                    call_cost, cost_by_day, cost_by_question, ingestion_progress, ingestion_failures;

-- name: space_facts
-- Every vector space with its partition and its index, for `doctor`. One look at the catalogue a space.
SELECT corpus.name, space.kind, space.model, space.dimensions, space.active,
       partition.oid IS NOT NULL,
       COALESCE(partition.reltuples, 0)::bigint,
       to_regclass(format('ix_embedding_%%s_%%s_hnsw', space.corpus_id, space.space_id)) IS NOT NULL
FROM vector_space AS space
JOIN corpus USING (corpus_id)
LEFT JOIN pg_class AS partition
       ON partition.oid = to_regclass(format('embedding_%%s_%%s', space.corpus_id, space.space_id))
ORDER BY corpus.name, space.kind, space.space_id;
