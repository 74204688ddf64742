//! What was published, byte for byte, and the keys that keep it from being published twice.

use crate::moving::table::{Table, same};

pub(super) const TABLES: [Table; 3] = [
    // Four tables of the embedded store. Data that was compressed stays so: both stores read it alike.
    Table {
        from: "events e LEFT JOIN payloads p ON p.number = e.payload AND p.event_id = e.id LEFT JOIN event_extras x ON x.event_id = e.id \
            LEFT JOIN received_events r ON r.event_id = e.id",
        spelled: &[
            ("id", "e.id"),
            ("headers", "x.headers"),
            ("received_headers", "r.headers"),
            // An erased event has no data left that could have an encoding.
            ("encoding", "coalesce(p.encoding, 0)"),
        ],
        ..same("events", &["id"], &EVENT)
    },
    same("idempotency_keys", &["application_id", "key"], &["application_id", "key", "event_id", "created_at", "fingerprint"]),
    same("event_aliases", &["alias"], &["alias", "event_id"]),
];

const EVENT: [&str; 25] = [
    "id",
    "organization_id",
    "application_id",
    "event_type",
    "timestamp",
    "idempotency_key",
    "source",
    "priority",
    "sequence_number",
    "traceparent",
    "deliveries",
    "first_delivery_id",
    "last_delivery_id",
    "created_at",
    "encoding",
    "body",
    "labels",
    "headers",
    "ordering_key",
    "erased_at",
    "content_type",
    "source_id",
    "external_user_id",
    "duplicate_of",
    "received_headers",
];
