-- Replaces an endpoint, if it was not changed since it was read.
-- Index: the primary key. Lock: the row; the organization and its application's counters are taken by the caller before.
UPDATE endpoints
SET uid = $4, name = $5, description = $6, url = $7, event_types = $8, secret = $9, previous_secret = $10, previous_secret_until = $11,
    signature_style = $12, payload_style = $13, headers = $14, metadata = $15, retry_schedule = $16, timeout = $17,
    timeout_growth_factor = $18, max_concurrency = $19, state = $20, disabled_at = $21, disabled_reason = $22, deleted_at = $23,
    created_at = $24, updated_at = $25, ordering = $26, rate_limit_per_minute = $27, rate_limit_burst = $28, circuit_breaker = $29,
    paused_at = $30, drain_per_second = $31, retry_schedule_id = $32, labels = $33, filter = $34, verify_url = $35, revision = $36,
    config_bytes = $38
WHERE id = $1 AND organization_id = $2 AND application_id = $3 AND updated_at = $37 AND state <> 'deleted';
