//! The part of `why` about destinations that are no endpoints: the processor of the source that received an event, the capability and the caller of a job,
//! and the channels of notifications.
//!
//! Which of these an event may go to follows from the event. Where its data was erased, what is left are its deliveries.

use crate::{
    catalog::{ApplicationView, Destination},
    ids::{LaneId, OrganizationId, Ref},
    line::Line,
    model::{
        ApplicationKind, CapabilityName, Channel, Cursor, Delivery, Event, LaneKind, PageRequest, Received, Source, Stage, callback_lane,
    },
    policy::{
        calls::{
            approval::APPROVAL_EVENT_TYPE,
            job::{CALLBACK_LABEL, JOB_EVENT_TYPE, JobDocument},
        },
        why::{
            self, LaneFacts, Why,
            absences::{self, Addressee},
        },
    },
    ports::{DeliveryFilter, EventSummary, StoreError},
    time::Timestamp,
};

/// How many of an event's deliveries are searched for destinations that the event does not name: of an erased event, and channels that were deleted.
const DELIVERIES_SEARCHED: u32 = 250;

/// The result of an event at a destination that is no endpoint.
#[derive(Clone, Debug)]
pub struct DestinationWhy {
    /// Its kind, as users know it: `processor`, `capability`, `callback` or `channel`.
    pub kind: &'static str,
    /// Its lane.
    pub lane_id: LaneId,
    /// The name of the source, the capability or the channel; `None` if it has none, or is not known any more.
    pub name: Option<String>,
    /// Its newest delivery of the event, if it has one.
    pub delivery: Option<Delivery>,
    /// The reason for it.
    pub why: Why,
}

/// A destination that an event may go to.
struct Candidate {
    kind: &'static str,
    lane_id: LaneId,
    name: Option<String>,
    /// The explanation, if there is no delivery.
    absence: Why,
}

/// Explains an event to the destinations that are no endpoints. Each costs a read; there are as many as an organization has channels, or two.
///
/// # Errors
/// [`StoreError`] if the store cannot be read.
pub async fn explain_others(
    line: &Line,
    organization: OrganizationId,
    summary: &EventSummary,
    event: Option<&Event>,
) -> Result<Vec<DestinationWhy>, StoreError> {
    let now = line.ports.clock.now();
    let view = line.catalog.application(summary.application).await?;
    let candidates = candidates(line, organization, view.as_deref(), summary, event).await?;
    let mut explained = Vec::with_capacity(candidates.len());
    for Candidate { kind, lane_id, name, absence } in candidates {
        let of_lane = DeliveryFilter { event: Some(summary.id), endpoint: Some(lane_id.endpoint()), ..DeliveryFilter::default() };
        let delivery = deliveries(line, organization, of_lane, 1).await?.into_iter().next();
        let why = match &delivery {
            None => absence,
            Some(delivery) => of_delivery(line, view.as_deref(), kind, delivery, now).await?,
        };
        explained.push(DestinationWhy { kind, lane_id, name, delivery, why });
    }
    let of_event = DeliveryFilter { event: Some(summary.id), ..DeliveryFilter::default() };
    for delivery in deliveries(line, organization, of_event, DELIVERIES_SEARCHED).await? {
        if delivery.kind == LaneKind::Endpoint || explained.iter().any(|known| known.lane_id == delivery.lane_id) {
            continue;
        }
        let kind = if delivery.lane_id == callback_lane(summary.application) { "callback" } else { delivery.kind.as_str() };
        let why = of_delivery(line, view.as_deref(), kind, &delivery, now).await?;
        explained.push(DestinationWhy { kind, lane_id: delivery.lane_id, name: None, delivery: Some(delivery), why });
    }
    Ok(explained)
}

async fn deliveries(line: &Line, organization: OrganizationId, filter: DeliveryFilter, limit: u32) -> Result<Vec<Delivery>, StoreError> {
    Ok(line.ports.history.deliveries(organization, filter, PageRequest { limit, cursor: Cursor::Newest }).await?.rows)
}

async fn candidates(
    line: &Line,
    organization: OrganizationId,
    view: Option<&ApplicationView>,
    summary: &EventSummary,
    event: Option<&Event>,
) -> Result<Vec<Candidate>, StoreError> {
    let mut candidates = Vec::new();
    if let Some(received) = event.and_then(|event| event.received.as_deref()) {
        candidates.push(processor(source(line, organization, received).await?.as_ref(), received));
    }
    if let Some(event) = event {
        candidates.extend(of_call(event));
    }
    if view.is_some_and(|view| view.application.kind == ApplicationKind::Operational) {
        candidates.extend(channels(line, organization, summary, event).await?);
    }
    Ok(candidates)
}

/// The processor of the source that received an event.
fn processor(source: Option<&Source>, received: &Received) -> Candidate {
    let absence = match received.duplicate_of {
        Some(original) => absences::of_duplicate(original),
        None => absences::at_processor(source.map(|source| source.processor.is_some())),
    };
    let name = source.map(|source| source.name.to_string());
    Candidate { kind: "processor", lane_id: received.source.into(), name, absence }
}

/// The capability that does a job, and the caller of a call that has ended.
fn of_call(event: &Event) -> Vec<Candidate> {
    let callback = |is_requested| Candidate {
        kind: "callback",
        lane_id: callback_lane(event.application),
        name: None,
        absence: absences::at_callback(is_requested),
    };
    if is_approval_message(event) {
        return vec![callback(true)];
    }
    let Some(job) = job(event) else { return Vec::new() };
    let capability = CapabilityName::parse(&job.capability).map(|name| Candidate {
        kind: "capability",
        lane_id: name.lane(event.application),
        name: Some(job.capability.clone()),
        absence: absences::at_capability(),
    });
    capability.into_iter().chain([callback(event.labels.contains_key(CALLBACK_LABEL))]).collect()
}

/// The channels of an organization, for an operational event.
async fn channels(
    line: &Line,
    organization: OrganizationId,
    summary: &EventSummary,
    event: Option<&Event>,
) -> Result<Vec<Candidate>, StoreError> {
    let channels = line.ports.channels.channels(organization).await?;
    let data = event.map(|event| serde_json::from_slice(&event.data).unwrap_or_default());
    let candidate = |channel: &Channel| {
        let absence = match &data {
            Some(data) => absences::at_channel(channel, &channels, &summary.event_type, data, summary.created_at),
            None => absences::at_channel_of_erased(summary.erased_at.unwrap_or(summary.created_at)),
        };
        Candidate { kind: "channel", lane_id: channel.id.into(), name: Some(channel.name().to_owned()), absence }
    };
    Ok(channels.iter().map(candidate).collect())
}

/// Whom an event is for, by what it is itself.
///
/// # Errors
/// [`StoreError`] if its source cannot be read.
pub(super) async fn addressee(line: &Line, organization: OrganizationId, event: &Event) -> Result<Addressee, StoreError> {
    if is_approval_message(event) {
        return Ok(Addressee::CallerOnly);
    }
    if job(event).is_some() {
        return Ok(Addressee::CapabilityOnly);
    }
    let Some(received) = event.received.as_deref() else { return Ok(Addressee::Anybody) };
    if let Some(original) = received.duplicate_of {
        return Ok(Addressee::Nobody(original));
    }
    let source = source(line, organization, received).await?;
    Ok(source.filter(|source| !source.forward).map_or(Addressee::Anybody, |source| Addressee::ProcessorOnly(source.name)))
}

async fn source(line: &Line, organization: OrganizationId, received: &Received) -> Result<Option<Source>, StoreError> {
    line.ports.sources.source(organization, &Ref::Id(received.source)).await
}

/// Everhook's own events about calls are sealed, which publishers cannot ask for, and came through no source.
fn is_of_a_call(event: &Event, event_type: &str) -> bool {
    event.sealed && event.received.is_none() && event.event_type.as_str() == event_type
}

fn is_approval_message(event: &Event) -> bool {
    is_of_a_call(event, APPROVAL_EVENT_TYPE)
}

fn job(event: &Event) -> Option<JobDocument> {
    if is_of_a_call(event, JOB_EVENT_TYPE) { JobDocument::read(&event.data) } else { None }
}

/// The lane is read only for deliveries that have not ended: the others are explained by their rows.
async fn of_delivery(
    line: &Line,
    view: Option<&ApplicationView>,
    kind: &'static str,
    delivery: &Delivery,
    now: Timestamp,
) -> Result<Why, StoreError> {
    let destination =
        view.and_then(|view| view.destination(delivery.lane_id)).filter(|_| matches!(delivery.stage, Stage::Waiting { .. } | Stage::Held));
    let facts = match destination {
        Some(destination) => super::destination_facts(line, &destination, now).await?,
        None => LaneFacts { destination: noun_of(kind), ..LaneFacts::default() },
    };
    Ok(why::of_delivery(delivery, &facts, now))
}

/// What explanations call a destination.
pub(super) fn noun(destination: &Destination) -> &'static str {
    match destination {
        Destination::Endpoint(_) => "endpoint",
        Destination::Channel(_) => noun_of("channel"),
        Destination::Processor(_) => noun_of("processor"),
        Destination::Capability(_) => noun_of("capability"),
        Destination::Callback(_) => noun_of("callback"),
    }
}

fn noun_of(kind: &'static str) -> &'static str {
    match kind {
        "capability" => "app",
        "callback" => "caller",
        kind => kind,
    }
}
