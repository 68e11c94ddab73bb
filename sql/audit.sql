-- The audit: what derives, compared with what it derives from, both ways, and how it is mended. Every audit_
-- statement gives no row where all is true, else up to `fetch` rows: how many are wrong, and one of them in words.
-- All of them read tables of one corpus from end to end and sort or hash them, on disk where they are large; the
-- result is short. Every mend_ statement runs while the corpus is locked (`lock_corpora`), and costs what its
-- audit costs.

-- name: audit_unowned
-- Propositions of no passage, mentions in no proposition, and passages that no logged search had in hand. Reads them.
WITH wrong AS (
    SELECT format('proposition %%s of no passage: %%s', proposition_id, left(body, 60)) AS said
    FROM proposition
    WHERE corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM passage WHERE passage.corpus_id = %(corpus_id)s
                                            AND passage.passage_id = proposition.passage_id)
    UNION ALL
    SELECT format('mention of %%s in no proposition', form)
    FROM mention
    WHERE corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM proposition WHERE proposition.corpus_id = %(corpus_id)s
                                                AND proposition.proposition_id = mention.proposition_id)
    UNION ALL
    SELECT format('%%s in the hand of no logged search', passage_key)
    FROM question_passage
    WHERE corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM question_log WHERE question_log.corpus_id = %(corpus_id)s
                                                 AND question_log.question_id = question_passage.question_id)
)
SELECT count(*) OVER (), said FROM wrong ORDER BY said LIMIT %(fetch)s;

-- name: mend_unowned
-- What belongs to nothing goes.
WITH propositions AS (
    DELETE FROM proposition
    WHERE corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM passage WHERE passage.corpus_id = %(corpus_id)s
                                            AND passage.passage_id = proposition.passage_id)
    RETURNING proposition_id
), in_hand AS (
    DELETE FROM question_passage
    WHERE corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM question_log WHERE question_log.corpus_id = %(corpus_id)s
                                                 AND question_log.question_id = question_passage.question_id)
)
DELETE FROM mention
WHERE corpus_id = %(corpus_id)s
  AND (proposition_id IN (SELECT propositions.proposition_id FROM propositions)
       OR NOT EXISTS (SELECT FROM proposition WHERE proposition.corpus_id = %(corpus_id)s
                                                AND proposition.proposition_id = mention.proposition_id));

-- name: audit_unnamed
-- Mentions of an entity that is not there. Reads the mentions.
WITH wrong AS (
    SELECT format('%%s #%%s names %%s, which is no entity', passage.passage_key, proposition.ordinal, mention.form)
        AS said
    FROM mention
    JOIN proposition ON proposition.corpus_id = %(corpus_id)s
                    AND proposition.proposition_id = mention.proposition_id
    JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_id = proposition.passage_id
    WHERE mention.corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM entity WHERE entity.corpus_id = %(corpus_id)s
                                           AND entity.entity_id = mention.entity_id)
)
SELECT count(*) OVER (), said FROM wrong ORDER BY said LIMIT %(fetch)s;

-- name: audit_propositions
-- Passages whose propositions are not as many as they say, or not numbered from 0 on. Reads the propositions.
WITH held AS (
    SELECT passage_id, count(*) AS number, max(ordinal) + 1 AS numbered
    FROM proposition WHERE corpus_id = %(corpus_id)s GROUP BY passage_id
), wrong AS (
    SELECT format('%%s has %%s of %%s propositions', passage.passage_key, COALESCE(held.number, 0),
                  GREATEST(passage.proposition_count, held.numbered)) AS said
    FROM passage LEFT JOIN held USING (passage_id)
    WHERE passage.corpus_id = %(corpus_id)s
      AND (COALESCE(held.number, 0) <> passage.proposition_count
           OR COALESCE(held.numbered, 0) <> passage.proposition_count)
)
SELECT count(*) OVER (), said FROM wrong ORDER BY said LIMIT %(fetch)s;

-- name: audit_incidence
-- Incidence against the mentions. Reads both.
WITH defined AS MATERIALIZED (
    SELECT DISTINCT mention.proposition_id, mention.entity_id
    FROM mention
    JOIN proposition ON proposition.corpus_id = %(corpus_id)s
                    AND proposition.proposition_id = mention.proposition_id
    JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = mention.entity_id
    WHERE mention.corpus_id = %(corpus_id)s
), kept AS MATERIALIZED (
    SELECT proposition_id, entity_id FROM incidence WHERE corpus_id = %(corpus_id)s
), wrong AS (
    (SELECT 'missing' AS fault, * FROM (SELECT * FROM defined EXCEPT SELECT * FROM kept) AS missing)
    UNION ALL
    (SELECT 'surplus', * FROM (SELECT * FROM kept EXCEPT SELECT * FROM defined) AS surplus)
), shown AS MATERIALIZED (
    SELECT count(*) OVER () AS total, * FROM wrong ORDER BY proposition_id, entity_id LIMIT %(fetch)s
)
SELECT shown.total, format('%%s: %%s #%%s names %%s', shown.fault, COALESCE(passage.passage_key, '?'),
                           COALESCE(proposition.ordinal::text, '?'), COALESCE(entity.canonical, '?'))
FROM shown
LEFT JOIN proposition ON proposition.corpus_id = %(corpus_id)s
                     AND proposition.proposition_id = shown.proposition_id
LEFT JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_id = proposition.passage_id
LEFT JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = shown.entity_id;

-- name: mend_incidence
-- Incidence as the mentions say.
WITH surplus AS (
    DELETE FROM incidence
    WHERE corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM mention
                      WHERE mention.corpus_id = %(corpus_id)s
                        AND mention.proposition_id = incidence.proposition_id
                        AND mention.entity_id = incidence.entity_id)
)
INSERT INTO incidence (corpus_id, tenant_id, proposition_id, entity_id)
SELECT DISTINCT mention.corpus_id, proposition.tenant_id, mention.proposition_id, mention.entity_id
FROM mention
JOIN proposition ON proposition.corpus_id = %(corpus_id)s
                AND proposition.proposition_id = mention.proposition_id
JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = mention.entity_id
WHERE mention.corpus_id = %(corpus_id)s
ON CONFLICT (corpus_id, proposition_id, entity_id) DO NOTHING;

-- name: audit_entity_forms
-- Surface forms and their numbers against the mentions. Reads both.
WITH defined AS MATERIALIZED (
    SELECT mention.entity_id, mention.form, count(*)::integer AS mention_count
    FROM mention
    JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = mention.entity_id
    WHERE mention.corpus_id = %(corpus_id)s
    GROUP BY mention.entity_id, mention.form
), kept AS MATERIALIZED (
    SELECT entity_id, form, mention_count FROM entity_form WHERE corpus_id = %(corpus_id)s
), wrong AS (
    SELECT entity_id, form, COALESCE(kept.mention_count, 0) AS kept,
           COALESCE(defined.mention_count, 0) AS true_count
    FROM kept FULL JOIN defined USING (entity_id, form)
    WHERE kept.mention_count IS DISTINCT FROM defined.mention_count
), shown AS MATERIALIZED (
    SELECT count(*) OVER () AS total, * FROM wrong ORDER BY entity_id, form LIMIT %(fetch)s
)
SELECT shown.total, format('%%s of %%s: %%s mentions kept, %%s there', shown.form,
                           COALESCE(entity.canonical, '?'), shown.kept, shown.true_count)
FROM shown LEFT JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = shown.entity_id;

-- name: mend_entity_forms
-- Forms as the mentions say.
WITH defined AS MATERIALIZED (
    SELECT mention.entity_id, entity.tenant_id, mention.form, count(*)::integer AS mention_count
    FROM mention
    JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = mention.entity_id
    WHERE mention.corpus_id = %(corpus_id)s
    GROUP BY mention.entity_id, entity.tenant_id, mention.form
), surplus AS (
    DELETE FROM entity_form
    WHERE corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM defined WHERE defined.entity_id = entity_form.entity_id
                                            AND defined.form = entity_form.form)
)
INSERT INTO entity_form (corpus_id, tenant_id, entity_id, form, mention_count)
SELECT %(corpus_id)s, tenant_id, entity_id, form, mention_count FROM defined
ON CONFLICT (corpus_id, entity_id, form) DO UPDATE SET mention_count = excluded.mention_count
WHERE entity_form.mention_count <> excluded.mention_count;

-- name: audit_passage_entities
-- How many propositions of a passage name an entity, and of how many, against mentions and propositions. Reads all.
WITH size AS MATERIALIZED (
    SELECT passage_id, count(*)::integer AS passage_size
    FROM proposition WHERE corpus_id = %(corpus_id)s GROUP BY passage_id
), defined AS MATERIALIZED (
    SELECT mention.entity_id, proposition.passage_id,
           count(DISTINCT mention.proposition_id)::integer AS proposition_count, size.passage_size
    FROM mention
    JOIN proposition ON proposition.corpus_id = %(corpus_id)s
                    AND proposition.proposition_id = mention.proposition_id
    JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = mention.entity_id
    JOIN size ON size.passage_id = proposition.passage_id
    WHERE mention.corpus_id = %(corpus_id)s
    GROUP BY mention.entity_id, proposition.passage_id, size.passage_size
), kept AS MATERIALIZED (
    SELECT entity_id, passage_id, proposition_count, passage_size
    FROM passage_entity WHERE corpus_id = %(corpus_id)s
), wrong AS (
    SELECT entity_id, passage_id, COALESCE(kept.proposition_count, 0) AS kept_count,
           COALESCE(kept.passage_size, 0) AS kept_size,
           COALESCE(defined.proposition_count, 0) AS true_count, COALESCE(defined.passage_size, 0) AS true_size
    FROM kept FULL JOIN defined USING (entity_id, passage_id)
    WHERE (kept.proposition_count, kept.passage_size)
          IS DISTINCT FROM (defined.proposition_count, defined.passage_size)
), shown AS MATERIALIZED (
    SELECT count(*) OVER () AS total, * FROM wrong ORDER BY passage_id, entity_id LIMIT %(fetch)s
)
SELECT shown.total,
       format('%%s names %%s in %%s of %%s propositions, kept are %%s of %%s', COALESCE(passage.passage_key, '?'),
              COALESCE(entity.canonical, '?'), shown.true_count, shown.true_size, shown.kept_count,
              shown.kept_size)
FROM shown
LEFT JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_id = shown.passage_id
LEFT JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = shown.entity_id;

-- name: mend_passage_entities
-- Counts of passages as mentions and propositions say.
WITH size AS MATERIALIZED (
    SELECT passage_id, tenant_id, count(*)::integer AS passage_size
    FROM proposition WHERE corpus_id = %(corpus_id)s GROUP BY passage_id, tenant_id
), defined AS MATERIALIZED (
    SELECT mention.entity_id, proposition.passage_id, size.tenant_id,
           count(DISTINCT mention.proposition_id)::integer AS proposition_count, size.passage_size
    FROM mention
    JOIN proposition ON proposition.corpus_id = %(corpus_id)s
                    AND proposition.proposition_id = mention.proposition_id
    JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = mention.entity_id
    JOIN size ON size.passage_id = proposition.passage_id
    WHERE mention.corpus_id = %(corpus_id)s
    GROUP BY mention.entity_id, proposition.passage_id, size.tenant_id, size.passage_size
), surplus AS (
    DELETE FROM passage_entity
    WHERE corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM defined WHERE defined.entity_id = passage_entity.entity_id
                                            AND defined.passage_id = passage_entity.passage_id)
)
INSERT INTO passage_entity (corpus_id, tenant_id, entity_id, passage_id, proposition_count, passage_size)
SELECT %(corpus_id)s, tenant_id, entity_id, passage_id, proposition_count, passage_size FROM defined
ON CONFLICT (corpus_id, entity_id, passage_id)
DO UPDATE SET proposition_count = excluded.proposition_count, passage_size = excluded.passage_size
WHERE (passage_entity.proposition_count, passage_entity.passage_size)
      <> (excluded.proposition_count, excluded.passage_size);

-- name: audit_entities
-- Degree, largest weight and display name of every entity against mentions and propositions, and entities that
-- nothing names. To the last bit: a weight is the same expression there and here. Reads all.
WITH size AS MATERIALIZED (
    SELECT passage_id, count(*)::integer AS passage_size
    FROM proposition WHERE corpus_id = %(corpus_id)s GROUP BY passage_id
), pair AS MATERIALIZED (
    SELECT mention.entity_id, proposition.passage_id, size.passage_size,
           count(DISTINCT mention.proposition_id)::integer AS number
    FROM mention
    JOIN proposition ON proposition.corpus_id = %(corpus_id)s
                    AND proposition.proposition_id = mention.proposition_id
    JOIN size ON size.passage_id = proposition.passage_id
    WHERE mention.corpus_id = %(corpus_id)s
    GROUP BY mention.entity_id, proposition.passage_id, size.passage_size
), weighed AS MATERIALIZED (
    SELECT entity_id, sum(number)::integer AS degree,
           max(number / sqrt(passage_size::double precision)) AS max_weight
    FROM pair GROUP BY entity_id
), display AS MATERIALIZED (
    SELECT DISTINCT ON (entity_id) entity_id, form
    FROM (SELECT entity_id, form, count(*) AS number
          FROM mention WHERE corpus_id = %(corpus_id)s GROUP BY entity_id, form) AS forms
    ORDER BY entity_id, number DESC, form
), wrong AS (
    SELECT entity.canonical, entity.degree, entity.max_weight, entity.display,
           COALESCE(weighed.degree, 0) AS true_degree, COALESCE(weighed.max_weight, 0) AS true_weight,
           COALESCE(display.form, '') AS true_display
    FROM entity
    LEFT JOIN weighed USING (entity_id)
    LEFT JOIN display USING (entity_id)
    WHERE entity.corpus_id = %(corpus_id)s
      AND (weighed.entity_id IS NULL
           OR (entity.degree, entity.max_weight, entity.display COLLATE "C")
              IS DISTINCT FROM (weighed.degree, weighed.max_weight, display.form))
)
SELECT count(*) OVER (),
       format('%%s (%%s): degree %%s, kept %%s; largest weight %%s, kept %%s; display name %%s', canonical, display,
              true_degree, degree, true_weight, max_weight, COALESCE(NULLIF(true_display, ''), '-'))
FROM wrong ORDER BY canonical LIMIT %(fetch)s;

-- name: mend_entities
-- Entities as incidence, forms and counts say, once those are true; an entity that nothing names goes.
WITH degrees AS MATERIALIZED (
    SELECT entity_id, count(*)::integer AS degree
    FROM incidence WHERE corpus_id = %(corpus_id)s GROUP BY entity_id
), weights AS MATERIALIZED (
    SELECT entity_id, max(weight) AS max_weight
    FROM passage_entity WHERE corpus_id = %(corpus_id)s GROUP BY entity_id
), displays AS MATERIALIZED (
    SELECT DISTINCT ON (entity_id) entity_id, form
    FROM entity_form WHERE corpus_id = %(corpus_id)s
    ORDER BY entity_id, mention_count DESC, form
), unused AS (
    DELETE FROM entity
    WHERE corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM mention WHERE mention.corpus_id = %(corpus_id)s
                                            AND mention.entity_id = entity.entity_id)
)
UPDATE entity
SET degree = degrees.degree, max_weight = weights.max_weight, display = displays.form
FROM degrees
JOIN weights USING (entity_id)
JOIN displays USING (entity_id)
WHERE entity.corpus_id = %(corpus_id)s AND entity.entity_id = degrees.entity_id
  AND (entity.degree, entity.max_weight, entity.display COLLATE "C")
      IS DISTINCT FROM (degrees.degree, weights.max_weight, displays.form);

-- name: named_forms
-- A page of the surface forms of a corpus, each with the entity that its mentions stand for: of the mentions
-- themselves, along their index by entity.
SELECT named.entity_id, named.form, entity.canonical
FROM (SELECT DISTINCT mention.entity_id, mention.form
      FROM mention
      WHERE mention.corpus_id = %(corpus_id)s AND mention.entity_id >= %(entity_id)s
        AND (mention.entity_id, mention.form) > (%(entity_id)s, %(form)s::text COLLATE "C")
      ORDER BY mention.entity_id, mention.form
      LIMIT %(fetch)s) AS named
LEFT JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = named.entity_id
ORDER BY named.entity_id, named.form;

-- name: form_passages
-- The passages in which a form stands for an entity, and how often. Reads the mentions of the entity.
SELECT passage.passage_key, count(*)
FROM mention
JOIN proposition ON proposition.corpus_id = %(corpus_id)s
                AND proposition.proposition_id = mention.proposition_id
JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_id = proposition.passage_id
WHERE mention.corpus_id = %(corpus_id)s AND mention.entity_id = %(entity_id)s
  AND mention.form = %(form)s::text
GROUP BY passage.passage_key
ORDER BY passage.passage_key;

-- name: audit_metadata
-- What passages can be filtered by against their metadata. Reads the passages and their metadata.
WITH defined AS MATERIALIZED (
    SELECT passage.passage_id, held.name, held.kind, held.value, held.number
    FROM passage CROSS JOIN LATERAL filterable(passage.metadata) AS held
    WHERE passage.corpus_id = %(corpus_id)s
), kept AS MATERIALIZED (
    SELECT passage_id, name, kind, value, number FROM passage_metadata WHERE corpus_id = %(corpus_id)s
), wrong AS (
    (SELECT 'missing' AS fault, * FROM (SELECT * FROM defined EXCEPT SELECT * FROM kept) AS missing)
    UNION ALL
    (SELECT 'surplus', * FROM (SELECT * FROM kept EXCEPT SELECT * FROM defined) AS surplus)
), shown AS MATERIALIZED (
    SELECT count(*) OVER () AS total, * FROM wrong ORDER BY passage_id, name, kind, value LIMIT %(fetch)s
)
SELECT shown.total, format('%%s: %%s of %%s', shown.fault, shown.name, COALESCE(passage.passage_key, '?'))
FROM shown LEFT JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_id = shown.passage_id;

-- name: audit_surplus_vectors
-- Vectors of propositions or passages that are not there. Reads the space's keys.
WITH wrong AS (
    SELECT item_id FROM embedding
    WHERE corpus_id = %(corpus_id)s AND space_id = %(space_id)s
      AND NOT EXISTS (SELECT FROM proposition
                      WHERE %(kind)s::text = 'proposition' AND proposition.corpus_id = %(corpus_id)s
                        AND proposition.proposition_id = embedding.item_id)
      AND NOT EXISTS (SELECT FROM passage
                      WHERE %(kind)s::text = 'passage' AND passage.corpus_id = %(corpus_id)s
                        AND passage.passage_id = embedding.item_id)
)
SELECT count(*) OVER (), format('%%s %%s', %(kind)s::text, item_id) FROM wrong ORDER BY item_id LIMIT %(fetch)s;

-- name: mend_surplus_vectors
-- They go.
DELETE FROM embedding
WHERE corpus_id = %(corpus_id)s AND space_id = %(space_id)s
  AND NOT EXISTS (SELECT FROM proposition
                  WHERE %(kind)s::text = 'proposition' AND proposition.corpus_id = %(corpus_id)s
                    AND proposition.proposition_id = embedding.item_id)
  AND NOT EXISTS (SELECT FROM passage
                  WHERE %(kind)s::text = 'passage' AND passage.corpus_id = %(corpus_id)s
                    AND passage.passage_id = embedding.item_id);

-- name: audit_missing_vectors
-- Propositions without a vector in the active space. Reads the propositions and the space's keys.
WITH wrong AS (
    SELECT passage_id, ordinal FROM proposition
    WHERE corpus_id = %(corpus_id)s
      AND NOT EXISTS (SELECT FROM embedding
                      WHERE embedding.corpus_id = %(corpus_id)s AND embedding.space_id = %(space_id)s
                        AND embedding.item_id = proposition.proposition_id)
), shown AS MATERIALIZED (
    SELECT count(*) OVER () AS total, * FROM wrong ORDER BY passage_id, ordinal LIMIT %(fetch)s
)
SELECT shown.total, format('%%s #%%s', COALESCE(passage.passage_key, '?'), shown.ordinal)
FROM shown LEFT JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_id = shown.passage_id;

-- name: audit_partition
-- A space without the partition that holds its vectors. One look in the catalogue.
SELECT count(*) OVER (), format('space %%s, %%s vectors of %%s', space_id, kind, model)
FROM vector_space
WHERE corpus_id = %(corpus_id)s AND space_id = %(space_id)s
  AND to_regclass(format('embedding_%%s_%%s', corpus_id, space_id)) IS NULL
LIMIT %(fetch)s;

-- name: stray_partitions
-- Partitions whose space is not there, by corpus and space. Reads the names of the partitions. Nothing where row
-- security hides the spaces of others.
SELECT name[1]::bigint, name[2]::bigint
FROM pg_inherits
JOIN pg_class ON pg_class.oid = pg_inherits.inhrelid
CROSS JOIN LATERAL regexp_match(pg_class.relname, '^embedding_(\d+)_(\d+)$') AS name
WHERE pg_inherits.inhparent = to_regclass('embedding') AND NOT row_security_active('vector_space')
  AND NOT EXISTS (SELECT FROM vector_space WHERE vector_space.corpus_id = name[1]::bigint
                                             AND vector_space.space_id = name[2]::bigint)
ORDER BY 1, 2;

-- name: audit_orphans
-- Rows of every table but the ledger, which keeps accounts, whose corpus is gone. Reads every table.
WITH orphan (relation, corpus_id) AS (
    SELECT 'vector_space', corpus_id FROM vector_space
    UNION ALL SELECT 'passage', corpus_id FROM passage
    UNION ALL SELECT 'proposition', corpus_id FROM proposition
    UNION ALL SELECT 'entity', corpus_id FROM entity
    UNION ALL SELECT 'entity_form', corpus_id FROM entity_form
    UNION ALL SELECT 'mention', corpus_id FROM mention
    UNION ALL SELECT 'incidence', corpus_id FROM incidence
    UNION ALL SELECT 'passage_entity', corpus_id FROM passage_entity
    UNION ALL SELECT 'passage_metadata', corpus_id FROM passage_metadata
    UNION ALL SELECT 'embedding', corpus_id FROM embedding
    UNION ALL SELECT 'question_log', corpus_id FROM question_log
    UNION ALL SELECT 'question_passage', corpus_id FROM question_passage
    UNION ALL SELECT 'queued_passage', corpus_id FROM queued_passage
    UNION ALL SELECT 'entity_decision', corpus_id FROM entity_decision
    UNION ALL SELECT 'entity_log', corpus_id FROM entity_log
), counted AS (
    SELECT relation, corpus_id, count(*) AS number
    FROM orphan
    WHERE NOT EXISTS (SELECT FROM corpus WHERE corpus.corpus_id = orphan.corpus_id)
    GROUP BY relation, corpus_id
)
SELECT (sum(number) OVER ())::bigint, format('%%s of %%s, corpus %%s', number, relation, corpus_id)
FROM counted ORDER BY corpus_id, relation LIMIT %(fetch)s;
