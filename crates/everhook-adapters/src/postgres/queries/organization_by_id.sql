-- Which organization has this id?
-- Index: the primary key. Lock: none.
SELECT id, uid, name, created_at, limits, worker_pool, admin_emails FROM organizations WHERE id = $1 AND deleted_at IS NULL;
