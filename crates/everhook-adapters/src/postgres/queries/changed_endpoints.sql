-- Which endpoints of an application changed after a place in the order of changes, up to so many and up to the one that reaches so many bytes? Those
-- that were deleted only if that was after a version.
-- Index: endpoints_by_change. Lock: none.
SELECT id, organization_id, application_id, uid, name, description, url, event_types, secret, previous_secret, previous_secret_until,
    signature_style, payload_style, headers, metadata,
    COALESCE((SELECT s.version FROM retry_schedules s WHERE s.id = retry_schedule_id), retry_schedule) AS retry_schedule,
    timeout, timeout_growth_factor, max_concurrency, ordering, (SELECT b.order_barrier FROM lanes b WHERE b.lane = endpoints.lane) AS order_barrier, rate_limit_per_minute, rate_limit_burst, circuit_breaker,
    paused_at, drain_per_second, state, disabled_at, disabled_reason, deleted_at, created_at, updated_at, retry_schedule_id, labels, filter,
    verify_url, revision, changed_version
FROM (
    SELECT found.*, sum(config_bytes::integer) OVER (ORDER BY changed_version, id ROWS UNBOUNDED PRECEDING) AS bytes_so_far
    FROM (
        SELECT * FROM endpoints
        WHERE application_id = $1 AND (changed_version, id) > ($2, $3) AND (state <> 'deleted' OR changed_version > $4)
        ORDER BY changed_version, id
        LIMIT $5
    ) found
) endpoints
WHERE bytes_so_far - config_bytes < $6
ORDER BY changed_version, id;
