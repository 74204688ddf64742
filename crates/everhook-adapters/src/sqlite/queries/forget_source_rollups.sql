-- Removes statistics of sources that are of minutes before one.
-- Index: source_rollups_by_age. Lock: the write lock.
DELETE FROM source_rollups
WHERE (source_id, minute) IN (SELECT source_id, minute FROM source_rollups WHERE minute < ?1 ORDER BY minute LIMIT ?2);
