-- Which of these keys have anything open?
-- Index: open_in_order. Lock: the one on the lanes, taken by the caller.
SELECT u.lane, u.key
FROM unnest($1::bigint[], $2::text[]) AS u (lane, key)
WHERE EXISTS (SELECT 1 FROM open_deliveries d WHERE d.order_position IS NOT NULL AND d.lane = u.lane AND d.order_key = u.key);
