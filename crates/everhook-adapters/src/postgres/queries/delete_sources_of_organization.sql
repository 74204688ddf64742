-- Deletes the sources of a deleted organization, and forgets what happened there; which were there?
-- Index: sources_by_organization, of which there are at most a thousand; the primary key of source_activity. Lock: the rows.
WITH gone AS (DELETE FROM sources WHERE organization_id = $1 RETURNING id),
    activity AS (DELETE FROM source_activity WHERE source_id IN (SELECT id FROM gone))
SELECT id FROM gone;
