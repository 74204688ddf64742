//! Operations: reading and cancelling bulk actions, and how requests for them spell their pace. They are begun in `batches`, `replays`, `erasing` and `health::backfill`.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::{EndpointId, OperationId, Ref},
    manage::{
        Fault,
        operations::{self, FILTER_VALUES_MAX, Pace},
    },
    model::{EventTypePattern, Operation, OperationKind},
    time::Timestamp,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    access::{MayManage, MayRead},
    error::{ApiError, ChangeProblems, ReadProblems},
    page::{List, PageQuery},
    retries::read_priority,
    run_to_completion,
    uids::Uids,
    wire::{Identified, NoParams, Params, json, read, read_time},
};
use crate::api::words::{OperationKindWord, OperationStatusWord, PriorityWord};

/// A bulk action.
#[derive(Serialize, ToSchema)]
pub struct OperationOut {
    #[schema(format = "uuid")]
    id: String,
    /// The only application that it is about; null if it can be about any.
    #[schema(format = "uuid", required = true)]
    application_id: Option<String>,
    #[schema(required = true)]
    application_uid: Option<String>,
    /// The only endpoint that it is about; null if it can be about several.
    #[schema(format = "uuid", required = true)]
    endpoint_id: Option<String>,
    #[schema(required = true)]
    endpoint_uid: Option<String>,
    /// `retry_batch`, `discard_batch`, `recover`, `replay`, `erase`, `attempt_now`, `backfill` or `delete_data`.
    #[schema(value_type = OperationKindWord)]
    kind: &'static str,
    /// `pending` (selecting, or waiting for its start), `running`, `finished`, `cancelled` or `failed`.
    #[schema(value_type = OperationStatusWord)]
    status: &'static str,
    /// The number of selected items; grows until the selection is complete.
    total: u64,
    /// The number of completed items.
    done: u64,
    /// The number of impossible items: the endpoint is disabled or deleted, the event was removed or erased, or Garmin refused a request of a
    /// backfill.
    failed: u64,
    /// The number of skipped items: a delivery is already open, the dead letter is no longer dead, the event was already erased, or the data
    /// was already requested from Garmin.
    skipped: u64,
    /// The measured rate.
    #[schema(required = true)]
    rate_per_second: Option<f64>,
    /// The estimated remaining time.
    #[schema(required = true)]
    eta_seconds: Option<u64>,
    /// The rate limit.
    #[schema(required = true)]
    rate_limit: Option<RateOut>,
    /// The priority of the deliveries that it creates; null if it creates none.
    #[schema(value_type = Option<PriorityWord>, required = true)]
    priority: Option<&'static str>,
    #[schema(format = DateTime, required = true)]
    start_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime, required = true)]
    started_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    finished_at: Option<String>,
}

/// The rate limit of an operation.
#[derive(Serialize, ToSchema)]
pub struct RateOut {
    requests_per_second: u32,
}

impl OperationOut {
    fn new(operation: &Operation, uids: &Uids, now: Timestamp) -> Self {
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string());
        // Three digits are precise enough.
        let rounded = |rate: f64| (rate * 1_000.0).round() / 1_000.0;
        Self {
            id: operation.id.to_string(),
            application_id: operation.application.map(|id| id.to_string()),
            application_uid: operation.application.and_then(|id| uids.application(id)),
            endpoint_id: operation.endpoint.map(|id| id.to_string()),
            endpoint_uid: operation.endpoint.and_then(|id| uids.endpoint(id)),
            kind: operation.kind.as_str(),
            status: operation.status.as_str(),
            total: operation.total,
            done: operation.done,
            failed: operation.failed,
            skipped: operation.skipped,
            rate_per_second: operation.rate_per_second(now).map(rounded),
            eta_seconds: operation.eta(now).map(|eta| eta.as_secs() + u64::from(eta.subsec_nanos() > 0)),
            rate_limit: operation.rate.map(|rate| RateOut { requests_per_second: rate.get() }),
            priority: creates_deliveries(operation.kind).then_some(operation.priority.as_str()),
            start_at: text(operation.start_at),
            created_at: operation.created_at.to_string(),
            started_at: text(operation.started_at),
            finished_at: text(operation.finished_at),
        }
    }
}

const fn creates_deliveries(kind: OperationKind) -> bool {
    match kind {
        OperationKind::RetryBatch | OperationKind::Recover | OperationKind::Replay => true,
        OperationKind::DiscardBatch
        | OperationKind::Erase
        | OperationKind::AttemptNow
        | OperationKind::Backfill
        | OperationKind::DeleteData => false,
    }
}

/// The id of the operation, under both names.
#[derive(Serialize, ToSchema)]
pub struct Begun {
    #[schema(format = "uuid")]
    operation_id: String,
    #[schema(format = "uuid")]
    batch_operation_id: String,
}

/// The answer to a request that began an operation.
pub fn begun(id: OperationId) -> Response {
    json(StatusCode::ACCEPTED, &Begun { operation_id: id.to_string(), batch_operation_id: id.to_string() })
}

/// A page of them.
pub type OperationList = List<OperationOut>;

/// Lists operations, newest first. A key of one application sees those that are about it alone.
#[utoipa::path(
    get, path = "/v1/operations", tag = "operations", operation_id = "list_operations", params(PageQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of operations", body = OperationList), ReadProblems),
)]
pub async fn list(State(api): State<Arc<Api>>, MayRead(caller): MayRead, Params(query): Params<PageQuery>) -> Result<Response, ApiError> {
    let page = query.read()?.fetch(|page| api.line.ports.operations.operations(caller.organization, caller.application, page)).await?;
    let now = api.line.ports.clock.now();
    let uids = Uids::of_operations(&api, caller.organization, &page.rows).await?;
    Ok(json(StatusCode::OK, &List::from(page.map(|operation| OperationOut::new(&operation, &uids, now)))))
}

/// Returns an operation with its progress.
#[utoipa::path(
    get, path = "/v1/operations/{id}", tag = "operations", operation_id = "get_operation", params(("id" = String, Path, description = "The operation's id")),
    security(("api_key" = ["read"])),
    responses((status = 200, description = "The operation", body = OperationOut), ReadProblems),
)]
pub async fn get(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    _query: NoParams,
    Identified(id): Identified<OperationId>,
) -> Result<Response, ApiError> {
    let found = api.line.ports.operations.operation(caller.organization, id).await?;
    let operation = found.ok_or_else(|| ApiError::not_found("operation"))?;
    let uids = Uids::of_operations(&api, caller.organization, std::slice::from_ref(&operation)).await?;
    Ok(json(StatusCode::OK, &OperationOut::new(&operation, &uids, api.line.ports.clock.now())))
}

/// Cancels an operation. What it has already done is not undone.
#[utoipa::path(
    delete, path = "/v1/operations/{id}", tag = "operations", operation_id = "cancel_operation",
    params(("id" = String, Path, description = "The operation's id")), security(("api_key" = ["manage"])),
    responses((status = 204, description = "Cancelled"), ChangeProblems),
)]
pub async fn cancel(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(id): Identified<OperationId>,
) -> Result<StatusCode, ApiError> {
    run_to_completion(async move { operations::cancel(&api.line, &caller.author(), id).await }).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// More is no limit.
const REQUESTS_PER_SECOND_MAX: u32 = 1_000_000;

/// The rate limit of an operation.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RateIn {
    /// 1 to 1,000,000.
    #[schema(minimum = 1, maximum = 1_000_000)]
    requests_per_second: u32,
}

/// How an operation goes, as requests say it.
pub struct PaceIn<'a> {
    /// How fast.
    pub rate_limit: Option<&'a RateIn>,
    /// The priority of its deliveries.
    pub priority: Option<&'a str>,
    /// When it begins.
    pub start_at: Option<&'a str>,
}

impl PaceIn<'_> {
    /// Reads it; what is wrong is added to the faults.
    pub fn read(&self, faults: &mut Vec<Fault>) -> Pace {
        let rate = self.rate_limit.and_then(|rate| {
            let read = std::num::NonZeroU32::new(rate.requests_per_second).filter(|rate| rate.get() <= REQUESTS_PER_SECOND_MAX);
            if read.is_none() {
                faults.push(Fault::new("rate_limit.requests_per_second", "must be 1 to 1000000"));
            }
            read
        });
        let priority = read(self.priority, "priority", faults, read_priority);
        let start_at = read(self.start_at, "start_at", faults, read_time);
        Pace { rate, priority, start_at }
    }
}

/// Reads a list of event types or patterns; what is wrong is added to the faults.
pub fn read_patterns(texts: &[String], field: &str, faults: &mut Vec<Fault>) -> Vec<EventTypePattern> {
    read_each(texts, field, faults, "must be an event type, a prefix such as `order.*`, or `*`", EventTypePattern::parse)
}

/// Reads a list of endpoints' names; what is wrong is added to the faults.
pub fn read_endpoints(texts: &[String], field: &str, faults: &mut Vec<Fault>) -> Vec<Ref<EndpointId>> {
    read_each(texts, field, faults, "must be an endpoint's id or uid", Ref::parse)
}

/// Reads a list; what is wrong is added to the faults.
pub fn read_each<T>(texts: &[String], field: &str, faults: &mut Vec<Fault>, reason: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
    if texts.len() > FILTER_VALUES_MAX {
        faults.push(Fault::new(field, format!("must be at most {FILTER_VALUES_MAX} values, and are {}", texts.len())));
        return Vec::new();
    }
    let mut values = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        match parse(text) {
            Some(value) => values.push(value),
            None => faults.push(Fault::new(format!("{field}[{index}]"), reason)),
        }
    }
    values
}
