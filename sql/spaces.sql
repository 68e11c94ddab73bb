-- name: unembedded_propositions
-- The next propositions behind an id, in id order, whose vector a space does not hold, with all that embedding them
-- needs. One walk along the key with one look-up in the space a proposition: the sub-select with its LIMIT is never
-- turned into a join, which without statistics might read the whole space for every page.
SELECT proposition.proposition_id, proposition.passage_id, passage.content_hash, passage.title, proposition.body
FROM proposition
JOIN passage ON passage.corpus_id = proposition.corpus_id AND passage.passage_id = proposition.passage_id
WHERE proposition.corpus_id = %(corpus_id)s AND proposition.proposition_id > %(after)s
  AND (SELECT true FROM embedding
       WHERE embedding.corpus_id = %(corpus_id)s AND embedding.space_id = %(space_id)s
         AND embedding.item_id = proposition.proposition_id
       LIMIT 1) IS NULL
ORDER BY proposition.proposition_id
LIMIT %(fetch)s;

-- name: unembedded_passages
-- The same for passages and a space of theirs.
SELECT passage.passage_id, passage.passage_id, passage.content_hash, passage.title, passage.body
FROM passage
WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_id > %(after)s
  AND (SELECT true FROM embedding
       WHERE embedding.corpus_id = %(corpus_id)s AND embedding.space_id = %(space_id)s
         AND embedding.item_id = passage.passage_id
       LIMIT 1) IS NULL
ORDER BY passage.passage_id
LIMIT %(fetch)s;

-- name: share_passages
-- Keep passages as they are while vectors of theirs are written: whoever changes or deletes one waits, and then finds
-- the vectors to take out. Gives those that still exist. Locked in key order, as every writer does.
SELECT passage_id, content_hash FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_id = ANY (%(passage_ids)s::bigint[])
ORDER BY passage_key
FOR SHARE;

-- name: vectors_to_write
-- Which of these items exist and have no vector in a space: after `share_passages`, so that it stays true.
SELECT item.item_id
FROM unnest(%(item_ids)s::bigint[]) AS item (item_id)
WHERE CASE %(kind)s::text
          WHEN 'proposition' THEN EXISTS (
              SELECT FROM proposition
              WHERE proposition.corpus_id = %(corpus_id)s AND proposition.proposition_id = item.item_id)
          ELSE EXISTS (
              SELECT FROM passage
              WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_id = item.item_id)
      END
  AND NOT EXISTS (
      SELECT FROM embedding
      WHERE embedding.corpus_id = %(corpus_id)s AND embedding.space_id = %(space_id)s
        AND embedding.item_id = item.item_id);

-- name: fill_embeddings
-- `insert_embeddings` for who fills a space, in the order of the ids: what somebody else who fills it wrote first stays.
-- Gives the items that were written.
INSERT INTO embedding (corpus_id, space_id, item_id, tenant_id, embedding)
SELECT %(corpus_id)s, %(space_id)s, given.item_id, %(tenant_id)s, given.vector
FROM unnest(%(item_ids)s::bigint[], %(vectors)s::halfvec[]) AS given (item_id, vector)
ORDER BY given.item_id
ON CONFLICT DO NOTHING
RETURNING item_id;

-- name: space_counts
-- How many items a space should hold, how many vectors it does hold, and the size of its index in bytes. Counts, so it
-- reads the keys of both.
SELECT CASE %(kind)s::text
           WHEN 'proposition' THEN (SELECT count(*) FROM proposition WHERE corpus_id = %(corpus_id)s)
           ELSE (SELECT count(*) FROM passage WHERE corpus_id = %(corpus_id)s) END,
       (SELECT count(*) FROM embedding WHERE corpus_id = %(corpus_id)s AND space_id = %(space_id)s),
       COALESCE(pg_relation_size(to_regclass(
           format('ix_embedding_%%s_%%s_hnsw', %(corpus_id)s::bigint, %(space_id)s::bigint))), 0);

-- name: sampled_items
-- Some items of a space, always the same ones while it is not changed. Reads the keys of the space.
SELECT item_id FROM embedding
WHERE corpus_id = %(corpus_id)s AND space_id = %(space_id)s
ORDER BY hashint8extended(item_id, 0), item_id
LIMIT %(fetch)s;

-- name: stored_vectors
-- Vectors of a space by item. Look-ups by key.
SELECT item_id, embedding::real[] FROM embedding
WHERE corpus_id = %(corpus_id)s AND space_id = %(space_id)s AND item_id = ANY (%(item_ids)s::bigint[])
ORDER BY item_id;

-- name: nearest_items
-- The items nearest to each vector, as `candidates` finds them, and nothing else: to measure what the index finds.
WITH question AS MATERIALIZED (
    SELECT number,
           (%(vectors)s::real[])[(number - 1) * %(dimensions)s + 1 : number * %(dimensions)s]::halfvec({d}) AS vector
    FROM generate_series(1, cardinality(%(vectors)s::real[]) / %(dimensions)s::integer) AS number
)
SELECT question.number - 1, near.item_id, -near.distance
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
) AS near;

-- name: save_recall
-- What a measurement of the index of a space found, for `doctor`.
UPDATE vector_space
SET recall = %(recall)s, recall_breadth = %(breadth)s, recall_vectors = %(vectors)s, recall_at = now()
WHERE corpus_id = %(corpus_id)s AND space_id = %(space_id)s;

-- name: saved_recall
-- The last measurement of each space of a corpus, where there was one.
SELECT space_id, recall, recall_breadth, recall_at FROM vector_space
WHERE corpus_id = %(corpus_id)s AND recall IS NOT NULL;

-- name: delete_space
-- A space that no search uses; its partition goes next.
DELETE FROM vector_space WHERE corpus_id = %(corpus_id)s AND space_id = %(space_id)s;
