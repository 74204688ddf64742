//! Why an event reached a destination, did not yet, or never will: for the endpoints of its application here, for other destinations in `others`. Called by
//! the API.
//!
//! It reads and changes nothing. The words are made by `policy::why`.

mod others;

use serde_json::Value;

pub use self::others::{DestinationWhy, explain_others};
use super::endpoints::lane;
use crate::{
    catalog::Destination,
    limits::evaluations::{Busy, EVALUATION_TIMEOUT},
    line::Line,
    model::{BreakerFacts, BreakerState, Cursor, Delivery, Endpoint, Event, PageRequest, Stage},
    policy::{
        filter::Filter,
        labels::Labels,
        why::{
            self, Circuit, EndpointCriteria, LaneFacts, Why,
            absences::{self, Addressee},
        },
        work::{FILTER_UNITS_MAX, WorkBudget},
    },
    ports::{DeliveryFilter, EventSummary, StoreError},
    time::Timestamp,
};

/// The result of an event for one endpoint.
#[derive(Clone, Debug)]
pub struct EndpointWhy {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its newest delivery of the event, if it has one.
    pub delivery: Option<Delivery>,
    /// The reason for it.
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
    let passes = pass_filters(line, event, &endpoints).await;
    let addressee = match (event, endpoints.first()) {
        (Some(event), Some(endpoint)) => others::addressee(line, endpoint.organization, event).await?,
        _ => Addressee::Anybody,
    };
    let asked = Asked { summary, labels: event.map(|event| &event.labels), at_no_endpoint: absences::at_endpoints(&addressee) };
    let now = line.ports.clock.now();
    let mut explained = Vec::with_capacity(endpoints.len());
    for (endpoint, passes_filter) in endpoints.into_iter().zip(passes) {
        explained.push(explain_endpoint(line, &asked, endpoint, passes_filter, now).await?);
    }
    Ok(explained)
}

/// Which endpoints' filters the event passes. Data that cannot be looked into, or not within what publishing may use, passes.
async fn pass_filters(line: &Line, event: Option<&Event>, endpoints: &[Endpoint]) -> Vec<bool> {
    let all = || vec![true; endpoints.len()];
    let Some(event) = event.filter(|event| event.content_type.may_be_json() && endpoints.iter().any(|endpoint| endpoint.filter.is_some()))
    else {
        return all();
    };
    let (data, filters): (_, Vec<_>) = (event.data.clone(), endpoints.iter().map(|endpoint| endpoint.filter.clone()).collect());
    let evaluate = move || {
        let (data, mut budget) = (serde_json::from_slice::<Value>(&data).ok(), WorkBudget::new(FILTER_UNITS_MAX));
        let mut passes = |filter: Option<String>| {
            // One that does not parse is none of ours: publishing would have failed on it.
            let filter = filter.and_then(|text| Filter::parse(&text).ok());
            filter.zip(data.as_ref()).is_none_or(|(filter, data)| filter.passes(data, &mut budget).unwrap_or(true))
        };
        filters.into_iter().map(&mut passes).collect()
    };
    line.evaluations.run(endpoints[0].organization, EVALUATION_TIMEOUT, evaluate).await.unwrap_or_else(|Busy| all())
}

/// The event that is asked about.
struct Asked<'a> {
    summary: &'a EventSummary,
    /// `None` if it was erased.
    labels: Option<&'a Labels>,
    /// Why no endpoint has a delivery of it, if that does not depend on the endpoint.
    at_no_endpoint: Option<Why>,
}

async fn explain_endpoint(
    line: &Line,
    asked: &Asked<'_>,
    endpoint: Endpoint,
    passes_filter: bool,
    now: Timestamp,
) -> Result<EndpointWhy, StoreError> {
    let filter = DeliveryFilter { event: Some(asked.summary.id), endpoint: Some(endpoint.id), ..DeliveryFilter::default() };
    let newest = PageRequest { limit: 1, cursor: Cursor::Newest };
    let delivery = line.ports.history.deliveries(endpoint.organization, filter, newest).await?.rows.into_iter().next();
    let why = match &delivery {
        None => absence(asked, &criteria(&endpoint, passes_filter)),
        Some(delivery) => why::of_delivery(delivery, &facts(line, delivery, &endpoint, now).await?, now),
    };
    Ok(EndpointWhy { endpoint, delivery, why })
}

fn absence(asked: &Asked<'_>, criteria: &EndpointCriteria<'_>) -> Why {
    let EventSummary { event_type, created_at, erased_at, .. } = asked.summary;
    if let Some(why) = &asked.at_no_endpoint {
        return why.clone();
    }
    match asked.labels {
        Some(labels) => why::of_absence(event_type, labels, *created_at, criteria),
        None => why::of_absence_of_erased(event_type, *created_at, erased_at.unwrap_or(*created_at), criteria),
    }
}

fn criteria(endpoint: &Endpoint, passes_filter: bool) -> EndpointCriteria<'_> {
    EndpointCriteria {
        event_types: &endpoint.event_types,
        labels: &endpoint.labels,
        passes_filter,
        state: endpoint.state,
        created_at: endpoint.created_at,
    }
}

/// What keeps a delivery that is due from being attempted now, as far as its lane says.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub(super) async fn holds_lane(line: &Line, destination: &Destination, now: Timestamp) -> Result<Option<Why>, StoreError> {
    Ok(why::of_lane(&destination_facts(line, destination, now).await?, now))
}

/// Why a delivery that is due has not ended.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub(super) async fn of_due(line: &Line, destination: &Destination, now: Timestamp) -> Result<Why, StoreError> {
    Ok(why::of_due(&destination_facts(line, destination, now).await?, now))
}

async fn destination_facts(line: &Line, destination: &Destination, now: Timestamp) -> Result<LaneFacts, StoreError> {
    match destination {
        Destination::Endpoint(to) => lane_facts(line, &to.endpoint, now).await,
        Destination::Channel(_) | Destination::Processor(_) | Destination::Capability(_) | Destination::Callback(_) => {
            let policy = destination.lane();
            let settings = LaneFacts {
                destination: others::noun(destination),
                rate_limit: policy.rate_limit,
                ordering: destination.ordering().mode,
                ..LaneFacts::default()
            };
            let Some(report) = line.lanes.report(policy.lane_id).await else {
                return Ok(LaneFacts { in_flight: (0, policy.max_concurrency), ..settings });
            };
            Ok(LaneFacts {
                circuit: circuit_of(&report.breaker),
                held_until: report.held_until,
                in_flight: (report.in_flight, policy.max_concurrency),
                ..settings
            })
        }
    }
}

/// What holds the lane up. The owner is asked only about deliveries that wait: the others are explained by their rows.
async fn facts(line: &Line, delivery: &Delivery, endpoint: &Endpoint, now: Timestamp) -> Result<LaneFacts, StoreError> {
    if matches!(delivery.stage, Stage::Waiting { .. }) { lane_facts(line, endpoint, now).await } else { Ok(settings_of(endpoint)) }
}

fn settings_of(endpoint: &Endpoint) -> LaneFacts {
    LaneFacts { paused_at: endpoint.paused_at, rate_limit: endpoint.rate_limit, ordering: endpoint.ordering.mode, ..LaneFacts::default() }
}

fn circuit_of(breaker: &BreakerFacts) -> Circuit {
    match breaker.state {
        BreakerState::Closed => Circuit::Closed,
        BreakerState::Open => Circuit::Open(breaker.next_half_open_at),
        BreakerState::HalfOpen => Circuit::HalfOpen,
    }
}

async fn lane_facts(line: &Line, endpoint: &Endpoint, now: Timestamp) -> Result<LaneFacts, StoreError> {
    let report = lane(line, endpoint, now).await?;
    Ok(LaneFacts {
        circuit: circuit_of(&report.breaker),
        held_until: report.held_until,
        in_flight: (report.in_flight, endpoint.max_concurrency),
        ..settings_of(endpoint)
    })
}
