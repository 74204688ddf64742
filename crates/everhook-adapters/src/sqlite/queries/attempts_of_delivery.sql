-- What came of a delivery's attempts, oldest first?
-- Index: the primary key. Lock: none, a snapshot.
SELECT number, status, failure_category, error, response_status, response_headers, response_body_sample, retry_after_delay,
    retry_after_at, duration, dns, connect, tls, first_byte, scheduled_at, picked_at, executed_at, next_retry_at, node
FROM attempts
WHERE delivery_id = ?1
ORDER BY number;
