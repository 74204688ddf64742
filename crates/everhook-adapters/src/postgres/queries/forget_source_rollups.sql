-- Removes statistics of sources that are of minutes before one.
-- Index: source_rollups_by_age. Lock: the rows.
DELETE FROM source_rollups WHERE ctid = ANY (ARRAY(SELECT ctid FROM source_rollups WHERE minute < $1 ORDER BY minute LIMIT $2));
