-- Removes those of some versions that came out of use an hour before an instant, and before the oldest event that is kept was published: every
-- delivery is younger than its event. Not the newest: numbers are never given again.
-- Index: the primary keys. Lock: the write lock.
DELETE FROM schedules
WHERE version > ?1 AND version <= ?2 AND version < (SELECT max(version) FROM schedules)
    AND unused_since < min(?3 - 3600000000, coalesce((SELECT created_at FROM events ORDER BY id LIMIT 1), ?3));
