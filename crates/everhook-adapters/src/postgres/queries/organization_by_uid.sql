-- Which organization has this uid?
-- Index: the unique key (uid). Lock: none.
SELECT id, uid, name, created_at, limits, worker_pool, admin_emails FROM organizations WHERE uid = $1;
