//! The problems of each kind of route, for the OpenAPI document.

use std::collections::BTreeMap;

use utoipa::{
    IntoResponses,
    openapi::{ContentBuilder, HeaderBuilder, ObjectBuilder, Ref, RefOr, ResponseBuilder, Type},
};

use super::ProblemKind;

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

/// Responses that are problems.
pub fn problem_responses(statuses: &[u16]) -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
    let response = |status: &u16| {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let mut response = ResponseBuilder::new().description(describe(*status)).content("application/problem+json", content);
        if let Some((name, kind, words)) = header(*status) {
            let schema = ObjectBuilder::new().schema_type(kind).build();
            response = response.header(name, HeaderBuilder::new().schema(Some(schema)).description(Some(words)).build());
        }
        (status.to_string(), RefOr::T(response.build()))
    };
    statuses.iter().map(response).collect()
}

/// The header that comes with a status.
const fn header(status: u16) -> Option<(&'static str, Type, &'static str)> {
    match status {
        401 => Some(("WWW-Authenticate", Type::String, "`Bearer`.")),
        429 | 503 => Some(("Retry-After", Type::Integer, "In how many seconds to try again.")),
        _ => None,
    }
}

/// What a status means, and which problem types come with it.
fn describe(status: u16) -> String {
    let types = ProblemKind::ALL.iter().filter(|kind| kind.status().as_u16() == status).map(|kind| format!("`{}`", kind.code()));
    format!("{}. Types: {}", summary(status), types.collect::<Vec<_>>().join(", "))
}

const fn summary(status: u16) -> &'static str {
    match status {
        400 => "Not JSON, a wrong JSON type, an unknown or repeated field, or an invalid query parameter",
        401 => "No API key, or one that is not valid",
        403 => "The API key lacks a scope",
        404 => "Nothing in this organization has this id",
        408 => "The body did not arrive in time",
        409 => "The current state does not allow it",
        413 => "Too large; `detail` names the limit",
        415 => "The content type is not application/json",
        422 => "Well-formed, but not accepted; `errors` lists every field",
        429 => "A limit of the organization is reached: try again after the time in Retry-After",
        500 => "Everhook failed; the server's log says why",
        502 => "The app failed, and its fallback has no answer",
        504 => "The app did not answer in time, and its fallback has no answer",
        _ => "The server cannot take it now: try again after the time in Retry-After",
    }
}
