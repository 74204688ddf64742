//! Erasing a profile.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Path, State},
    response::Response,
};
use everhook_core::{manage::health, model::health::ProfileId};
use http::{StatusCode, request::Parts};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::{
    Api,
    access::MayManage,
    error::{ApiError, ChangeProblems},
    run_to_completion,
    wire::{NoParams, json},
};

/// What was erased of a profile.
#[derive(Serialize, ToSchema)]
pub struct ErasedProfileOut {
    connections: u64,
    metrics: u64,
    /// Received events whose data was erased, with their deliveries.
    events: u64,
}

/// The profile that a path names.
pub struct OfProfile(ProfileId);

impl FromRequestParts<Arc<Api>> for OfProfile {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let segment = Path::<String>::from_request_parts(parts, api).await;
        segment.ok().and_then(|segment| ProfileId::parse(&segment)).map(Self).ok_or_else(|| ApiError::not_found("profile"))
    }
}

/// Erases a profile: its connections with their tokens, its metrics, and the received events about users whom no other profile is connected with,
/// including events that still wait. Repeating the request erases newer data and succeeds.
#[utoipa::path(
    delete, path = "/v1/health/profiles/{profile_id}", tag = "health", operation_id = "erase_health_profile",
    params(("profile_id" = String, Path, description = "The profile's id")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "What was erased", body = ErasedProfileOut), ChangeProblems),
)]
pub async fn erase(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    OfProfile(profile): OfProfile,
) -> Result<Response, ApiError> {
    let erase = async move { health::erase_profile(&api.line, &caller.author(), &profile).await };
    let erased = run_to_completion(erase).await??;
    Ok(json(StatusCode::OK, &ErasedProfileOut { connections: erased.connections, metrics: erased.metrics, events: erased.events }))
}
