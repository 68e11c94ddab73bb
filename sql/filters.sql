-- name: derive_metadata
-- What of passages can be filtered by, made to follow from their metadata; of the whole corpus where no passages
-- are given. Only rows that differ are written. Reads the rows of the passages by key.
WITH derived AS MATERIALIZED (
    SELECT passage.passage_id, passage.tenant_id, held.name, held.value, held.kind, held.number
    FROM passage
    CROSS JOIN LATERAL filterable(passage.metadata) AS held
    WHERE passage.corpus_id = %(corpus_id)s
      AND (%(passage_ids)s::bigint[] IS NULL OR passage.passage_id = ANY (%(passage_ids)s::bigint[]))
), gone AS (
    DELETE FROM passage_metadata AS kept
    WHERE kept.corpus_id = %(corpus_id)s
      AND (%(passage_ids)s::bigint[] IS NULL OR kept.passage_id = ANY (%(passage_ids)s::bigint[]))
      AND NOT EXISTS (
          SELECT FROM derived
          WHERE derived.passage_id = kept.passage_id AND derived.name = kept.name
            AND derived.kind = kept.kind AND derived.value = kept.value)
)
INSERT INTO passage_metadata (corpus_id, tenant_id, passage_id, name, value, kind, number)
SELECT %(corpus_id)s, tenant_id, passage_id, name, value, kind, number FROM derived
ON CONFLICT (corpus_id, passage_id, name, kind, value) DO UPDATE
SET number = excluded.number, tenant_id = excluded.tenant_id
WHERE (passage_metadata.number, passage_metadata.tenant_id) IS DISTINCT FROM
      (excluded.number, excluded.tenant_id);

-- name: allowed_propositions
-- The propositions that a filter allows, each with its passage, up to `fetch` of them (all: NULL). The condition
-- that the fewest rows meet leads, the others are looked up passage by passage: index ranges that end as soon as
-- there is enough. A passage that meets the leading condition twice comes twice.
WITH asked AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(intervals)s::jsonb)
        AS asked (condition integer, name text, kind text, low text, high text,
                  least double precision, most double precision)
), leader AS MATERIALIZED (
    SELECT asked.condition
    FROM asked
    CROSS JOIN LATERAL (
        SELECT count(*) AS size
        FROM (
            SELECT FROM passage_metadata AS held
            WHERE held.corpus_id = %(corpus_id)s AND held.name = asked.name AND held.kind = asked.kind
              AND held.value >= asked.low AND held.value < asked.high
            UNION ALL
            SELECT FROM passage_metadata AS held
            WHERE held.corpus_id = %(corpus_id)s AND held.name = asked.name
              AND held.number >= asked.least AND held.number <= asked.most
            LIMIT %(fetch)s
        ) AS first
    ) AS rows_of
    GROUP BY asked.condition
    ORDER BY sum(rows_of.size)
    LIMIT 1
)
SELECT array_agg(passage_id), array_agg(proposition_id)
FROM (
    SELECT met.passage_id, proposition.proposition_id
    FROM asked
    JOIN leader USING (condition)
    CROSS JOIN LATERAL (
        SELECT held.passage_id FROM passage_metadata AS held
        WHERE held.corpus_id = %(corpus_id)s AND held.name = asked.name AND held.kind = asked.kind
          AND held.value >= asked.low AND held.value < asked.high
        UNION ALL
        SELECT held.passage_id FROM passage_metadata AS held
        WHERE held.corpus_id = %(corpus_id)s AND held.name = asked.name
          AND held.number >= asked.least AND held.number <= asked.most
    ) AS met
    JOIN proposition ON proposition.corpus_id = %(corpus_id)s AND proposition.passage_id = met.passage_id
    WHERE %(conditions)s::integer = 1 OR %(conditions)s::integer = (
        SELECT count(DISTINCT other.condition)
        FROM passage_metadata AS held
        JOIN asked AS other ON other.name = held.name AND other.kind = held.kind
             AND (held.value >= other.low AND held.value < other.high
                  OR held.number >= other.least AND held.number <= other.most)
        WHERE held.corpus_id = %(corpus_id)s AND held.passage_id = met.passage_id)
    LIMIT %(fetch)s
) AS allowed;

-- name: allowed_passages
-- Which of these passages a filter allows: the few rows of each by key.
WITH asked AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(intervals)s::jsonb)
        AS asked (condition integer, name text, kind text, low text, high text,
                  least double precision, most double precision)
)
SELECT array_agg(given.passage_id)
FROM unnest(%(passage_ids)s::bigint[]) AS given (passage_id)
WHERE %(conditions)s::integer = (
    SELECT count(DISTINCT asked.condition)
    FROM passage_metadata AS held
    JOIN asked ON asked.name = held.name AND asked.kind = held.kind
         AND (held.value >= asked.low AND held.value < asked.high
              OR held.number >= asked.least AND held.number <= asked.most)
    WHERE held.corpus_id = %(corpus_id)s AND held.passage_id = given.passage_id);

-- name: held_kinds
-- Which kinds of values the passages of the corpus can be filtered by under some names: three index probes a name.
SELECT given.name, kind.kind
FROM unnest(%(names)s::text[]) AS given (name)
CROSS JOIN unnest(ARRAY['boolean', 'number', 'text']) AS kind (kind)
WHERE EXISTS (SELECT FROM passage_metadata
              WHERE passage_metadata.corpus_id = %(corpus_id)s AND passage_metadata.name = given.name
                AND passage_metadata.kind = kind.kind)
ORDER BY given.name, kind.kind;

-- name: scan_longer
-- What a filtered index search goes by: the breadth of the transaction, and about how many vectors the space has.
-- And for the rest of the transaction, let such a search look at more than the 20,000 vectors of pgvector's default.
SELECT current_setting('hnsw.ef_search')::integer,
       COALESCE((SELECT reltuples::bigint FROM pg_class
                 WHERE oid = to_regclass(format('embedding_%%s_%%s', %(corpus_id)s::bigint, %(space_id)s::bigint))), 0),
       set_config('hnsw.max_scan_tuples', '100000', true),
       set_config('hnsw.scan_mem_multiplier', '4', true);
