-- Removes statistics of some endpoints that are of minutes before one.
-- Index: the primary keys. Lock: the write lock.
DELETE FROM rollups
WHERE (lane, minute) IN (
    SELECT r.lane, r.minute
    FROM lanes p CROSS JOIN rollups r ON r.lane = p.lane AND r.minute < ?3
    WHERE p.id > ?1 AND p.id <= ?2
    LIMIT ?4
);
