-- Views for people, and a comment on every table: created again by every `evireform init`.
-- A view shows what the role that asks may see (security_invoker). One whose columns change needs a
-- migration beside it, since `init` drops the views only then; their grants are kept otherwise.

CREATE OR REPLACE VIEW corpus_overview WITH (security_invoker = true) AS
SELECT corpus.name AS corpus,
       tenant.name AS tenant,
       corpus.titles,
       corpus.extractor,
       passages.ready,
       passages.empty,
       passages.failed,
       passages.propositions,
       (SELECT count(*) FROM entity WHERE entity.corpus_id = corpus.corpus_id) AS entities,
       (SELECT count(*) FROM incidence WHERE incidence.corpus_id = corpus.corpus_id) AS incidence,
       spaces.active_models,
       corpus.created_at
FROM corpus
LEFT JOIN tenant USING (tenant_id)
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE passage.state = 'ready') AS ready,
           count(*) FILTER (WHERE passage.state = 'empty') AS empty,
           count(*) FILTER (WHERE passage.state = 'failed') AS failed,
           COALESCE(sum(passage.proposition_count), 0)::bigint AS propositions
    FROM passage WHERE passage.corpus_id = corpus.corpus_id
) AS passages
CROSS JOIN LATERAL (
    SELECT array_agg(format('%s: %s (%s-d)', space.kind, space.model, space.dimensions)
                     ORDER BY space.kind DESC) AS active_models
    FROM vector_space AS space
    WHERE space.corpus_id = corpus.corpus_id
      AND space.space_id IN (corpus.proposition_space_id, corpus.passage_space_id)
) AS spaces;

COMMENT ON VIEW corpus_overview IS
    'What each corpus holds: passages by state, propositions, entities, incidence, active models. Counts, so it reads the corpus.';
COMMENT ON COLUMN corpus_overview.incidence IS 'Pairs of a proposition and an entity that it names.';
COMMENT ON COLUMN corpus_overview.active_models IS 'Embedding models that searches use now, by kind of vector.';

CREATE OR REPLACE VIEW proposition_detail WITH (security_invoker = true) AS
SELECT corpus.name AS corpus,
       passage.passage_key,
       passage.title,
       proposition.ordinal,
       proposition.body AS proposition,
       proposition.span_start,
       proposition.span_end,
       ARRAY(SELECT entity.display
             FROM incidence JOIN entity USING (corpus_id, entity_id)
             WHERE incidence.corpus_id = proposition.corpus_id
               AND incidence.proposition_id = proposition.proposition_id
             ORDER BY entity.canonical) AS entities,
       proposition.corpus_id,
       proposition.passage_id,
       proposition.proposition_id
FROM proposition
JOIN passage USING (corpus_id, passage_id)
JOIN corpus USING (corpus_id);

COMMENT ON VIEW proposition_detail IS
    'Every proposition with its passage, its place in the passage''s text, and the entities it names. Ask by corpus and passage_key.';
COMMENT ON COLUMN proposition_detail.span_start IS
    'First character of the proposition in the passage''s text, counted from 0; null where it is not a literal part of it.';
COMMENT ON COLUMN proposition_detail.span_end IS 'The character after its last.';
COMMENT ON COLUMN proposition_detail.entities IS 'Display names, in the order of the canonical ones.';

CREATE OR REPLACE VIEW entity_neighbourhood WITH (security_invoker = true) AS
SELECT corpus.name AS corpus,
       entity.canonical,
       entity.display AS entity,
       entity.degree,
       neighbour.canonical AS neighbour_canonical,
       neighbour.display AS neighbour,
       neighbour.degree AS neighbour_degree,
       shared.propositions AS shared_propositions
FROM corpus
JOIN entity USING (corpus_id)
CROSS JOIN LATERAL (
    SELECT beside.entity_id, count(*) AS propositions
    FROM incidence AS own
    JOIN incidence AS beside USING (corpus_id, proposition_id)
    WHERE own.corpus_id = entity.corpus_id AND own.entity_id = entity.entity_id
      AND beside.entity_id <> own.entity_id
    GROUP BY beside.entity_id
) AS shared
JOIN entity AS neighbour ON neighbour.corpus_id = entity.corpus_id AND neighbour.entity_id = shared.entity_id;

COMMENT ON VIEW entity_neighbourhood IS
    'The entities that share a proposition with an entity, and how many they share. Ask by corpus and canonical: then it reads only the propositions of that entity.';
COMMENT ON COLUMN entity_neighbourhood.canonical IS
    'The folded name that makes two mentions one entity: Unicode NFKC, lower case, no outer quotes.';
COMMENT ON COLUMN entity_neighbourhood.degree IS 'Propositions that name the entity.';

CREATE OR REPLACE VIEW question_explained WITH (security_invoker = true) AS
SELECT corpus.name AS corpus,
       log.question_id,
       log.asked_at,
       log.question,
       log.method,
       ranked.rank,
       ranked.passage_key,
       ranked.score,
       term.value,
       CASE WHEN term.query > 0 THEN log.residual_queries -> (term.query - 1) ->> 'text' END AS residual_query,
       seed.body AS seed,
       NULLIF(term.entity, '') AS entity,
       log.forgotten
FROM question_log AS log
JOIN corpus USING (corpus_id)
LEFT JOIN LATERAL jsonb_to_recordset(log.ranking)
    AS ranked (rank integer, passage_key text, score double precision, trace jsonb) ON true
LEFT JOIN LATERAL jsonb_to_recordset(ranked.trace)
    AS term (query integer, seed_id bigint, entity text, value double precision) ON true
LEFT JOIN proposition AS seed ON seed.corpus_id = log.corpus_id AND seed.proposition_id = term.seed_id
WHERE term.value IS NOT NULL OR log.forgotten;

COMMENT ON VIEW question_explained IS
    'Why each passage of a logged search ranked: one row a term; the terms of a passage sum to its score. Ask by question_id.';
COMMENT ON COLUMN question_explained.value IS 'The term''s part of the score.';
COMMENT ON COLUMN question_explained.residual_query IS
    'The residual query that brought the seed; null where it was the question itself.';
COMMENT ON COLUMN question_explained.seed IS
    'The proposition that the mass started from; null where it was replaced or deleted since.';
COMMENT ON COLUMN question_explained.entity IS
    'The entity through which the mass reached the passage; null where the seed lies in the passage.';
COMMENT ON COLUMN question_explained.forgotten IS
    'Whether a passage that the search had in hand was deleted: then this is the one row of the question, and says no more.';

CREATE OR REPLACE VIEW call_cost WITH (security_invoker = true) AS
SELECT model_call.call_id,
       model_call.called_at,
       (model_call.called_at AT TIME ZONE 'UTC')::date AS day,
       model_call.corpus_name AS corpus,
       model_call.passage_key,
       model_call.question_id,
       question_log.question,
       model_call.round_number,
       model_call.purpose,
       model_call.model,
       model_call.prompt_version,
       model_call.cached,
       model_call.error <> '' AS failed,
       model_call.cost IS NULL AND (model_call.error = '' OR model_call.tokens_in IS NOT NULL
                                    OR model_call.tokens_out IS NOT NULL) AS unpriced,
       model_call.tokens_in,
       model_call.tokens_out,
       model_call.tokens_cached,
       model_call.cost,
       model_call.latency_s,
       tenant.name AS tenant,
       model_call.tenant_id
FROM model_call
LEFT JOIN tenant USING (tenant_id)
LEFT JOIN question_log USING (corpus_id, question_id);

COMMENT ON VIEW call_cost IS
    'Every call of a language model, what it was for and what it took: group it as you like. Its corpus may have been deleted since.';
COMMENT ON COLUMN call_cost.day IS 'In UTC.';
COMMENT ON COLUMN call_cost.question IS 'Null for the calls of an ingestion, and for searches that were not logged.';
COMMENT ON COLUMN call_cost.cached IS 'Whether it was answered from the ledger, and so cost nothing.';
COMMENT ON COLUMN call_cost.unpriced IS
    'Whether it may have cost money that is not known: no price of its model, or no counts from its server.';
COMMENT ON COLUMN call_cost.tokens_cached IS 'The part of tokens_in that the server had in its own cache.';
COMMENT ON COLUMN call_cost.cost IS 'At the price of that day. Null where it is unknown, or a failed call was not counted.';

CREATE OR REPLACE VIEW cost_by_day WITH (security_invoker = true) AS
SELECT corpus,
       day,
       model,
       purpose,
       count(*) AS calls,
       count(*) FILTER (WHERE cached) AS cached_calls,
       count(*) FILTER (WHERE failed) AS failed_calls,
       count(*) FILTER (WHERE unpriced) AS unpriced_calls,
       COALESCE(sum(tokens_in), 0)::bigint AS tokens_in,
       COALESCE(sum(tokens_out), 0)::bigint AS tokens_out,
       COALESCE(sum(tokens_cached), 0)::bigint AS tokens_cached,
       sum(cost) FILTER (WHERE NOT cached) AS cost,
       sum(latency_s) AS latency_s,
       tenant
FROM call_cost
GROUP BY tenant, corpus, day, model, purpose;

COMMENT ON VIEW cost_by_day IS
    'Calls of language models, their tokens and cost, by corpus, day, model and purpose. A corpus stays when it is deleted.';
COMMENT ON COLUMN cost_by_day.day IS 'In UTC.';
COMMENT ON COLUMN cost_by_day.cost IS 'Of the calls whose cost is known: null where none is.';
COMMENT ON COLUMN cost_by_day.unpriced_calls IS 'Calls that may have cost money that is not known.';

CREATE OR REPLACE VIEW cost_by_question WITH (security_invoker = true) AS
SELECT corpus,
       question_id,
       question,
       count(*) AS calls,
       count(*) FILTER (WHERE cached) AS cached_calls,
       count(*) FILTER (WHERE failed) AS failed_calls,
       count(*) FILTER (WHERE unpriced) AS unpriced_calls,
       max(round_number) AS rounds,
       COALESCE(sum(tokens_in), 0)::bigint AS tokens_in,
       COALESCE(sum(tokens_out), 0)::bigint AS tokens_out,
       sum(cost) FILTER (WHERE NOT cached) AS cost,
       sum(latency_s) AS latency_s
FROM call_cost
WHERE question_id IS NOT NULL
GROUP BY corpus, question_id, question;

COMMENT ON VIEW cost_by_question IS
    'What each logged search asked of language models. Ask by question_id: then it reads only the calls of that search.';
COMMENT ON COLUMN cost_by_question.rounds IS 'The last round that asked a model.';
COMMENT ON COLUMN cost_by_question.cost IS 'Of the calls whose cost is known: null where none is.';

CREATE OR REPLACE VIEW ingestion_progress WITH (security_invoker = true) AS
SELECT corpus.name AS corpus,
       passage.state,
       count(*) AS passages,
       sum(passage.proposition_count)::bigint AS propositions,
       max(passage.updated_at) AS last_written,
       tenant.name AS tenant
FROM passage
JOIN corpus USING (corpus_id)
LEFT JOIN tenant ON tenant.tenant_id = corpus.tenant_id
GROUP BY tenant.name, corpus.name, passage.state;

COMMENT ON VIEW ingestion_progress IS
    'Passages of each corpus by state: ready (it can rank), empty (nothing to extract), failed (see ingestion_failures).';

CREATE OR REPLACE VIEW ingestion_failures WITH (security_invoker = true) AS
SELECT corpus.name AS corpus,
       passage.passage_key,
       passage.title,
       passage.reason,
       passage.updated_at
FROM passage
JOIN corpus USING (corpus_id)
WHERE passage.state = 'failed';

COMMENT ON VIEW ingestion_failures IS
    'Passages whose extraction failed, with the reason. Ingesting them again tries again.';

CREATE OR REPLACE VIEW queue_progress WITH (security_invoker = true) AS
SELECT corpus.name AS corpus,
       count(*) FILTER (WHERE queued.leased_until IS NULL OR queued.leased_until < now()) AS waiting,
       count(*) FILTER (WHERE queued.leased_until >= now()) AS on_lease,
       count(*) FILTER (WHERE queued.reason <> '') AS tried,
       min(queued.queued_at) AS oldest,
       tenant.name AS tenant
FROM queued_passage AS queued
JOIN corpus USING (corpus_id)
LEFT JOIN tenant ON tenant.tenant_id = corpus.tenant_id
GROUP BY tenant.name, corpus.name;

COMMENT ON VIEW queue_progress IS
    'Passages of each corpus that wait for a worker. A corpus that is not shown has none. Reads the queue.';
COMMENT ON COLUMN queue_progress.waiting IS 'To be had by the next worker.';
COMMENT ON COLUMN queue_progress.on_lease IS 'With a worker until its lease is over.';
COMMENT ON COLUMN queue_progress.tried IS 'Failed before, and are tried again; queued_passage.reason says why.';

COMMENT ON TABLE tenant IS 'Who owns corpora. Its roles are in tenant_member.';
COMMENT ON TABLE tenant_member IS 'Which login role belongs to which tenant, and whether it writes or only reads.';
COMMENT ON TABLE corpus IS 'A set of passages that is searched as one, with the settings that its rows depend on.';
COMMENT ON TABLE vector_space IS
    'An embedding model as a corpus uses it; its vectors are in the partition embedding_<corpus_id>_<space_id>.';
COMMENT ON TABLE passage IS 'A paragraph under the key that its owner gave it, and how far it got.';
COMMENT ON TABLE proposition IS 'A self-contained statement of a passage, in the order of the text.';
COMMENT ON TABLE entity IS 'What propositions name, by canonical form. degree, display and max_weight derive from mentions.';
COMMENT ON TABLE entity_form IS 'The surface forms of an entity and how often each is mentioned.';
COMMENT ON TABLE mention IS
    'A surface form in a proposition and the entity it stands for: the truth that the counts derive from.';
COMMENT ON TABLE incidence IS 'Which proposition names which entity.';
COMMENT ON TABLE passage_entity IS
    'How many propositions of a passage name an entity, and of how many: what the propagation step reads.';
COMMENT ON TABLE embedding IS 'Vectors of propositions or passages, one partition a vector space.';
COMMENT ON TABLE model_call IS
    'The ledger: every call of a language model, what for, tokens, cost, time, error, and an answer to reuse. See call_cost.';
COMMENT ON TABLE question_log IS 'Searches as they went, enough to read why a passage ranked and to replay them.';
COMMENT ON TABLE question_passage IS 'Which passages a logged search had in hand, so that a deletion finds what to forget.';
COMMENT ON TABLE passage_metadata IS 'Metadata of passages that searches can filter by, one row a value.';
COMMENT ON TABLE entity_decision IS
    'What operators decided: mentions of one canonical form stand for the entity of another, everywhere or in one passage.';
COMMENT ON TABLE entity_log IS 'Every decision about entities, and every one that was taken back.';
COMMENT ON TABLE queued_passage IS 'Passages that wait for a worker, and who has them on lease.';
COMMENT ON TABLE worker IS 'Processes that work on the queue, and when each was last seen.';
