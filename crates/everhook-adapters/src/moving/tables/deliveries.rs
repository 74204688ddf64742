//! What became of events: where deliveries wait, how they ended, each attempt, and what is dead.
//!
//! The embedded store has all deliveries in one table; the shared one has those that are open, those that have ended, and a list of those that were made
//! after their event was. An ended delivery has no place in an order any more, so that its key and position are not kept.

use crate::moving::table::{Table, same};

pub(super) const TABLES: [Table; 8] = [
    Table { counted: Some("number"), ..same("nodes", &["number"], &["number", "name", "user_agent"]) },
    Table {
        from: "deliveries",
        only: Some("stage IN (0, 4, 5)"),
        ..same(
            "open_deliveries",
            &["id"],
            &[
                "lane",
                "id",
                "event_id",
                "priority",
                "stage",
                "attempts",
                "retry_schedule",
                "due_at",
                "created_at",
                "failure_category",
                "replay_of",
                "operation_id",
                "order_key",
                "order_position",
                "parked_organization_id",
                "waits_for",
                "expires_at",
                "expires_into",
                "parkings",
            ],
        )
    },
    Table {
        only: Some("stage NOT IN (0, 4, 5)"),
        ..same(
            "deliveries",
            &["id"],
            &[
                "lane",
                "id",
                "event_id",
                "priority",
                "stage",
                "attempts",
                "retry_schedule",
                "ended_at",
                "created_at",
                "cause",
                "failure_category",
                "replay_of",
                "operation_id",
            ],
        )
    },
    Table {
        from: "deliveries",
        only: Some("(replay_of IS NOT NULL OR operation_id IS NOT NULL)"),
        ..same("made_later", &["event_id", "id"], &["event_id", "lane", "id"])
    },
    same("attempts", &["delivery_id", "number"], &ATTEMPT),
    same("dead_letters", &["id"], &DEAD_LETTER),
    same("releases", &["organization_id", "waits_for"], &["organization_id", "waits_for", "released_at", "look_at"]),
    same("pending_alerts", &["id"], &["id", "organization_id", "event_type", "data"]),
];

const ATTEMPT: [&str; 23] = [
    "delivery_id",
    "number",
    "status",
    "breaker",
    "response_cut",
    "response_status",
    "node",
    "revision",
    "failure_category",
    "error",
    "response_headers",
    "response_body_sample",
    "retry_after_delay",
    "retry_after_at",
    "duration",
    "dns",
    "connect",
    "tls",
    "first_byte",
    "scheduled_at",
    "picked_after",
    "executed_after",
    "next_retry_at",
];

const DEAD_LETTER: [&str; 20] = [
    "id",
    "organization_id",
    "application_id",
    "event_id",
    "event_type",
    "endpoint_id",
    "kind",
    "target",
    "last_delivery_id",
    "status",
    "cause",
    "failure_category",
    "last_error",
    "attempts",
    "failures",
    "first_failure_at",
    "last_failure_at",
    "requeued_at",
    "automatic_delivery_id",
    "recoverable",
];
