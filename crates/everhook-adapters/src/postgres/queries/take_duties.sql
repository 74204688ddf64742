-- Takes those of these duties that are free.
-- Index: the primary key. Lock: the rows; those that another node takes at this moment are left to it.
UPDATE duties SET boot = $1
WHERE name IN (SELECT name FROM duties WHERE boot IS NULL AND name = ANY($2) ORDER BY name FOR UPDATE SKIP LOCKED)
RETURNING name;
