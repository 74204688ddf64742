-- Adds outcomes of pieces to a running backfill that has as many as its reader knew, and counts them.
-- Index: the primary key. Lock: the row.
UPDATE operations
SET chunk_outcomes = chunk_outcomes || $3::text, done = done + $4, failed = failed + $5, skipped = skipped + $6
WHERE id = $1 AND kind = 'backfill' AND status = 'running' AND length(chunk_outcomes) = $2::bigint;
