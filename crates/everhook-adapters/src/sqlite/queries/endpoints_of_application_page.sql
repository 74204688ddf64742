-- Which endpoints does an application have between two ids, by state, the events that they get and their schedule, newest first (a page backward: oldest first)?
-- Index: endpoints_by_application, and the primary key of `applications`: the endpoints of a deleted one follow it later. Lock: none, a snapshot.
SELECT id, organization_id, application_id, uid, name, description, url, event_types, secret, previous_secret, previous_secret_until,
    signature_style, payload_style, headers, metadata,
    COALESCE((SELECT s.version FROM retry_schedules s WHERE s.id = retry_schedule_id), retry_schedule) AS retry_schedule,
    timeout, timeout_growth_factor, max_concurrency, ordering, (SELECT b.order_barrier FROM lanes b WHERE b.lane = endpoints.lane) AS order_barrier, rate_limit_per_minute, rate_limit_burst, circuit_breaker,
    paused_at, drain_per_second, state, disabled_at, disabled_reason, deleted_at, created_at, updated_at, retry_schedule_id, labels, filter,
    verify_url, revision
FROM endpoints
-- The plus keeps the index of the organization out: it may have many applications.
WHERE +organization_id = ?1 AND id > ?2 AND id < ?3 AND state <> 'deleted'
    -- Not EXISTS: that may become a join, which begins with the applications.
    AND (SELECT a.id FROM applications a WHERE a.id = endpoints.application_id) IS NOT NULL
    AND application_id = ?5
    AND (?6 IS NULL OR (state = 'enabled') = ?6)
    -- A pattern is a type, `*`, or a prefix that ends in `.*`.
    AND (?7 IS NULL OR EXISTS (
        SELECT 1 FROM json_each(event_types)
        WHERE value IN ('*', ?7) OR (value LIKE '%.*' AND substr(?7, 1, length(value) - 1) = substr(value, 1, length(value) - 1))
    ))
    AND (?8 IS NULL OR retry_schedule_id = ?8)
    AND (?9 IS NULL OR EXISTS (SELECT 1 FROM json_each(labels) WHERE key = ?9 AND (?10 IS NULL OR value = ?10)))
ORDER BY id DESC
LIMIT ?4;
