-- name: find_answer
-- The newest answer to an identical call of the same tenant that has not expired: one index probe. Where there is
-- none, and the tenant shares its answers, that of another which does (see functions.sql). Sorted by time, which no
-- index gives, so that none but that of the keys is worth taking.
SELECT COALESCE(
    (SELECT answer FROM model_call
     WHERE tenant_id = %(tenant_id)s AND cache_key = %(key)s AND answer IS NOT NULL
       AND (%(days)s::integer = 0 OR called_at > now() - make_interval(days => %(days)s))
     ORDER BY called_at DESC LIMIT 1),
    CASE WHEN (SELECT shares_answers FROM tenant WHERE tenant_id = %(tenant_id)s)
         THEN shared_answer(%(tenant_id)s, %(key)s, %(days)s) END);

-- name: answered_keys
-- Which of these calls `find_answer` would answer: one index probe a key, or two.
SELECT DISTINCT cache_key FROM model_call
WHERE tenant_id = %(tenant_id)s AND cache_key = ANY (%(keys)s::text[]) AND answer IS NOT NULL
  AND (%(days)s::integer = 0 OR called_at > now() - make_interval(days => %(days)s))
UNION
SELECT given.key FROM unnest(%(keys)s::text[]) AS given (key)
WHERE (SELECT shares_answers FROM tenant WHERE tenant_id = %(tenant_id)s)
  AND shared_answer(%(tenant_id)s, given.key, %(days)s) IS NOT NULL;

-- name: insert_call
-- One call of a language model, after `share_log`. Its answer, and an error, which may quote one, are kept only
-- while its corpus is there and nothing was deleted since what it was asked about was read; of a passage also
-- where it still is in the corpus or its queue. A deletion that comes later takes them out. Two look-ups by key.
WITH held AS MATERIALIZED (
    SELECT corpus_id FROM corpus
    WHERE corpus_id = %(corpus_id)s
      AND (deletions = %(deletions)s
           OR EXISTS (SELECT FROM passage WHERE passage.corpus_id = %(corpus_id)s
                                            AND passage.passage_key = %(passage_key)s::text)
           OR EXISTS (SELECT FROM queued_passage WHERE queued_passage.corpus_id = %(corpus_id)s
                                                   AND queued_passage.passage_key = %(passage_key)s::text))
    FOR KEY SHARE
)
INSERT INTO model_call (tenant_id, corpus_id, corpus_name, passage_key, round_number, purpose, model,
                        prompt_version, prompt_hash, parameters, bytes_sent, tokens_in, tokens_out,
                        tokens_cached, cost, latency_s, attempts, cached, error, cache_key, answer)
SELECT %(tenant_id)s, %(corpus_id)s, %(corpus_name)s::text, %(passage_key)s::text, %(round_number)s::integer,
       %(purpose)s::text, %(model)s::text, %(prompt_version)s::text,
       CASE WHEN EXISTS (SELECT FROM held) THEN %(prompt_hash)s::text ELSE '' END,
       %(parameters)s::jsonb, %(bytes_sent)s::integer, %(tokens_in)s::integer, %(tokens_out)s::integer,
       %(tokens_cached)s::integer, %(cost)s::numeric, %(latency_s)s::double precision, %(attempts)s::integer,
       %(cached)s::boolean,
       CASE WHEN %(error)s::text = '' OR EXISTS (SELECT FROM held) THEN %(error)s::text
            ELSE 'deleted with its passage' END,
       CASE WHEN EXISTS (SELECT FROM held) THEN %(key)s::text ELSE '' END,
       CASE WHEN EXISTS (SELECT FROM held) THEN %(answer)s::text END
RETURNING call_id;

-- name: link_calls
-- Calls of a search to its row in the log, by their keys.
UPDATE model_call SET question_id = %(question_id)s
WHERE call_id = ANY (%(call_ids)s::bigint[]);

-- name: share_log
-- Before anything is written down that may quote a passage: a deletion under way is waited for, and the next one
-- waits for this transaction, so that it finds what was written. Many share it. First comes the gate of the corpus
-- (`share_gate`), whose row is shared next.
SELECT pg_advisory_xact_lock_shared(hashtextextended(format('evireform corpus %%s', %(corpus_id)s::bigint), 0)),
       pg_advisory_xact_lock_shared(hashtextextended(format('evireform log %%s', %(corpus_id)s::bigint), 0));

-- name: close_log
-- The same lock for a deletion, alone. It comes last, after those of passages and entities, and is soon given back.
SELECT pg_advisory_xact_lock(hashtextextended(format('evireform log %%s', %(corpus_id)s::bigint), 0));

-- name: count_deletion
-- Tell searches and extractions under way that something they read may be gone.
UPDATE corpus SET deletions = deletions + 1 WHERE corpus_id = %(corpus_id)s;

-- name: forget_passages
-- What models said about passages that are deleted: their answers, and errors, which may quote them. The counts
-- and the cost stay, under the keys of the passages.
UPDATE model_call
SET answer = NULL, cache_key = '', prompt_hash = '',
    error = CASE WHEN error = '' THEN '' ELSE 'deleted with its passage' END
WHERE tenant_id = (SELECT corpus.tenant_id FROM corpus WHERE corpus.corpus_id = %(corpus_id)s)
  AND corpus_id = %(corpus_id)s AND passage_key = ANY (%(passage_keys)s::text[])
  AND (answer IS NOT NULL OR error <> '' OR cache_key <> '' OR prompt_hash <> '');

-- name: forget_questions
-- Searches that had a deleted passage in hand: of their rows in the log stay question, method, settings and times,
-- and of their calls the counts and the cost. Found by the keys of the passages; the links to other passages stay,
-- for what is still asked about them.
WITH told AS MATERIALIZED (
    DELETE FROM question_passage
    WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (%(passage_keys)s::text[])
    RETURNING question_id
), emptied AS (
    UPDATE question_log
    SET candidates = '[]', selected = '[]', residual_queries = '[]', ranking = '[]', degraded = '[]',
        forgotten = true
    WHERE corpus_id = %(corpus_id)s AND question_id = ANY (ARRAY(SELECT told.question_id FROM told))
)
UPDATE model_call
SET answer = NULL, cache_key = '', prompt_hash = '',
    error = CASE WHEN error = '' THEN '' ELSE 'deleted with its passage' END
WHERE tenant_id = (SELECT corpus.tenant_id FROM corpus WHERE corpus.corpus_id = %(corpus_id)s)
  AND corpus_id = %(corpus_id)s AND question_id = ANY (ARRAY(SELECT told.question_id FROM told))
  AND (answer IS NOT NULL OR error <> '' OR cache_key <> '' OR prompt_hash <> '');

-- name: forget_unlogged
-- Calls of searches that are in no log: nobody knows what they quote, so that all of the corpus are emptied.
-- They have an index of their own.
UPDATE model_call
SET answer = NULL, cache_key = '', prompt_hash = '',
    error = CASE WHEN error = '' THEN '' ELSE 'deleted with its passage' END
WHERE tenant_id = (SELECT corpus.tenant_id FROM corpus WHERE corpus.corpus_id = %(corpus_id)s)
  AND corpus_id = %(corpus_id)s AND passage_key IS NULL AND question_id IS NULL
  AND (answer IS NOT NULL OR error NOT IN ('', 'deleted with its passage'));

-- name: forget_corpus
-- The same for everything that was asked about a corpus that is deleted.
UPDATE model_call
SET answer = NULL, cache_key = '', prompt_hash = '',
    error = CASE WHEN error = '' THEN '' ELSE 'deleted with its corpus' END
WHERE tenant_id = (SELECT corpus.tenant_id FROM corpus WHERE corpus.corpus_id = %(corpus_id)s)
  AND corpus_id = %(corpus_id)s
  AND (answer IS NOT NULL OR error <> '' OR cache_key <> '' OR prompt_hash <> '');

-- name: costs
-- Calls, tokens and money by corpus, passage, question, model, purpose, day or round. Reads every call of the
-- corpus (of all corpora: the ledger of the tenant) since the given time.
SELECT corpus_group, group_key, group_text,
       count(*),
       count(*) FILTER (WHERE cached),
       count(*) FILTER (WHERE failed),
       COALESCE(sum(tokens_in), 0)::bigint,
       COALESCE(sum(tokens_out), 0)::bigint,
       COALESCE(sum(tokens_cached), 0)::bigint,
       CASE WHEN bool_or(unpriced) THEN sum(cost) FILTER (WHERE NOT cached) ELSE COALESCE(sum(cost), 0) END,
       count(*) FILTER (WHERE unpriced),
       sum(latency_s)
FROM (SELECT CASE WHEN %(by)s IN ('passage', 'question') THEN corpus ELSE '' END AS corpus_group,
             CASE %(by)s WHEN 'corpus' THEN corpus
                         WHEN 'passage' THEN COALESCE(passage_key, '')
                         WHEN 'question' THEN COALESCE(question_id::text, '')
                         WHEN 'model' THEN model
                         WHEN 'purpose' THEN purpose
                         WHEN 'day' THEN day::text
                         WHEN 'round' THEN round_number::text END AS group_key,
             CASE WHEN %(by)s = 'question' THEN COALESCE(question, '') ELSE '' END AS group_text,
             call_cost.*
      FROM call_cost
      WHERE tenant_id = %(tenant_id)s AND (%(corpus)s::text IS NULL OR corpus = %(corpus)s)
        AND (%(since)s::timestamptz IS NULL OR called_at >= %(since)s)) AS grouped
GROUP BY corpus_group, group_key, group_text
ORDER BY corpus_group, CASE WHEN %(by)s IN ('day', 'round') THEN group_key END,
         sum(tokens_in) + sum(tokens_out) DESC NULLS LAST, group_key;

-- name: extraction_rates
-- What the last extractions by a model and a prompt took beside what was sent, in one corpus or in all of the
-- tenant's. Repairs count what they took, but sent nothing new. The last column counts the first calls about
-- passages whose last call was usable. Reads backwards until it has enough: all of the ledger where there is little.
SELECT count(*), count(bytes_sent), COALESCE(sum(bytes_sent), 0)::bigint, COALESCE(sum(tokens_in), 0)::bigint,
       COALESCE(sum(tokens_out), 0)::bigint, COALESCE(sum(tokens_cached), 0)::bigint,
       count(bytes_sent) FILTER (WHERE last_error = '')
FROM (SELECT bytes_sent, tokens_in, tokens_out, tokens_cached,
             first_value(error) OVER (PARTITION BY corpus_id, passage_key ORDER BY call_id DESC) AS last_error
      FROM model_call
      WHERE tenant_id = %(tenant_id)s AND (%(corpus_id)s::bigint IS NULL OR corpus_id = %(corpus_id)s)
        AND purpose = 'extract' AND model = %(model)s AND prompt_version = %(prompt_version)s
        AND NOT cached AND tokens_in IS NOT NULL AND tokens_out IS NOT NULL
      ORDER BY call_id DESC LIMIT %(fetch)s) AS latest;
