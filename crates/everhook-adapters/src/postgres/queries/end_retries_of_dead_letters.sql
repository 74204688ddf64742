-- Notes that the deliveries which brought dead letters back were delivered (`resolved`) or cancelled (`dead` again).
-- Index: dead_letters_event_endpoint, lanes_pkey, the primary key. Lock: the rows.
-- `OFFSET 0` keeps these look-ups: otherwise all dead letters of an endpoint may be read for each.
UPDATE dead_letters l SET status = f.status, attempts = l.attempts + f.attempts
FROM (
    SELECT b.id, d.id AS delivery_id, d.status, d.attempts
    FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::bigint[]) AS d (id, lane, event_id, status, attempts)
        CROSS JOIN LATERAL (SELECT id FROM lanes WHERE lane = d.lane OFFSET 0) AS p
        CROSS JOIN LATERAL (SELECT id FROM dead_letters WHERE event_id = d.event_id AND endpoint_id = p.id OFFSET 0) AS b
) AS f
WHERE l.id = f.id AND l.last_delivery_id = f.delivery_id AND l.status = 'retrying';
