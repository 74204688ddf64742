-- Removes revisions of some endpoints that were replaced before an instant, and before the oldest delivery that is kept was made. Five minutes more:
-- a request that was begun with one may go on a little after it was replaced.
-- Index: the primary keys, deliveries_by_lane. Lock: the write lock.
DELETE FROM endpoint_revisions
WHERE (endpoint_id, number) IN (
    SELECT r.endpoint_id, r.number
    FROM endpoints p CROSS JOIN endpoint_revisions r ON r.endpoint_id = p.id AND r.number < p.revision
    WHERE p.id > ?1 AND p.id <= ?2
        AND (SELECT n.made_at FROM endpoint_revisions n WHERE n.endpoint_id = p.id AND n.number > r.number ORDER BY n.number LIMIT 1)
            < min(?3, coalesce((SELECT d.created_at FROM deliveries d WHERE d.lane = p.lane ORDER BY d.id LIMIT 1), ?3) - 300000000)
    LIMIT ?4
);
