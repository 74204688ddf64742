//! The health of an application: what its last check found, and how its calls went.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::ApplicationId,
    manage::app_health::{self, AppHealthFacts},
    model::AppStatus,
};
use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::MayRead,
    endpoints::StatsOut,
    error::{ApiError, ReadProblems},
    uids::Uids,
    wire::{Named, NoParams, json},
    words::AppStatusWord,
};

/// The routes.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default().routes(routes!(get))
}

/// The health of an application.
#[derive(Serialize, ToSchema)]
pub struct AppHealthOut {
    #[schema(format = "uuid")]
    application_id: String,
    #[schema(required = true)]
    application_uid: Option<String>,
    /// `healthy`, `degraded` (it answers its health check, but one of its `checks` is not ok, calls fail, or they are slow), `unhealthy` (it does not
    /// answer its health check) or `unknown` (it was not checked yet, or its health is not checked).
    #[schema(value_type = AppStatusWord)]
    status: &'static str,
    /// What is wrong, in words.
    reasons: Vec<String>,
    /// The health page; null if the health of the app is not checked.
    #[schema(required = true)]
    url: Option<String>,
    #[schema(format = DateTime, required = true)]
    checked_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    next_check_at: Option<String>,
    /// How long the last check took, in milliseconds.
    #[schema(required = true)]
    response_time_ms: Option<f64>,
    /// The checks in a row that failed.
    consecutive_failures: u32,
    /// When the first of them failed.
    #[schema(format = DateTime, required = true)]
    failing_since: Option<String>,
    /// What the last check found, in words.
    #[schema(required = true)]
    detail: Option<String>,
    /// What the app reports about its parts: the `checks` of its health page, up to 4 KiB.
    #[schema(value_type = Option<serde_json::Value>, required = true)]
    checks: Option<Box<RawValue>>,
    /// How the calls of its capabilities went in the last 24 hours.
    stats: StatsOut,
}

impl AppHealthOut {
    fn new(facts: AppHealthFacts, uids: &Uids) -> Self {
        let AppHealthFacts { application, check, status, reasons, statistics } = facts;
        let (url, next_check_at) = (check.as_ref().map(|check| check.url.clone()), check.as_ref().map(|check| check.next_at.to_string()));
        let found = check.and_then(|check| check.found);
        let failing = found.as_ref().and_then(|found| found.failing);
        Self {
            application_id: application.to_string(),
            application_uid: uids.application(application),
            status: status.map_or("unknown", AppStatus::as_str),
            reasons,
            url,
            checked_at: found.as_ref().map(|found| found.checked_at.to_string()),
            next_check_at,
            response_time_ms: found.as_ref().map(|found| (found.took.as_secs_f64() * 1e5).round() / 100.0),
            consecutive_failures: failing.map_or(0, |failing| failing.count),
            failing_since: failing.map(|failing| failing.since.to_string()),
            detail: found.as_ref().map(|found| found.detail.clone()),
            checks: found.and_then(|found| found.checks).and_then(|checks| RawValue::from_string(checks).ok()),
            stats: StatsOut::from(&statistics),
        }
    }
}

/// Returns the health of an application: the result of its last health check, and statistics of its calls in the last 24 hours.
#[utoipa::path(
    get, path = "/v1/applications/{id}/health", tag = "calls", operation_id = "get_application_health",
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The health", body = AppHealthOut), ReadProblems),
)]
async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
) -> Result<Response, ApiError> {
    let facts = app_health::get(&api.line, caller.organization, &of).await?;
    let uids = Uids::of_applications(&api, caller.organization, [facts.application]).await?;
    Ok(json(StatusCode::OK, &AppHealthOut::new(facts, &uids)))
}
