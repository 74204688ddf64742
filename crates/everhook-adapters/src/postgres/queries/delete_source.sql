-- Deletes a source, and forgets what happened there; was there one?
-- Index: the primary key; the primary key of source_activity. Lock: the rows.
WITH gone AS (DELETE FROM sources WHERE organization_id = $1 AND id = $2 RETURNING id),
    activity AS (DELETE FROM source_activity WHERE source_id IN (SELECT id FROM gone))
SELECT id FROM gone;
