//! Whether the server is alive and ready, for whatever watches it.

use std::sync::{Arc, atomic::Ordering};

use axum::{extract::State, response::Response};
use everhook_core::{ids::Ref, ports::StoreError};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Api, error::ApiError, wire::json};

/// How the server is.
#[derive(Serialize, ToSchema)]
pub struct Status {
    #[schema(example = "ok")]
    status: &'static str,
}

/// Answers as long as the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "server", responses((status = 200, description = "Alive", body = Status)))]
pub async fn healthz() -> Response {
    json(StatusCode::OK, &Status { status: "ok" })
}

/// Answers 200 while events can be published.
#[utoipa::path(
    get, path = "/readyz", tag = "server",
    responses(
        (status = 200, description = "Ready", body = Status),
        (status = 503, description = "The store is not available", body = super::error::Problem, content_type = "application/problem+json"),
    ),
)]
pub async fn readyz(State(api): State<Arc<Api>>) -> Result<Response, ApiError> {
    let is_ready = !api.is_broken() && can_write(&api).await.unwrap_or(false);
    if !is_ready {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the store is not available"));
    }
    Ok(json(StatusCode::OK, &Status { status: "ok" }))
}

/// Whether a publish would succeed. As long as they do, a read is enough; after one has failed, a row is written as it stands, so that a full disk is
/// noticed, and also that it is no longer full.
async fn can_write(api: &Api) -> Result<bool, StoreError> {
    let directory = &api.line.ports.directory;
    let Some(organization) = directory.organization(&Ref::Id(api.default_organization)).await? else { return Ok(false) };
    if api.publishing_fails.load(Ordering::Relaxed) {
        directory.try_write(organization.id).await?;
        api.set_publishing(true);
    }
    Ok(true)
}
