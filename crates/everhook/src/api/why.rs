//! Why an event reached each endpoint of its application, did not yet, or never will.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::EventId,
    manage::why::{self, EndpointWhy},
    model::Page,
    ports::EndpointFilter,
};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api,
    access::MayRead,
    endpoints,
    error::{ApiError, ReadProblems},
    page::{List, PageQuery},
    wire::{Identified, Params, json},
};
use crate::api::words::{DeliveryStatusWord, WhyReason};

/// The state of an event at one endpoint, and the reason.
#[derive(Serialize, ToSchema)]
pub struct WhyOut {
    #[schema(format = "uuid")]
    endpoint_id: String,
    #[schema(required = true)]
    endpoint_uid: Option<String>,
    #[schema(required = true)]
    endpoint_name: Option<String>,
    endpoint_url: String,
    /// The newest delivery of the event to it; null if there is none.
    #[schema(format = "uuid", required = true)]
    delivery_id: Option<String>,
    /// `waiting`, `held`, `parked`, `delivered`, `dead` or `cancelled`; null if there is no delivery.
    #[schema(value_type = Option<DeliveryStatusWord>, required = true)]
    status: Option<&'static str>,
    /// The reason as a code: `delivered`; `retry`, `not_due`, `turn`, `paused`, `circuit_open`, `circuit_half_open`, `retry_after` or
    /// `waits_for_order` while it waits; `parked` while something outside must come first; `retries_exhausted`, `given_up`, `gone` or `tls_failed` if it is dead; `endpoint_disabled`,
    /// `destination_deleted`, `erased` or `by_person` if it was cancelled or never created; `endpoint_is_newer`, `type_differs`, `labels_differ`,
    /// `filtered` or `changed_since` if it was never created.
    #[schema(value_type = WhyReason)]
    reason: &'static str,
    /// The reason in one sentence.
    explanation: String,
    /// When the wait ends, if known.
    #[schema(format = DateTime, required = true)]
    until: Option<String>,
}

impl From<EndpointWhy> for WhyOut {
    fn from(explained: EndpointWhy) -> Self {
        let EndpointWhy { endpoint, delivery, why } = explained;
        Self {
            endpoint_id: endpoint.id.to_string(),
            endpoint_uid: endpoint.uid.map(|uid| uid.to_string()),
            endpoint_name: endpoint.name,
            endpoint_url: endpoint.target.written,
            delivery_id: delivery.as_ref().map(|delivery| delivery.id.to_string()),
            status: delivery.as_ref().map(|delivery| delivery.stage.as_str()),
            reason: why.reason,
            explanation: why.words,
            until: why.until.map(|until| until.to_string()),
        }
    }
}

/// A page of them.
pub type WhyList = List<WhyOut>;

/// Explains, for each existing endpoint of the application, why the event was delivered, is waiting or was never sent. A missing delivery
/// is explained by the endpoint's current settings.
#[utoipa::path(
    get, path = "/v1/events/{id}/why", tag = "events", operation_id = "explain_event",
    params(("id" = String, Path, description = "The event's id"), PageQuery), security(("api_key" = ["read"])),
    responses((status = 200, description = "A page of explanations", body = WhyList), ReadProblems),
)]
pub async fn explain(
    State(api): State<Arc<Api>>,
    MayRead(caller): MayRead,
    Identified(id): Identified<EventId>,
    Params(query): Params<PageQuery>,
) -> Result<Response, ApiError> {
    let page = query.read()?;
    let found = api.line.ports.history.event(caller.organization, id).await?;
    let (summary, event) = found.ok_or_else(|| ApiError::not_found("event"))?;
    let filter = EndpointFilter { application: Some(summary.application), ..EndpointFilter::default() };
    let list = |page| api.line.ports.endpoints.endpoints(caller.organization, filter.clone(), page);
    let found = page.fetch_large(list, endpoints::size).await?;
    let Page { rows, next, prev } = found;
    let rows = why::explain(&api.line, &summary, event.as_ref(), rows).await?;
    Ok(json(StatusCode::OK, &List::from(Page { rows, next, prev }.map(WhyOut::from))))
}
