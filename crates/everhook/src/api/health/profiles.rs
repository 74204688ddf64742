//! Erasing a profile, or a provider's user whom nobody is connected with.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Path, State},
    response::Response,
};
use everhook_core::{
    manage::health,
    model::health::{ExternalUserId, ProfileId, Provider},
};
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
use crate::api::words::HealthProviderWord;

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

/// What was erased of a provider's user.
#[derive(Serialize, ToSchema)]
pub struct ErasedHealthUserOut {
    /// Received events whose data was erased, with their deliveries.
    events: u64,
}

/// The provider's user that a path names.
pub struct OfUser(Provider, ExternalUserId);

impl FromRequestParts<Arc<Api>> for OfUser {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let segments = Path::<(String, String)>::from_request_parts(parts, api).await;
        let Ok(Path((provider, user))) = segments else { return Err(ApiError::not_found("user")) };
        let provider = Provider::parse(&provider).ok_or_else(|| ApiError::not_found("provider"))?;
        let user = ExternalUserId::parse(&user).ok_or_else(|| ApiError::not_found("user"))?;
        Ok(Self(provider, user))
    }
}

/// Erases the received events about a provider's user, those that wait included, also where no profile is connected with the user, and those that came
/// through sources that were deleted or have another kind now. Connections and metrics stay: erase the profile. Repeating the request erases newer data and
/// succeeds.
#[utoipa::path(
    delete, path = "/v1/health/users/{provider}/{external_user_id}", tag = "health", operation_id = "erase_health_user",
    params(("provider" = HealthProviderWord, Path, description = "The provider"), ("external_user_id" = String, Path, description = "The user, by the provider's name")),
    security(("api_key" = ["manage"])),
    responses((status = 200, description = "What was erased", body = ErasedHealthUserOut), ChangeProblems),
)]
pub async fn erase_user(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    OfUser(provider, user): OfUser,
) -> Result<Response, ApiError> {
    let erase = async move { health::erase_user(&api.line, &caller.author(), provider, user).await };
    Ok(json(StatusCode::OK, &ErasedHealthUserOut { events: run_to_completion(erase).await?? }))
}
