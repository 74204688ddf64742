-- What came of a delivery's attempts, oldest first?
-- Index: the primary keys. Lock: none.
SELECT a.number, a.status, a.failure_category, a.error, a.response_status, a.response_headers, a.response_body_sample, a.retry_after_delay,
    a.retry_after_at, a.duration, a.dns, a.connect, a.tls, a.first_byte, a.scheduled_at, a.scheduled_at + a.picked_after AS picked_at,
    a.scheduled_at + a.executed_after AS executed_at, a.next_retry_at, n.name AS node, n.user_agent, a.breaker, a.revision,
    a.response_cut
FROM attempts a JOIN nodes n ON n.number = a.node
WHERE a.delivery_id = $1
ORDER BY a.number;
