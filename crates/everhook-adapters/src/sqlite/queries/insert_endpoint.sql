-- Makes an endpoint. Its lane was made before.
-- Index: the primary key, lanes_by_id. Lock: the write lock.
INSERT INTO endpoints (
    id, organization_id, application_id, uid, name, description, url, event_types, secret, previous_secret, previous_secret_until,
    signature_style, payload_style, headers, metadata, retry_schedule, timeout, timeout_growth_factor, max_concurrency, state,
    disabled_at, disabled_reason, deleted_at, created_at, updated_at, ordering, rate_limit_per_minute, rate_limit_burst, circuit_breaker,
    paused_at, drain_per_second, retry_schedule_id, labels, filter, verify_url, revision, config_bytes, lane
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30,
    ?31, ?32, ?33, ?34, ?35, ?36, ?37, (SELECT lane FROM lanes WHERE id = ?1));
