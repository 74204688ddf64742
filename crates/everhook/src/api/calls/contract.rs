//! The contract test of an app.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use bytes::Bytes;
use everhook_core::{
    calls::contract::{ContractCheck, is_kept},
    ids::ApplicationId,
    manage::{Fault, manifests},
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::{
    Api,
    access::MayManage,
    body::JsonBody,
    error::{ApiError, ChangeProblems},
    wire::{Named, NoParams, json},
};

/// The longest path of a health page.
const PATH_BYTES_MAX: usize = 1_024;

/// A contract test.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"capability": "winnerSelection", "payload": {"participants": ["ada", "bob"], "prizes": ["mug"]}}))]
pub struct ContractTestIn {
    /// The capability that is tested.
    capability: String,
    /// A payload that the app can answer: any JSON value.
    #[schema(value_type = serde_json::Value)]
    payload: Box<RawValue>,
    /// The path of the health page, appended to the base URL; `/health` if absent.
    #[serde(default)]
    health_path: Option<String>,
}

/// The report of a contract test.
#[derive(Serialize, ToSchema)]
pub struct ContractReportOut {
    /// Whether the app passed every check.
    passed: bool,
    checks: Vec<ContractCheckOut>,
}

/// One check of a contract test.
#[derive(Serialize, ToSchema)]
pub struct ContractCheckOut {
    /// `health`, `answer`, `forged signature`, `missing signature`, `garbage`, `deadline of 200 ms`, `callback` (only of `async` capabilities),
    /// `repeated request` or `answer times`.
    #[schema(value_type = crate::api::words::ContractCheckName)]
    name: &'static str,
    /// Whether the app passed; null if it could not be checked.
    #[schema(required = true)]
    passed: Option<bool>,
    /// What was seen.
    detail: String,
    /// How long the request took, in milliseconds; of `callback`, how long the app took to call back; of `answer times`, the p95.
    duration_ms: f64,
}

impl From<&[ContractCheck]> for ContractReportOut {
    fn from(checks: &[ContractCheck]) -> Self {
        let shown = |check: &ContractCheck| ContractCheckOut {
            name: check.name,
            passed: check.passed,
            detail: check.detail.clone(),
            duration_ms: (check.took.as_secs_f64() * 1e5).round() / 100.0,
        };
        Self { passed: is_kept(checks), checks: checks.iter().map(shown).collect() }
    }
}

/// Tests whether an app conforms to the contract, with up to 15 requests to it: it answers a valid request, refuses forged signatures, refuses malformed
/// bodies, answers within a deadline of 200 ms, gives the same answer to the same `X-Request-ID`, has a health page, and the p95 of its answers is within 80 %
/// of the timeout. An `async` capability must take the job over, call back within its timeout (30 seconds at most are waited for), and report the same if it
/// is asked again. Circuit breakers, caches and fallbacks are not used.
#[utoipa::path(
    post, path = "/v1/applications/{id}/manifest/check", tag = "calls", operation_id = "check_contract", request_body = ContractTestIn,
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "The report", body = ContractReportOut), ChangeProblems),
)]
pub async fn check_contract(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
    JsonBody(asked): JsonBody<ContractTestIn>,
) -> Result<Response, ApiError> {
    let health_path = asked.health_path.unwrap_or_else(|| "/health".to_owned());
    let is_path = health_path.starts_with('/') && health_path.len() <= PATH_BYTES_MAX && !health_path.contains(char::is_whitespace);
    if !is_path {
        let reason = format!("must begin with `/`, have no blanks and be at most {PATH_BYTES_MAX} bytes long");
        return Err(ApiError::invalid(vec![Fault::new("health_path", reason)]));
    }
    let app = manifests::opened(&api.line, caller.organization, &of).await?;
    let capability = app.capabilities.get(&asked.capability).ok_or_else(|| ApiError::not_found("capability"))?;
    let payload = Bytes::from(asked.payload.get().to_owned());
    let checks = manifests::check_contract(&api.line, capability, &health_path, payload, &api.callbacks_url).await?;
    Ok(json(StatusCode::OK, &ContractReportOut::from(&checks[..])))
}
