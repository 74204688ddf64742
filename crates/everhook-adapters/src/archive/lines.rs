//! How records are spelled: one JSON object each. What is encrypted in the store is encrypted here, with the key that is in use; all else is as it was shown.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use everhook_core::{
    model::{Attempt, DeadLetter, Delivery, Event, Stage},
    ports::{ArchiveRecord, EventSummary, Vault},
    time::{Timestamp, millis},
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// The field of what is encrypted.
pub(super) const SEALED: &str = "sealed";

/// The object of a record.
pub(super) fn line_of(at: Timestamp, record: &ArchiveRecord, vault: &dyn Vault) -> Value {
    let mut line = match record {
        ArchiveRecord::Event { organization, summary, event } => {
            let mut line = summary_of(summary);
            line["organization_id"] = json!(organization.to_string());
            merge(&mut line, event.as_ref().map(|event| body_of(event, vault)));
            line
        }
        ArchiveRecord::UnreadableEvent { organization, event } => {
            json!({ "record": "event", "organization_id": organization.to_string(), "id": event.to_string(), "unreadable": true })
        }
        ArchiveRecord::Delivery(delivery, attempts) => delivery_of(delivery, attempts),
        ArchiveRecord::DeadLetter(letter) => dead_letter_of(letter),
    };
    line["archived_at"] = json!(at.to_string());
    line
}

fn summary_of(summary: &EventSummary) -> Value {
    json!({
        "record": "event",
        "id": summary.id.to_string(),
        "application_id": summary.application.to_string(),
        "type": summary.event_type.to_string(),
        "content_type": summary.content_type.as_str(),
        "timestamp": summary.timestamp.to_string(),
        "idempotency_key": summary.idempotency_key,
        "sequence_number": summary.sequence_number,
        "source": summary.source,
        "created_at": summary.created_at.to_string(),
        "erased_at": summary.erased_at.map(|at| at.to_string()),
    })
}

/// What an event says, and how it came in.
fn body_of(event: &Event, vault: &dyn Vault) -> Value {
    let headers = event.received.as_ref().map(|received| json!(received.headers));
    let mut body = if event.sealed { sealed(event, headers, vault) } else { plain(&event.data, headers) };
    if let Some(received) = &event.received {
        body["source_id"] = json!(received.source.to_string());
        body["external_user_id"] = json!(received.external_user);
        body["duplicate_of"] = json!(received.duplicate_of.map(|id| id.to_string()));
    }
    if !event.labels.is_empty() {
        body["labels"] = json!(event.labels);
    }
    body
}

/// Data byte for byte: as text where it is text, so that no number is written in another way.
pub(super) fn plain(data: &[u8], headers: Option<Value>) -> Value {
    let mut body = match std::str::from_utf8(data) {
        Ok(text) => json!({ "data": text }),
        Err(_) => json!({ "data_base64": STANDARD.encode(data) }),
    };
    merge(&mut body, headers.map(|headers| json!({ "headers": headers })));
    body
}

fn sealed(event: &Event, headers: Option<Value>, vault: &dyn Vault) -> Value {
    let owner: &Uuid = event.id.as_uuid();
    let seal = |bytes: &[u8]| STANDARD.encode(vault.seal(owner, bytes).0);
    let mut sealed = json!({ "key_id": vault.keys().in_use.to_string(), "data": seal(&event.data) });
    if let Some(headers) = headers {
        sealed["headers"] = json!(seal(headers.to_string().as_bytes()));
    }
    json!({ SEALED: sealed })
}

fn delivery_of(delivery: &Delivery, attempts: &[Attempt]) -> Value {
    let (ended_at, cause) = match delivery.stage {
        Stage::Delivered { at } => (Some(at), None),
        Stage::Dead { at, cause } => (Some(at), Some(cause.as_str())),
        Stage::Cancelled { at, cause } => (Some(at), Some(cause.as_str())),
        Stage::Waiting { .. } | Stage::Held | Stage::Parked(_) => (None, None),
    };
    json!({
        "record": "delivery",
        "organization_id": delivery.organization.to_string(),
        "id": delivery.id.to_string(),
        "event_id": delivery.event.to_string(),
        "destination_id": delivery.lane_id.to_string(),
        "kind": delivery.kind.as_str(),
        "status": delivery.stage.as_str(),
        "cause": cause,
        "failure_category": delivery.failure_category.map(|category| category.as_str()),
        "last_error": delivery.last_error,
        "replay_of": delivery.replay_of.map(|id| id.to_string()),
        "created_at": delivery.created_at.to_string(),
        "ended_at": ended_at.map(|at| at.to_string()),
        "attempts": attempts.iter().map(attempt_of).collect::<Vec<_>>(),
    })
}

fn attempt_of(attempt: &Attempt) -> Value {
    json!({
        "attempt_number": attempt.number,
        "status": attempt.status.as_str(),
        "http_status_code": attempt.response.as_ref().map(|response| response.status),
        "failure_category": attempt.failure_category.map(|category| category.as_str()),
        "error_message": attempt.error,
        "duration_ms": millis(attempt.duration),
        "executed_at": attempt.executed_at.to_string(),
    })
}

fn dead_letter_of(letter: &DeadLetter) -> Value {
    json!({
        "record": "dead_letter",
        "organization_id": letter.organization.to_string(),
        "application_id": letter.application.to_string(),
        "id": letter.id.to_string(),
        "event_id": letter.event.to_string(),
        "event_type": letter.event_type.to_string(),
        "destination_id": letter.lane_id.to_string(),
        "kind": letter.kind.as_str(),
        "target": letter.target,
        "status": letter.status.as_str(),
        "reason": letter.cause.as_str(),
        "failure_category": letter.failure_category.as_str(),
        "last_error": letter.last_error,
        "attempts": letter.attempts,
        "failures": letter.failures,
        "first_failure_at": letter.first_failure_at.to_string(),
        "last_failure_at": letter.last_failure_at.to_string(),
    })
}

/// Adds the fields of an object to another.
pub(super) fn merge(line: &mut Value, fields: Option<Value>) {
    if let (Some(line), Some(Value::Object(fields))) = (line.as_object_mut(), fields) {
        line.extend::<Map<_, _>>(fields);
    }
}
