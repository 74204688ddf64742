-- Makes an organization, unless its uid is taken. Waits for another that is being made with the same.
-- Index: the primary key, the unique key (uid). Lock: the row.
INSERT INTO organizations (id, uid, name, created_at, limits, worker_pool, admin_emails) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (uid) DO NOTHING;
