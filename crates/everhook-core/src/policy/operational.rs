//! What operational events say: a JSON Schema for each type. Served to whoever subscribes to them, and held against what is really published.
//!
//! A table, because the types share most of their fields. Fields may be added to an event; those that are here stay.

use serde_json::{Map, Value, json};

/// A type of operational events.
pub struct OperationalType {
    /// Its name.
    pub name: &'static str,
    /// When one is published.
    pub description: &'static str,
    fields: &'static [&'static [Field]],
}

/// A field of an event's data.
struct Field {
    name: &'static str,
    kind: Kind,
    presence: Presence,
}

/// What a value is.
enum Kind {
    /// The id of something: a UUID.
    Id,
    /// An instant in RFC 3339.
    Time,
    /// Text for people, or a name.
    Text,
    /// One of these.
    Word(&'static [&'static str]),
    /// How many.
    Count,
    /// Any number.
    Number,
    Flag,
    /// A list of ids.
    Ids,
    /// How calls were answered: step, reason and count of each.
    Uses,
    /// Whom an alert is for.
    Recipients,
}

/// Whether a value is there.
enum Presence {
    /// Always.
    Always,
    /// Always, and null if there is none.
    OrNull,
    /// Not in all events of the type, and null if there is none.
    Sometimes,
}

use Kind::{Count, Flag, Id, Ids, Number, Recipients, Text, Time, Uses, Word};
use Presence::{Always, OrNull, Sometimes};

const fn field(name: &'static str, kind: Kind, presence: Presence) -> Field {
    Field { name, kind, presence }
}

const ORGANIZATION: &[Field] = &[field("organization_id", Id, Always)];
const APPLICATION: &[Field] = &[field("organization_id", Id, Always), field("application_id", Id, Always)];
const ENDPOINT: &[Field] = &[
    field("organization_id", Id, Always),
    field("application_id", Id, Always),
    field("endpoint_id", Id, Always),
    field("subscription_id", Id, Always),
    field("endpoint_url", Text, Always),
];
const NAMES: &[Field] =
    &[field("endpoint_name", Text, OrNull), field("endpoint_description", Text, OrNull), field("application_name", Text, OrNull)];
const HISTORY: &[Field] =
    &[field("failure_count", Count, Always), field("last_success_at", Time, OrNull), field("last_attempt_at", Time, OrNull)];
const EXHAUSTED: &[Field] =
    &[field("message_id", Id, Always), field("delivery_id", Id, Always), field("attempts", Count, Always), field("reason", Text, Always)];
/// An endpoint, or a capability.
const BREAKER: &[Field] = &[
    field("organization_id", Id, Always),
    field("application_id", Id, Always),
    field("endpoint_id", Id, Sometimes),
    field("subscription_id", Id, Sometimes),
    field("endpoint_url", Text, Sometimes),
    field("capability", Text, Sometimes),
    field("reason", Text, Always),
];
const APP_HEALTH: &[Field] = &[
    field("organization_id", Id, Always),
    field("application_id", Id, Always),
    field("application_name", Text, OrNull),
    field("url", Text, Always),
    field("status", Word(&["healthy", "degraded", "unhealthy", "unknown"]), Always),
    field("detail", Text, OrNull),
    field("failure_count", Count, Always),
    field("failing_since", Time, Always),
    field("checked_at", Time, Always),
];
const JOB: &[Field] = &[
    field("organization_id", Id, Always),
    field("application_id", Id, Always),
    field("capability", Text, Sometimes),
    field("job_id", Id, Always),
    field("delivery_id", Id, Always),
    field("attempts", Count, Always),
    field("reason", Text, Always),
    field("died_at", Time, Always),
];
const ALERT: &[Field] = &[
    field("alert_id", Text, Always),
    field("dedupe_key", Text, Always),
    field("organization_id", Id, Always),
    field("rule", Text, Always),
    field("severity", Word(&["warning", "critical"]), Always),
    field("metric", Text, Always),
    field("scope", Word(&["endpoint", "capability", "organization", "source", "application", "server"]), Always),
    field("target_id", Text, OrNull),
    field("target_name", Text, OrNull),
    field("application_id", Id, Sometimes),
    field("value", Number, OrNull),
    field("threshold", Number, Always),
    field("comparison", Word(&["below", "above"]), Always),
    field("unit", Word(&["percent", "ms", "count", "seconds"]), Always),
    field("window_seconds", Count, Always),
    field("fired_at", Time, Always),
    field("repeat", Flag, Always),
    field("summary", Text, Always),
    field("recipients", Recipients, Always),
    field("owner_email", Text, Sometimes),
    field("node", Text, Sometimes),
    field("sent_directly", Flag, Sometimes),
];

/// Every type that is published, in the order of the documents.
pub const OPERATIONAL_TYPES: [OperationalType; 20] = [
    OperationalType {
        name: "alert.fired",
        description: "An alert rule is met",
        fields: &[ALERT, &[field("resolved_at", Time, Sometimes)]],
    },
    OperationalType {
        name: "alert.resolved",
        description: "An alert rule is not met any more",
        fields: &[ALERT, &[field("resolved_at", Time, Always)]],
    },
    OperationalType {
        name: "endpoint.warning",
        description: "An endpoint fails for days",
        fields: &[
            ENDPOINT,
            NAMES,
            HISTORY,
            &[
                field("failing_since", Time, OrNull),
                field("first_failure_at", Time, OrNull),
                field("next_attempt_at", Time, OrNull),
                field("last_error", Text, OrNull),
                field("failing_for", Text, OrNull),
                field("disable_in", Text, Sometimes),
                field("disable_at", Time, Sometimes),
            ],
        ],
    },
    OperationalType {
        name: "endpoint.disabled",
        description: "An endpoint was disabled: it answered 410 Gone, or failed for days",
        fields: &[
            ENDPOINT,
            NAMES,
            &[
                field("disabled_at", Time, Always),
                field("reason", Word(&["gone", "failing"]), Always),
                field("last_error", Text, OrNull),
                field("failure_count", Count, Sometimes),
                field("last_success_at", Time, Sometimes),
                field("last_attempt_at", Time, Sometimes),
                field("failing_since", Time, Sometimes),
                field("first_failure_at", Time, Sometimes),
                field("failing_for", Text, Sometimes),
            ],
        ],
    },
    OperationalType {
        name: "endpoint.recovered",
        description: "An endpoint works again after one of these two",
        fields: &[ENDPOINT, NAMES, HISTORY, &[field("recovered_at", Time, OrNull)]],
    },
    OperationalType {
        name: "circuit.opened",
        description: "A circuit breaker opened",
        fields: &[BREAKER, &[field("opened_at", Time, Always)]],
    },
    OperationalType {
        name: "circuit.closed",
        description: "A circuit breaker closed",
        fields: &[BREAKER, &[field("closed_at", Time, Always)]],
    },
    OperationalType { name: "message.attempt.exhausted", description: "A delivery became a dead letter", fields: &[ENDPOINT, EXHAUSTED] },
    OperationalType {
        name: "dlq.replay_failed",
        description: "A dead letter was replayed automatically and died again",
        fields: &[ENDPOINT, EXHAUSTED],
    },
    OperationalType {
        name: "operation.finished",
        description: "An operation ended",
        fields: &[
            ORGANIZATION,
            &[
                field("operation_id", Id, Always),
                field("kind", Text, Always),
                field("status", Word(&["finished", "cancelled", "failed"]), Always),
                field("total", Count, OrNull),
                field("done", Count, Always),
                field("failed", Count, Always),
                field("skipped", Count, Always),
                field("created_at", Time, Always),
                field("finished_at", Time, Always),
            ],
        ],
    },
    OperationalType { name: "app.unhealthy", description: "An app failed its health checks", fields: &[APP_HEALTH] },
    OperationalType { name: "app.healthy", description: "An app passes its health checks again", fields: &[APP_HEALTH] },
    OperationalType {
        name: "call.fallback",
        description: "Calls were answered by a fallback",
        fields: &[
            APPLICATION,
            &[
                field("capability", Text, Always),
                field("count", Count, Always),
                field("failed_open", Count, Always),
                field("uses", Uses, Always),
                field("last_request_id", Text, Always),
                field("reported_at", Time, Always),
            ],
        ],
    },
    OperationalType {
        name: "canary.withdrawn",
        description: "A canary fails more often than the stable app, and is not called any more",
        fields: &[
            APPLICATION,
            &[field("capability", Text, Always), field("manifest_version", Count, Always), field("reason", Text, Always)],
        ],
    },
    OperationalType {
        name: "approval.requested",
        description: "A call waits for a person to decide its answer",
        fields: &[
            APPLICATION,
            &[
                field("capability", Text, Always),
                field("approval_id", Id, Always),
                field("request_id", Text, Always),
                field("reason", Text, Always),
                field("requested_at", Time, Always),
                field("expires_at", Time, Always),
            ],
        ],
    },
    OperationalType { name: "job.dead", description: "A job failed for good", fields: &[JOB] },
    OperationalType { name: "job.callback_failed", description: "The caller of a job could not be notified of its end", fields: &[JOB] },
    OperationalType {
        name: "connection.deregistered",
        description: "A user withdrew the connection to a health provider",
        fields: &[
            APPLICATION,
            &[field("provider", Text, Always), field("connection_ids", Ids, Always), field("deregistered_at", Time, Always)],
        ],
    },
    OperationalType {
        name: "amqp.unreachable",
        description: "Events cannot be consumed from a queue",
        fields: &[ORGANIZATION, &[field("queue", Text, Always), field("failures", Count, Always), field("error", Text, Always)]],
    },
    OperationalType {
        name: "amqp.recovered",
        description: "Events are consumed from a queue again",
        fields: &[ORGANIZATION, &[field("queue", Text, Always)]],
    },
];

impl OperationalType {
    /// The type of this name, if there is one.
    pub fn of(name: &str) -> Option<&'static Self> {
        OPERATIONAL_TYPES.iter().find(|known| known.name == name)
    }

    /// What its data must be: JSON Schema, draft 2020-12.
    pub fn schema(&self) -> Value {
        let fields = || self.fields.iter().copied().flatten();
        let properties: Map<String, Value> = fields().map(|field| (field.name.to_owned(), field.schema())).collect();
        let required: Vec<&str> = fields().filter(|field| !matches!(field.presence, Sometimes)).map(|field| field.name).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self.name,
            "description": self.description,
            "type": "object",
            "properties": properties,
            "required": required,
        })
    }
}

impl Field {
    fn schema(&self) -> Value {
        let schema = self.kind.schema();
        if matches!(self.presence, Always) { schema } else { json!({ "anyOf": [schema, { "type": "null" }] }) }
    }
}

impl Kind {
    fn schema(&self) -> Value {
        match self {
            Id => json!({ "type": "string", "format": "uuid" }),
            Time => json!({ "type": "string", "format": "date-time" }),
            Text => json!({ "type": "string" }),
            Word(words) => json!({ "type": "string", "enum": words }),
            Count => json!({ "type": "integer", "minimum": 0 }),
            Number => json!({ "type": "number" }),
            Flag => json!({ "type": "boolean" }),
            Ids => json!({ "type": "array", "items": { "type": "string", "format": "uuid" } }),
            Uses => json!({
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": { "step": { "type": "string" }, "reason": { "type": "string" }, "count": { "type": "integer", "minimum": 1 } },
                    "required": ["step", "reason", "count"],
                },
            }),
            Recipients => json!({
                "type": "object",
                "properties": {
                    "owner": { "type": "boolean" },
                    "owner_email": { "type": ["string", "null"] },
                    "admins": { "type": "boolean" },
                    "channels": { "type": "array", "items": { "type": "string" } },
                },
                "required": ["owner", "owner_email", "admins", "channels"],
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{notice::TYPES_WITH_WORDS, schema::Schema};

    #[test]
    fn every_schema_compiles_and_every_type_has_words_and_one_name() {
        for known in &OPERATIONAL_TYPES {
            assert!(Schema::compile(&known.schema().to_string()).is_ok(), "{}", known.name);
            assert!(TYPES_WITH_WORDS.contains(&known.name), "{} has no words", known.name);
            assert_eq!(
                OperationalType::of(known.name).map(|found| found.description),
                Some(known.description),
                "{} is there twice",
                known.name
            );
        }
        assert_eq!(TYPES_WITH_WORDS.len(), OPERATIONAL_TYPES.len());
    }
}
