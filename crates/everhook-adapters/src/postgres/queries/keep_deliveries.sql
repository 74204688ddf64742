-- Moves deliveries to where they outlive their day.
-- Index: the primary keys. Lock: the rows.
UPDATE deliveries d SET kept = true FROM unnest($1::bigint[], $2::uuid[]) AS u (lane, id) WHERE d.lane = u.lane AND d.id = u.id AND NOT d.kept;
