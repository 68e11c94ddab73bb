-- name: entity_decisions
-- The operators' decisions that tell what names stand for: of the names, and of what they lead to; those of
-- some passages, or of all. Without any decision in the corpus one probe, whatever the number of names; with
-- some, one probe for every name and every step.
WITH RECURSIVE reached AS (
    SELECT unnest(%(canonicals)s::text[]) COLLATE "C" AS canonical
    WHERE EXISTS (SELECT FROM entity_decision WHERE entity_decision.corpus_id = %(corpus_id)s)
    UNION
    SELECT decision.target
    FROM reached
    JOIN entity_decision AS decision
      ON decision.corpus_id = %(corpus_id)s AND decision.canonical = reached.canonical
     AND (%(all_passages)s OR decision.passage_key = ANY (%(passage_keys)s::text[]))
)
SELECT decision.canonical, decision.passage_key, decision.target
FROM entity_decision AS decision
WHERE decision.corpus_id = %(corpus_id)s
  AND decision.canonical = ANY (ARRAY(SELECT reached.canonical FROM reached))
  AND (%(all_passages)s OR decision.passage_key = ANY (%(passage_keys)s::text[]));

-- name: entity_forms
-- The surface forms of an entity, the most frequent first: its own few rows.
SELECT form, mention_count FROM entity_form
WHERE corpus_id = %(corpus_id)s AND entity_id = %(entity_id)s
ORDER BY mention_count DESC, form;

-- name: move_mentions
-- Let the mentions of one entity stand for others, by form, with exceptions by form and passage, and bring
-- along what derives from them: forms, incidence, counts of passages. A pair that both entities had becomes one.
-- Gives what moved (entity null), and how many propositions each entity gained and lost. Costs what the entity
-- has: its mentions, and the mentions, incidence and passages of the propositions that move.
WITH by_form AS MATERIALIZED (
    SELECT given.form COLLATE "C" AS form, given.entity_id
    FROM unnest(%(forms)s::text[], %(form_entity_ids)s::bigint[]) AS given (form, entity_id)
), by_passage AS MATERIALIZED (
    SELECT proposition.proposition_id, given.form COLLATE "C" AS form, given.entity_id
    FROM unnest(%(exception_keys)s::text[], %(exception_forms)s::text[], %(exception_entity_ids)s::bigint[])
        AS given (passage_key, form, entity_id)
    JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_key = given.passage_key
    JOIN proposition ON proposition.corpus_id = %(corpus_id)s
                    AND proposition.passage_id = passage.passage_id
    WHERE passage.passage_key = ANY (%(exception_keys)s::text[])
), moved AS MATERIALIZED (
    SELECT mention.proposition_id, mention.form, COALESCE(by_passage.entity_id, by_form.entity_id) AS entity_id
    FROM mention
    JOIN by_form USING (form)
    LEFT JOIN by_passage USING (proposition_id, form)
    WHERE mention.corpus_id = %(corpus_id)s AND mention.entity_id = %(entity_id)s
      AND COALESCE(by_passage.entity_id, by_form.entity_id) <> mention.entity_id
), place AS MATERIALIZED (
    SELECT proposition_id, passage_id FROM proposition
    WHERE corpus_id = %(corpus_id)s AND proposition_id = ANY (ARRAY(SELECT moved.proposition_id FROM moved))
), mentions AS (
    UPDATE mention SET entity_id = moved.entity_id
    FROM moved
    WHERE mention.corpus_id = %(corpus_id)s AND mention.entity_id = %(entity_id)s
      AND mention.proposition_id = moved.proposition_id AND mention.form = moved.form
), forms_gained AS (
    INSERT INTO entity_form (corpus_id, tenant_id, entity_id, form, mention_count)
    SELECT %(corpus_id)s, %(tenant_id)s, moved.entity_id, moved.form, count(*)
    FROM moved GROUP BY moved.entity_id, moved.form
    ON CONFLICT (corpus_id, entity_id, form)
    DO UPDATE SET mention_count = entity_form.mention_count + excluded.mention_count
), forms_lost AS (
    UPDATE entity_form SET mention_count = entity_form.mention_count - fewer.mention_count
    FROM (SELECT moved.form, count(*) AS mention_count FROM moved GROUP BY moved.form) AS fewer
    WHERE entity_form.corpus_id = %(corpus_id)s AND entity_form.entity_id = %(entity_id)s
      AND entity_form.form = fewer.form
), gone AS MATERIALIZED (
    SELECT moved.proposition_id FROM moved
    EXCEPT
    SELECT kept.proposition_id
    FROM (SELECT mention.proposition_id, mention.form FROM mention
          WHERE mention.corpus_id = %(corpus_id)s AND mention.entity_id = %(entity_id)s
            AND mention.proposition_id = ANY (ARRAY(SELECT moved.proposition_id FROM moved))
          EXCEPT
          SELECT moved.proposition_id, moved.form FROM moved) AS kept
), lost AS (
    DELETE FROM incidence
    WHERE corpus_id = %(corpus_id)s AND entity_id = %(entity_id)s
      AND proposition_id = ANY (ARRAY(SELECT gone.proposition_id FROM gone))
    RETURNING proposition_id, entity_id
), gained AS (
    INSERT INTO incidence (corpus_id, tenant_id, proposition_id, entity_id)
    SELECT DISTINCT %(corpus_id)s::bigint, %(tenant_id)s::bigint, moved.proposition_id, moved.entity_id
    FROM moved
    ON CONFLICT (corpus_id, proposition_id, entity_id) DO NOTHING
    RETURNING proposition_id, entity_id
), fewer AS MATERIALIZED (
    SELECT place.passage_id, count(*)::integer AS number
    FROM lost JOIN place USING (proposition_id) GROUP BY place.passage_id
), more AS MATERIALIZED (
    SELECT gained.entity_id, place.passage_id, count(*)::integer AS number
    FROM gained JOIN place USING (proposition_id) GROUP BY gained.entity_id, place.passage_id
), counts_gone AS (
    DELETE FROM passage_entity
    USING fewer
    WHERE passage_entity.corpus_id = %(corpus_id)s AND passage_entity.entity_id = %(entity_id)s
      AND passage_entity.passage_id = fewer.passage_id
      AND passage_entity.proposition_count = fewer.number
), counts_lost AS (
    UPDATE passage_entity SET proposition_count = passage_entity.proposition_count - fewer.number
    FROM fewer
    WHERE passage_entity.corpus_id = %(corpus_id)s AND passage_entity.entity_id = %(entity_id)s
      AND passage_entity.passage_id = fewer.passage_id
      AND passage_entity.proposition_count > fewer.number
), counts_gained AS (
    INSERT INTO passage_entity (corpus_id, tenant_id, entity_id, passage_id, proposition_count, passage_size)
    SELECT %(corpus_id)s, %(tenant_id)s, more.entity_id, more.passage_id, more.number,
           passage.proposition_count
    FROM more
    JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_id = more.passage_id
    ON CONFLICT (corpus_id, entity_id, passage_id)
    DO UPDATE SET proposition_count = passage_entity.proposition_count + excluded.proposition_count
)
SELECT NULL::bigint, (SELECT count(DISTINCT moved.proposition_id)::integer FROM moved),
       (SELECT count(DISTINCT place.passage_id)::integer FROM place)
UNION ALL
SELECT gained.entity_id, count(*)::integer, NULL FROM gained GROUP BY gained.entity_id
UNION ALL
SELECT lost.entity_id, -count(*)::integer, NULL FROM lost GROUP BY lost.entity_id;

-- name: entity_tree
-- Every name that stands for one, itself included, by decisions that hold everywhere: a probe a name.
WITH RECURSIVE tree AS (
    SELECT %(canonical)s::text COLLATE "C" AS canonical
    UNION
    SELECT decision.canonical
    FROM tree
    JOIN entity_decision AS decision
      ON decision.corpus_id = %(corpus_id)s AND decision.target = tree.canonical AND decision.passage_key = ''
)
SELECT canonical FROM tree;

-- name: decisions_about
-- The decisions that names are part of, on either side, in the order of their names: two probes a name.
SELECT canonical, target, passage_key, decided_by, decided_at
FROM entity_decision
WHERE corpus_id = %(corpus_id)s
  AND (canonical = ANY (%(canonicals)s::text[]) OR target = ANY (%(canonicals)s::text[]))
ORDER BY canonical, passage_key;

-- name: entity_log
-- What was decided about entities and taken back, the newest first; about some names, or about all. Reads the
-- corpus's log, which operators write by hand.
SELECT log_id, action, canonical, target, passage_key, decided_by, decided_at
FROM entity_log
WHERE corpus_id = %(corpus_id)s
  AND (%(all_names)s OR canonical = ANY (%(canonicals)s::text[]) OR target = ANY (%(canonicals)s::text[]))
ORDER BY log_id DESC
LIMIT %(fetch)s;

-- name: forget_decisions
-- What was decided about deleted passages, and the log of it: two probes where nothing was.
WITH log AS (
    DELETE FROM entity_log
    WHERE corpus_id = %(corpus_id)s AND passage_key <> '' AND passage_key = ANY (%(passage_keys)s::text[])
)
DELETE FROM entity_decision
WHERE corpus_id = %(corpus_id)s AND passage_key <> '' AND passage_key = ANY (%(passage_keys)s::text[]);

-- name: find_entities
-- Entities by canonical form: a probe each.
SELECT canonical, entity_id, display, degree, max_weight FROM entity
WHERE corpus_id = %(corpus_id)s AND canonical = ANY (%(canonicals)s::text[]);

-- name: near_entities
-- Entities that share a word or a beginning with a name that no entity has, the most named first. Reads the
-- names of the corpus's entities once.
SELECT canonical FROM entity
WHERE corpus_id = %(corpus_id)s
  AND (starts_with(canonical, %(beginning)s::text)
       OR string_to_array(canonical, ' ') && %(words)s::text[])
ORDER BY degree DESC, canonical
LIMIT %(fetch)s;

-- name: entity_passages
-- The passages that name an entity, those that do so most first, and how many there are. Reads the entity's
-- passages.
SELECT passage.passage_key, passage.title, named.proposition_count, named.passage_size,
       count(*) OVER ()
FROM passage_entity AS named
JOIN passage ON passage.corpus_id = %(corpus_id)s AND passage.passage_id = named.passage_id
WHERE named.corpus_id = %(corpus_id)s AND named.entity_id = %(entity_id)s
ORDER BY named.proposition_count DESC, passage.passage_key
LIMIT %(fetch)s;

-- name: entity_neighbours
-- The entities that share propositions with an entity, those that share most first, and how many there are.
-- Reads the incidence of its propositions.
SELECT entity.canonical, entity.display, entity.degree, shared.number, shared.total
FROM (SELECT beside.entity_id, count(*)::integer AS number, count(*) OVER () AS total
      FROM incidence AS own
      JOIN incidence AS beside ON beside.corpus_id = %(corpus_id)s
                              AND beside.proposition_id = own.proposition_id
      WHERE own.corpus_id = %(corpus_id)s AND own.entity_id = %(entity_id)s
        AND beside.entity_id <> %(entity_id)s
      GROUP BY beside.entity_id) AS shared
JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = shared.entity_id
ORDER BY shared.number DESC, entity.canonical
LIMIT %(fetch)s;

-- name: passages_naming
-- Which of some passages name any of some entities: a probe each.
SELECT DISTINCT passage.passage_key FROM passage
JOIN passage_entity AS named ON named.corpus_id = %(corpus_id)s AND named.passage_id = passage.passage_id
JOIN entity ON entity.corpus_id = %(corpus_id)s AND entity.entity_id = named.entity_id
WHERE passage.corpus_id = %(corpus_id)s AND passage.passage_key = ANY (%(passage_keys)s::text[])
  AND entity.canonical = ANY (%(canonicals)s::text[]);

-- name: entity_names
-- The names of all entities, the most named first. Reads the entities of the corpus once.
SELECT canonical, degree FROM entity WHERE corpus_id = %(corpus_id)s ORDER BY degree DESC, canonical;
