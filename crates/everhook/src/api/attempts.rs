//! Attempts as clients see them, and the notes between them.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use everhook_core::{
    model::{Attempt, BreakerState, FailureCategory},
    policy::blocked::Blocked,
};
use serde::Serialize;
use utoipa::ToSchema;

/// One request of a delivery, or a note that the circuit breaker kept one from being made.
#[derive(Serialize, ToSchema)]
pub struct AttemptOut {
    /// A note has the number of the attempt that had to wait.
    attempt_number: u32,
    /// `success`, `failed`, or `exhausted` for the last one; `circuit_blocked` for a note.
    status: &'static str,
    http_status_code: Option<u16>,
    failure_category: Option<&'static str>,
    error_message: Option<String>,
    duration_ms: Option<u64>,
    dns_ms: Option<u64>,
    connect_ms: Option<u64>,
    tls_ms: Option<u64>,
    first_byte_ms: Option<u64>,
    /// The answer's headers; those that came several times joined by a comma.
    response_headers: Option<BTreeMap<String, String>>,
    /// The beginning of the answer's body.
    response_body_sample: Option<String>,
    /// Whether the answer had more headers, or a longer body, than is kept: 64 headers and 8 KiB of them, 1 KiB of the body.
    response_truncated: Option<bool>,
    #[schema(format = DateTime)]
    scheduled_at: String,
    #[schema(format = DateTime)]
    picked_at: Option<String>,
    /// When the request was begun; in a note, since when the circuit breaker kept it.
    #[schema(format = DateTime)]
    executed_at: String,
    #[schema(format = DateTime)]
    next_retry_at: Option<String>,
    /// `closed`, `half_open` for a probe, or `open` in a note.
    circuit_breaker_state_at_attempt: &'static str,
    /// Whether no request was made because the circuit breaker was open. Such a note is not counted as an attempt.
    circuit_breaker_prevented: bool,
    node: Option<String>,
}

/// Attempts and notes in order: a note stands before the attempt that had to wait.
pub fn with_notes(attempts: Vec<Attempt>, notes: Vec<Blocked>) -> Vec<AttemptOut> {
    let mut all: Vec<AttemptOut> = notes.into_iter().map(AttemptOut::from).chain(attempts.into_iter().map(AttemptOut::from)).collect();
    // The sort is stable, and notes come first.
    all.sort_by_key(|attempt| attempt.attempt_number);
    all
}

impl From<Attempt> for AttemptOut {
    fn from(attempt: Attempt) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let millis = |duration: Duration| u64::try_from(duration.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
        Self {
            attempt_number: attempt.number,
            status: attempt.status.as_str(),
            http_status_code: attempt.response.as_ref().map(|response| response.status),
            failure_category: attempt.failure_category.map(FailureCategory::as_str),
            error_message: attempt.error,
            duration_ms: Some(millis(attempt.duration)),
            dns_ms: attempt.phases.dns.map(millis),
            connect_ms: attempt.phases.connect.map(millis),
            tls_ms: attempt.phases.tls.map(millis),
            first_byte_ms: attempt.phases.first_byte.map(millis),
            response_headers: attempt.response.as_ref().map(|response| join_headers(&response.headers)),
            response_body_sample: attempt.response.as_ref().map(|response| text(&response.body_sample)),
            response_truncated: attempt.response.as_ref().map(|response| response.cut.headers || response.cut.body),
            scheduled_at: attempt.scheduled_at.to_string(),
            picked_at: Some(attempt.picked_at.to_string()),
            executed_at: attempt.executed_at.to_string(),
            next_retry_at: attempt.next_retry_at.map(|at| at.to_string()),
            circuit_breaker_state_at_attempt: attempt.breaker.as_str(),
            circuit_breaker_prevented: false,
            node: Some(attempt.node),
        }
    }
}

impl From<Blocked> for AttemptOut {
    fn from(note: Blocked) -> Self {
        Self {
            attempt_number: note.attempt_number,
            status: "circuit_blocked",
            http_status_code: None,
            failure_category: None,
            error_message: None,
            duration_ms: None,
            dns_ms: None,
            connect_ms: None,
            tls_ms: None,
            first_byte_ms: None,
            response_headers: None,
            response_body_sample: None,
            response_truncated: None,
            scheduled_at: note.scheduled_at.to_string(),
            picked_at: None,
            executed_at: note.at.to_string(),
            next_retry_at: None,
            circuit_breaker_state_at_attempt: BreakerState::Open.as_str(),
            circuit_breaker_prevented: true,
            node: None,
        }
    }
}

fn join_headers(headers: &[(String, Bytes)]) -> BTreeMap<String, String> {
    let mut joined = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let all = joined.entry(name.clone()).or_default();
        if !all.is_empty() {
            all.push_str(", ");
        }
        all.push_str(&String::from_utf8_lossy(value));
    }
    joined
}
