-- Replaces what can be changed of an organization.
-- Index: the primary key, the unique key (uid). Lock: the row.
UPDATE organizations SET uid = $2, name = $3, limits = $4, worker_pool = $5, admin_emails = $6, moves = moves + (worker_pool <> $5)::integer WHERE id = $1;
