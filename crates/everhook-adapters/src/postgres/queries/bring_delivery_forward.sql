-- Makes the next attempts of waiting deliveries due.
-- Index: the primary key. Lock: the rows, in the order of the key.
WITH picked AS (
    SELECT o.lane, o.id
    FROM unnest($1::bigint[], $2::uuid[]) AS u (lane, id) JOIN open_deliveries o ON o.lane = u.lane AND o.id = u.id
    ORDER BY o.lane, o.id
    FOR UPDATE OF o
)
UPDATE open_deliveries o SET due_at = $3
FROM picked
WHERE o.lane = picked.lane AND o.id = picked.id AND o.stage = 0 AND o.due_at > $3;
