-- Was an organization deleted? One that is not there yet was not.
-- Index: the primary key. Lock: the write lock, taken by the caller.
SELECT 1 FROM organizations WHERE id = ?1 AND deleted_at IS NOT NULL;
