//! The answer to a call, as clients see it.

use std::{collections::BTreeMap, fmt::Write as _};

use axum::response::Response;
use everhook_core::{
    calls::answered::{Answer, CallAnswer, Step},
    manage::jobs::{PendingCall, QueuedCall},
    policy::calls::answer::{AppFailure, FailureKind},
};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::{IntoResponses, ToSchema, openapi::RefOr};

use crate::api::{
    error::{ApiError, Problem, ProblemKind, PublishProblems},
    wire::json,
    words::{BreakerStateWord, CallSourceWord, CallStep, CallStepOutcome, ErrorSourceWord, QueuedSourceWord},
};

const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The answer to a call.
#[derive(Serialize, ToSchema)]
pub struct CallOut {
    /// Who answered: `app`, `cache` (the app, earlier) or `default` (the manifest's fallback).
    #[schema(value_type = CallSourceWord)]
    source: &'static str,
    /// The answer: any JSON value.
    #[schema(value_type = serde_json::Value)]
    data: Box<RawValue>,
    /// Names the call; the app saw it as `X-Request-ID`.
    #[schema(format = "uuid")]
    request_id: String,
    /// How long the call took, in milliseconds.
    duration_ms: f64,
    /// The state of the capability's circuit breaker.
    #[schema(value_type = BreakerStateWord)]
    circuit: &'static str,
    /// How old the answer is, in milliseconds, if it is from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    age_ms: Option<f64>,
    /// What the app wants you to know, or why its answer was not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    warning: Option<String>,
    /// The steps that were tried, in order, if `explain` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    steps: Option<Vec<StepOut>>,
}

/// A call that became a job.
#[derive(Serialize, ToSchema)]
pub struct QueuedOut {
    /// Always `queued`.
    #[schema(value_type = QueuedSourceWord)]
    source: &'static str,
    /// The job: see `GET /v1/jobs/{id}`.
    #[schema(format = "uuid")]
    job_id: String,
    /// Names the call; the app sees it as `X-Request-ID`.
    #[schema(format = "uuid")]
    request_id: String,
    /// How long the call took, in milliseconds.
    duration_ms: f64,
    /// The state of the capability's circuit breaker.
    #[schema(value_type = BreakerStateWord)]
    circuit: &'static str,
    /// Why the app's answer was not used, if the app was called.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    warning: Option<String>,
    /// The steps that were tried, in order, if `explain` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    steps: Option<Vec<StepOut>>,
}

impl QueuedOut {
    /// As clients see it.
    pub fn new(queued: &QueuedCall, explains: bool) -> Self {
        Self {
            source: "queued",
            job_id: queued.job.to_string(),
            request_id: queued.request_id.to_string(),
            duration_ms: millis(queued.duration),
            circuit: queued.circuit.as_str(),
            warning: queued.warning.clone(),
            steps: explains.then(|| queued.steps.iter().map(StepOut::from).collect()),
        }
    }
}

/// A call that waits for a person.
#[derive(Serialize, ToSchema)]
pub struct PendingOut {
    /// Always `pending`.
    source: &'static str,
    /// What a person decides about it: see `GET /v1/approvals/{id}`.
    #[schema(format = "uuid")]
    approval_id: String,
    /// Until when it waits.
    #[schema(format = DateTime)]
    expires_at: String,
    /// The id of the call. The app gets it as `X-Request-ID` if the call is sent to it again.
    #[schema(format = "uuid")]
    request_id: String,
    /// How long the call took, in milliseconds.
    duration_ms: f64,
    /// The state of the capability's circuit breaker.
    #[schema(value_type = BreakerStateWord)]
    circuit: &'static str,
    /// Why the app's answer was not used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    warning: Option<String>,
    /// The steps that were tried, in order, if `explain` was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    steps: Option<Vec<StepOut>>,
}

impl PendingOut {
    /// As clients see it.
    pub fn new(pending: &PendingCall, explains: bool) -> Self {
        Self {
            source: "pending",
            approval_id: pending.approval.to_string(),
            expires_at: pending.expires_at.to_string(),
            request_id: pending.request_id.to_string(),
            duration_ms: millis(pending.duration),
            circuit: pending.circuit.as_str(),
            warning: pending.warning.clone(),
            steps: explains.then(|| pending.steps.iter().map(StepOut::from).collect()),
        }
    }
}

/// A call that is answered later; `source` shows how.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum LaterOut {
    /// It became a job.
    Queued(QueuedOut),
    /// It waits for a person.
    Pending(PendingOut),
}

/// One thing that was tried for a call.
#[derive(Serialize, ToSchema)]
pub struct StepOut {
    /// `cache`, `app`, `static`, `random_pick`, `http`, `queue`, `manual` or `error`.
    #[schema(value_type = CallStep)]
    step: &'static str,
    /// `hit`, `stale`, `miss`, `answered`, `queued`, `pending`, `failed`, `skipped` or `shadowed`.
    #[schema(value_type = CallStepOutcome)]
    outcome: &'static str,
    /// How long it took, in milliseconds.
    duration_ms: f64,
    /// Why it failed or was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    reason: Option<String>,
}

/// A call that nothing answered: a problem, and how it came to that.
#[derive(Serialize, ToSchema)]
pub struct CallProblem {
    #[serde(flatten)]
    problem: Problem,
    /// Always `error`.
    #[schema(value_type = ErrorSourceWord)]
    source: &'static str,
    /// Why the app's answer was not used.
    #[schema(example = "timeout")]
    reason: &'static str,
    #[schema(format = "uuid")]
    request_id: String,
    duration_ms: f64,
    #[schema(value_type = BreakerStateWord)]
    circuit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    steps: Option<Vec<StepOut>>,
}

/// The problems of calls, for the OpenAPI document.
pub struct CallProblems;

impl IntoResponses for CallProblems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let mut responses = PublishProblems::responses();
        responses.extend(crate::api::error::problem_responses(&[404, 409, 502, 503, 504]));
        responses
    }
}

/// The answer, with its status.
pub fn body_of(answer: &CallAnswer, explains: bool) -> Result<CallOut, (StatusCode, Box<CallProblem>)> {
    let steps = explains.then(|| answer.steps.iter().map(StepOut::from).collect());
    let (request_id, duration_ms, circuit) = (answer.request_id.to_string(), millis(answer.duration), answer.circuit.as_str());
    let of_problem = |kind: ProblemKind, reason: &'static str, detail: String, steps| {
        let problem = ApiError::new(kind, detail).into_problem();
        let request_id = request_id.clone();
        (kind.status(), Box::new(CallProblem { problem, source: "error", reason, request_id, duration_ms, circuit, steps }))
    };
    match &answer.result {
        Ok(Answer { source, data, age, warning }) => {
            let text = std::str::from_utf8(data).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR);
            let Some(data) = text.ok().and_then(|text| RawValue::from_string(text.to_owned()).ok()) else {
                return Err(of_problem(ProblemKind::InternalError, "internal", "internal error; see the server log".to_owned(), steps));
            };
            let (age_ms, warning) = (age.map(millis), warning.clone());
            Ok(CallOut {
                source: source.as_str(),
                data,
                request_id: answer.request_id.to_string(),
                duration_ms,
                circuit,
                age_ms,
                warning,
                steps,
            })
        }
        Err(AppFailure { kind, reason, .. }) => {
            let problem = match kind {
                FailureKind::Timeout => ProblemKind::CallTimedOut,
                FailureKind::CircuitOpen => ProblemKind::CircuitOpen,
                FailureKind::AtCapacity | FailureKind::OutOfResources => ProblemKind::AppAtCapacity,
                FailureKind::AppError
                | FailureKind::BadAnswer
                | FailureKind::Status
                | FailureKind::RateLimit
                | FailureKind::Network
                | FailureKind::Shadow
                | FailureKind::Off => ProblemKind::CallFailed,
            };
            Err(of_problem(problem, kind.as_str(), reason.clone(), steps))
        }
    }
}

/// Writes the answer.
pub fn render(answer: &CallAnswer, explains: bool) -> Response {
    let mut response = match body_of(answer, explains) {
        Ok(out) => json(StatusCode::OK, &out),
        Err((status, problem)) => {
            let mut response = json(status, &problem);
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
            if status == StatusCode::SERVICE_UNAVAILABLE {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            response
        }
    };
    if let Ok(value) = HeaderValue::from_str(&server_timing(answer)) {
        response.headers_mut().insert(SERVER_TIMING, value);
    }
    response
}

/// Where the time went, as browsers and traces show it.
fn server_timing(answer: &CallAnswer) -> String {
    let mut text = String::new();
    for Step { step, outcome, took, .. } in &answer.steps {
        let _ = write!(text, "{step};desc=\"{outcome}\";dur={:.3}, ", took.as_secs_f64() * 1_000.0);
    }
    let _ = write!(text, "total;dur={:.3}", millis(answer.duration));
    text
}

/// Milliseconds, to the microsecond.
fn millis(length: std::time::Duration) -> f64 {
    length.as_micros() as f64 / 1_000.0
}

impl From<&Step> for StepOut {
    fn from(step: &Step) -> Self {
        Self { step: step.step, outcome: step.outcome, duration_ms: millis(step.took), reason: step.reason.clone() }
    }
}
