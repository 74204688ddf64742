-- What came of a delivery's attempts, oldest first?
-- Index: the primary keys. Lock: none, a snapshot.
SELECT attempts.number, status, failure_category, error, response_status, response_headers, response_body_sample, retry_after_delay,
    retry_after_at, duration, dns, connect, tls, first_byte, scheduled_at, scheduled_at + picked_after AS picked_at,
    scheduled_at + executed_after AS executed_at, next_retry_at, n.name AS node, n.user_agent, breaker, revision, response_cut
FROM attempts JOIN nodes n ON n.number = node
WHERE delivery_id = ?1
ORDER BY attempts.number;
