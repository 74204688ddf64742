-- Removes those of some versions that came out of use an hour before an instant, and before the oldest event that is kept was published: every
-- delivery is younger than its event.
-- Index: the primary keys. Lock: the rows.
DELETE FROM schedules
WHERE version > $1 AND version <= $2
    AND unused_since < least($3::bigint - 3600000000, (SELECT created_at FROM events ORDER BY id LIMIT 1));
