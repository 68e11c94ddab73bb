-- name: lock_corpora
-- Keep every writer of some corpora out until the transaction ends, in the order of their ids, after `close_gate`;
-- each with the name that it has by now.
SELECT corpus_id, name FROM corpus
WHERE corpus_id = ANY (%(corpus_ids)s::bigint[])
ORDER BY corpus_id
FOR UPDATE;

-- name: hold_corpora
-- As `hold_corpus`, for a transaction that works on several: in the order of their ids.
SELECT corpus_id, name FROM corpus
WHERE corpus_id = ANY (%(corpus_ids)s::bigint[])
ORDER BY corpus_id
FOR KEY SHARE;

-- name: passages_after
-- A page of passages in key order from a key on, with all that extracting them anew needs.
SELECT passage_key, title, body, metadata FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_key > %(after)s::text
ORDER BY passage_key
LIMIT %(fetch)s;

-- name: prints_after
-- A page of passages in key order from a key on, as fingerprints that are equal where title, text and metadata
-- are: of one corpus alone, so that two that lie on different servers can be compared. Reads every text.
SELECT passage_key,
       sha256(convert_to(title, 'UTF8') || '\x00'::bytea || convert_to(body, 'UTF8'))
           || int8send(jsonb_hash_extended(metadata, 0)),
       state
FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_key > %(after)s::text
ORDER BY passage_key
LIMIT %(fetch)s;

-- name: keys_after
-- A page of keys with the ids of their passages, in order from a key on.
SELECT passage_key, passage_id FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_key > %(after)s::text
ORDER BY passage_key
LIMIT %(fetch)s;

-- name: keys_there
-- Which of some keys a corpus has a passage under: a probe each.
SELECT passage_key FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (%(passage_keys)s::text[]);

-- name: passages_waiting
-- How many passages of a corpus wait for a worker, or are with one.
SELECT count(*) FROM queued_passage WHERE corpus_id = %(corpus_id)s;

-- name: decisions_after
-- A page of the decisions about a corpus's entities, in the order of their keys.
SELECT canonical, passage_key, target FROM entity_decision
WHERE corpus_id = %(corpus_id)s AND (canonical, passage_key) > (%(canonical)s::text, %(passage_key)s::text)
ORDER BY canonical, passage_key
LIMIT %(fetch)s;
