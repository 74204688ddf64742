//! Every metric of this server. `docs/monitoring.md` lists the same ones, which a test compares.

use super::text::{Family, Kind};

macro_rules! families {
    ($($constant:ident: $kind:ident $name:literal $help:literal;)+) => {
        $(pub static $constant: Family = Family { name: $name, kind: Kind::$kind, help: $help };)+

        /// All of them, in the order in which they are written.
        #[cfg(test)]
        pub static ALL: &[&Family] = &[$(&$constant),+];
    };
}

families! {
    DELIVERIES: Counter "webhook_deliveries_total" "Attempts that ended, by outcome: success, failed (it is retried), exhausted (the delivery is dead), parked.";
    DURATION: Histogram "webhook_delivery_duration_seconds" "How long attempts took, by outcome; with the label percentile, that of the last five minutes.";
    ATTEMPT_NUMBER: Histogram "webhook_retry_attempt_number" "The numbers of attempts within their deliveries, by outcome.";
    QUEUE_DEPTH: Gauge "webhook_queue_depth" "Deliveries in the store that wait for an attempt, due or not, up to a million.";
    BREAKER_STATE: Gauge "webhook_circuit_breaker_state" "1 for the state that the circuit breaker of an endpoint is in.";
    TRANSITIONS: Counter "webhook_circuit_breaker_transitions_total" "State changes that circuit breakers of endpoints made automatically.";
    REDIS_FALLBACK: Gauge "webhook_circuit_breaker_redis_fallback_active" "1 while Redis is configured and unavailable, so that the breaker counts on this node alone.";
    DLQ_SIZE: Gauge "webhook_dlq_size" "Dead letters in the store that wait for a person.";
    RATE_LIMIT_HITS: Counter "webhook_rate_limit_hits_total" "How often an endpoint answered 429, or its configured rate limit delayed deliveries.";
    POOL_UTILIZATION: Gauge "webhook_worker_pool_utilization" "Requests in progress, as a share of the most that this node makes at once (0 to 1).";
    BLOCKED: Rising "webhook_circuit_blocked_deliveries" "Deliveries that were due while the breaker of their endpoint was open, counted when they are sent. Rises like a counter.";
    ENDPOINT_FAILURES: Counter "endpoint_failures_total" "Attempts that failed, by endpoint.";
    DISABLED_ENDPOINTS: Gauge "endpoint_disabled_count" "Endpoints in the store that are disabled.";
    RETRY_ATTEMPTS: Counter "retry_attempts_total" "Attempts by retry schedule, number (3 means the third and all later ones) and outcome.";
    NOTIFICATIONS: Rising "notification_sent_count" "Notifications that were sent, by the type of their operational event. Rises like a counter.";
    BUILD: Gauge "everhook_build_info" "1, with the version and the name of this node.";
    EVENTS: Counter "everhook_events_total" "Events that were published to this node, by result.";
    IN_FLIGHT: Gauge "everhook_requests_in_progress" "Requests to endpoints that are in progress.";
    SLOTS: Gauge "everhook_requests_in_progress_max" "The most requests that this node makes at once.";
    UNWRITTEN: Gauge "everhook_outcomes_unwritten" "Outcomes of requests that are not in the store yet.";
    RESTARTS: Counter "everhook_engine_restarts_total" "How often the delivery engine failed and started again.";
    DUE: Gauge "everhook_deliveries_due" "Deliveries in the store that are due, up to a million.";
    OLDEST_DUE: Gauge "everhook_oldest_due_seconds" "For how long the oldest delivery in the store is due.";
    COMMIT: Histogram "everhook_commit_seconds" "How long the store took to write, by what was written: publish or settle.";
    STORE_AVAILABLE: Gauge "everhook_store_available" "1 if the store could be read when it was last asked, at most a few seconds ago.";
    MEASUREMENTS_AGE: Gauge "everhook_store_measurements_age_seconds" "How old the measurements are that come from the store.";
    SPOOL_EVENTS: Gauge "everhook_spool_events" "Events that wait on this node for the database.";
    SPOOL_BYTES: Gauge "everhook_spool_bytes" "The size of the spool.";
    SPOOL_BYTES_MAX: Gauge "everhook_spool_bytes_max" "The size that the spool may have.";
    STALLED: Gauge "everhook_spool_stalled_applications" "Applications whose events stay in the spool because the database rejects them, while it accepts those of others.";
    SHARDS: Gauge "everhook_shards_held" "Shards of the worker pool that this node sends for, of 64.";
    DUTIES: Gauge "everhook_duty_held" "1 for each store-wide duty that this node holds.";
    LEASE: Gauge "everhook_lease_trusted" "1 while this node may send.";
    CLOCK_SKEW: Gauge "everhook_clock_skew_seconds" "How far the clock of this node is from that of the database.";
    REDIS_AWAY: Gauge "everhook_redis_away" "1 while Redis is configured and unavailable.";
    AMQP_AWAY: Gauge "everhook_amqp_away" "1 while RabbitMQ is configured for hints and unavailable.";
    BREAKERS: Gauge "everhook_circuit_breakers" "Circuit breakers in this node's memory, by state.";
    SOURCE_REQUESTS: Counter "everhook_source_requests_total" "Requests to sources, by result; with the reason, if they were rejected.";
    SOURCE_EVENTS: Counter "everhook_source_events_total" "Events of sources, by what became of them: received, completed (deliveries), failed (attempts), dead (deliveries).";
    SOURCE_LATENCY: Histogram "everhook_source_latency_seconds" "How long after the receipt of an event a delivery of it succeeded, without replays.";
    CALLS: Counter "everhook_calls_total" "Calls to apps, by the source of their answer.";
    FALLBACKS: Counter "everhook_call_fallbacks_total" "Calls that were answered by a fallback because the app could not.";
    FAILED_OPEN: Counter "call_failed_open_total" "Calls that were let through without the app, by a default step of the fallback.";
    LATE_ANSWERS: Counter "everhook_call_late_answers_total" "Answers of apps that came after the deadline of their callers.";
    SHADOWS: Counter "everhook_shadow_comparisons_total" "Answers of apps in shadow mode, by whether they matched the answer of the fallback.";
    SPANS: Counter "everhook_trace_spans_total" "Spans of traces, by result: exported, or dropped because the collector did not accept them in time.";
    CONNECTIONS: Gauge "everhook_client_connections" "Connections from clients.";
    CONNECTIONS_MAX: Gauge "everhook_client_connections_max" "The most connections that clients may have.";
    CPU: Counter "process_cpu_seconds_total" "Processor time that the process used.";
    OPEN_FILES: Gauge "process_open_fds" "Open files.";
    OPEN_FILES_MAX: Gauge "process_max_fds" "The most open files.";
    RESIDENT: Gauge "process_resident_memory_bytes" "Memory that the process has.";
    VIRTUAL: Gauge "process_virtual_memory_bytes" "Address space that the process has.";
    STARTED: Gauge "process_start_time_seconds" "When the process started, in seconds since 1970.";
}
