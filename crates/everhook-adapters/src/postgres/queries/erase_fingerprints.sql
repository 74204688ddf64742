-- Removes what is kept of the data of events beside their idempotency keys.
-- Index: the primary keys, row by row. Lock: the rows.
UPDATE idempotency_keys SET fingerprint = NULL
WHERE ctid = ANY(ARRAY(
    SELECT k.place
    FROM unnest($1::uuid[]) AS u (id)
        CROSS JOIN LATERAL (SELECT application_id, idempotency_key FROM events WHERE id = u.id AND idempotency_key IS NOT NULL OFFSET 0) e
        CROSS JOIN LATERAL (
            SELECT ctid AS place FROM idempotency_keys
            WHERE application_id = e.application_id AND key = e.idempotency_key AND event_id = u.id
            FOR UPDATE
            OFFSET 0
        ) k
));
