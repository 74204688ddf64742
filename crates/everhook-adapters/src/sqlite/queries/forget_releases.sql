-- Forgets what came before an instant and is complete.
-- Index: releases_by_age, the primary key. Lock: the write lock.
DELETE FROM releases WHERE (organization_id, waits_for) IN (
    SELECT organization_id, waits_for FROM releases WHERE look_at IS NULL AND released_at < ?1 ORDER BY released_at LIMIT ?2
);
