-- Keeps how an alert stands, if it stands as it was seen.
-- Index: the primary key. Lock: the row.
UPDATE alerts SET
    stage = $2, since = $3, value = $4, updated_at = $5, reported_at = $6, silenced_until = $7, definition = $8, episodes = $9, revision = revision + 1
WHERE id = $1 AND revision = $10;
