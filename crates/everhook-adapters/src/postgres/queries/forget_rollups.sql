-- Removes statistics of some lanes: minutes, hours and days that were over before a minute.
-- Index: the primary keys. Lock: the rows.
DELETE FROM rollups r
USING (
    SELECT o.lane, o.span, o.minute
    FROM lanes p CROSS JOIN (VALUES (1), (60), (1440)) AS s (span)
        CROSS JOIN LATERAL (SELECT lane, span, minute FROM rollups WHERE lane = p.lane AND span = s.span AND minute <= $3::bigint - s.span LIMIT $4) o
    WHERE p.id > $1 AND p.id <= $2
    LIMIT $4
) AS old
WHERE r.lane = old.lane AND r.span = old.span AND r.minute = old.minute;
