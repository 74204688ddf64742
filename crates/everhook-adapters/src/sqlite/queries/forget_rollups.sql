-- Removes statistics of some lanes: minutes, hours and days that were over before a minute.
-- Index: the primary keys. Lock: the write lock.
DELETE FROM rollups
WHERE (lane, span, minute) IN (
    SELECT r.lane, r.span, r.minute
    FROM lanes p CROSS JOIN (SELECT 1 AS span UNION ALL SELECT 60 UNION ALL SELECT 1440) s
        CROSS JOIN rollups r ON r.lane = p.lane AND r.span = s.span AND r.minute <= ?3 - s.span
    WHERE p.id > ?1 AND p.id <= ?2
    LIMIT ?4
);
