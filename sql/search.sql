-- name: open_space
-- A corpus of the tenant by name with its active space of a kind, if it has one. Look-ups by key, and one in the
-- catalogue.
SELECT corpus.corpus_id, corpus.tenant_id, corpus.name, corpus.titles, corpus.extractor, corpus.language,
       space.space_id, space.kind, space.model, space.dimensions, space.prompts, true,
       to_regclass(format('ix_embedding_%%s_%%s_hnsw', corpus.corpus_id, space.space_id)) IS NOT NULL,
       corpus.deletions
FROM corpus
LEFT JOIN vector_space AS space
       ON space.corpus_id = corpus.corpus_id
      AND space.space_id = CASE %(kind)s::text WHEN 'proposition' THEN corpus.proposition_space_id
                                               ELSE corpus.passage_space_id END
WHERE corpus.tenant_id = (SELECT current_tenant(%(tenant)s)) AND corpus.name = %(name)s;

-- name: candidates
-- The propositions nearest to each question, best first, with their texts and passages.
-- One HNSW descent a question; below the index threshold one scan of the corpus's own partition.
-- MATERIALIZED and LIMIT 1 fix the order of the joins, so that no plan parses a vector twice, repeats a search
-- or scans a corpus, whatever the statistics say. `fetch` is a little more than the limit, so that ties at
-- the limit are seen (see store/searching.py). A filter is a list of allowed propositions, looked up by key, or
-- conditions, which the index search tests as it goes: a few index probes a vector (see store/filtering.py).
WITH question AS MATERIALIZED (
    SELECT number,
           (%(vectors)s::real[])[(number - 1) * %(dimensions)s + 1 : number * %(dimensions)s]::halfvec({d}) AS vector
    FROM generate_series(1, cardinality(%(vectors)s::real[]) / %(dimensions)s::integer) AS number
), asked AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(intervals)s::jsonb)
        AS asked (condition integer, name text, kind text, low text, high text,
                  least double precision, most double precision)
), hit AS MATERIALIZED (
    SELECT question.number, near.item_id, near.distance
    FROM question
    CROSS JOIN LATERAL (
        SELECT sampled.item_id, sampled.distance
        FROM (
            SELECT embedding.item_id, embedding.embedding::halfvec({d}) <#> question.vector AS distance
            FROM embedding
            WHERE embedding.corpus_id = %(corpus_id)s AND embedding.space_id = %(space_id)s
              AND (%(item_ids)s::bigint[] IS NULL OR embedding.item_id = ANY (%(item_ids)s::bigint[]))
              AND (%(conditions)s::integer IS NULL OR %(conditions)s::integer = (
                  SELECT count(DISTINCT asked.condition)
                  FROM proposition
                  JOIN passage_metadata AS held ON held.corpus_id = proposition.corpus_id
                                               AND held.passage_id = proposition.passage_id
                  JOIN asked ON asked.name = held.name AND asked.kind = held.kind
                       AND (held.value >= asked.low AND held.value < asked.high
                            OR held.number >= asked.least AND held.number <= asked.most)
                  WHERE proposition.corpus_id = %(corpus_id)s
                    AND proposition.proposition_id = embedding.item_id))
            ORDER BY embedding.embedding::halfvec({d}) <#> question.vector
            -- wide: ORDER BY binary_quantize(embedding.embedding::halfvec({d}))::bit({d}) <~> binary_quantize(question.vector)
            LIMIT %(sample)s
        ) AS sampled
        ORDER BY sampled.distance
        LIMIT %(fetch)s
    ) AS near
)
SELECT hit.number - 1, hit.item_id, -hit.distance,
       passage.passage_id, passage.passage_key, passage.title,
       proposition.ordinal, proposition.body,
       CASE WHEN %(with_entities)s::boolean THEN ARRAY(
           SELECT entity.display
           FROM incidence JOIN entity USING (corpus_id, entity_id)
           WHERE incidence.corpus_id = proposition.corpus_id
             AND incidence.proposition_id = proposition.proposition_id
           ORDER BY position(lower(entity.display) IN lower(proposition.body)), entity.canonical)
       END
FROM hit
CROSS JOIN LATERAL (
    SELECT * FROM proposition
    WHERE proposition.corpus_id = %(corpus_id)s AND proposition.proposition_id = hit.item_id LIMIT 1
) AS proposition
CROSS JOIN LATERAL (
    SELECT * FROM passage
    WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_id = proposition.passage_id LIMIT 1
) AS passage;

-- name: residual_hits
-- The propositions nearest to each residual query, of all questions of a batch in one statement.
WITH query AS MATERIALIZED (
    SELECT number,
           (%(vectors)s::real[])[(number - 1) * %(dimensions)s + 1 : number * %(dimensions)s]::halfvec({d}) AS vector
    FROM generate_series(1, cardinality(%(vectors)s::real[]) / %(dimensions)s::integer) AS number
), asked AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(intervals)s::jsonb)
        AS asked (condition integer, name text, kind text, low text, high text,
                  least double precision, most double precision)
), hit AS MATERIALIZED (
    SELECT query.number, near.item_id, near.distance
    FROM query
    CROSS JOIN LATERAL (
        SELECT sampled.item_id, sampled.distance
        FROM (
            SELECT embedding.item_id, embedding.embedding::halfvec({d}) <#> query.vector AS distance
            FROM embedding
            WHERE embedding.corpus_id = %(corpus_id)s AND embedding.space_id = %(space_id)s
              AND (%(item_ids)s::bigint[] IS NULL OR embedding.item_id = ANY (%(item_ids)s::bigint[]))
              AND (%(conditions)s::integer IS NULL OR %(conditions)s::integer = (
                  SELECT count(DISTINCT asked.condition)
                  FROM proposition
                  JOIN passage_metadata AS held ON held.corpus_id = proposition.corpus_id
                                               AND held.passage_id = proposition.passage_id
                  JOIN asked ON asked.name = held.name AND asked.kind = held.kind
                       AND (held.value >= asked.low AND held.value < asked.high
                            OR held.number >= asked.least AND held.number <= asked.most)
                  WHERE proposition.corpus_id = %(corpus_id)s
                    AND proposition.proposition_id = embedding.item_id))
            ORDER BY embedding.embedding::halfvec({d}) <#> query.vector
            -- wide: ORDER BY binary_quantize(embedding.embedding::halfvec({d}))::bit({d}) <~> binary_quantize(query.vector)
            LIMIT %(sample)s
        ) AS sampled
        ORDER BY sampled.distance
        LIMIT %(fetch)s
    ) AS near
)
SELECT hit.number - 1, hit.item_id, -hit.distance, passage.passage_key, proposition.ordinal
FROM hit
CROSS JOIN LATERAL (
    SELECT * FROM proposition
    WHERE proposition.corpus_id = %(corpus_id)s AND proposition.proposition_id = hit.item_id LIMIT 1
) AS proposition
CROSS JOIN LATERAL (
    SELECT * FROM passage
    WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_id = proposition.passage_id LIMIT 1
) AS passage;

-- name: passage_hits
-- The passages nearest to each question in the passage space: the dense baseline.
WITH question AS MATERIALIZED (
    SELECT number,
           (%(vectors)s::real[])[(number - 1) * %(dimensions)s + 1 : number * %(dimensions)s]::halfvec({d}) AS vector
    FROM generate_series(1, cardinality(%(vectors)s::real[]) / %(dimensions)s::integer) AS number
), hit AS MATERIALIZED (
    SELECT question.number, near.item_id, near.distance
    FROM question
    CROSS JOIN LATERAL (
        SELECT sampled.item_id, sampled.distance
        FROM (
            SELECT embedding.item_id, embedding.embedding::halfvec({d}) <#> question.vector AS distance
            FROM embedding
            WHERE embedding.corpus_id = %(corpus_id)s AND embedding.space_id = %(space_id)s
            ORDER BY embedding.embedding::halfvec({d}) <#> question.vector
            -- wide: ORDER BY binary_quantize(embedding.embedding::halfvec({d}))::bit({d}) <~> binary_quantize(question.vector)
            LIMIT %(sample)s
        ) AS sampled
        ORDER BY sampled.distance
        LIMIT %(fetch)s
    ) AS near
)
SELECT hit.number - 1, hit.item_id, -hit.distance, passage.passage_key
FROM hit
CROSS JOIN LATERAL (
    SELECT * FROM passage
    WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_id = hit.item_id LIMIT 1
) AS passage;

-- name: space_is_there
-- Whether a space still has its partition. The catalogue knows also inside of an old snapshot.
SELECT to_regclass(format('embedding_%%s_%%s', %(corpus_id)s::bigint, %(space_id)s::bigint)) IS NOT NULL;

-- name: passage_texts
-- A page of passages in key order, from a key on: for methods that read the whole corpus once.
SELECT passage_key, title, body
FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_key > %(after)s::text
ORDER BY passage_key
LIMIT %(fetch)s;

-- name: stored_propositions
-- What was extracted from one passage, to index it again under another embedding model. Look-ups by key.
SELECT passage.state, passage.reason, proposition.body,
       ARRAY(SELECT mention.form FROM mention
             WHERE mention.corpus_id = proposition.corpus_id
               AND mention.proposition_id = proposition.proposition_id
             ORDER BY mention.form)
FROM passage
LEFT JOIN proposition ON proposition.corpus_id = passage.corpus_id
                     AND proposition.passage_id = passage.passage_id
WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_key = %(passage_key)s
ORDER BY proposition.ordinal;

-- name: observed_passages
-- Whole passages for the reformulator, with every proposition and the entities it names.
-- At most as many rows as propositions were selected; primary-key look-ups.
SELECT passage.passage_id, passage.passage_key, passage.title, passage.body, parts.propositions
FROM passage
CROSS JOIN LATERAL (
    SELECT jsonb_agg(jsonb_build_array(
        proposition.body,
        ARRAY(SELECT entity.display
              FROM incidence JOIN entity USING (corpus_id, entity_id)
              WHERE incidence.corpus_id = proposition.corpus_id
                AND incidence.proposition_id = proposition.proposition_id
              ORDER BY position(lower(entity.display) IN lower(proposition.body)), entity.canonical)
    ) ORDER BY proposition.ordinal) AS propositions
    FROM proposition
    WHERE proposition.corpus_id = passage.corpus_id AND proposition.passage_id = passage.passage_id
) AS parts
WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_id = ANY (%(passage_ids)s::bigint[]);

-- name: context_passages
-- Whole passages for the reader, by key, with every proposition, where it stands in the text, and the
-- entities it names. At most as many rows as passages were ranked; look-ups by key.
SELECT passage.passage_key, passage.title, passage.body, parts.propositions, passage.passage_id
FROM passage
CROSS JOIN LATERAL (
    SELECT jsonb_agg(jsonb_build_array(
        proposition.body, proposition.span_start, proposition.span_end,
        ARRAY(SELECT entity.display
              FROM incidence JOIN entity USING (corpus_id, entity_id)
              WHERE incidence.corpus_id = proposition.corpus_id
                AND incidence.proposition_id = proposition.proposition_id
              ORDER BY position(lower(entity.display) IN lower(proposition.body)), entity.canonical)
    ) ORDER BY proposition.ordinal) AS propositions
    FROM proposition
    WHERE proposition.corpus_id = passage.corpus_id AND proposition.passage_id = passage.passage_id
) AS parts
WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_key = ANY (%(passage_keys)s::text[]);

-- name: seeds
-- The seeds with their passage and every entity: degree, largest weight, display name.
-- At most selected + residual queries x hits rows; primary-key look-ups.
SELECT proposition.proposition_id, proposition.passage_id, passage.passage_key,
       passage.proposition_count, proposition.ordinal, proposition.body,
       named.entity_ids, named.degrees, named.max_weights, named.displays
FROM unnest(%(proposition_ids)s::bigint[]) AS seed (proposition_id)
CROSS JOIN LATERAL (
    SELECT * FROM proposition
    WHERE proposition.corpus_id = %(corpus_id)s AND proposition.proposition_id = seed.proposition_id LIMIT 1
) AS proposition
CROSS JOIN LATERAL (
    SELECT * FROM passage
    WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_id = proposition.passage_id LIMIT 1
) AS passage
CROSS JOIN LATERAL (
    SELECT array_agg(entity.entity_id ORDER BY entity.canonical) AS entity_ids,
           array_agg(entity.degree ORDER BY entity.canonical) AS degrees,
           array_agg(entity.max_weight ORDER BY entity.canonical) AS max_weights,
           array_agg(entity.display ORDER BY entity.canonical) AS displays
    FROM incidence JOIN entity USING (corpus_id, entity_id)
    WHERE incidence.corpus_id = proposition.corpus_id
      AND incidence.proposition_id = proposition.proposition_id
) AS named;

-- name: neighbourhood
-- The sparse neighbourhood: for each entity the passages that name it, how often, and their size.
-- An index-only scan of one range per entity; hubs are left to `hub_counts`.
SELECT entity_id, array_agg(passage_id), array_agg(proposition_count), array_agg(passage_size)
FROM passage_entity
WHERE corpus_id = %(corpus_id)s AND entity_id = ANY (%(entity_ids)s::bigint[])
GROUP BY entity_id;

-- name: hub_counts
-- How often the hub entities are named by the few passages that can still be among the first K.
SELECT entity_id, array_agg(passage_id), array_agg(proposition_count), array_agg(passage_size)
FROM passage_entity
WHERE corpus_id = %(corpus_id)s AND entity_id = ANY (%(entity_ids)s::bigint[])
  AND passage_id = ANY (%(passage_ids)s::bigint[])
GROUP BY entity_id;

-- name: passage_keys
-- Keys of the passages that could be among the first K, where equal scores have to be told apart.
SELECT passage_id, passage_key
FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_id = ANY (%(passage_ids)s::bigint[]);

-- name: winners
-- The ranked passages, whole, with the propositions that earned a part of the score: the seeds, and those
-- that name an entity of a seed. One row a passage. The entities are looked up in a hash: as an array in an
-- index condition they would be searched for one by one.
WITH wanted AS MATERIALIZED (SELECT unnest(%(entity_ids)s::bigint[]) AS entity_id)
SELECT passage.passage_id, passage.passage_key, passage.title, passage.body, passage.metadata,
       earning.propositions
FROM passage
CROSS JOIN LATERAL (
    SELECT jsonb_agg(jsonb_build_array(
               proposition.proposition_id, proposition.ordinal, proposition.body,
               proposition.span_start, proposition.span_end, named.entity_ids)
           ORDER BY proposition.ordinal) AS propositions
    FROM proposition
    CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT incidence.entity_id
                     FROM incidence
                     WHERE incidence.corpus_id = proposition.corpus_id
                       AND incidence.proposition_id = proposition.proposition_id
                       AND incidence.entity_id IN (SELECT wanted.entity_id FROM wanted)
                     ORDER BY incidence.entity_id) AS entity_ids
    ) AS named
    WHERE proposition.corpus_id = passage.corpus_id AND proposition.passage_id = passage.passage_id
      AND (named.entity_ids <> '{}' OR proposition.proposition_id = ANY (%(proposition_ids)s::bigint[]))
) AS earning
WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_id = ANY (%(passage_ids)s::bigint[]);

-- name: insert_question_log
-- One row a search, after `share_log`: enough to read why, and to replay the ranking without a model; and a row for
-- every passage that it had in hand. Where something was deleted since the search began, and a proposition that it
-- found with it, the row is written as `forget_questions` would leave it. No row when the corpus is gone.
WITH checked AS MATERIALIZED (
    SELECT deletions = %(deletions)s OR NOT EXISTS (
               SELECT FROM unnest(%(proposition_ids)s::bigint[]) AS given (proposition_id)
               WHERE NOT EXISTS (SELECT FROM proposition
                                 WHERE proposition.corpus_id = %(corpus_id)s
                                   AND proposition.proposition_id = given.proposition_id)) AS whole
    FROM corpus WHERE corpus_id = %(corpus_id)s
), logged AS (
    INSERT INTO question_log (corpus_id, tenant_id, question, method, settings, candidates, selected,
                              residual_queries, ranking, degraded, seconds, forgotten)
    SELECT %(corpus_id)s, %(tenant_id)s, %(question)s::text, %(method)s::text, %(settings)s::jsonb,
           CASE WHEN whole THEN %(candidates)s::jsonb ELSE '[]' END,
           CASE WHEN whole THEN %(selected)s::jsonb ELSE '[]' END,
           CASE WHEN whole THEN %(residual_queries)s::jsonb ELSE '[]' END,
           CASE WHEN whole THEN %(ranking)s::jsonb ELSE '[]' END,
           CASE WHEN whole THEN %(degraded)s::jsonb ELSE '[]' END,
           %(seconds)s::double precision, NOT whole
    FROM checked
    RETURNING question_id, forgotten
), in_hand AS (
    INSERT INTO question_passage (corpus_id, tenant_id, passage_key, question_id)
    SELECT %(corpus_id)s, %(tenant_id)s, given.passage_key, logged.question_id
    FROM logged CROSS JOIN unnest(%(passage_keys)s::text[]) AS given (passage_key)
    WHERE NOT logged.forgotten
       OR EXISTS (SELECT FROM passage WHERE passage.corpus_id = %(corpus_id)s
                                        AND passage.passage_key = given.passage_key)
)
SELECT question_id, forgotten FROM logged;

-- name: question_log_entry
-- One logged search.
SELECT question, method, settings, candidates, selected, residual_queries, ranking, degraded, forgotten
FROM question_log
WHERE corpus_id = %(corpus_id)s AND question_id = %(question_id)s;

-- name: propositions_by_place
-- Proposition ids by (passage key, ordinal, text): how a replay finds its seeds again after a re-ingestion.
SELECT passage.passage_key, proposition.ordinal, proposition.body, proposition.proposition_id
FROM unnest(%(passage_keys)s::text[], %(ordinals)s::integer[], %(bodies)s::text[])
     AS place (passage_key, ordinal, body)
JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_key = place.passage_key
JOIN proposition ON proposition.corpus_id = %(corpus_id)s
     AND proposition.passage_id = passage.passage_id AND proposition.ordinal = place.ordinal
     AND proposition.body = place.body;
