-- Records an attempt.
-- Index: the primary key. Lock: the write lock.
INSERT INTO attempts (
    delivery_id, number, status, failure_category, error, response_status, response_headers, response_body_sample, retry_after_delay,
    retry_after_at, duration, dns, connect, tls, first_byte, scheduled_at, picked_after, executed_after, next_retry_at, node, breaker,
    revision, response_cut
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23);
