-- Which endpoint of an organization has this uid?
-- Index: endpoints_by_uid, and the primary key of `applications`: the endpoints of a deleted one follow it later. Lock: none.
SELECT id, organization_id, application_id, uid, name, description, url, event_types, secret, previous_secret, previous_secret_until,
    signature_style, payload_style, headers, metadata,
    COALESCE((SELECT s.version FROM retry_schedules s WHERE s.id = retry_schedule_id), retry_schedule) AS retry_schedule,
    timeout, timeout_growth_factor, max_concurrency, ordering, (SELECT b.order_barrier FROM lanes b WHERE b.lane = endpoints.lane) AS order_barrier, rate_limit_per_minute, rate_limit_burst, circuit_breaker,
    paused_at, drain_per_second, state, disabled_at, disabled_reason, deleted_at, created_at, updated_at, retry_schedule_id, labels, filter,
    verify_url, revision
FROM endpoints
WHERE organization_id = $1 AND uid = $2 AND state <> 'deleted'
    -- Not EXISTS: that may become a join, which begins with the applications.
    AND (SELECT a.id FROM applications a WHERE a.id = endpoints.application_id) IS NOT NULL;
