-- What is sent of these events? Nothing of those that were erased.
-- Index: the primary key, in the one partition that an id can be in. Lock: none.
SELECT e.*
FROM unnest($1::uuid[]) AS u (id)
    CROSS JOIN LATERAL (
        SELECT id, application_id, event_type, timestamp, idempotency_key, source, priority, sequence_number, traceparent, created_at, encoding,
            body, labels, headers, ordering_key, content_type, source_id, external_user_id,
            duplicate_of, received_headers
        FROM events
        WHERE id = u.id AND erased_at IS NULL
        OFFSET 0
    ) AS e;
