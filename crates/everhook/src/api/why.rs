//! Why an event reached each of its destinations, did not yet, or never will.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use everhook_core::{
    ids::EventId,
    manage::why::{self, DestinationWhy, EndpointWhy},
    model::{Cursor, Delivery, Page},
    policy::why::Why,
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
    page::{List, PageQuery, RequestedPage},
    wire::{Identified, Params, json},
};
use crate::api::words::{DeliveryStatusWord, OtherDestinationWord, WhyReason};

/// The result of an event for one endpoint, and the reason.
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
    /// The reason as a code:
    ///
    /// - `delivered`
    /// - while it waits: `retry`, `not_due`, `turn`, `paused`, `circuit_open`, `circuit_half_open`, `retry_after`, `waits_for_order`; or `parked`, while
    ///   something outside must come first
    /// - dead: `retries_exhausted`, `given_up`, `gone`, `tls_failed`
    /// - cancelled, or never created: `endpoint_disabled`, `destination_deleted`, `erased`, `by_person`
    /// - never created: `endpoint_is_newer`, `type_differs`, `labels_differ`, `filtered`, `changed_since`, `duplicate`, `not_forwarded`, `addressed`
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
        let Explained { delivery_id, status, reason, explanation, until } = Explained::new(delivery.as_ref(), why);
        Self {
            endpoint_id: endpoint.id.to_string(),
            endpoint_uid: endpoint.uid.map(|uid| uid.to_string()),
            endpoint_name: endpoint.name,
            endpoint_url: endpoint.target.written,
            delivery_id,
            status,
            reason,
            explanation,
            until,
        }
    }
}

/// The result of an event for a destination that is not an endpoint, and the reason.
#[derive(Serialize, ToSchema)]
pub struct DestinationWhyOut {
    /// `processor` (of the source that received the event), `capability` (of a job), `callback` (to the caller of a job), or `channel` (for a notification).
    #[schema(value_type = OtherDestinationWord)]
    kind: &'static str,
    /// The id of the source or the channel; of a capability or callback, that of its lane, as in deliveries.
    #[schema(format = "uuid")]
    id: String,
    /// The name of the source, capability or channel; null if it has none or was deleted.
    #[schema(required = true)]
    name: Option<String>,
    /// The newest delivery of the event to it; null if there is none.
    #[schema(format = "uuid", required = true)]
    delivery_id: Option<String>,
    /// `waiting`, `held`, `parked`, `delivered`, `dead` or `cancelled`; null if there is no delivery.
    #[schema(value_type = Option<DeliveryStatusWord>, required = true)]
    status: Option<&'static str>,
    /// The reason as a code: those of endpoints, and `no_processor`, `not_requested` (the call has no `callback_url`), `channel_is_newer`,
    /// `channel_disabled`, `less_serious` and `not_a_recipient`.
    #[schema(value_type = WhyReason)]
    reason: &'static str,
    /// The reason in one sentence.
    explanation: String,
    /// When the wait ends, if known.
    #[schema(format = DateTime, required = true)]
    until: Option<String>,
}

impl From<DestinationWhy> for DestinationWhyOut {
    fn from(explained: DestinationWhy) -> Self {
        let DestinationWhy { kind, lane_id, name, delivery, why } = explained;
        let Explained { delivery_id, status, reason, explanation, until } = Explained::new(delivery.as_ref(), why);
        Self { kind, id: lane_id.to_string(), name, delivery_id, status, reason, explanation, until }
    }
}

/// What all explanations say.
struct Explained {
    delivery_id: Option<String>,
    status: Option<&'static str>,
    reason: &'static str,
    explanation: String,
    until: Option<String>,
}

impl Explained {
    fn new(delivery: Option<&Delivery>, why: Why) -> Self {
        Self {
            delivery_id: delivery.map(|delivery| delivery.id.to_string()),
            status: delivery.map(|delivery| delivery.stage.as_str()),
            reason: why.reason,
            explanation: why.words,
            until: why.until.map(|until| until.to_string()),
        }
    }
}

/// The explanation of an event: for the endpoints of its application, a page at a time, and for its other destinations.
#[derive(Serialize, ToSchema)]
pub struct WhyList {
    /// The endpoints, newest first.
    data: Vec<WhyOut>,
    /// The other destinations that the event may go to. All of them are on the first page; later pages have none.
    destinations: Vec<DestinationWhyOut>,
    /// Send it as `cursor` to get older endpoints; null if there are none.
    #[schema(required = true)]
    next_cursor: Option<String>,
    /// Send it as `cursor` to get newer endpoints; null if there are none.
    #[schema(required = true)]
    prev_cursor: Option<String>,
}

/// Explains why the event was delivered, is waiting or was never sent: for each existing endpoint of the application, for the processor of the source that
/// received it, for the capability and the caller of a job, and for channels of notifications. A missing delivery is explained by the current settings.
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
    let List { data, next_cursor, prev_cursor, .. } = List::from(Page { rows, next, prev }.map(WhyOut::from));
    let destinations =
        if is_first(page) { why::explain_others(&api.line, caller.organization, &summary, event.as_ref()).await? } else { Vec::new() };
    let destinations = destinations.into_iter().map(DestinationWhyOut::from).collect();
    Ok(json(StatusCode::OK, &WhyList { data, destinations, next_cursor, prev_cursor }))
}

fn is_first(page: RequestedPage) -> bool {
    page.without_offset().is_some_and(|page| page.cursor == Cursor::Newest)
}
