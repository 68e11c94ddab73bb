-- name: begin
-- The first statement of every transaction: what it needs, for itself alone.
SELECT set_config('search_path', %(search_path)s, true),
       set_config('statement_timeout', %(statement_timeout)s, true),
       set_config('hnsw.ef_search', %(ef_search)s, true),
       set_config('hnsw.iterative_scan', 'relaxed_order', true);

-- name: set_index_scans
-- Off: vector searches scan every vector of their partition, and so are exact.
SELECT set_config('enable_indexscan', %(value)s, true);

-- name: extension
-- Version and schema of pgvector, where it is installed.
SELECT extension.extversion, namespace.nspname
FROM pg_extension AS extension
JOIN pg_namespace AS namespace ON namespace.oid = extension.extnamespace
WHERE extension.extname = 'vector';

-- name: set_search_path
-- Where names are looked up, for this transaction.
SELECT set_config('search_path', %(search_path)s, true);

-- name: init_lock
-- One `init` at a time in a database; held to the end of the transaction.
SELECT pg_advisory_xact_lock(%(key)s);

-- name: server_version
-- The server's version as a number and as people write it.
SELECT current_setting('server_version_num')::integer, current_setting('server_version');

-- name: available_extension
-- The version of pgvector that the server could install.
SELECT default_version FROM pg_available_extensions WHERE name = 'vector';

-- name: create_extension
-- pgvector, into the public schema where it may, so that every schema of the database can share it.
CREATE EXTENSION IF NOT EXISTS vector;

-- name: has_schema
-- Whether a schema is there.
SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %(schema)s);

-- name: has_revision_table
-- Whether alembic's table is in our schema.
SELECT to_regclass(format('%%I.alembic_version', %(schema)s::text)) IS NOT NULL;

-- name: revision
-- The migration that the tables are at.
SELECT version_num FROM alembic_version;

-- name: insert_default_tenant
-- The tenant that owns corpora unless told otherwise.
INSERT INTO tenant (name, role_name) VALUES ('default', current_user) ON CONFLICT (name) DO NOTHING;
