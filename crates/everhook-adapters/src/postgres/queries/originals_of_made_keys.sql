-- Which of these ids are events that were accepted since an instant of each? What do they say, if that was not erased?
-- Index: the primary key, in the one partition that an id can be in. Lock: none.
SELECT e.*
FROM unnest($1::uuid[], $2::bigint[]) AS u (id, valid_since)
    CROSS JOIN LATERAL (
        SELECT id, application_id, deliveries, sequence_number, event_type, encoding, body
        FROM events
        WHERE id = u.id AND created_at >= u.valid_since
        OFFSET 0
    ) AS e;
