//! Whether the server is alive and ready, for whatever watches it.

use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::Ref,
    nodes::held_lease::{SKEW_MAX, SKEW_WARNED_FROM},
    ports::{Spool, StoreError, within},
    time::millis,
};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Api, error::ApiError, publish::BESIDE_DATA_BYTES, wire::json};
use crate::api::words::ServerStatus;
use crate::disk_space::DiskSpace;

/// How long the store may take to answer before it counts as away, where there is a spool. Shorter than probes wait for an answer.
const STORE_PATIENCE: Duration = Duration::from_secs(1);

/// The status of the server.
#[derive(Serialize, ToSchema)]
pub struct Status {
    /// `ok`, or `degraded` while accepted events wait on this node for the database, or while its clock is wrong.
    #[schema(example = "ok", value_type = ServerStatus)]
    status: &'static str,
    /// The number of applications whose events wait on this node while the database accepts those of others. The log names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled_applications: Option<usize>,
    /// `away` while RabbitMQ is configured for hints and unavailable. Events are published and delivered without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    amqp: Option<&'static str>,
    /// `away` while Redis is configured and unavailable. Events are published and delivered without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    redis: Option<&'static str>,
    /// How far this node's clock differs from the database's, in milliseconds, if by more than a second. Beyond 5,000 ms the status is `degraded`: the node
    /// takes events and leaves sending to others until its clock is corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_skew_ms: Option<u64>,
}

/// Links to the parts of the server.
#[derive(Serialize, ToSchema)]
pub struct RootOut {
    name: &'static str,
    version: &'static str,
    /// The API, as a page.
    docs: &'static str,
    /// The API, as an OpenAPI document.
    openapi: &'static str,
    /// Whether the server is alive.
    health: &'static str,
    /// Whether the server takes events.
    ready: &'static str,
}

/// Returns the name of the server, and links to its documentation, OpenAPI document and health checks.
#[utoipa::path(
    get, path = "/", tag = "server", operation_id = "root", security(()),
    responses((status = 200, description = "Links", body = RootOut)),
)]
pub async fn root() -> Response {
    let out = RootOut {
        name: "Everhook",
        version: env!("CARGO_PKG_VERSION"),
        docs: "/docs",
        openapi: "/openapi.json",
        health: "/healthz",
        ready: "/readyz",
    };
    json(StatusCode::OK, &out)
}

/// Returns 200 while the process is alive.
#[utoipa::path(get, path = "/healthz", tag = "server", responses((status = 200, description = "Alive", body = Status)))]
pub async fn healthz() -> Response {
    json(StatusCode::OK, &Status { status: "ok", stalled_applications: None, amqp: None, redis: None, clock_skew_ms: None })
}

/// Returns 200 while events can be published. The status is `degraded` while events are spooled.
#[utoipa::path(
    get, path = "/readyz", tag = "server",
    responses(
        (status = 200, description = "Ready", body = Status),
        (status = 503, description = "Neither the store nor the spool accepts events", body = super::error::Problem, content_type = "application/problem+json",
            headers(("Retry-After" = u64, description = "In how many seconds to try again."))),
    ),
)]
pub async fn readyz(State(api): State<Arc<Api>>) -> Result<Response, ApiError> {
    let status = if api.is_broken() { None } else { look(&api).await };
    let status = status.ok_or_else(|| ApiError::unavailable(why_not(&api)))?;
    let stalled_applications = Some(api.line.backlog.stalled_count()).filter(|count| *count > 0);
    let redis = api.line.ports.breaker_windows.are_away().then_some("away");
    let amqp = api.line.ports.remote_hints.is_away().then_some("away");
    let (status, clock_skew_ms) = with_clock(status, api.line.held_lease.clock_skew());
    Ok(json(StatusCode::OK, &Status { status, stalled_applications, amqp, redis, clock_skew_ms }))
}

/// The status with what the clock's error makes of it, and the error where it is worth a look.
fn with_clock(status: &'static str, skew: Duration) -> (&'static str, Option<u64>) {
    (if skew > SKEW_MAX { "degraded" } else { status }, (skew > SKEW_WARNED_FROM).then_some(millis(skew)))
}

/// A check of the server's readiness that several requests may wait for.
pub type Looking = Shared<BoxFuture<'static, Option<&'static str>>>;

/// Joins the check that is under way, or begins one: however often clients ask, with or without a key, the store gets one such query at a time.
async fn look(api: &Arc<Api>) -> Option<&'static str> {
    let looking = {
        let mut under_way = api.readiness.lock().unwrap_or_else(PoisonError::into_inner);
        match &*under_way {
            Some(looking) if looking.peek().is_none() => looking.clone(),
            _ => {
                let api = api.clone();
                // A task of its own: it continues when the one who began it does not wait for it any more.
                let looking = tokio::spawn(async move { readiness(&api).await });
                under_way.insert(looking.map(|status| status.ok().flatten()).boxed().shared()).clone()
            }
        }
    };
    looking.await
}

/// `None` if nothing takes events.
async fn readiness(api: &Api) -> Option<&'static str> {
    let Some(spool) = &api.line.ports.spool else {
        return (disk_has_room(api).await && can_write(api).await.unwrap_or(false)).then_some("ok");
    };
    let is_empty = spool.status().events == 0;
    // While what waits holds up everything else, whether the store answers does not matter.
    if !api.line.backlog.holds_up_all() && matches!(within(&*api.line.ports.clock, STORE_PATIENCE, can_write(api)).await, Some(Ok(true))) {
        return Some(if is_empty { "ok" } else { "degraded" });
    }
    (has_room(api, &**spool) && disk_has_room(api).await).then_some("degraded")
}

async fn disk_has_room(api: &Api) -> bool {
    match &api.disk {
        Some(disk) => disk.has_room().await,
        None => true,
    }
}

/// Whether the spool takes whatever may be published.
fn has_room(api: &Api, spool: &dyn Spool) -> bool {
    spool.status().has_room_for((api.payload_bytes_max + BESIDE_DATA_BYTES) as u64)
}

/// Why nothing takes events.
fn why_not(api: &Api) -> &'static str {
    match &api.line.ports.spool {
        _ if api.disk.as_ref().is_some_and(DiskSpace::is_full) => "no space left on the data disk",
        Some(spool) if !api.is_broken() && !has_room(api, &**spool) => {
            "the store is unavailable, and the spool has no room for an event of the maximum size: `spool_max` is reached"
        }
        _ => "the store is unavailable",
    }
}

/// Whether a publish would succeed. As long as they do, a read is enough; after one has failed, a row is written unchanged, so that a full disk is
/// noticed, and also that it is no longer full.
async fn can_write(api: &Api) -> Result<bool, StoreError> {
    let organizations = &api.line.ports.organizations;
    let Some(organization) = organizations.organization(&Ref::Id(api.default_organization)).await? else { return Ok(false) };
    if api.publishing_fails.load(Ordering::Relaxed) {
        organizations.try_write(organization.id).await?;
        api.set_publishing(true);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_clock_is_shown_from_a_second_on_and_degrades_the_node_from_five() {
        #[rustfmt::skip]
        let table = [
            ("ok",       0,     "ok",       None),
            ("ok",       1_000, "ok",       None),
            ("ok",       1_001, "ok",       Some(1_001)),
            ("ok",       5_000, "ok",       Some(5_000)),
            ("ok",       5_001, "degraded", Some(5_001)),
            ("degraded", 0,     "degraded", None),
        ];
        for (status, skew, expected, shown) in table {
            assert_eq!(with_clock(status, Duration::from_millis(skew)), (expected, shown), "{skew} ms");
        }
    }
}
