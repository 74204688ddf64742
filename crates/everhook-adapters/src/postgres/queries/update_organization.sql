-- Replaces an organization's name, uid and limits.
-- Index: the primary key, the unique key (uid). Lock: the row.
UPDATE organizations SET uid = $2, name = $3, limits = $4 WHERE id = $1;
