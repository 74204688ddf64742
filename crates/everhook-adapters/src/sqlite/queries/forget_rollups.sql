-- Removes statistics of some lanes: minutes, hours and days that were over before a minute.
-- Index: the primary keys. Lock: the write lock.
WITH spans (span) AS (VALUES (1), (60), (1440))
DELETE FROM rollups
WHERE (lane, span, minute) IN (
    SELECT r.lane, r.span, r.minute
    FROM spans s CROSS JOIN lanes p CROSS JOIN rollups r ON r.lane = p.lane AND r.span = s.span AND r.minute <= ?3 - s.span
    WHERE p.id > ?1 AND p.id <= ?2
    LIMIT ?4
);
