//! Doing deliveries again by hand: one, some of an endpoint, all failed ones of an event.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Path, State},
    response::Response,
};
use everhook_core::{
    flow::recall::{self, RECALLED_MAX, Recalled, Retry},
    ids::{DeliveryId, EndpointId, EventId, Ref},
    manage::Fault,
    model::Priority,
};
use http::{StatusCode, request::Parts};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api,
    access::MayManage,
    body::{JsonBody, NoFields, OptionalJsonBody},
    error::{ApiError, RetryProblems},
    to_the_end,
    wire::{Identified, Named, NoParams, json, read},
};

/// How a delivery is done again.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"priority": "high"}))]
pub struct RetryIn {
    /// `high`, `normal` or `low`; the event's if absent.
    priority: Option<String>,
}

/// Which deliveries are done again, and how.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"delivery_ids": ["01920000-0000-7000-8000-000000000000"], "priority": "low"}))]
pub struct RetryBatchIn {
    /// 1 to 1,000 deliveries of this endpoint.
    #[serde(default)]
    #[schema(required = true, min_items = 1, max_items = 1000)]
    delivery_ids: Vec<String>,
    /// `high`, `normal` or `low`; each event's own if absent.
    priority: Option<String>,
}

/// What is done again.
#[derive(Serialize, ToSchema)]
pub struct Retried {
    /// The first of the new deliveries.
    #[schema(format = "uuid")]
    delivery_id: Option<String>,
    /// The new deliveries.
    deliveries: Vec<String>,
    /// The deliveries that were not done again.
    skipped: Vec<NotRetried>,
}

/// A delivery that was not done again.
#[derive(Serialize, ToSchema)]
pub struct NotRetried {
    #[schema(format = "uuid")]
    delivery_id: String,
    /// Why not.
    reason: String,
}

impl From<Recalled> for Retried {
    fn from(recalled: Recalled) -> Self {
        let deliveries: Vec<String> = recalled.made.iter().map(DeliveryId::to_string).collect();
        let not_retried = |(id, why): &(DeliveryId, recall::Unwilling)| NotRetried { delivery_id: id.to_string(), reason: why.to_string() };
        Self { delivery_id: deliveries.first().cloned(), deliveries, skipped: recalled.skipped.iter().map(not_retried).collect() }
    }
}

/// Does a delivery again: a new one of the same event, with fresh attempts, the endpoint's present URL, secret and schedule. A dead or cancelled
/// one is thereby brought back.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/retry", tag = "deliveries", operation_id = "retry_delivery", request_body = Option<RetryIn>,
    params(("id" = String, Path, description = "The delivery's id")), security(("api_key" = ["manage"])),
    responses((status = 202, description = "It is done again", body = Retried), RetryProblems),
)]
pub async fn retry_delivery(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(delivery): Identified<DeliveryId>,
    OptionalJsonBody(asked): OptionalJsonBody<RetryIn>,
) -> Result<Response, ApiError> {
    let retry = Retry { delivery, endpoint: None, priority: asked.priority()? };
    answer(to_the_end(async move { recall::retry_delivery(&api.line, caller.organization, retry).await }).await??)
}

/// Does a delivery of this endpoint again, as `POST /v1/deliveries/{id}/retry` does.
#[utoipa::path(
    post, path = "/{id}/deliveries/{delivery_id}/retry", tag = "endpoints", operation_id = "retry_endpoint_delivery", request_body = Option<RetryIn>,
    params(("id" = String, Path, description = "The endpoint's id or uid"), ("delivery_id" = String, Path, description = "The delivery's id")),
    security(("api_key" = ["manage"])),
    responses((status = 202, description = "It is done again", body = Retried), RetryProblems),
)]
pub async fn retry_endpoint_delivery(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    OfEndpoint(of, delivery): OfEndpoint,
    OptionalJsonBody(asked): OptionalJsonBody<RetryIn>,
) -> Result<Response, ApiError> {
    let endpoint = Some(api.find_endpoint(caller.organization, &of).await?);
    let retry = Retry { delivery, endpoint, priority: asked.priority()? };
    answer(to_the_end(async move { recall::retry_delivery(&api.line, caller.organization, retry).await }).await??)
}

/// Does some deliveries of this endpoint again, in the order of their events. Those that are still open are skipped.
#[utoipa::path(
    post, path = "/{id}/deliveries/retry-batch", tag = "endpoints", operation_id = "retry_endpoint_deliveries", request_body = RetryBatchIn,
    params(("id" = String, Path, description = "The endpoint's id or uid")), security(("api_key" = ["manage"])),
    responses((status = 202, description = "They are done again", body = Retried), RetryProblems),
)]
pub async fn retry_batch(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Named(of): Named<EndpointId>,
    JsonBody(asked): JsonBody<RetryBatchIn>,
) -> Result<Response, ApiError> {
    let endpoint = api.find_endpoint(caller.organization, &of).await?;
    let (deliveries, priority) = asked.read()?;
    let retry = async move { recall::retry_batch(&api.line, caller.organization, endpoint, &deliveries, priority).await };
    answer(to_the_end(retry).await??)
}

/// Does all failed deliveries of an event again: for each endpoint the newest, if it is dead or cancelled.
#[utoipa::path(
    post, path = "/v1/events/{id}/retry", tag = "events", operation_id = "retry_event", params(("id" = String, Path, description = "The event's id")),
    security(("api_key" = ["manage"])),
    responses((status = 202, description = "They are done again", body = Retried), RetryProblems),
)]
pub async fn retry_event(
    State(api): State<Arc<Api>>,
    MayManage(caller): MayManage,
    _query: NoParams,
    Identified(event): Identified<EventId>,
    _body: OptionalJsonBody<NoFields>,
) -> Result<Response, ApiError> {
    answer(to_the_end(async move { recall::retry_event(&api.line, caller.organization, event).await }).await??)
}

/// As `POST /v1/events/{id}/retry`, under the name that some platforms expect.
#[utoipa::path(
    post, path = "/v1/messages/{id}/retry", tag = "events", operation_id = "retry_message", params(("id" = String, Path, description = "The event's id")),
    security(("api_key" = ["manage"])),
    responses((status = 202, description = "They are done again", body = Retried), RetryProblems),
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

fn answer(recalled: Recalled) -> Result<Response, ApiError> {
    Ok(json(StatusCode::ACCEPTED, &Retried::from(recalled)))
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
        named.ok_or_else(|| ApiError::not_found("thing by this id"))
    }
}
