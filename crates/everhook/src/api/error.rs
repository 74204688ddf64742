//! Errors as clients see them: RFC 9457 problem JSON. Every error of the core becomes one here, by an explicit conversion.
//!
//! A problem says what to change, never what our code looks like: no stack trace, no library's error, no secret.

use std::{collections::BTreeMap, error::Error, time::Duration};

use crate::memory::NoRoom;
use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use everhook_core::{
    flow::{publish::PublishError, publishers::LookUpError, recall::RecallError},
    manage::{Fault, Refusal, endpoints::TrialError},
    policy::{
        schema::Violation,
        work::{FILTER_UNITS_MAX, REQUEST_UNITS_MAX, SCHEMA_UNITS_MAX},
    },
    ports::{KeyReused, StoreError},
};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::{
    IntoResponses, ToSchema,
    openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder},
};

/// What is named in every problem's `type`, before its code.
const TYPE_PREFIX: &str = "urn:everhook:problem:";

/// How long a client should wait before it tries again, in seconds: overload and restarts pass quickly.
const RETRY_AFTER_SECONDS: u64 = 1;

/// An error on its way to the client.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    detail: String,
    errors: Vec<Fault>,
    /// When it is worth trying again, where that is known.
    retry_after: Option<Duration>,
    /// What kind of problem it is, where the status does not say it.
    kind: Option<ProblemKind>,
}

/// A kind of problem beside those that statuses name. Each has its row in `docs/errors.md`.
#[derive(Clone, Copy, Debug)]
struct ProblemKind {
    code: &'static str,
    title: &'static str,
}

const IDEMPOTENCY_KEY_REUSED: ProblemKind = ProblemKind { code: "idempotency-key-reused", title: "Idempotency Key Reused" };
const OPERATIONAL_APPLICATION: ProblemKind = ProblemKind { code: "operational-application", title: "Operational Application" };
const SCHEMA_TOO_COSTLY: ProblemKind = ProblemKind { code: "schema-too-costly", title: "Schema Too Costly" };
const FILTER_TOO_COSTLY: ProblemKind = ProblemKind { code: "filter-too-costly", title: "Filter Too Costly" };
const REQUEST_TOO_COSTLY: ProblemKind = ProblemKind { code: "request-too-costly", title: "Request Too Costly" };
const EVALUATION_BUSY: ProblemKind = ProblemKind { code: "evaluation-busy", title: "Evaluation Busy" };

/// What went wrong (RFC 9457).
#[derive(Serialize, ToSchema)]
pub struct Problem {
    /// Names the kind of problem.
    #[serde(rename = "type")]
    #[schema(example = "urn:everhook:problem:unprocessable-entity")]
    kind: String,
    /// The kind of problem, in words.
    title: &'static str,
    /// The HTTP status.
    #[schema(example = 422)]
    status: u16,
    /// What was wrong with this request.
    detail: String,
    /// Every field that was not acceptable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
}

/// What is wrong with one field.
#[derive(Serialize, ToSchema)]
struct FieldProblem {
    /// The field.
    #[schema(example = "url")]
    field: String,
    /// What would be right.
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
    /// Any status with words of its own.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), errors: Vec::new(), retry_after: None, kind: None }
    }

    /// 422: the idempotency key belongs to another event.
    fn key_reused(KeyReused { original, is_erased }: KeyReused) -> Self {
        let detail = if is_erased {
            format!(
                "the idempotency key was used for the event {original}, whose data was erased: publish under another key, if it may be sent"
            )
        } else {
            format!("the idempotency key was used for the event {original}, which has another type or other data: use another key")
        };
        Self::of_kind(IDEMPOTENCY_KEY_REUSED, StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    /// 400: the request is not what this route reads.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 400: some query parameters cannot be read.
    pub fn bad_query(errors: Vec<Fault>) -> Self {
        Self { errors, ..Self::bad_request("some query parameters are not acceptable") }
    }

    /// 404: there is nothing by this name, or it is somebody else's.
    pub fn not_found(noun: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no such {noun}"))
    }

    /// 413, naming what is allowed and what came.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    /// 422: well-formed, not acceptable; every fault is listed.
    pub fn invalid(errors: Vec<Fault>) -> Self {
        let errors = errors.into_iter().map(|fault| Fault { field: shorten(fault.field), reason: shorten(fault.reason) }).collect();
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "some fields are not acceptable") }
    }

    /// 429: a limit is used up for so long.
    pub fn too_many(detail: impl Into<String>, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    /// Of a kind that the status does not name.
    fn of_kind(kind: ProblemKind, status: StatusCode, detail: impl Into<String>) -> Self {
        Self { kind: Some(kind), ..Self::new(status, detail) }
    }

    /// 503: schemas and filters that take long are evaluated a few at a time, and this one would have waited for too long.
    fn evaluation_busy() -> Self {
        let words =
            "the organization has too many schemas or filters evaluated that take long, or the server is busy with others: try again";
        Self::of_kind(EVALUATION_BUSY, StatusCode::SERVICE_UNAVAILABLE, words)
    }

    /// 503: answers that their clients do not read hold the memory for large ones.
    pub fn unread_answers(no_room: NoRoom) -> Self {
        let words = match no_room {
            NoRoom::Organization => {
                "answers to this organization that were not read yet hold as much memory as one organization may: read those first, or ask for \
                 fewer rows at a time"
            }
            NoRoom::Total => "answers that were not read yet hold as much memory as they may: try again, or ask for fewer rows at a time",
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, words)
    }

    /// A question about a publisher that was not answered: 503 that says so if the store is away and this node does not know the answer.
    pub fn of_look_up(noun: &str, error: LookUpError) -> Self {
        match error {
            LookUpError::Store(error) => error.into(),
            LookUpError::NotKnown(error) => Self::not_known(noun, &error),
        }
    }

    /// 503: the store is away, and this node has not read of it before.
    fn not_known(noun: &str, error: &StoreError) -> Self {
        tracing::warn!(error = error as &dyn Error, "a publisher was refused because its {noun} is not known here and the store is away");
        let words = format!("the database is away, and this node has not seen this {noun} before: try again");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, words)
    }

    /// 500, for a fault of ours; the log has the cause.
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Everhook failed to answer; its log says why")
    }

    /// Whether the same request may succeed later: the fault is ours, or a limit is used up.
    #[cfg(feature = "amqp")]
    pub fn may_pass(&self) -> bool {
        self.status.is_server_error() || self.status == StatusCode::TOO_MANY_REQUESTS
    }

    /// What was wrong, field by field, for a log.
    #[cfg(feature = "amqp")]
    pub fn in_words(&self) -> String {
        let fields = self.errors.iter().map(|fault| format!("; `{}` {}", fault.field, fault.reason));
        std::iter::once(self.detail.clone()).chain(fields).collect()
    }

    /// The body, also for one item of a batch.
    pub fn into_problem(self) -> Problem {
        let title = self.kind.map_or_else(|| self.status.canonical_reason().unwrap_or("Error"), |kind| kind.title);
        let code = self.kind.map_or_else(|| title.to_ascii_lowercase().replace(' ', "-"), |kind| kind.code.to_owned());
        let field = |fault: Fault| FieldProblem { field: fault.field, reason: fault.reason };
        Problem {
            kind: format!("{TYPE_PREFIX}{code}"),
            title,
            status: self.status.as_u16(),
            detail: self.detail,
            errors: self.errors.into_iter().map(field).collect(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status;
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
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

impl From<NoRoom> for ApiError {
    fn from(no_room: NoRoom) -> Self {
        let words = match no_room {
            NoRoom::Organization => {
                "the requests of this organization that are under way hold as much memory as one organization may: try again"
            }
            NoRoom::Total => "the requests that are under way hold as much memory as they may: try again",
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, words)
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            // Whoever watches the disk tells the log of it, once.
            error if error.full_disk().is_some() => {
                tracing::debug!(error = &error as &dyn Error, "a request was refused because a disk is full");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, format!("{}: try again when there is some", error.in_words()))
            }
            StoreError::Unavailable(_) | StoreError::Conflict => {
                tracing::warn!(error = &error as &dyn Error, "a request was refused because the store did not take it");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "the store is not available: try again")
            }
            StoreError::Corrupt(_) => {
                tracing::error!(error = &error as &dyn Error, "the store holds something that cannot be true");
                Self::internal()
            }
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(faults) => Self::invalid(faults),
            Refusal::NotFound(noun) => Self::not_found(&noun.to_string()),
            Refusal::Forbidden(words) => Self::new(StatusCode::FORBIDDEN, words),
            Refusal::Conflict(words) => Self::new(StatusCode::CONFLICT, words),
            Refusal::OnDemand(refusal) => Self::too_many(refusal.to_string(), refusal.retry_after()),
            Refusal::Busy => Self::evaluation_busy(),
            Refusal::Store(error) => error.into(),
        }
    }
}

impl From<PublishError> for ApiError {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::NoSuchApplication => {
                Self::invalid(vec![Fault::new("application_id", "names no application of this organization")])
            }
            PublishError::TooMany { retry_after } => Self::too_many(
                "the organization has published as many events as its limit `events_per_minute` allows: try again later",
                retry_after,
            ),
            PublishError::UnknownType(_) => Self::invalid(vec![Fault::new("type", "is not defined, and the application is strict")]),
            PublishError::ArchivedType(_) => Self::invalid(vec![Fault::new("type", "is archived: publish another, or bring it back")]),
            PublishError::Misfit(Violation { path, reason }) => Self::invalid(vec![Fault::new(format!("data{path}"), reason)]),
            PublishError::KeyReused(reused) => Self::key_reused(reused),
            PublishError::Operational => {
                let detail = "the application `operational` carries Everhook's own events: publish to another application";
                Self::of_kind(OPERATIONAL_APPLICATION, StatusCode::FORBIDDEN, detail)
            }
            PublishError::SchemaTooCostly => Self::of_kind(
                SCHEMA_TOO_COSTLY,
                StatusCode::UNPROCESSABLE_ENTITY,
                format!(
                    "checking `data` against the schema of its type takes more than the {SCHEMA_UNITS_MAX} units of work that one event may: \
                     publish less data at once, or let the schema have fewer alternatives and patterns"
                ),
            ),
            PublishError::FilterTooCostly { endpoint } => Self::of_kind(
                FILTER_TOO_COSTLY,
                StatusCode::UNPROCESSABLE_ENTITY,
                format!(
                    "evaluating the filters of the application's endpoints takes more than the {FILTER_UNITS_MAX} units of work that one event may; \
                     the last was the filter of the endpoint {endpoint}: publish less data at once, or let filters have fewer conditions on large values"
                ),
            ),
            PublishError::RequestTooCostly => Self::of_kind(
                REQUEST_TOO_COSTLY,
                StatusCode::SERVICE_UNAVAILABLE,
                format!(
                    "schemas and filters for the events before this one have used the {REQUEST_UNITS_MAX} units of work that one request may: \
                     publish it again, in a smaller batch"
                ),
            ),
            PublishError::EvaluationBusy => Self::evaluation_busy(),
            PublishError::Store(error) => error.into(),
            PublishError::SpoolFull => {
                tracing::warn!("a publish was refused because the spool has no room for it");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "the database does not take it now, and the spool has no room for it: try again")
            }
            PublishError::NotKnown(error) => Self::not_known("application", &error),
        }
    }
}

impl From<TrialError> for ApiError {
    fn from(error: TrialError) -> Self {
        match error {
            TrialError::Refused(refusal) => refusal.into(),
            TrialError::Publish(error) => error.into(),
        }
    }
}

impl From<RecallError> for ApiError {
    fn from(error: RecallError) -> Self {
        match error {
            RecallError::NotFound(noun) => Self::not_found(noun),
            RecallError::Unknown(ids) => {
                let fault = |id| Fault::new("delivery_ids", format!("{id} is not a delivery of this endpoint"));
                Self::invalid(ids.iter().map(fault).collect())
            }
            RecallError::NotDead(_) | RecallError::Refused(_) | RecallError::NoneFailed | RecallError::TooMany(_) => {
                Self::new(StatusCode::CONFLICT, error.to_string())
            }
            RecallError::TooOften(wait) => Self::too_many("too many retries by hand: wait, or let an operation do it", wait),
            RecallError::Store(error) => error.into(),
        }
    }
}

/// The problems of routes that read, for the OpenAPI document.
pub struct ReadProblems;

/// The problems of routes that change something.
pub struct ChangeProblems;

/// The problems of routes that retry by hand.
pub struct RetryProblems;

/// The problems of routes that publish.
pub struct PublishProblems;

/// The problem of routes that a limit of the organization can refuse, beside those of their kind.
pub struct LimitProblems;

/// The problem of what is too large to be exported, beside those of reads.
pub struct ExportProblems;

impl IntoResponses for ExportProblems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        problem_responses(&[422])
    }
}

impl IntoResponses for LimitProblems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        problem_responses(&[429])
    }
}

impl IntoResponses for ReadProblems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        problem_responses(&[400, 401, 403, 404, 500, 503])
    }
}

impl IntoResponses for ChangeProblems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        problem_responses(&[400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503])
    }
}

impl IntoResponses for RetryProblems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        problem_responses(&[400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 500, 503])
    }
}

impl IntoResponses for PublishProblems {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        problem_responses(&[400, 401, 403, 404, 408, 413, 415, 422, 429, 500, 503])
    }
}

fn problem_responses(statuses: &[u16]) -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
    let response = |status: &u16| {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response = ResponseBuilder::new().description(describe(*status)).content("application/problem+json", content).build();
        (status.to_string(), RefOr::T(response))
    };
    statuses.iter().map(response).collect()
}

fn describe(status: u16) -> &'static str {
    match status {
        400 => "Not JSON, a wrong JSON type, an unknown or repeated field, or a query that cannot be read",
        401 => "No API key, or one that is not good",
        403 => "The key has not the scope that this needs",
        404 => "There is no such thing in this organization",
        408 => "The body did not arrive in time",
        409 => "What is there stands against it",
        413 => "Too large; the detail names the limit",
        415 => "The content type is not application/json",
        422 => "Well-formed, but not acceptable; all faults are listed",
        429 => "A limit of the organization is used up: try again after the time in Retry-After",
        500 => "A fault of ours; the server's log says why",
        _ => "The store is not available: try again after the time in Retry-After",
    }
}
