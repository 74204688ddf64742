-- How do those of some deliveries stand that have not ended?
-- Index: the primary key. Lock: the rows, in the order of the key.
SELECT o.lane, o.id, o.stage, o.due_at, NULL::bigint AS ended_at, NULL::text AS cause, o.waits_for, o.expires_at, o.expires_into, o.priority
FROM unnest($1::bigint[], $2::uuid[]) AS u (lane, id) JOIN open_deliveries o ON o.lane = u.lane AND o.id = u.id
ORDER BY o.lane, o.id
FOR UPDATE OF o;
