-- How many bytes of configuration do an application's endpoints have, and how many of them does this one have? A deleted one has none.
-- Index: the primary keys. Lock: the write lock, taken by the caller.
SELECT a.config_bytes AS of_application,
    COALESCE((SELECT e.config_bytes FROM endpoints e WHERE e.id = ?2 AND e.state <> 'deleted'), 0) AS of_endpoint
FROM applications a
WHERE a.id = ?1;
