-- Ends a boot and frees all that it held.
-- Index: the primary keys. Lock: the rows; waits for settlements of its own that are under way.
WITH ended AS (
    DELETE FROM boots WHERE id = $1
), freed_shards AS (
    UPDATE shards SET boot = NULL WHERE boot = $1
)
UPDATE duties SET boot = NULL WHERE boot = $1;
