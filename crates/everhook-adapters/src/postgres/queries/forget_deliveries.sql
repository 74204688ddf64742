-- Removes deliveries that have ended. Their attempts went before.
-- Index: the primary keys. Lock: the rows.
DELETE FROM deliveries d USING unnest($1::bigint[], $2::uuid[]) AS u (lane, id) WHERE d.lane = u.lane AND d.id = u.id;
