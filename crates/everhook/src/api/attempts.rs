//! Attempts as clients see them, and the notes between them.

use std::{collections::BTreeMap, time::Duration};

use crate::api::words::{AttemptStatusWord, BreakerStateWord, FailureCategoryWord};
use bytes::Bytes;
use everhook_core::{
    model::{Attempt, BreakerState, FailureCategory},
    policy::blocked::Blocked,
};
use serde::Serialize;
use utoipa::ToSchema;

/// One request of a delivery, or a note that the circuit breaker prevented one.
#[derive(Serialize, ToSchema)]
pub struct AttemptOut {
    /// In a note, the number of the delayed attempt.
    attempt_number: u32,
    /// `success`, `failed`, or `exhausted` for the last one; `circuit_blocked` for a note.
    #[schema(value_type = AttemptStatusWord)]
    status: &'static str,
    #[schema(required = true)]
    http_status_code: Option<u16>,
    #[schema(value_type = Option<FailureCategoryWord>, required = true)]
    failure_category: Option<&'static str>,
    #[schema(required = true)]
    error_message: Option<String>,
    #[schema(required = true)]
    duration_ms: Option<u64>,
    #[schema(required = true)]
    dns_ms: Option<u64>,
    #[schema(required = true)]
    connect_ms: Option<u64>,
    #[schema(required = true)]
    tls_ms: Option<u64>,
    #[schema(required = true)]
    first_byte_ms: Option<u64>,
    /// The headers of the response; repeated headers are joined by a comma.
    #[schema(required = true)]
    response_headers: Option<BTreeMap<String, String>>,
    /// The start of the response body.
    #[schema(required = true)]
    response_body_sample: Option<String>,
    /// Whether the response exceeded what is stored: 64 headers with 8 KiB in total, 1 KiB of the body.
    #[schema(required = true)]
    response_truncated: Option<bool>,
    #[schema(format = DateTime)]
    scheduled_at: String,
    #[schema(format = DateTime, required = true)]
    picked_at: Option<String>,
    /// When the request began; in a note, since when the circuit breaker prevented it.
    #[schema(format = DateTime)]
    executed_at: String,
    #[schema(format = DateTime, required = true)]
    next_retry_at: Option<String>,
    /// `closed`, `half_open` for a probe, or `open` in a note.
    #[schema(value_type = BreakerStateWord)]
    circuit_breaker_state_at_attempt: &'static str,
    /// Whether the circuit breaker was open, so that no request was sent. Such a note does not count as an attempt.
    circuit_breaker_prevented: bool,
    #[schema(required = true)]
    node: Option<String>,
}

/// Attempts and notes in order: a note precedes the attempt that had to wait.
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
