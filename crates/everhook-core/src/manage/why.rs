//! Why an event reached an endpoint, did not yet, or never will: for the endpoints of its application. Called by the API.
//!
//! It reads and changes nothing. The words are made by `policy::why`.

use serde_json::Value;

use super::endpoints::lane;
use crate::{
    flow::Line,
    model::{BreakerState, Cursor, Delivery, Endpoint, Event, PageRequest, Stage},
    policy::{
        filter::Filter,
        labels::Labels,
        why::{self, Circuit, LaneFacts, Why, Wishes},
    },
    ports::{DeliveryFilter, EventSummary, StoreError},
    time::Timestamp,
};

/// Where an event stands at one endpoint.
#[derive(Clone, Debug)]
pub struct EndpointWhy {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its newest delivery of the event, if it has one.
    pub delivery: Option<Delivery>,
    /// Why it stands there.
    pub why: Why,
}

/// Explains an event to some endpoints of its application, in their order. Each costs a read, so that callers hand over a page at a time. The event itself
/// is `None` if it was erased.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn explain(
    line: &Line,
    summary: &EventSummary,
    event: Option<&Event>,
    endpoints: Vec<Endpoint>,
) -> Result<Vec<EndpointWhy>, StoreError> {
    // Data that cannot be looked into passes every filter, as it does at publishing.
    let data = event.and_then(|event| serde_json::from_slice(&event.data).ok());
    let asked = Asked { summary, labels: event.map(|event| &event.labels), data: data.as_ref() };
    let now = line.ports.clock.now();
    let mut explained = Vec::with_capacity(endpoints.len());
    for endpoint in endpoints {
        explained.push(explain_endpoint(line, &asked, endpoint, now).await?);
    }
    Ok(explained)
}

/// The event that is asked about.
struct Asked<'a> {
    summary: &'a EventSummary,
    /// `None` if it was erased.
    labels: Option<&'a Labels>,
    data: Option<&'a Value>,
}

async fn explain_endpoint(line: &Line, asked: &Asked<'_>, endpoint: Endpoint, now: Timestamp) -> Result<EndpointWhy, StoreError> {
    let filter = DeliveryFilter { event: Some(asked.summary.id), endpoint: Some(endpoint.id), ..DeliveryFilter::default() };
    let newest = PageRequest { limit: 1, cursor: Cursor::Newest };
    let delivery = line.ports.history.deliveries(endpoint.organization, filter, newest).await?.rows.into_iter().next();
    let why = match &delivery {
        None => absence(asked, &wishes(&endpoint, asked.data)),
        Some(delivery) => why::of_delivery(delivery, &facts(line, delivery, &endpoint, now).await?, now),
    };
    Ok(EndpointWhy { endpoint, delivery, why })
}

fn absence(asked: &Asked<'_>, wishes: &Wishes<'_>) -> Why {
    let EventSummary { event_type, created_at, erased_at, .. } = asked.summary;
    match asked.labels {
        Some(labels) => why::of_absence(event_type, labels, *created_at, wishes),
        None => why::of_absence_of_erased(event_type, *created_at, erased_at.unwrap_or(*created_at), wishes),
    }
}

fn wishes<'a>(endpoint: &'a Endpoint, data: Option<&Value>) -> Wishes<'a> {
    // One that does not parse is none of ours: publishing would have failed on it.
    let filter = endpoint.filter.as_deref().and_then(|text| Filter::parse(text).ok());
    let passes_filter = filter.zip(data).is_none_or(|(filter, data)| filter.passes(data));
    Wishes {
        event_types: &endpoint.event_types,
        labels: &endpoint.labels,
        passes_filter,
        state: endpoint.state,
        created_at: endpoint.created_at,
    }
}

/// What holds the lane up. The owner is asked only about deliveries that wait: the others are explained by their rows.
async fn facts(line: &Line, delivery: &Delivery, endpoint: &Endpoint, now: Timestamp) -> Result<LaneFacts, StoreError> {
    let known = LaneFacts {
        paused_at: endpoint.paused_at,
        rate_limit: endpoint.rate_limit,
        ordering: endpoint.ordering.mode,
        ..LaneFacts::default()
    };
    if !matches!(delivery.stage, Stage::Waiting { .. }) {
        return Ok(known);
    }
    let report = lane(line, endpoint, now).await?;
    let circuit = match report.breaker.state {
        BreakerState::Closed => Circuit::Closed,
        BreakerState::Open => Circuit::Open(report.breaker.next_half_open_at),
        BreakerState::HalfOpen => Circuit::HalfOpen,
    };
    Ok(LaneFacts { circuit, held_until: report.held_until, in_flight: (report.in_flight, endpoint.max_concurrency), ..known })
}
