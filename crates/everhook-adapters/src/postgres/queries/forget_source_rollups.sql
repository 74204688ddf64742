-- Removes statistics of sources that are of minutes before one.
-- Index: source_rollups_by_age, the primary key. Lock: the rows.
DELETE FROM source_rollups r
USING (SELECT source_id, minute FROM source_rollups WHERE minute < $1 ORDER BY minute LIMIT $2) AS old
WHERE r.source_id = old.source_id AND r.minute = old.minute;
