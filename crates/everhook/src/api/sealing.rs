//! The rotation of the sealing key: for admins.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    manage::sealing::{self, SealingStatus},
    model::{Rotation, SealedKind},
};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    access::MayAdminister,
    error::{ApiError, ChangeProblems, ReadProblems},
    run_to_completion,
    wire::{NoParams, json},
};

/// The sealing key of the store, by its id: secrets, header values, tokens, received events, what health metrics were made of, cached answers and, if
/// configured, published events are encrypted with it.
#[derive(Serialize, ToSchema)]
pub struct SealingOut {
    /// The id of the key that encrypts.
    #[schema(example = "1a2b3c4d")]
    key_id: String,
    /// The id of the key that this node is configured with. Another one than `key_id` until the rotation to it begins.
    #[schema(example = "1a2b3c4d")]
    configured_key_id: String,
    /// The rotation in progress; null if there is none. Both keys are needed until it has finished.
    #[schema(required = true)]
    rotation: Option<RotationOut>,
    /// The nodes that do not encrypt with the new key yet. A rotation starts and continues only when this list is empty.
    awaited_nodes: Vec<String>,
    /// When the last rotation finished.
    #[schema(required = true, format = DateTime)]
    finished_at: Option<String>,
}

/// The progress of a rotation. It passes over all encrypted values until a pass finds none with the old key.
#[derive(Serialize, ToSchema)]
pub struct RotationOut {
    /// The id of the old key.
    #[schema(example = "5e6f7a8b")]
    from_key_id: String,
    /// `running` or `cancelled`.
    #[schema(value_type = super::words::RotationStatus, example = "running")]
    status: &'static str,
    /// The number of the current pass. There are at least two.
    pass: u32,
    /// The table that the current pass processes: `endpoints`, `endpoint_revisions`, `sources`, `application_secrets`, `health_connections`, `cached_answers`, `jobs`,
    /// `health_metrics`, `payloads`.
    #[schema(value_type = super::words::RotationStep)]
    step: &'static str,
    /// How many of the steps of the current pass are done.
    steps_done: usize,
    steps_total: usize,
    /// How many rows were processed, in all passes.
    looked_at: u64,
    /// How many rows were encrypted again, or removed if they were cached answers.
    resealed: u64,
    /// How many values of the current pass cannot be decrypted with either key. They are left as they are.
    unreadable: u64,
    #[schema(format = DateTime)]
    began_at: String,
}

impl From<SealingStatus> for SealingOut {
    fn from(status: SealingStatus) -> Self {
        let SealingStatus { sealing, wanted, awaited } = status;
        Self {
            key_id: sealing.key.to_string(),
            configured_key_id: wanted.to_string(),
            rotation: sealing.rotation.map(RotationOut::from),
            awaited_nodes: awaited,
            finished_at: sealing.ended_at.map(|at| at.to_string()),
        }
    }
}

impl From<Rotation> for RotationOut {
    fn from(rotation: Rotation) -> Self {
        let step = rotation.place.kind;
        Self {
            from_key_id: rotation.from.to_string(),
            status: if rotation.is_cancelled { "cancelled" } else { "running" },
            pass: rotation.pass,
            step: step.as_str(),
            steps_done: SealedKind::ALL.iter().position(|kind| *kind == step).unwrap_or_default(),
            steps_total: SealedKind::ALL.len(),
            looked_at: rotation.looked_at,
            resealed: rotation.resealed,
            unreadable: rotation.unreadable,
            began_at: rotation.began_at.to_string(),
        }
    }
}

fn answer(status: Option<SealingStatus>) -> Result<Response, ApiError> {
    let status = status.ok_or_else(|| ApiError::not_found("sealing key"))?;
    Ok(json(StatusCode::OK, &SealingOut::from(status)))
}

/// Returns which sealing key is in use, and the progress of a rotation to another one.
#[utoipa::path(
    get, path = "/v1/sealing", tag = "server", operation_id = "get_sealing", security(("api_key" = ["admin"])),
    responses((status = 200, description = "The sealing key", body = SealingOut), ReadProblems),
)]
pub async fn get(State(api): State<Arc<Api>>, MayAdminister(_caller): MayAdminister, _query: NoParams) -> Result<Response, ApiError> {
    answer(sealing::find(&api.line).await?)
}

/// Stops a rotation where it is. Both keys stay needed, and new values are encrypted with the new one. Does nothing if none is in progress.
#[utoipa::path(
    post, path = "/v1/sealing/cancel", tag = "server", operation_id = "cancel_sealing_rotation", security(("api_key" = ["admin"])),
    responses((status = 200, description = "The sealing key", body = SealingOut), ChangeProblems),
)]
pub async fn cancel(State(api): State<Arc<Api>>, MayAdminister(caller): MayAdminister, _query: NoParams) -> Result<Response, ApiError> {
    let author = caller.author();
    answer(run_to_completion(async move { sealing::set_cancelled(&api.line, &author, true).await }).await??)
}

/// Continues a rotation that was cancelled. Does nothing if none was.
#[utoipa::path(
    post, path = "/v1/sealing/resume", tag = "server", operation_id = "resume_sealing_rotation", security(("api_key" = ["admin"])),
    responses((status = 200, description = "The sealing key", body = SealingOut), ChangeProblems),
)]
pub async fn resume(State(api): State<Arc<Api>>, MayAdminister(caller): MayAdminister, _query: NoParams) -> Result<Response, ApiError> {
    let author = caller.author();
    answer(run_to_completion(async move { sealing::set_cancelled(&api.line, &author, false).await }).await??)
}
