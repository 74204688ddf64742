-- Which organizations are there between two ids, newest first (a page backward: oldest first)?
-- Index: the primary key. Lock: none.
SELECT id, uid, name, created_at, limits, worker_pool, admin_emails FROM organizations
WHERE id > $1 AND id < $2 AND deleted_at IS NULL
ORDER BY id DESC
LIMIT $3;
