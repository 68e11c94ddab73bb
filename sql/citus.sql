-- Distribute the tables of a fresh database over a Citus cluster, by corpus: run once by its owner on the
-- coordinator, after `evireform init` and before anything is ingested (docs/citus.md). This was not run by the tests.
--   psql --single-transaction --set ON_ERROR_STOP=1 --set schema=evireform --file sql/citus.sql

SELECT set_config('search_path', format('%I, public', :'schema'), true);

-- Citus takes no policy with a subquery, and ours have one: who belongs to a tenant is a table.
DO $$
DECLARE
    target text;
    policy text;
BEGIN
    FOR target, policy IN SELECT tablename, policyname FROM pg_policies WHERE schemaname = current_schema() LOOP
        EXECUTE format('DROP POLICY %I ON %I', policy, target);
        EXECUTE format('ALTER TABLE %I NO FORCE ROW LEVEL SECURITY', target);
        EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY', target);
    END LOOP;
END
$$;

-- On every node: small tables that are looked up by more than a corpus, and that name the spaces of a corpus.
-- The references between corpus and vector_space run in a circle, so they are made again once both are there.
ALTER TABLE corpus DROP CONSTRAINT fk_corpus_corpus_id_proposition_space_id_vector_space;
ALTER TABLE corpus DROP CONSTRAINT fk_corpus_corpus_id_passage_space_id_vector_space;
SELECT create_reference_table('tenant');
SELECT create_reference_table('tenant_member');
SELECT create_reference_table('corpus');
SELECT create_reference_table('vector_space');
ALTER TABLE corpus ADD CONSTRAINT fk_corpus_corpus_id_proposition_space_id_vector_space
    FOREIGN KEY (corpus_id, proposition_space_id) REFERENCES vector_space (corpus_id, space_id);
ALTER TABLE corpus ADD CONSTRAINT fk_corpus_corpus_id_passage_space_id_vector_space
    FOREIGN KEY (corpus_id, passage_space_id) REFERENCES vector_space (corpus_id, space_id);

-- By corpus, side by side: what a statement reads of a corpus lies on one node. Parents before children.
SELECT create_distributed_table('passage', 'corpus_id', colocate_with => 'none');
SELECT create_distributed_table('entity', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('question_log', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('proposition', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('mention', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('incidence', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('entity_form', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('passage_entity', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('passage_metadata', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('embedding', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('question_passage', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('queued_passage', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('entity_decision', 'corpus_id', colocate_with => 'passage');
SELECT create_distributed_table('entity_log', 'corpus_id', colocate_with => 'passage');

-- On the coordinator alone, as it is: model_call, whose rows outlive their corpus and are looked up by tenant; worker.

-- Workers see nothing of what a transaction sets by set_config, so searches there go by the database's own settings.
ALTER ROLE CURRENT_USER SET citus.propagate_set_commands = 'local';
SELECT run_command_on_all_nodes(format($$ALTER DATABASE %I SET %s$$, current_database(), setting))
FROM unnest(ARRAY[
    'hnsw.ef_search = 400',
    'hnsw.iterative_scan = relaxed_order',
    'hnsw.max_scan_tuples = 100000'
]) AS setting;
