//! How an app in shadow mode differs from what callers were answered with.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use bytes::Bytes;
use everhook_core::{calls::ShadowDifference, manage::manifests};
use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::{
    Api,
    access::MayRead,
    error::{ApiError, ReadProblems},
    manifests::OfApplication,
    wire::{NoParams, json},
};

/// A call in shadow mode whose answers differed.
#[derive(Serialize, ToSchema)]
pub struct ShadowDifferenceOut {
    #[schema(format = "uuid")]
    request_id: String,
    /// When the app's part of the call ended.
    #[schema(format = DateTime)]
    at: String,
    /// How long the app took, in milliseconds.
    app_duration_ms: f64,
    /// What the app answered; null if it failed or the answer is longer than 2 KiB.
    #[schema(value_type = Option<serde_json::Value>, required = true)]
    app: Option<Box<RawValue>>,
    /// Why the app has no answer; null if it has one.
    #[schema(required = true)]
    app_failure: Option<String>,
    /// What the caller was answered with; null if no step of the fallback had an answer or it is longer than 2 KiB.
    #[schema(value_type = Option<serde_json::Value>, required = true)]
    fallback: Option<Box<RawValue>>,
    /// Where the two differ: at most 20 JSON pointers.
    differences: Vec<String>,
}

/// Differences, newest first.
#[derive(Serialize, ToSchema)]
pub struct ShadowDifferenceList {
    data: Vec<ShadowDifferenceOut>,
}

impl From<ShadowDifference> for ShadowDifferenceOut {
    fn from(difference: ShadowDifference) -> Self {
        let raw = |data: Bytes| String::from_utf8(data.into()).ok().and_then(|text| RawValue::from_string(text).ok());
        let (app, app_failure) = match difference.app {
            Ok(data) => (data.and_then(raw), None),
            Err(failure) => (None, Some(format!("{}: {}", failure.kind.as_str(), failure.reason))),
        };
        Self {
            request_id: difference.request_id.to_string(),
            at: difference.at.to_string(),
            app_duration_ms: (difference.app_took.as_secs_f64() * 1e5).round() / 100.0,
            app,
            app_failure,
            fallback: difference.instead.and_then(raw),
            differences: difference.places,
        }
    }
}

/// Lists calls of a capability in shadow mode in which the app did not answer the same as the fallback: the last 50 of the responding node
/// with this version of the manifest since it started. The statistics count all of them.
#[utoipa::path(
    get, path = "/v1/applications/{id}/capabilities/{capability}/shadow", tag = "calls", operation_id = "list_shadow_differences",
    params(("id" = String, Path, description = "The application's id or uid"), ("capability" = String, Path, description = "The capability's name")),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The differences, newest first", body = ShadowDifferenceList), ReadProblems),
)]
pub async fn list_differences(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    OfApplication(of, capability): OfApplication,
) -> Result<Response, ApiError> {
    let app = manifests::opened(&api.line, caller.organization, &of).await?;
    let capability = app.capabilities.get(&capability).ok_or_else(|| ApiError::not_found("capability"))?;
    let found = api.line.calls.shadow_differences(capability);
    Ok(json(StatusCode::OK, &ShadowDifferenceList { data: found.into_iter().map(ShadowDifferenceOut::from).collect() }))
}
