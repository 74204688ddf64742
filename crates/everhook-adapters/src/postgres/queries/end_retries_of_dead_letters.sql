-- Notes that the deliveries which brought dead letters back were delivered (`resolved`) or cancelled (`dead` again).
-- Index: the unique key (event_id, endpoint_id), the unique key on lane. Lock: the rows.
UPDATE dead_letters l SET status = d.status, attempts = l.attempts + d.attempts
FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::bigint[]) AS d (id, lane, event_id, status, attempts)
    JOIN endpoints p ON p.lane = d.lane
WHERE l.event_id = d.event_id AND l.endpoint_id = p.id AND l.last_delivery_id = d.id AND l.status = 'retrying';
