-- Takes those of these duties that nobody holds, or a boot that is over.
-- Index: the primary keys. Lock: the rows; those that another node takes at this moment are left to it.
UPDATE duties SET boot = $1
WHERE name IN (
    SELECT name FROM duties d
    WHERE d.name = ANY($2) AND (d.boot IS NULL OR NOT EXISTS (SELECT 1 FROM boots b WHERE b.id = d.boot))
    ORDER BY name
    FOR UPDATE SKIP LOCKED
)
RETURNING name;
