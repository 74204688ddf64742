//! Retrying and cancelling deliveries by hand: one, some of an endpoint, all of an event that failed or wait, all that wait for an endpoint.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Path, State},
    response::Response,
};
use everhook_core::{
    ids::{DeliveryId, EndpointId, EventId, Ref},
    line::recall::{self, RECALLED_MAX, Retry},
    manage::{
        Fault,
        deliveries::{self, DueNow},
    },
    model::Priority,
};
use http::{StatusCode, request::Parts};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    access::MayManage,
    body::{JsonBody, NoFields, OptionalJsonBody},
    deliveries::{DeliveryOut, show},
    error::{ApiError, ChangeProblems, RetryProblems},
    operations::{Begun, PaceIn, RateIn, begun},
    run_to_completion,
    wire::{Identified, Named, NoParams, Object, json, read},
};
use crate::api::words::PriorityWord;

/// How to retry a delivery.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"priority": "high"}))]
pub struct RetryIn {
    /// The new delivery's: `high`, `normal` or `low`; the event's if absent. One that waits keeps its own.
    #[schema(value_type = Option<PriorityWord>)]
    priority: Option<String>,
}

/// The deliveries to retry.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"delivery_ids": ["01920000-0000-7000-8000-000000000000"], "priority": "low"}))]
pub struct RetryBatchIn {
    /// 1 to 1,000 deliveries of this endpoint.
    #[serde(default)]
    #[schema(required = true, min_items = 1, max_items = 1000)]
    delivery_ids: Vec<String>,
    /// The new deliveries': `high`, `normal` or `low`; each event's own if absent.
    #[schema(value_type = Option<PriorityWord>)]
    priority: Option<String>,
}

/// The result of a retry. Ended deliveries are resent as new ones; waiting deliveries are attempted now.
#[derive(Serialize, ToSchema)]
pub struct Retried {
    /// The first of the deliveries that were retried.
    #[schema(format = "uuid", required = true)]
    delivery_id: Option<String>,
    /// The new deliveries.
    deliveries: Vec<String>,
    /// Whether a waiting delivery was brought forward: its next attempt is due now, and the attempts made so far count.
    brought_forward: bool,
    /// What still delays that delivery, if known.
    #[schema(required = true)]
    waits_for: Option<String>,
    /// The waiting deliveries whose next attempt is due now.
    brought_forward_deliveries: Vec<BroughtForwardOut>,
    /// The deliveries that were not retried.
    skipped: Vec<NotRetried>,
}

/// A delivery whose next attempt is due now.
#[derive(Serialize, ToSchema)]
pub struct BroughtForwardOut {
    #[schema(format = "uuid")]
    delivery_id: String,
    /// What still delays it, if known.
    #[schema(required = true)]
    waits_for: Option<String>,
}

/// A delivery that was not retried.
#[derive(Serialize, ToSchema)]
pub struct NotRetried {
    #[schema(format = "uuid")]
    delivery_id: String,
    /// The reason.
    reason: String,
}

impl From<deliveries::Retried> for Retried {
    fn from(retried: deliveries::Retried) -> Self {
        let deliveries: Vec<String> = retried.recalled.made.iter().map(DeliveryId::to_string).collect();
        let not_retried =
            |(id, why): &(DeliveryId, recall::NotResendable)| NotRetried { delivery_id: id.to_string(), reason: why.to_string() };
        let refused = retried.refused.iter().flat_map(|(ids, error)| {
            let refused = |id: &DeliveryId| NotRetried { delivery_id: id.to_string(), reason: error.to_string() };
            ids.iter().map(refused)
        });
        let forwarded = |due: &DueNow| BroughtForwardOut {
            delivery_id: due.delivery.to_string(),
            waits_for: due.waits_for.as_ref().map(|why| why.words.clone()),
        };
        let forwarded: Vec<_> = retried.forwarded.iter().map(forwarded).collect();
        let first = forwarded.first();
        Self {
            delivery_id: deliveries.first().or(first.map(|first| &first.delivery_id)).cloned(),
            deliveries,
            brought_forward: first.is_some(),
            waits_for: first.and_then(|first| first.waits_for.clone()),
            brought_forward_deliveries: forwarded,
            skipped: retried.recalled.skipped.iter().map(not_retried).chain(refused).collect(),
        }
    }
}

/// Retries a delivery. One that has ended is resent: a new delivery of the same event, with fresh attempts and the endpoint's current URL, secret and
/// schedule. One that waits is attempted now: its next attempt is due at once, the attempts made so far count, and `waits_for` names what still delays it.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/retry", tag = "deliveries", operation_id = "retry_delivery", request_body = Option<RetryIn>,
    params(("id" = String, Path, description = "The delivery's id")), security(("api_key" = ["manage"])),
    responses((status = 202, description = "The delivery is retried", body = Retried), RetryProblems),
)]
pub async fn retry_delivery(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(delivery): Identified<DeliveryId>,
    OptionalJsonBody(asked): OptionalJsonBody<RetryIn>,
) -> Result<Response, ApiError> {
    let retry = Retry { delivery, endpoint: None, priority: asked.priority()? };
    answer(run_to_completion(async move { deliveries::retry(&api.line, &caller.author(), retry).await }).await??)
}

/// Retries a delivery of this endpoint, as `POST /v1/deliveries/{id}/retry` does.
#[utoipa::path(
    post, path = "/{id}/deliveries/{delivery_id}/retry", tag = "endpoints", operation_id = "retry_endpoint_delivery", request_body = Option<RetryIn>,
    params(("id" = String, Path, description = "The endpoint's id or uid"), ("delivery_id" = String, Path, description = "The delivery's id")),
    security(("api_key" = ["manage"])),
    responses((status = 202, description = "The delivery is retried", body = Retried), RetryProblems),
)]
pub async fn retry_endpoint_delivery(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    OfEndpoint(of, delivery): OfEndpoint,
    OptionalJsonBody(asked): OptionalJsonBody<RetryIn>,
) -> Result<Response, ApiError> {
    let endpoint = Some(api.find_endpoint(&caller, &of).await?);
    let retry = Retry { delivery, endpoint, priority: asked.priority()? };
    answer(run_to_completion(async move { deliveries::retry(&api.line, &caller.author(), retry).await }).await??)
}

/// Retries some deliveries of this endpoint: those that have ended are resent in the order of their events, those that wait are attempted now.
#[utoipa::path(
    post, path = "/{id}/deliveries/retry-batch", tag = "endpoints", operation_id = "retry_endpoint_deliveries", request_body = RetryBatchIn,
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 202, description = "The deliveries are retried", body = Retried), RetryProblems),
)]
pub async fn retry_batch(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
    JsonBody(asked): JsonBody<RetryBatchIn>,
) -> Result<Response, ApiError> {
    let endpoint = api.find_endpoint(&caller, &of).await?;
    let (ids, priority) = asked.read()?;
    let retry = async move { deliveries::retry_batch(&api.line, &caller.author(), endpoint, &ids, priority).await };
    answer(run_to_completion(retry).await??)
}

/// Retries the deliveries of an event: for each endpoint the newest. A dead or cancelled one is resent, one that waits is attempted now.
#[utoipa::path(
    post, path = "/v1/events/{id}/retry", tag = "events", operation_id = "retry_event", params(("id" = String, Path, description = "The event's id")),
    security(("api_key" = ["manage"])),
    responses((status = 202, description = "The deliveries are retried", body = Retried), RetryProblems),
)]
pub async fn retry_event(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(event): Identified<EventId>,
    _body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    answer(run_to_completion(async move { deliveries::retry_event(&api.line, &caller.author(), event).await }).await??)
}

/// Same as `POST /v1/events/{id}/retry`, with the path that other platforms use.
#[utoipa::path(
    post, path = "/v1/messages/{id}/retry", tag = "events", operation_id = "retry_message", params(("id" = String, Path, description = "The event's id")),
    security(("api_key" = ["manage"])),
    responses((status = 202, description = "The deliveries are retried", body = Retried), RetryProblems),
)]
pub async fn retry_message(
    api: State<Arc<Api>>,
    caller: MayManage,
    query: NoParams,
    event: Identified<EventId>,
    body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    retry_event(api, caller, query, event, body).await
}

/// Cancels a delivery that waits or is held. It stays visible as `cancelled` with the cause `by_person`, the next of its order is freed, and a retry resends it.
/// While an attempt is under way the answer is 409.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/cancel", tag = "deliveries", operation_id = "cancel_delivery",
    params(("id" = String, Path, description = "The delivery's id")), security(("api_key" = ["manage"])),
    responses((status = 200, description = "The delivery, cancelled", body = DeliveryOut), ChangeProblems),
)]
pub async fn cancel_delivery(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(delivery): Identified<DeliveryId>,
    _body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    let (inner, by) = (api.clone(), caller.author());
    run_to_completion(async move { deliveries::cancel(&inner.line, &by, delivery).await }).await??;
    show(&api, caller.organization, delivery).await
}

/// How fast what waits is attempted.
#[derive(Deserialize, ToSchema, Default)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"rate_limit": {"requests_per_second": 20}}))]
pub struct AttemptNowIn {
    /// How many attempts are brought forward a second; as many as the store takes if absent.
    #[schema(value_type = Option<RateIn>)]
    rate_limit: Option<Object<RateIn>>,
}

/// Attempts every waiting delivery of the endpoint now: each next attempt is due at once, as an operation. The attempts made so far count, and the order is kept.
#[utoipa::path(
    post, path = "/{id}/attempt-now", tag = "endpoints", operation_id = "attempt_endpoint_now", request_body = Option<AttemptNowIn>,
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 202, description = "The operation has started", body = Begun), ChangeProblems),
)]
pub async fn attempt_endpoint_now(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
    OptionalJsonBody(asked): OptionalJsonBody<AttemptNowIn>,
) -> Result<Response, ApiError> {
    api.find_endpoint(&caller, &of).await?;
    let mut faults = Vec::new();
    let rate_limit = asked.rate_limit.as_ref().map(|Object(rate)| rate);
    let pace = PaceIn { rate_limit, priority: None, start_at: None }.read(&mut faults);
    if !faults.is_empty() {
        return Err(ApiError::invalid(faults));
    }
    let begin = async move { deliveries::attempt_endpoint_now(&api.line, &caller.author(), &of, pace).await };
    Ok(begun(run_to_completion(begin).await??))
}

fn answer(retried: deliveries::Retried) -> Result<Response, ApiError> {
    Ok(json(StatusCode::ACCEPTED, &Retried::from(retried)))
}

impl RetryIn {
    fn priority(&self) -> Result<Option<Priority>, ApiError> {
        let mut faults = Vec::new();
        let priority = read(self.priority.as_deref(), "priority", &mut faults, read_priority);
        if faults.is_empty() { Ok(priority) } else { Err(ApiError::invalid(faults)) }
    }
}

impl RetryBatchIn {
    fn read(&self) -> Result<(Vec<DeliveryId>, Option<Priority>), ApiError> {
        let mut faults = Vec::new();
        let priority = read(self.priority.as_deref(), "priority", &mut faults, read_priority);
        if !(1..=RECALLED_MAX).contains(&self.delivery_ids.len()) {
            faults.push(Fault::new("delivery_ids", format!("must be 1 to {RECALLED_MAX} ids, and are {}", self.delivery_ids.len())));
        }
        let mut deliveries = Vec::with_capacity(self.delivery_ids.len());
        for (index, text) in self.delivery_ids.iter().enumerate() {
            match text.parse() {
                Ok(id) => deliveries.push(id),
                Err(_) => faults.push(Fault::new(format!("delivery_ids[{index}]"), "must be a delivery's id")),
            }
        }
        if faults.is_empty() { Ok((deliveries, priority)) } else { Err(ApiError::invalid(faults)) }
    }
}

/// Reads a priority in a body.
pub fn read_priority(text: &str) -> Result<Priority, String> {
    Priority::parse(text).ok_or_else(|| "must be `high`, `normal` or `low`".to_owned())
}

/// An endpoint and one of its deliveries, in a path.
pub struct OfEndpoint(Ref<EndpointId>, DeliveryId);

impl FromRequestParts<Arc<Api>> for OfEndpoint {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        let segments = Path::<(String, String)>::from_request_parts(parts, api).await.ok();
        let named = segments.and_then(|Path((endpoint, delivery))| Some(Self(Ref::parse(&endpoint)?, delivery.parse().ok()?)));
        named.ok_or_else(|| ApiError::not_found("delivery"))
    }
}
