//! A source in a person's hand: paused, resumed, made to take the key of a handshake.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{ids::SourceId, manage::sources};
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    super::{
        Api,
        access::MayManage,
        body::{NoFields, OptionalJsonBody},
        error::{ApiError, ChangeProblems},
        run_to_completion,
        wire::{Named, NoParams, json},
    },
    answer::{SourceOut, UrlBase},
};
use crate::api::words::SourcePauseMode;

/// What a pause means.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"mode": "hold"}))]
pub struct SourcePauseIn {
    /// `hold` (default): requests are accepted, and their events are delivered when the source is resumed.
    /// `refuse`: requests are answered with 503.
    #[serde(default)]
    #[schema(value_type = Option<SourcePauseMode>)]
    mode: Option<String>,
}

/// Pauses a source. Requests are accepted and held, or answered with 503; never with 404 or 410, for which providers delete webhooks.
#[utoipa::path(
    post, path = "/v1/sources/{id}/pause", tag = "sources", operation_id = "pause_source", request_body = Option<SourcePauseIn>,
    params(("id" = String, Path, description = "The source's id or name")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Paused", body = SourceOut), ChangeProblems),
)]
pub async fn pause(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    base: UrlBase,
    Named(of): Named<SourceId>,
    OptionalJsonBody(asked): OptionalJsonBody<SourcePauseIn>,
) -> Result<Response, ApiError> {
    let pause = async move {
        let paused = sources::pause(&api.line, &caller.author(), &of, asked.mode.as_deref()).await?;
        SourceOut::read(&api, &base, paused).await
    };
    Ok(json(StatusCode::OK, &run_to_completion(pause).await??))
}

/// Resumes a source. Events that were held are delivered.
#[utoipa::path(
    post, path = "/v1/sources/{id}/resume", tag = "sources", operation_id = "resume_source",
    params(("id" = String, Path, description = "The source's id or name")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "Resumed", body = SourceOut), ChangeProblems),
)]
pub async fn resume(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    base: UrlBase,
    Named(of): Named<SourceId>,
    _body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    let resume = async move {
        let resumed = sources::resume(&api.line, &caller.author(), &of).await?;
        SourceOut::read(&api, &base, resumed).await
    };
    Ok(json(StatusCode::OK, &run_to_completion(resume).await??))
}

/// Accepts the key that the provider sends in its handshake, for ten minutes. For kinds whose key is exchanged that way.
#[utoipa::path(
    post, path = "/v1/sources/{id}/await-handshake", tag = "sources", operation_id = "await_source_handshake",
    params(("id" = String, Path, description = "The source's id or name")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "The key of the next handshake is accepted", body = SourceOut), ChangeProblems),
)]
pub async fn await_handshake(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    base: UrlBase,
    Named(of): Named<SourceId>,
    _body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    let arm = async move {
        let armed = sources::await_handshake(&api.line, &caller.author(), &of).await?;
        SourceOut::read(&api, &base, armed).await
    };
    Ok(json(StatusCode::OK, &run_to_completion(arm).await??))
}
