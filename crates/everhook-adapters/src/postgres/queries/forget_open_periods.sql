-- Removes times in which the breakers of some endpoints were open and that ended before an instant.
-- Index: the primary keys. Lock: the rows.
DELETE FROM open_periods o
USING (
    SELECT n.endpoint_id, n.opened_at
    FROM lanes p
        CROSS JOIN LATERAL (
            SELECT endpoint_id, opened_at FROM open_periods WHERE endpoint_id = p.id AND opened_at < $3 AND closed_at < $3 LIMIT $4
        ) n
    WHERE p.id > $1 AND p.id <= $2
    LIMIT $4
) AS old
WHERE o.endpoint_id = old.endpoint_id AND o.opened_at = old.opened_at;
