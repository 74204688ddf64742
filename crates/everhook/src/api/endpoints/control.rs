//! An endpoint in a person's hand: paused, resumed, its breaker overruled.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::EndpointId,
    manage::{
        Fault,
        endpoints::{self, BreakerOrder},
    },
};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    super::{
        Api,
        access::MayManage,
        body::{JsonBody, NoFields, OptionalJsonBody},
        error::{ApiError, ChangeProblems},
        run_to_completion,
        wire::{Named, NoParams, Object, json},
    },
    answer::EndpointOut,
    health::BreakerStateOut,
};
use crate::api::words::BreakerAction;

/// How delivery resumes.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"rate_limit": {"requests_per_second": 50}}))]
pub struct ResumeIn {
    /// The rate at which the backlog is sent; limited only by the endpoint's other limits if absent.
    #[serde(default)]
    #[schema(value_type = Option<DrainIn>)]
    rate_limit: Option<Object<DrainIn>>,
}

/// The rate at which the backlog is sent.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DrainIn {
    /// 1 to 10,000. Required.
    #[schema(value_type = u32, minimum = 1, maximum = 10_000)]
    requests_per_second: Option<i64>,
}

/// A command to a circuit breaker.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"action": "force_open", "duration_seconds": 3600}))]
pub struct BreakerOrderIn {
    /// `reset` (closes it and clears all counts and holds), `force_open`, or `force_close` (closed despite failures).
    #[schema(required = true, value_type = Option<BreakerAction>)]
    #[serde(default)]
    action: Option<String>,
    /// How long it is forced: 1 to 2,592,000; until it is reset if absent.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 2_592_000)]
    #[serde(default)]
    duration_seconds: Option<i64>,
}

/// Pauses an endpoint. New deliveries wait until it is resumed; requests in progress finish. Pausing again has no effect.
#[utoipa::path(
    post, path = "/{id}/pause", tag = "endpoints", operation_id = "pause_endpoint",
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Paused", body = EndpointOut), ChangeProblems),
)]
pub async fn pause(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
    _body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    let pause = async move {
        let endpoint = endpoints::pause(&api.line, &caller.author(), &of).await?;
        EndpointOut::new(&api, endpoint, caller.scopes).await
    };
    Ok(json(StatusCode::OK, &run_to_completion(pause).await??))
}

/// Resumes delivery to an endpoint. The backlog is sent at once, or at the given rate.
#[utoipa::path(
    post, path = "/{id}/resume", tag = "endpoints", operation_id = "resume_endpoint", request_body = Option<ResumeIn>,
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Resumed", body = EndpointOut), ChangeProblems),
)]
pub async fn resume(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
    OptionalJsonBody(asked): OptionalJsonBody<ResumeIn>,
) -> Result<Response, ApiError> {
    // Whether it exists comes first: a stranger's id is not found, whatever else is wrong with the request.
    endpoints::find(&api.line, caller.organization, &of).await?;
    let rate = asked.into_rate()?;
    let resume = async move {
        let endpoint = endpoints::resume(&api.line, &caller.author(), &of, rate).await?;
        EndpointOut::new(&api, endpoint, caller.scopes).await
    };
    Ok(json(StatusCode::OK, &run_to_completion(resume).await??))
}

/// Resets an endpoint's circuit breaker, or forces it open or closed. Returns its new state.
#[utoipa::path(
    patch, path = "/{id}/circuit-breaker", tag = "endpoints", operation_id = "command_endpoint_breaker", request_body = BreakerOrderIn,
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "The state of the circuit breaker", body = BreakerStateOut), ChangeProblems),
)]
pub async fn command_breaker(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
    JsonBody(asked): JsonBody<BreakerOrderIn>,
) -> Result<Response, ApiError> {
    let order = BreakerOrder::from(asked);
    let is_redis_away = api.line.ports.breaker_windows.are_away();
    let command = async move { endpoints::command_breaker(&api.line, &caller.author(), &of, order).await };
    Ok(json(StatusCode::OK, &BreakerStateOut::new(run_to_completion(command).await??, is_redis_away)))
}

impl From<BreakerOrderIn> for BreakerOrder {
    fn from(asked: BreakerOrderIn) -> Self {
        // An action that is absent is none of those that there are.
        Self { action: asked.action.unwrap_or_default(), duration_seconds: asked.duration_seconds }
    }
}

impl ResumeIn {
    /// The requests a second that are asked for.
    fn into_rate(self) -> Result<Option<i64>, ApiError> {
        let Some(Object(drain)) = self.rate_limit else { return Ok(None) };
        match drain.requests_per_second {
            None => Err(ApiError::invalid(vec![Fault::new("rate_limit.requests_per_second", "is required")])),
            given => Ok(given),
        }
    }
}
