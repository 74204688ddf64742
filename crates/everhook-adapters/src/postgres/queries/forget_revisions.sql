-- Removes revisions of some endpoints that were replaced before an instant, and before the oldest delivery that is kept was made. Five minutes more:
-- a request that was begun with one may go on a little after it was replaced.
-- Index: the primary keys. Lock: the rows.
DELETE FROM endpoint_revisions r
USING (
    SELECT o.endpoint_id, o.number
    FROM endpoints p
        LEFT JOIN LATERAL (SELECT created_at FROM open_deliveries WHERE lane = p.lane ORDER BY id LIMIT 1) open ON true
        LEFT JOIN LATERAL (SELECT created_at FROM deliveries WHERE lane = p.lane ORDER BY id LIMIT 1) ended ON true
        CROSS JOIN LATERAL (
            SELECT v.endpoint_id, v.number
            FROM endpoint_revisions v
            WHERE v.endpoint_id = p.id AND v.number < p.revision
                AND (SELECT n.made_at FROM endpoint_revisions n WHERE n.endpoint_id = p.id AND n.number > v.number ORDER BY n.number LIMIT 1)
                    < least($3, least(open.created_at, ended.created_at, $3) - 300000000)
            ORDER BY v.number
            LIMIT $4
        ) o
    WHERE p.id > $1 AND p.id <= $2 AND p.revision > 1
    LIMIT $4
) AS old
WHERE r.endpoint_id = old.endpoint_id AND r.number = old.number;
