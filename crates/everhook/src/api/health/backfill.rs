//! Backfills: data of the past that Garmin is asked to push again.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{HealthConnectionId, OperationId},
    manage::{
        Fault,
        health::{self, NewBackfill},
    },
    model::health::{BackfillChunk, ChunkOutcome},
    ports::KeptBackfill,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::{
    Api,
    access::{MayManage, MayRead},
    body::JsonBody,
    error::{ApiError, ChangeProblems, ReadProblems},
    operations::{Begun, begun},
    run_to_completion,
    wire::{Identified, NoParams, json, read, read_time},
};
use crate::api::words::{ChunkOutcomeWord, OperationStatusWord};

/// Which data to request.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"connection_id": "019a4f6e-7c1b-7d34-9a55-3f0a1c2b4d5e", "from": "2025-06-01T00:00:00Z", "to": "2025-08-30T00:00:00Z", "data_types": ["sleeps", "dailies"]}))]
pub struct BackfillIn {
    /// A connection with Garmin that has an access token.
    #[schema(format = "uuid", required = true)]
    connection_id: Option<String>,
    /// The start of the period: RFC 3339. At most 90 days before `to`.
    #[schema(format = DateTime, required = true)]
    from: Option<String>,
    /// The end of the period, exclusive: RFC 3339. Now if absent.
    #[schema(format = DateTime)]
    to: Option<String>,
    /// Garmin's types, such as `sleeps`. Those that become metrics if absent.
    #[schema(min_items = 1, max_items = 16)]
    data_types: Option<Vec<String>>,
    /// Begin no earlier than this time: RFC 3339.
    #[schema(format = DateTime)]
    start_at: Option<String>,
}

/// A backfill and the outcome of each of its requests. Cancel it as an operation.
#[derive(Serialize, ToSchema)]
pub struct BackfillOut {
    #[schema(format = "uuid")]
    operation_id: String,
    #[schema(value_type = OperationStatusWord)]
    status: &'static str,
    #[schema(format = "uuid")]
    connection_id: String,
    #[schema(format = DateTime)]
    from: String,
    #[schema(format = DateTime)]
    to: String,
    /// In the order of the requests: type by type, oldest first.
    #[schema(max_items = 1440)]
    chunks: Vec<BackfillChunkOut>,
}

/// One request to Garmin.
#[derive(Serialize, ToSchema)]
pub struct BackfillChunkOut {
    #[schema(example = "sleeps")]
    data_type: &'static str,
    #[schema(format = DateTime)]
    from: String,
    /// Exclusive.
    #[schema(format = DateTime)]
    to: String,
    /// `accepted` (Garmin pushes the data), `done_before` (it was requested before, Garmin pushes nothing more), `no_history_permission` (the user does not
    /// allow historical data), `refused_by_provider` (older than Garmin gives, or the token is not accepted), `not_connected` (the connection ended or has no
    /// token), `unanswered` (Garmin did not answer for an hour while it answered other requests, or for a day). Null: not requested yet.
    #[schema(value_type = Option<ChunkOutcomeWord>, required = true)]
    outcome: Option<&'static str>,
}

impl From<KeptBackfill> for BackfillOut {
    fn from(kept: KeptBackfill) -> Self {
        let outcome = |index: usize| kept.outcomes.get(index).copied().map(ChunkOutcome::as_str);
        let chunk = |(index, chunk): (usize, BackfillChunk)| BackfillChunkOut {
            data_type: chunk.data.as_str(),
            from: chunk.start.to_string(),
            to: chunk.end.to_string(),
            outcome: outcome(index),
        };
        Self {
            operation_id: kept.operation.id.to_string(),
            status: kept.operation.status.as_str(),
            connection_id: kept.backfill.connection.to_string(),
            from: kept.backfill.from.to_string(),
            to: kept.backfill.to.to_string(),
            chunks: kept.backfill.chunks().into_iter().enumerate().map(chunk).collect(),
        }
    }
}

/// Requests data of the past from Garmin, as an operation. Garmin pushes the data to your source in the hours that follow.
#[utoipa::path(
    post, path = "/v1/health/backfill", tag = "health", operation_id = "begin_health_backfill", request_body = BackfillIn,
    security(("api_key" = ["manage"])),
    responses((status = 202, description = "The operation began", body = Begun), ChangeProblems),
)]
pub async fn begin(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    JsonBody(asked): JsonBody<BackfillIn>,
) -> Result<Response, ApiError> {
    let mut faults = Vec::new();
    let connection = read(asked.connection_id.as_deref(), "connection_id", &mut faults, |text| {
        text.parse::<HealthConnectionId>().map_err(|_| "must be a connection's id".to_owned())
    });
    let from = read(asked.from.as_deref(), "from", &mut faults, read_time);
    let to = read(asked.to.as_deref(), "to", &mut faults, read_time);
    let start_at = read(asked.start_at.as_deref(), "start_at", &mut faults, read_time);
    for (field, is_absent) in [("connection_id", asked.connection_id.is_none()), ("from", asked.from.is_none())] {
        if is_absent {
            faults.push(Fault::new(field, "is required"));
        }
    }
    let (Some(connection), Some(from), true) = (connection, from, faults.is_empty()) else { return Err(ApiError::invalid(faults)) };
    let new = NewBackfill { connection, data_types: asked.data_types, from, to, start_at };
    let begin = async move { health::begin_backfill(&api.line, &caller.author(), new).await };
    Ok(begun(run_to_completion(begin).await??))
}

/// Returns a backfill with the outcome of each request.
#[utoipa::path(
    get, path = "/v1/health/backfill/{id}", tag = "health", operation_id = "get_health_backfill",
    params(("id" = String, Path, description = "The operation's id")), security(("api_key" = ["read"])),
    responses((status = 200, description = "The backfill", body = BackfillOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Identified(id): Identified<OperationId>,
) -> Result<Response, ApiError> {
    Ok(json(StatusCode::OK, &BackfillOut::from(health::find_backfill(&api.line, caller.organization, id).await?)))
}
