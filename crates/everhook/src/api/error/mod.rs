//! Errors as clients see them: RFC 9457 problem JSON. `kind` lists the problem types, `conversions` turns every error of the core into one, `responses`
//! describes them in the OpenAPI document.
//!
//! A problem says what to change, never what our code looks like: no stack trace, no library's error, no secret.

mod conversions;
mod kind;
mod responses;

pub use self::{
    kind::{PAGES_PATH, ProblemKind},
    responses::{ChangeProblems, ExportProblems, LimitProblems, PublishProblems, ReadProblems, RetryProblems, problem_responses},
};

use std::time::Duration;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use everhook_core::manage::Fault;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

/// How long a client should wait before it tries again, in seconds: overload and restarts pass quickly.
const RETRY_AFTER_SECONDS: u64 = 1;

/// An error on its way to the client.
#[derive(Clone, Debug)]
pub struct ApiError {
    kind: ProblemKind,
    detail: String,
    errors: Vec<Fault>,
    /// When it is worth trying again, where that is known.
    retry_after: Option<Duration>,
}

/// An error (RFC 9457).
#[derive(Serialize, ToSchema)]
pub struct Problem {
    /// The kind of problem: the path of a page of this server that explains it. Programs decide by it. More types may be added.
    #[serde(rename = "type")]
    #[schema(example = "/docs/problems/invalid-fields", format = "uri-reference")]
    kind: String,
    /// The kind of problem, for people.
    #[schema(example = "Some fields are invalid")]
    title: &'static str,
    /// The HTTP status.
    #[schema(example = 422)]
    status: u16,
    /// What was wrong with this request, for people.
    #[schema(example = "some fields are invalid")]
    detail: String,
    /// Every field, query parameter or place in `data` that was refused; absent where none is to blame.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<FieldProblem>,
}

/// What is wrong with one field.
#[derive(Serialize, ToSchema)]
pub struct FieldProblem {
    /// The field.
    #[schema(example = "url")]
    field: String,
    /// What was wrong, and what would be right.
    #[schema(example = "must begin with `https://`")]
    reason: String,
}

/// The most bytes of words that repeat what a client wrote.
const REPEATED_BYTES_MAX: usize = 1_024;

/// Cuts words that repeat what a client wrote: a batch can be refused a thousand times over.
pub fn shorten(mut words: String) -> String {
    if words.len() > REPEATED_BYTES_MAX {
        words.truncate(words.floor_char_boundary(REPEATED_BYTES_MAX));
        words.push('…');
        words.shrink_to_fit();
    }
    words
}

impl ApiError {
    /// A problem of this kind.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), errors: Vec::new(), retry_after: None }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// 400: the request is not what this route reads.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::BadRequest, detail)
    }

    /// 400: some query parameters cannot be read.
    pub fn bad_query(errors: Vec<Fault>) -> Self {
        Self::new(ProblemKind::InvalidQuery, "some query parameters are invalid").with_errors(errors)
    }

    /// 404: nothing has this name, or it belongs to another organization.
    pub fn not_found(noun: &str) -> Self {
        let named_by = match noun {
            "organization" | "application" | "endpoint" => "id or uid",
            "source" | "retry schedule" | "event type" => "id or name",
            "kind of source" | "channel" | "alert rule" => "name",
            "attempt" => "number",
            _ => "id",
        };
        Self::new(ProblemKind::NotFound, format!("no {noun} has this {named_by}"))
    }

    /// 413, naming what is allowed and what came.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::PayloadTooLarge, detail)
    }

    /// 422: well-formed, but some fields are invalid; all of them are listed.
    pub fn invalid(errors: Vec<Fault>) -> Self {
        Self::new(ProblemKind::InvalidFields, "some fields are invalid").with_errors(errors)
    }

    /// 429: a limit is used up for so long.
    pub fn too_many(kind: ProblemKind, detail: impl Into<String>, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(kind, detail) }
    }

    /// 503: the same request may succeed later.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(ProblemKind::ServiceUnavailable, detail)
    }

    /// 500, for a fault of ours; the log has the cause.
    pub fn internal() -> Self {
        Self::new(ProblemKind::InternalError, "internal error; see the server log")
    }

    /// The same, which lists what was wrong with single fields.
    pub fn with_errors(self, errors: Vec<Fault>) -> Self {
        let errors = errors.into_iter().map(|fault| Fault { field: shorten(fault.field), reason: shorten(fault.reason) }).collect();
        Self { errors, ..self }
    }

    /// Whether the same request may succeed later: the fault is ours, or a limit is used up.
    #[cfg(feature = "amqp")]
    pub fn may_pass(&self) -> bool {
        let status = self.kind.status();
        status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
    }

    /// What was wrong, field by field, for a log.
    #[cfg(feature = "amqp")]
    pub fn in_words(&self) -> String {
        let fields = self.errors.iter().map(|fault| format!("; `{}` {}", fault.field, fault.reason));
        std::iter::once(self.detail.clone()).chain(fields).collect()
    }

    /// The body, also for one item of a batch.
    pub fn into_problem(self) -> Problem {
        let field = |fault: Fault| FieldProblem { field: fault.field, reason: fault.reason };
        Problem {
            kind: self.kind.type_path(),
            title: self.kind.title(),
            status: self.kind.status().as_u16(),
            detail: self.detail,
            errors: self.errors.into_iter().map(field).collect(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, is_of_provider) = (self.kind.status(), self.kind == ProblemKind::RequestNotVerified);
        // Whole seconds, and late rather than early.
        let seconds = self.retry_after.map_or(RETRY_AFTER_SECONDS, |wait| wait.as_secs() + 1);
        let body = serde_json::to_vec(&self.into_problem()).expect("a problem is texts and numbers");
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            // A provider proves itself as its source says, and not by an API key.
            StatusCode::UNAUTHORIZED if !is_of_provider => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}
