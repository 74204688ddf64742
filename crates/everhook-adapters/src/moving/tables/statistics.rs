//! How endpoints do: their breakers, and what happened at them in numbers.

use crate::moving::table::{Table, same};

pub(super) const TABLES: [Table; 5] = [
    same("circuit_breakers", &["endpoint_id"], &["endpoint_id", "revision", "stage", "until", "since", "failed_recoveries"]),
    same("open_periods", &["endpoint_id", "opened_at"], &["endpoint_id", "opened_at", "closed_at"]),
    same(
        "rollups",
        &["lane", "minute"],
        &[
            "lane",
            "minute",
            "successes",
            "timeout",
            "server_error",
            "client_error",
            "network",
            "dns",
            "tls",
            "rate_limit",
            "payload_too_large",
            "redirect",
            "blocked_address",
            "duration_sum",
            "durations",
            "last_success_at",
            "last_failure_at",
            "answers",
        ],
    ),
    same(
        "source_rollups",
        &["source_id", "minute"],
        &["source_id", "minute", "accepted", "handshakes", "rejected", "events", "latency_sum", "latencies"],
    ),
    same(
        "endpoint_activity",
        &["lane"],
        &[
            "lane",
            "consecutive_failures",
            "first_failure_at",
            "last_failure_at",
            "last_success_at",
            "observed_from",
            "observed",
            "last_counted_at",
            "previous_counted_at",
            "failing_since",
            "warned_at",
            "owes_recovery",
            "recovered_at",
            "health_history",
        ],
    ),
];
