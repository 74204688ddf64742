-- Gives duties free that a boot holds.
-- Index: the primary key. Lock: the rows.
UPDATE duties SET boot = NULL WHERE boot = $1 AND name = ANY($2);
