-- Replaces what is sealed of a channel by the same, sealed otherwise, unless somebody changed it.
-- Index: the primary key. Lock: the row.
UPDATE channels SET credentials = $2 WHERE id = $1 AND credentials = $3;
