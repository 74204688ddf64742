//! Bulk actions and what they still have to do, and dead letters that come back by themselves.

use crate::moving::table::{Table, same};

pub(super) const TABLES: [Table; 4] = [
    same(
        "operations",
        &["id"],
        &[
            "id",
            "organization_id",
            "application_id",
            "kind",
            "status",
            "selection",
            "chunk_outcomes",
            "phase",
            "selected_until",
            "total",
            "done",
            "failed",
            "skipped",
            "rate_per_second",
            "priority",
            "start_at",
            "created_at",
            "started_at",
            "finished_at",
        ],
    ),
    same("operation_items", &["operation_id", "position", "lane"], &["operation_id", "position", "lane", "event_id", "replay_of"]),
    same("erasure_items", &["operation_id", "event_id"], &["operation_id", "event_id"]),
    same("auto_replays", &["organization_id"], &["organization_id", "enabled", "after", "requests_per_second", "max_tries"]),
];
