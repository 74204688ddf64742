-- Removes times in which the breakers of some endpoints were open and that ended before an instant.
-- Index: the primary keys. Lock: the write lock.
DELETE FROM open_periods
WHERE (endpoint_id, opened_at) IN (
    SELECT o.endpoint_id, o.opened_at
    FROM lanes p CROSS JOIN open_periods o ON o.endpoint_id = p.id AND o.opened_at < ?3
    WHERE p.id > ?1 AND p.id <= ?2 AND o.closed_at < ?3
    LIMIT ?4
);
