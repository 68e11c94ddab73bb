-- name: export_passages
-- A page of passages in key order from a key on, whole.
SELECT passage_id, passage_key, title, body, metadata, state, reason, content_hash FROM passage
WHERE corpus_id = %(corpus_id)s AND passage_key > %(after)s::text
ORDER BY passage_key
LIMIT %(fetch)s;

-- name: export_propositions
-- The propositions of some passages.
SELECT passage_id, ordinal, proposition_id, body, span_start, span_end FROM proposition
WHERE corpus_id = %(corpus_id)s AND passage_id = ANY (%(passage_ids)s::bigint[])
ORDER BY passage_id, ordinal;

-- name: export_mentions
-- The mentions of some propositions, in the order of their forms, with the entities that they stand for.
SELECT mention.proposition_id, mention.form, entity.canonical
FROM mention
JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = mention.entity_id
WHERE mention.corpus_id = %(corpus_id)s AND mention.proposition_id = ANY (%(proposition_ids)s::bigint[])
ORDER BY mention.proposition_id, mention.form;

-- name: export_entities
-- A page of entities in canonical order from one on.
SELECT canonical, display, degree FROM entity
WHERE corpus_id = %(corpus_id)s AND canonical > %(after)s::text
ORDER BY canonical
LIMIT %(fetch)s;

-- name: export_vectors
-- The vectors of some items in one space.
SELECT item_id, embedding FROM embedding
WHERE corpus_id = %(corpus_id)s AND space_id = %(space_id)s AND item_id = ANY (%(item_ids)s::bigint[]);
