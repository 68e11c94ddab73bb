-- The queue: passages that wait for a worker. A row is on lease while leased_until lies ahead of the server's
-- clock. Its ticket is its turn, and new whenever its text is: who holds a lease on an older ticket has lost it.
-- Locked after the corpus and before its passages, in key order.

-- name: lock_queued
-- Lock, in key order, the rows of some keys before it is decided what becomes of them. One index probe a key.
SELECT passage_key, ticket FROM queued_passage
WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (%(passage_keys)s::text[])
ORDER BY passage_key
FOR UPDATE;

-- name: enqueue_passages
-- Let passages wait; one that waits already is replaced where anything differs, and then begins anew: its leases
-- are void. What waits as it is given is not returned. One index probe a key.
INSERT INTO queued_passage (corpus_id, tenant_id, passage_key, title, body, metadata, extraction)
SELECT %(corpus_id)s, %(tenant_id)s, given.passage_key, given.title, given.body, given.metadata::jsonb,
       given.extraction::jsonb
FROM unnest(%(passage_keys)s::text[], %(titles)s::text[], %(bodies)s::text[], %(metadata)s::text[],
            %(extractions)s::text[])
     AS given (passage_key, title, body, metadata, extraction)
ORDER BY given.passage_key COLLATE "C"
ON CONFLICT (corpus_id, passage_key) DO UPDATE
SET title = excluded.title, body = excluded.body, metadata = excluded.metadata,
    extraction = excluded.extraction, ticket = excluded.ticket, attempts = 0, reason = '', worker_id = NULL,
    leased_until = NULL, queued_at = now()
WHERE (queued_passage.title, queued_passage.body, queued_passage.metadata, queued_passage.extraction)
      IS DISTINCT FROM (excluded.title, excluded.body, excluded.metadata, excluded.extraction)
RETURNING passage_key, xmax <> 0 AS existed;

-- name: withdraw_queued
-- Take passages out of the queue, whoever has them on lease. One index probe a key.
WITH locked AS MATERIALIZED (
    SELECT passage_key FROM queued_passage
    WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (%(passage_keys)s::text[])
    ORDER BY passage_key
    FOR UPDATE
)
DELETE FROM queued_passage
WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (ARRAY(SELECT locked.passage_key FROM locked))
RETURNING passage_key;

-- name: withdraw_seen
-- Take passages out of the queue that wait under the tickets they were seen with; what was queued since stays. One
-- index probe a key.
WITH locked AS MATERIALIZED (
    SELECT queued.passage_key
    FROM queued_passage AS queued
    JOIN unnest(%(passage_keys)s::text[], %(tickets)s::bigint[]) AS given (passage_key, ticket)
      ON given.passage_key = queued.passage_key AND given.ticket = queued.ticket
    WHERE queued.corpus_id = %(corpus_id)s AND queued.passage_key = ANY (%(passage_keys)s::text[])
    ORDER BY queued.passage_key
    FOR UPDATE OF queued
)
DELETE FROM queued_passage
WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (ARRAY(SELECT locked.passage_key FROM locked));

-- name: claim_queued
-- Take the next passages on lease: those tried least, in the order of their tickets. Rows that another worker is
-- looking at are passed over, so that no worker waits. Reads the index from its beginning, past what is on lease.
WITH chosen AS MATERIALIZED (
    SELECT passage_key FROM queued_passage
    WHERE corpus_id = %(corpus_id)s AND (leased_until IS NULL OR leased_until < now())
    ORDER BY attempts, ticket
    LIMIT %(fetch)s
    FOR UPDATE SKIP LOCKED
)
UPDATE queued_passage
SET worker_id = %(worker_id)s, leased_until = now() + make_interval(secs => %(lease_s)s), attempts = attempts + 1
WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (ARRAY(SELECT chosen.passage_key FROM chosen))
RETURNING passage_key, title, body, metadata, extraction, ticket, attempts, reason;

-- name: extend_leases
-- A worker's heartbeat: what it has in hand stays on lease. Rows that somebody is changing are passed over; the
-- next beat finds them. One index probe a key.
WITH held AS MATERIALIZED (
    SELECT passage_key FROM queued_passage
    WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (%(passage_keys)s::text[])
      AND worker_id = %(worker_id)s
    FOR UPDATE SKIP LOCKED
)
UPDATE queued_passage SET leased_until = now() + make_interval(secs => %(lease_s)s)
WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (ARRAY(SELECT held.passage_key FROM held));

-- name: lock_held
-- Lock, in key order, what a worker still holds of some passages: not replaced, deleted, or taken over.
SELECT queued.passage_key
FROM queued_passage AS queued
JOIN unnest(%(passage_keys)s::text[], %(tickets)s::bigint[]) AS given (passage_key, ticket)
  ON given.passage_key = queued.passage_key AND given.ticket = queued.ticket
WHERE queued.corpus_id = %(corpus_id)s AND queued.passage_key = ANY (%(passage_keys)s::text[])
  AND queued.worker_id = %(worker_id)s
ORDER BY queued.passage_key
FOR UPDATE OF queued;

-- name: give_back_queued
-- Give back what a worker still holds of some passages, as if it had not taken them. It waits for nobody, for the
-- corpus may be locked, and holds nothing else: rows that somebody is changing are passed over, and their leases
-- end by themselves. One index probe a key.
WITH held AS MATERIALIZED (
    SELECT queued.passage_key
    FROM queued_passage AS queued
    JOIN unnest(%(passage_keys)s::text[], %(tickets)s::bigint[]) AS given (passage_key, ticket)
      ON given.passage_key = queued.passage_key AND given.ticket = queued.ticket
    WHERE queued.corpus_id = %(corpus_id)s AND queued.passage_key = ANY (%(passage_keys)s::text[])
      AND queued.worker_id = %(worker_id)s
    FOR UPDATE OF queued SKIP LOCKED
)
UPDATE queued_passage SET worker_id = NULL, leased_until = NULL, attempts = attempts - 1
WHERE corpus_id = %(corpus_id)s AND passage_key = ANY (ARRAY(SELECT held.passage_key FROM held));

-- name: return_queued
-- Give passages back that `lock_held` locked, with the reason why the attempt failed.
UPDATE queued_passage
SET worker_id = NULL, leased_until = NULL, reason = given.reason
FROM unnest(%(passage_keys)s::text[], %(reasons)s::text[]) AS given (passage_key, reason)
WHERE queued_passage.corpus_id = %(corpus_id)s AND queued_passage.passage_key = ANY (%(passage_keys)s::text[])
  AND queued_passage.passage_key = given.passage_key;

-- name: queues
-- Which of some corpora have passages waiting, and whether any of them is to be had now. Two index probes a
-- corpus, and a step for every row on lease.
SELECT corpus.corpus_id,
       EXISTS (SELECT FROM queued_passage AS queued
               WHERE queued.corpus_id = corpus.corpus_id
                 AND (queued.leased_until IS NULL OR queued.leased_until < now()))
FROM corpus
WHERE corpus.corpus_id = ANY (%(corpus_ids)s::bigint[])
  AND EXISTS (SELECT FROM queued_passage AS queued WHERE queued.corpus_id = corpus.corpus_id)
ORDER BY corpus.name;

-- name: queue_counts
-- What waits in a corpus, what is on lease of it, and what of it was tried before. Reads the corpus's queue.
SELECT count(*) FILTER (WHERE leased_until IS NULL OR leased_until < now()),
       count(*) FILTER (WHERE leased_until >= now()),
       count(*) FILTER (WHERE reason <> '')
FROM queued_passage WHERE corpus_id = %(corpus_id)s;

-- name: passage_progress
-- The passages of a corpus by state, how many were written in the last minute, and how long the first of those
-- is ago (at least a second). Counts, so a scan of the corpus's passages.
SELECT count(*) FILTER (WHERE state = 'ready'), count(*) FILTER (WHERE state = 'empty'),
       count(*) FILTER (WHERE state = 'failed'),
       count(*) FILTER (WHERE updated_at > now() - interval '1 minute'),
       GREATEST(extract(epoch FROM now() - (min(updated_at)
                                            FILTER (WHERE updated_at > now() - interval '1 minute'))),
                1.0)::double precision
FROM passage WHERE corpus_id = %(corpus_id)s;

-- name: add_worker
-- Sign a worker on.
INSERT INTO worker (tenant_id, host, process) VALUES (%(tenant_id)s, %(host)s, %(process)s) RETURNING worker_id;

-- name: see_worker
-- A worker is alive.
UPDATE worker SET seen_at = now() WHERE worker_id = %(worker_id)s;

-- name: count_work
-- What a worker has just written, in the same transaction.
UPDATE worker
SET seen_at = now(), written = written + %(written)s::integer, failed = failed + %(failed)s::integer
WHERE worker_id = %(worker_id)s;

-- name: drop_worker
-- Sign a worker off; with it those of its tenant that have not been heard of for a day.
DELETE FROM worker
WHERE tenant_id = %(tenant_id)s AND (worker_id = %(worker_id)s OR seen_at < now() - interval '1 day');

-- name: workers
-- Who works on the queue of a tenant, with the seconds since each was last seen. Reads a table of a few rows.
SELECT worker_id, host, process, started_at, extract(epoch FROM now() - seen_at)::double precision, written, failed
FROM worker WHERE tenant_id = %(tenant_id)s ORDER BY worker_id;
