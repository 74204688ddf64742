-- Notes that dead letters are brought back by new deliveries.
-- Index: the unique key (event_id, endpoint_id). Lock: the rows, held by the caller.
UPDATE dead_letters l
SET status = 'retrying', last_delivery_id = u.id, requeued_at = $4, automatic_delivery_id = CASE WHEN $5 THEN u.id END
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS u (event_id, endpoint_id, id)
WHERE l.event_id = u.event_id AND l.endpoint_id = u.endpoint_id AND l.status = 'dead';
