//! What organizations define, who may do so, and who did.

use crate::moving::table::{Table, same};

pub(super) const TABLES: [Table; 14] = [
    same(
        "organizations",
        &["id"],
        &[
            "id",
            "uid",
            "name",
            "created_at",
            "limits",
            "admin_emails",
            "config_version",
            "endpoint_count",
            "application_count",
            "deleted_at",
        ],
    ),
    same("deletions", &["id"], &["id", "kind", "organization_id", "reached"]),
    same("applications", &["id"], &["id", "organization_id", "uid", "name", "kind", "strict_event_types", "created_at"]),
    // Columns of the application in the embedded store: sequence numbers and versions go on where they were.
    Table {
        from: "applications",
        spelled: &[("application_id", "id")],
        ..same(
            "application_counters",
            &["application_id"],
            &["application_id", "config_version", "next_sequence", "purged_version", "config_bytes"],
        )
    },
    Table { counted: Some("version"), ..same("schedules", &["version"], &["version", "definition", "unused_since"]) },
    same("retry_schedules", &["id"], &["id", "organization_id", "name", "version", "created_at", "updated_at"]),
    same(
        "event_types",
        &["id"],
        &["id", "organization_id", "name", "description", "schema", "example", "archived", "created_at", "updated_at"],
    ),
    // Lanes keep their numbers: deliveries and figures name them by these.
    Table {
        counted: Some("lane"),
        ..same("lanes", &["lane"], &["lane", "id", "kind", "organization_id", "application_id", "order_barrier"])
    },
    same("channels", &["id"], &["id", "organization_id", "kind", "address", "retry_schedule"]),
    same("endpoints", &["id"], &ENDPOINT),
    // Secrets stay sealed as they are, here and above: with the same key they open as before.
    same(
        "endpoint_revisions",
        &["endpoint_id", "number"],
        &[
            "endpoint_id",
            "number",
            "url",
            "headers",
            "secret",
            "previous_secret",
            "previous_secret_until",
            "signature_style",
            "payload_style",
            "made_at",
        ],
    ),
    same(
        "api_keys",
        &["hash"],
        &["hash", "id", "organization_id", "application_id", "name", "prefix", "scopes", "created_at", "expires_at"],
    ),
    same("api_key_uses", &["api_key_id"], &["api_key_id", "last_used_at"]),
    same(
        "audit_log",
        &["organization_id", "id"],
        &["organization_id", "id", "at", "actor_id", "actor_name", "action", "resource_id", "before", "after", "is_cut"],
    ),
];

const ENDPOINT: [&str; 39] = [
    "id",
    "organization_id",
    "application_id",
    "uid",
    "name",
    "description",
    "url",
    "event_types",
    "labels",
    "filter",
    "verify_url",
    "secret",
    "previous_secret",
    "previous_secret_until",
    "signature_style",
    "payload_style",
    "headers",
    "metadata",
    "retry_schedule",
    "retry_schedule_id",
    "timeout",
    "timeout_growth_factor",
    "max_concurrency",
    "ordering",
    "rate_limit_per_minute",
    "rate_limit_burst",
    "circuit_breaker",
    "paused_at",
    "drain_per_second",
    "state",
    "disabled_at",
    "disabled_reason",
    "deleted_at",
    "created_at",
    "updated_at",
    "changed_version",
    "config_bytes",
    "lane",
    "revision",
];
