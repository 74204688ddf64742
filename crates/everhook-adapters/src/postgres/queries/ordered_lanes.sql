-- In which lanes do any of these deliveries have an order?
-- Index: the primary key. Lock: none: an order is never given later.
SELECT DISTINCT o.lane
FROM unnest($1::bigint[], $2::uuid[]) AS u (lane, id) JOIN open_deliveries o ON o.lane = u.lane AND o.id = u.id
WHERE o.order_key IS NOT NULL;
