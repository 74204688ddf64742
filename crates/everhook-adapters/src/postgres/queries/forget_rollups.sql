-- Removes statistics of some endpoints that are of minutes before one.
-- Index: the primary keys. Lock: the rows.
DELETE FROM rollups r
USING (
    SELECT o.lane, o.minute
    FROM lanes p CROSS JOIN LATERAL (SELECT lane, minute FROM rollups WHERE lane = p.lane AND minute < $3 LIMIT $4) o
    WHERE p.id > $1 AND p.id <= $2
    LIMIT $4
) AS old
WHERE r.lane = old.lane AND r.minute = old.minute;
