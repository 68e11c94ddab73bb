-- name: known_passages
-- What the corpus already holds of some passages, by key, for skipping what is unchanged; and whether title or
-- metadata are others than those given. Metadata are compared here, for a number may come back from jsonb in
-- another form than it was given (1e23).
SELECT passage.passage_key, passage.content_hash, passage.state,
       passage.title <> given.title OR passage.metadata <> given.metadata::jsonb
FROM unnest(%(passage_keys)s::text[], %(titles)s::text[], %(metadata)s::text[])
     AS given (passage_key, title, metadata)
JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_key = given.passage_key
WHERE passage.passage_key = ANY (%(passage_keys)s::text[]);

-- name: share_gate
-- Writers share the gate of a corpus, and who must have the corpus alone closes it, each before the row is locked. A
-- lock on the row alone is not fair: who wants to share it overtakes who waits to have it alone. Here all stand in one
-- line. A statement of its own, for the next one is to see what was committed while this one waited.
SELECT pg_advisory_xact_lock_shared(hashtextextended(format('evireform corpus %%s', %(corpus_id)s::bigint), 0));

-- name: close_gate
-- The same lock, alone; never after `share_gate`: two would wait for each other.
SELECT pg_advisory_xact_lock(hashtextextended(format('evireform corpus %%s', %(corpus_id)s::bigint), 0));

-- name: hold_corpus
-- Keep a corpus from being deleted or renamed while a transaction writes into it; no row when it is gone already.
-- Writers share this lock, and `delete_corpus` waits for all of them before it looks at what to delete. Who waited
-- for a switch of generations gets the name that the corpus has since; who waited for one of embedding models, the
-- space that new propositions belong in.
SELECT name, proposition_space_id FROM corpus WHERE corpus_id = %(corpus_id)s FOR KEY SHARE;

-- name: lock_extractor
-- Keep a corpus as it is, and so what it says makes its propositions, while a transaction records another maker; no
-- row when it is gone. Writers go on. The first lock that it takes on this row: who holds a weaker one may wait in a
-- circle with who wants `lock_corpora`.
SELECT name, extractor FROM corpus WHERE corpus_id = %(corpus_id)s FOR NO KEY UPDATE;

-- name: point_at_spaces
-- The one statement that makes spaces active, after `lock_corpora`: every search sees all of it or none.
-- Of a kind that is not to change the space is NULL.
UPDATE corpus
SET proposition_space_id = COALESCE(%(proposition)s::bigint, proposition_space_id),
    passage_space_id = COALESCE(%(passage)s::bigint, passage_space_id)
WHERE corpus_id = %(corpus_id)s;

-- name: upsert_passages
-- Write passages in key order and lock them. A row that another writer already brought to the same content
-- is not returned, so its propositions are left alone. `existed` tells rows whose old parts must go.
INSERT INTO passage (corpus_id, tenant_id, passage_key, title, body, content_hash, metadata,
                     state, reason, proposition_count)
SELECT %(corpus_id)s, %(tenant_id)s, given.passage_key, given.title, given.body, given.content_hash,
       given.metadata::jsonb, given.state, given.reason, given.proposition_count
FROM unnest(%(passage_keys)s::text[], %(titles)s::text[], %(bodies)s::text[], %(hashes)s::bytea[],
            %(metadata)s::text[], %(states)s::text[], %(reasons)s::text[], %(counts)s::integer[])
     AS given (passage_key, title, body, content_hash, metadata, state, reason, proposition_count)
ORDER BY given.passage_key COLLATE "C"
ON CONFLICT (corpus_id, passage_key) DO UPDATE
SET title = excluded.title, body = excluded.body, content_hash = excluded.content_hash,
    metadata = excluded.metadata, state = excluded.state, reason = excluded.reason,
    proposition_count = excluded.proposition_count, updated_at = now()
WHERE passage.content_hash <> excluded.content_hash OR passage.state = 'failed'
RETURNING passage_key, passage_id, xmax <> 0 AS existed;

-- name: relabel_passages
-- New titles and metadata for passages whose text, and so whose propositions, stay as they are. Locked in key
-- order first, as every writer does.
WITH locked AS MATERIALIZED (
    SELECT passage_id, passage_key FROM passage
    WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (%(passage_keys)s::text[])
    ORDER BY passage_key
    FOR UPDATE
)
UPDATE passage
SET title = given.title, metadata = given.metadata::jsonb, updated_at = now()
FROM locked
JOIN unnest(%(passage_keys)s::text[], %(titles)s::text[], %(metadata)s::text[])
     AS given (passage_key, title, metadata) ON given.passage_key = locked.passage_key
WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_id = locked.passage_id
RETURNING passage.passage_id;

-- name: failed_texts
-- A page of the passages whose extraction failed, in key order from a key on, with all that extracting them
-- again needs.
SELECT passage_key, title, body, metadata, content_hash FROM passage
WHERE corpus_id = %(corpus_id)s AND state = 'failed' AND passage_key > %(after)s::text
ORDER BY passage_key
LIMIT %(fetch)s;

-- name: lock_failed_passages
-- Lock, in key order, those of some passages that are still failed with the text that was tried again.
SELECT passage_key FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (%(passage_keys)s::text[]) AND state = 'failed'
  AND content_hash = ANY (%(hashes)s::bytea[])
ORDER BY passage_key
FOR UPDATE;

-- name: lock_passages
-- Lock passages in key order before they are deleted.
SELECT passage_id, passage_key
FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (%(passage_keys)s::text[])
ORDER BY passage_key
FOR UPDATE;

-- name: insert_entities
-- Make sure that entities exist, and lock them together with those that old passages name, in canonical
-- order. The update changes nothing, but it locks: a row that came first, or that another writer deletes
-- meanwhile, has its turn in the same order as every other.
INSERT INTO entity (corpus_id, tenant_id, canonical)
SELECT %(corpus_id)s, %(tenant_id)s, given.canonical
FROM (SELECT unnest(%(canonicals)s::text[]) COLLATE "C"
      UNION
      SELECT entity.canonical FROM entity
      WHERE entity.corpus_id = %(corpus_id)s
        AND entity.entity_id = ANY (ARRAY(
            SELECT passage_entity.entity_id FROM passage_entity
            WHERE passage_entity.corpus_id = %(corpus_id)s
              AND passage_entity.passage_id = ANY (%(passage_ids)s::bigint[])))) AS given (canonical)
ORDER BY given.canonical
ON CONFLICT (corpus_id, canonical) DO UPDATE SET canonical = excluded.canonical WHERE false;

-- name: lock_entities
-- Lock, in canonical order, every entity that a write touches: those it names and those it no longer names.
-- All writers lock in this order, so that none waits for another in a circle. Arrays instead of joins: without
-- statistics of a new corpus the worst plan scans its entities once, and never once an entity. Looking a row up
-- by id and by canonical form at once gives the whole key of whichever index is chosen.
WITH touched AS MATERIALIZED (
    SELECT entity.entity_id, entity.canonical FROM entity
    WHERE entity.corpus_id = %(corpus_id)s AND entity.canonical = ANY (%(canonicals)s::text[])
    UNION
    SELECT entity.entity_id, entity.canonical FROM entity
    WHERE entity.corpus_id = %(corpus_id)s
      AND entity.entity_id = ANY (ARRAY(
          SELECT passage_entity.entity_id FROM passage_entity
          WHERE passage_entity.corpus_id = %(corpus_id)s
            AND passage_entity.passage_id = ANY (%(passage_ids)s::bigint[])))
    ORDER BY canonical
)
SELECT locked.entity_id, locked.canonical
FROM touched
CROSS JOIN LATERAL (
    SELECT entity.entity_id, entity.canonical FROM entity
    WHERE entity.corpus_id = %(corpus_id)s AND entity.entity_id = touched.entity_id
      AND entity.canonical = touched.canonical
    FOR UPDATE
) AS locked;

-- name: retract_passages
-- Take the propositions of passages out of the index: vectors, forms, counts, incidence, mentions.
-- Returns how many propositions each entity lost. Every table is entered by an array of ids in an index
-- condition: flat in the size of the corpus, whatever the statistics say.
WITH gone AS MATERIALIZED (
    SELECT proposition_id FROM proposition
    WHERE corpus_id = %(corpus_id)s AND passage_id = ANY (%(passage_ids)s::bigint[])
), lost_forms AS MATERIALIZED (
    SELECT entity_id, form, count(*) AS mention_count
    FROM mention
    WHERE corpus_id = %(corpus_id)s AND proposition_id = ANY (ARRAY(SELECT gone.proposition_id FROM gone))
    GROUP BY entity_id, form
), forms AS (
    UPDATE entity_form SET mention_count = entity_form.mention_count - lost_forms.mention_count
    FROM lost_forms
    WHERE entity_form.corpus_id = %(corpus_id)s
      AND entity_form.entity_id = ANY (ARRAY(SELECT lost_forms.entity_id FROM lost_forms))
      AND entity_form.entity_id = lost_forms.entity_id AND entity_form.form = lost_forms.form
), proposition_vectors AS (
    DELETE FROM embedding
    WHERE corpus_id = %(corpus_id)s
      AND space_id = ANY (ARRAY(SELECT vector_space.space_id FROM vector_space
                                WHERE vector_space.corpus_id = %(corpus_id)s
                                  AND vector_space.kind = 'proposition'))
      AND item_id = ANY (ARRAY(SELECT gone.proposition_id FROM gone))
), passage_vectors AS (
    DELETE FROM embedding
    WHERE corpus_id = %(corpus_id)s
      AND space_id = ANY (ARRAY(SELECT vector_space.space_id FROM vector_space
                                WHERE vector_space.corpus_id = %(corpus_id)s
                                  AND vector_space.kind = 'passage'))
      AND item_id = ANY (%(passage_ids)s::bigint[])
), counts AS (
    DELETE FROM passage_entity
    WHERE corpus_id = %(corpus_id)s AND passage_id = ANY (%(passage_ids)s::bigint[])
    RETURNING entity_id, proposition_count
), propositions AS (
    DELETE FROM proposition
    WHERE corpus_id = %(corpus_id)s AND passage_id = ANY (%(passage_ids)s::bigint[])
)
SELECT entity_id, sum(proposition_count)::integer FROM counts GROUP BY entity_id;

-- name: insert_propositions
-- The propositions of a batch of passages.
INSERT INTO proposition (corpus_id, tenant_id, passage_id, ordinal, body, span_start, span_end)
SELECT %(corpus_id)s, %(tenant_id)s, given.passage_id, given.ordinal, given.body, given.span_start,
       given.span_end
FROM unnest(%(passage_ids)s::bigint[], %(ordinals)s::integer[], %(bodies)s::text[],
            %(span_starts)s::integer[], %(span_ends)s::integer[])
     AS given (passage_id, ordinal, body, span_start, span_end)
RETURNING passage_id, ordinal, proposition_id;

-- name: insert_mentions
-- The mentions of a batch, and the incidence that follows from them.
WITH given AS (
    SELECT * FROM unnest(%(proposition_ids)s::bigint[], %(forms)s::text[], %(entity_ids)s::bigint[])
        AS given (proposition_id, form, entity_id)
), mentions AS (
    INSERT INTO mention (corpus_id, tenant_id, proposition_id, form, entity_id)
    SELECT %(corpus_id)s, %(tenant_id)s, proposition_id, form, entity_id FROM given
), forms AS (
    INSERT INTO entity_form (corpus_id, tenant_id, entity_id, form, mention_count)
    SELECT %(corpus_id)s, %(tenant_id)s, entity_id, form, count(*) FROM given GROUP BY entity_id, form
    ON CONFLICT (corpus_id, entity_id, form)
    DO UPDATE SET mention_count = entity_form.mention_count + excluded.mention_count
)
INSERT INTO incidence (corpus_id, tenant_id, proposition_id, entity_id)
SELECT DISTINCT %(corpus_id)s::bigint, %(tenant_id)s::bigint, proposition_id, entity_id FROM given;

-- name: insert_passage_entities
-- How many propositions of each written passage name each entity, beside the passage's size.
INSERT INTO passage_entity (corpus_id, tenant_id, entity_id, passage_id, proposition_count, passage_size)
SELECT %(corpus_id)s, %(tenant_id)s, given.entity_id, given.passage_id, given.proposition_count,
       given.passage_size
FROM unnest(%(entity_ids)s::bigint[], %(passage_ids)s::bigint[], %(counts)s::integer[],
            %(sizes)s::integer[])
     AS given (entity_id, passage_id, proposition_count, passage_size);

-- name: drop_unused_forms
-- Forms that no mention has any more.
DELETE FROM entity_form
WHERE corpus_id = %(corpus_id)s AND entity_id = ANY (%(entity_ids)s::bigint[]) AND mention_count = 0;

-- name: settle_entities
-- Degrees by difference; display name (the most frequent form, then code-point order) and largest weight
-- from their own small tables, each one index probe: flat in the degree of the entity.
UPDATE entity
SET degree = entity.degree + given.difference,
    display = COALESCE((SELECT entity_form.form FROM entity_form
                        WHERE entity_form.corpus_id = entity.corpus_id
                          AND entity_form.entity_id = entity.entity_id
                        ORDER BY entity_form.mention_count DESC, entity_form.form LIMIT 1), ''),
    max_weight = COALESCE((SELECT passage_entity.weight FROM passage_entity
                           WHERE passage_entity.corpus_id = entity.corpus_id
                             AND passage_entity.entity_id = entity.entity_id
                           ORDER BY passage_entity.weight DESC LIMIT 1), 0)
FROM unnest(%(entity_ids)s::bigint[], %(differences)s::integer[]) AS given (entity_id, difference)
WHERE entity.corpus_id = %(corpus_id)s AND entity.entity_id = ANY (%(entity_ids)s::bigint[])
  AND entity.entity_id = given.entity_id;

-- name: drop_unused_entities
-- Entities that no proposition names any more.
DELETE FROM entity
WHERE corpus_id = %(corpus_id)s AND entity_id = ANY (%(entity_ids)s::bigint[]) AND degree = 0;

-- name: delete_passages
-- The passages themselves, after `retract_passages`.
DELETE FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_id = ANY (%(passage_ids)s::bigint[]);

-- name: vector_type
-- The number of the type of vectors in this database, which a binary array of them begins with.
SELECT 'halfvec'::regtype::oid::bigint;

-- name: insert_embeddings
-- Vectors into one space: one binary array, as fast as a COPY, which row-level security refuses.
INSERT INTO embedding (corpus_id, space_id, item_id, tenant_id, embedding)
SELECT %(corpus_id)s, %(space_id)s, given.item_id, %(tenant_id)s, given.vector
FROM unnest(%(item_ids)s::bigint[], %(vectors)s::halfvec[]) AS given (item_id, vector);

-- name: space_size
-- Vectors in one space, counted.
SELECT count(*) FROM embedding WHERE corpus_id = %(corpus_id)s AND space_id = %(space_id)s;

-- name: create_space_partition
-- The partition of a new space (see functions.sql).
SELECT create_space_partition(%(corpus_id)s, %(space_id)s);

-- name: partitions_of_corpus
-- The vector spaces for which a corpus has a partition, whether they still have a row or not. Reads the catalogue.
SELECT split_part(relname, '_', 3)::bigint FROM pg_class
WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind = 'r'
  AND relname ~ ('^embedding_' || %(corpus_id)s::bigint || '_[0-9]+$')
ORDER BY 1;

-- name: drop_space_partition
-- A space's partition with its vectors.
SELECT drop_space_partition(%(corpus_id)s, %(space_id)s);

-- name: delete_corpus_parts
-- The tables between propositions and entities, whose foreign keys do not cascade from the corpus in one order, and
-- one that has none.
WITH in_hand AS (
    DELETE FROM question_passage WHERE corpus_id = %(corpus_id)s
), counts AS (
    DELETE FROM passage_entity WHERE corpus_id = %(corpus_id)s
), pairs AS (
    DELETE FROM incidence WHERE corpus_id = %(corpus_id)s
)
DELETE FROM mention WHERE corpus_id = %(corpus_id)s;

-- name: create_space_index
-- The HNSW index of a space, where it is missing. Minutes at a million vectors.
SELECT create_space_index(%(corpus_id)s, %(space_id)s);

-- name: rebuild_space_index
-- The HNSW index of a space once more, beside the first. Minutes at a million vectors.
SELECT rebuild_space_index(%(corpus_id)s, %(space_id)s);

-- name: swap_space_index
-- The index that was built beside the first takes its place. A moment.
SELECT swap_space_index(%(corpus_id)s, %(space_id)s);

-- name: corpus_counts
-- What a corpus holds, for `status`. Counts, so a scan of the corpus's rows.
SELECT count(*) FILTER (WHERE state = 'ready'), count(*) FILTER (WHERE state = 'empty'),
       count(*) FILTER (WHERE state = 'failed'), COALESCE(sum(proposition_count), 0)::bigint,
       (SELECT count(*) FROM entity WHERE corpus_id = %(corpus_id)s),
       (SELECT count(*) FROM incidence WHERE corpus_id = %(corpus_id)s)
FROM passage WHERE corpus_id = %(corpus_id)s;

-- name: failed_passages
-- The passages whose extraction failed, with the reason.
SELECT passage_key, reason FROM passage
WHERE corpus_id = %(corpus_id)s AND state = 'failed'
ORDER BY passage_key LIMIT %(fetch)s;

-- name: corpus_digest
-- A fingerprint of the passages of a corpus, kept beside every evaluation. Reads every passage's hash.
SELECT encode(sha256(convert_to(COALESCE(string_agg(
           passage_key || ' ' || encode(content_hash, 'hex') || ' ' || state, E'\n' ORDER BY passage_key),
           ''), 'UTF8')), 'hex')
FROM passage WHERE corpus_id = %(corpus_id)s;

-- name: analyze_corpus_tables
-- Fresh statistics after a bulk load.
SELECT analyze_corpus_tables();
