-- Gives shards free that a boot holds.
-- Index: the primary key. Lock: the rows.
UPDATE shards SET boot = NULL WHERE pool = $3 AND boot = $1 AND number = ANY($2);
