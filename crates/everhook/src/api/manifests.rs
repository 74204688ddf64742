//! Manifests: the configuration of an application for calls, what signs the requests to it, and the state of its capabilities.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, Path, State},
    response::Response,
};
use everhook_core::{
    calls::OpenCapability,
    gates::GateFacts,
    ids::{ApplicationId, Ref},
    manage::{Fault, endpoints::BreakerOrder, manifests},
    model::KeptManifest,
};
use http::{StatusCode, request::Parts};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::{MayManage, MayRead},
    body::{JsonBody, OptionalJsonBody},
    endpoints::{BreakerOrderIn, BreakerStateOut, SecretOut, StatsOut, StatsQuery, longest_range},
    error::{ApiError, ChangeProblems, ReadProblems},
    run_to_completion,
    uids::Uids,
    wire::{Named, NoParams, Params, json},
};

/// How long the old secret signs after a rotation that does not say: a day.
const GRACE_SECONDS: i64 = 86_400;

/// The routes.
pub fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::default()
        .routes(routes!(put, get))
        .routes(routes!(reveal))
        .routes(routes!(rotate))
        .routes(routes!(list))
        .routes(routes!(command_breaker))
        .routes(routes!(stats))
}

/// A manifest as its owner wrote it: `base_url`, `owner_email`, `health_path` and `capabilities`. docs/apps.md describes every field.
#[derive(Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = Object)]
pub struct ManifestIn(Box<RawValue>);

/// A manifest.
#[derive(Serialize, ToSchema)]
pub struct ManifestOut {
    #[schema(format = "uuid")]
    application_id: String,
    #[schema(required = true)]
    application_uid: Option<String>,
    /// Rises by one with each change.
    version: i64,
    /// The document as it was written.
    #[schema(value_type = Object)]
    manifest: Box<RawValue>,
    #[schema(format = DateTime)]
    updated_at: String,
}

impl ManifestOut {
    async fn new(api: &Api, kept: KeptManifest) -> Result<Self, ApiError> {
        let uids = Uids::of_applications(api, kept.organization, [kept.application]).await?;
        Ok(Self {
            application_id: kept.application.to_string(),
            application_uid: uids.application(kept.application),
            version: kept.version,
            manifest: RawValue::from_string(kept.document).map_err(|_| ApiError::internal())?,
            updated_at: kept.updated_at.to_string(),
        })
    }
}

/// A rotation of the secret.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"grace_seconds": 3600}))]
pub struct AppRotationIn {
    /// The grace period, in which the app may know either secret: 0 to 2,592,000; 86,400 if absent.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 0, maximum = 2_592_000)]
    grace_seconds: Option<i64>,
}

/// A capability, as calls on this node go by it.
#[derive(Serialize, ToSchema)]
pub struct CapabilityOut {
    name: String,
    /// The time that a call may take, in milliseconds.
    timeout_ms: u64,
    /// The steps of its fallback, in order.
    fallback: Vec<&'static str>,
    /// The state of its circuit breaker on this node; absent if this node has not called it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false)]
    circuit_breaker: Option<BreakerStateOut>,
    /// The number of requests in progress on this node.
    in_flight: u32,
    /// The number of requests that may be in progress on this node; null if this node has not called it.
    #[schema(required = true)]
    concurrency_limit: Option<u32>,
    /// The median response time of the last minute in milliseconds; null if there were few responses.
    #[schema(required = true)]
    p50_ms: Option<f64>,
    #[schema(required = true)]
    p95_ms: Option<f64>,
    #[schema(required = true)]
    p99_ms: Option<f64>,
}

/// The capabilities of an application.
#[derive(Serialize, ToSchema)]
pub struct CapabilityList {
    data: Vec<CapabilityOut>,
}

/// Returns the statistics of a capability: of its calls that reached the app, over all nodes. Updated once a second.
#[utoipa::path(
    get, path = "/v1/applications/{id}/capabilities/{capability}/stats", tag = "calls", operation_id = "get_capability_stats",
    params(
        ("id" = String, Path, description = "The application's id or uid"),
        ("capability" = String, Path, description = "The capability's name"),
        StatsQuery,
    ),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The statistics", body = StatsOut), ReadProblems),
)]
async fn stats(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    OfApplication(of, capability): OfApplication,
    Params(query): Params<StatsQuery>,
) -> Result<Response, ApiError> {
    let (from, to) = query.range(api.line.ports.clock.now(), longest_range(api.line.retention.rollups))?;
    let statistics = manifests::statistics(&api.line, caller.organization, &of, &capability, (from, to)).await?;
    Ok(json(StatusCode::OK, &StatsOut::from(&statistics)))
}

/// An application and one of its capabilities, in a path.
pub struct OfApplication(pub Ref<ApplicationId>, pub String);

impl FromRequestParts<Arc<Api>> for OfApplication {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let segments = Path::<(String, String)>::from_request_parts(parts, api).await.ok();
        let named = segments.and_then(|Path((application, other))| Some(Self(Ref::parse(&application)?, other)));
        named.ok_or_else(|| ApiError::not_found("application"))
    }
}

/// Sets the manifest of an application. It replaces the previous manifest as a whole. Settings that this version does not support are refused.
#[utoipa::path(
    put, path = "/v1/applications/{id}/manifest", tag = "calls", operation_id = "put_manifest",
    request_body(content = ManifestIn, example = json!({"base_url": "https://app.example.com", "capabilities": {"winnerSelection": {
        "path": "/api/platform/winner-selection", "timeout": 5000,
        "fallback": [{"type": "default", "random_pick": {"from": "/participants", "count": "/prizes"}}]
    }}})),
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Set", body = ManifestOut), ChangeProblems),
)]
async fn put(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
    JsonBody(ManifestIn(document)): JsonBody<ManifestIn>,
) -> Result<Response, ApiError> {
    let put = async move {
        let document = document.get().to_owned();
        let kept = manifests::put(&api.line, &caller.author(), &of, document, &api.targets).await?;
        ManifestOut::new(&api, kept).await
    };
    Ok(json(StatusCode::OK, &run_to_completion(put).await??))
}

/// Returns the manifest of an application.
#[utoipa::path(
    get, path = "/v1/applications/{id}/manifest", tag = "calls", operation_id = "get_manifest",
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The manifest", body = ManifestOut), ReadProblems),
)]
async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
) -> Result<Response, ApiError> {
    let found = manifests::get(&api.line, caller.organization, &of).await?;
    Ok(json(StatusCode::OK, &ManifestOut::new(&api, found).await?))
}

/// Returns the secret that signs the requests to an application. It is created when it is first needed.
#[utoipa::path(
    get, path = "/v1/applications/{id}/secret", tag = "calls", operation_id = "get_application_secret",
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "The secret", body = SecretOut), ReadProblems),
)]
async fn reveal(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
) -> Result<Response, ApiError> {
    let reveal = async move { manifests::reveal(&api.line, &caller.author(), &of).await };
    Ok(json(StatusCode::OK, &SecretOut::from(run_to_completion(reveal).await??)))
}

/// Replaces the secret of an application. During the grace period, `X-Platform-Signature` is computed with the old secret and `X-Platform-Signature-Next`
/// with the new one.
#[utoipa::path(
    post, path = "/v1/applications/{id}/secret/rotate", tag = "calls", operation_id = "rotate_application_secret",
    request_body = Option<AppRotationIn>,
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Rotated", body = SecretOut), ChangeProblems),
)]
async fn rotate(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
    OptionalJsonBody(asked): OptionalJsonBody<AppRotationIn>,
) -> Result<Response, ApiError> {
    let Ok(seconds) = u64::try_from(asked.grace_seconds.unwrap_or(GRACE_SECONDS)) else {
        return Err(ApiError::invalid(vec![Fault::new("grace_seconds", "must be 0 to 2592000 (30 days)")]));
    };
    let rotate = async move { manifests::rotate_secret(&api.line, &caller.author(), &of, Duration::from_secs(seconds)).await };
    Ok(json(StatusCode::OK, &SecretOut::from(run_to_completion(rotate).await??)))
}

/// Lists the capabilities of an application, with their state on the node that answers.
#[utoipa::path(
    get, path = "/v1/applications/{id}/capabilities", tag = "calls", operation_id = "list_capabilities",
    params(("id" = String, Path, description = "The application's id or uid")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The capabilities", body = CapabilityList), ReadProblems),
)]
async fn list(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Named(of): Named<ApplicationId>,
) -> Result<Response, ApiError> {
    let app = manifests::opened(&api.line, caller.organization, &of).await?;
    let mut data: Vec<CapabilityOut> = app.capabilities.values().map(|capability| shown(&api, capability)).collect();
    data.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(json(StatusCode::OK, &CapabilityList { data }))
}

fn shown(api: &Api, capability: &OpenCapability) -> CapabilityOut {
    let facts: Option<GateFacts> = api.line.calls.facts(capability.lane_id);
    let is_redis_away = api.line.ports.breaker_windows.are_away();
    let millis = |place: usize| facts.as_ref().and_then(|facts| facts.percentiles[place]).map(|length| length.as_secs_f64() * 1_000.0);
    CapabilityOut {
        name: capability.name.to_string(),
        timeout_ms: u64::try_from(capability.spec.timeout.as_millis()).unwrap_or(u64::MAX),
        fallback: capability.spec.fallback.iter().map(everhook_core::model::FallbackStep::name).collect(),
        in_flight: facts.as_ref().map_or(0, |facts| facts.in_flight),
        concurrency_limit: facts.as_ref().map(|facts| facts.concurrency_limit),
        p50_ms: millis(0),
        p95_ms: millis(1),
        p99_ms: millis(2),
        circuit_breaker: facts.map(|facts| BreakerStateOut::new(facts.breaker, is_redis_away)),
    }
}

/// Resets the circuit breaker of a capability, or forces it open or closed, on all nodes. Returns its new state.
#[utoipa::path(
    patch, path = "/v1/applications/{id}/capabilities/{capability}/circuit-breaker", tag = "calls", operation_id = "command_capability_breaker",
    request_body = BreakerOrderIn,
    params(("id" = String, Path, description = "The application's id or uid"), ("capability" = String, Path, description = "The capability's name")),
    security(("api_key" = ["manage"])),
    responses((status = 200, description = "The state of the circuit breaker", body = BreakerStateOut), ChangeProblems),
)]
async fn command_breaker(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    OfApplication(of, capability): OfApplication,
    JsonBody(asked): JsonBody<BreakerOrderIn>,
) -> Result<Response, ApiError> {
    let order: BreakerOrder = asked.into();
    let is_redis_away = api.line.ports.breaker_windows.are_away();
    let command = async move { manifests::command_breaker(&api.line, &caller.author(), &of, &capability, order).await };
    Ok(json(StatusCode::OK, &BreakerStateOut::new(run_to_completion(command).await??, is_redis_away)))
}
