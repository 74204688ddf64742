-- How do the dead letters of these events and endpoints stand?
-- Index: the unique key (event_id, endpoint_id). Lock: the rows, in the order of their ids.
SELECT l.event_id, l.endpoint_id, l.status
FROM dead_letters l JOIN (SELECT DISTINCT event_id, endpoint_id FROM unnest($1::uuid[], $2::uuid[]) AS u (event_id, endpoint_id)) AS u
    ON l.event_id = u.event_id AND l.endpoint_id = u.endpoint_id
ORDER BY l.id
FOR UPDATE OF l;
