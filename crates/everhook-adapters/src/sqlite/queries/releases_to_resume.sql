-- For what that came must parked deliveries be looked for again?
-- Index: releases_to_resume. Lock: the write lock, taken by the caller.
SELECT organization_id, waits_for FROM releases WHERE look_at IS NOT NULL AND look_at <= ?1 ORDER BY look_at LIMIT ?2;
