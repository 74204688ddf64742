//! Step 1: an event is matched with endpoints and recorded with its deliveries, in one atomic write.
//!
//! Called by the API and by `alert`. It returns only when everything is on disk, and it must run to its end once the write has begun: callers
//! that may be dropped half-way spawn it, or the lanes would learn of the deliveries only by their periodic look.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    catalog::{ApplicationView, Destination},
    flow::{Line, selection::select},
    ids::{ApplicationId, DeliveryId, EndpointId, EventId, OrganizationId},
    model::{ApplicationKind, Due, Event, EventType, Placement, Priority, RateLimit},
    policy::{labels::Labels, schema::Violation},
    ports::{Committed, KeyOrigin, NewDelivery, NewEvent, Recorded, StoreError},
    time::Timestamp,
};

/// How often an event is matched again because the configuration changed under it. Each round needs another change at the very moment of the
/// write, so that reaching the bound means that something changes it in a loop.
const MATCH_ROUNDS_MAX: u32 = 20;

/// An event that somebody wants to publish. Its spelling was checked.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The tenant that publishes.
    pub organization: OrganizationId,
    /// The application it is published to.
    pub application: ApplicationId,
    /// What kind of thing happened.
    pub event_type: EventType,
    /// The JSON value, byte for byte.
    pub data: Bytes,
    /// Makes publishing it twice the same as once.
    pub idempotency_key: Option<String>,
    /// The part of the publisher's platform that it came from.
    pub source: Option<String>,
    /// How it shares the organization's capacity.
    pub priority: Priority,
    /// When it happened; now if absent.
    pub timestamp: Option<Timestamp>,
    /// The publisher's trace.
    pub traceparent: Option<String>,
    /// What is said about it beside its data.
    pub labels: Labels,
    /// Added to every request about it.
    pub headers: Vec<(String, String)>,
    /// Goes to this endpoint alone, whatever types it wants, if it is enabled; to all that match if absent.
    pub only: Option<EndpointId>,
}

/// What the publisher is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The event; the original's id if this was a duplicate.
    pub event: EventId,
    /// How many deliveries it made.
    pub deliveries: u32,
    /// Whether its key had been used before.
    pub duplicate: bool,
    /// Its place in the application.
    pub sequence_number: i64,
}

/// Why an event was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The application does not exist in this organization.
    #[error("there is no such application in this organization")]
    NoSuchApplication,
    /// The organization publishes more than it may.
    #[error("the organization has published as many events as it may for now")]
    TooMany {
        /// How long until it may publish again.
        retry_after: Duration,
    },
    /// The application takes only types that the organization defined, and this is none.
    #[error("the event type `{0}` is not defined, and the application takes no others")]
    UnknownType(EventType),
    /// The type is out of use.
    #[error("the event type `{0}` is archived")]
    ArchivedType(EventType),
    /// The data does not fit the type's schema.
    #[error("the data does not fit the schema of its type")]
    Misfit(Vec<Violation>),
    /// It was not recorded, as far as is known; its idempotency key makes trying again safe.
    #[error("the event could not be stored")]
    Store(#[from] StoreError),
}

/// What became of one event.
type Answer = Result<Published, PublishError>;

/// Publishes events, in order, each alone: one answer for each.
///
/// Whatever was recorded is handed over to its lanes, also if the store failed at others.
pub async fn publish(line: &Line, publications: Vec<Publication>) -> Vec<Result<Published, PublishError>> {
    let mut answers: Vec<Option<Answer>> = publications.iter().map(|_| None).collect();
    let mut open: Vec<(usize, Publication)> = publications.into_iter().enumerate().collect();
    for _ in 0..MATCH_ROUNDS_MAX {
        open = publish_round(line, open, &mut answers).await;
        if open.is_empty() {
            break;
        }
    }
    // What has no answer was still being matched again at the last round.
    answers.into_iter().map(|answer| answer.unwrap_or(Err(PublishError::Store(StoreError::Conflict)))).collect()
}

/// Publishes what can be, and returns what must be matched again.
async fn publish_round(line: &Line, open: Vec<(usize, Publication)>, answers: &mut [Option<Answer>]) -> Vec<(usize, Publication)> {
    let drafts = draft_each(line, open, answers).await;
    if drafts.is_empty() {
        return Vec::new();
    }
    let new_events = drafts.iter().map(|draft| draft.to_new_event(line)).collect();
    let recorded = line.ports.events.record(new_events).await;
    let mut committed = Vec::new();
    let mut changed = Vec::new();
    for (draft, recorded) in drafts.into_iter().zip(recorded) {
        match recorded {
            Ok(Recorded::ConfigChanged) => {
                line.catalog.forget(draft.publication.application);
                changed.push((draft.index, draft.publication));
            }
            Ok(Recorded::Duplicate { event, deliveries, sequence_number }) => {
                answers[draft.index] = Some(Ok(Published { event, deliveries, duplicate: true, sequence_number }));
            }
            Ok(Recorded::Accepted { sequence_number, held }) => {
                answers[draft.index] = Some(Ok(draft.published(sequence_number)));
                draft.hand_over(sequence_number, &held, &mut committed);
            }
            Err(error) => answers[draft.index] = Some(Err(error.into())),
        }
    }
    if !committed.is_empty() {
        line.wake_up.committed(committed);
    }
    changed
}

/// Matches each event with its endpoints. One that cannot be matched is answered; the others go on.
async fn draft_each(line: &Line, open: Vec<(usize, Publication)>, answers: &mut [Option<Answer>]) -> Vec<Draft> {
    let mut drafts = Vec::with_capacity(open.len());
    for (index, publication) in open {
        match admit(line, &publication).await {
            Ok(view) => drafts.push(Draft::new(line, index, publication, &view)),
            Err(error) => answers[index] = Some(Err(error)),
        }
    }
    drafts
}

/// Finds the application, if it takes this event.
async fn admit(line: &Line, publication: &Publication) -> Result<Arc<ApplicationView>, PublishError> {
    let view = line.catalog.application(publication.application).await?;
    let view = view.filter(|view| view.application.organization == publication.organization);
    let view = view.ok_or(PublishError::NoSuchApplication)?;
    // Everhook's own events, and samples to one endpoint, are not the organization's to define.
    if view.application.kind != ApplicationKind::Operational && publication.only.is_none() {
        check_type(line, &view, publication).await?;
    }
    take_token(line, &view)?;
    Ok(view)
}

async fn check_type(line: &Line, view: &ApplicationView, publication: &Publication) -> Result<(), PublishError> {
    let Some(mark) = view.event_type(&publication.event_type) else {
        let unknown = || PublishError::UnknownType(publication.event_type.clone());
        return if view.application.strict_event_types { Err(unknown()) } else { Ok(()) };
    };
    if mark.archived {
        return Err(PublishError::ArchivedType(publication.event_type.clone()));
    }
    if !mark.has_schema {
        return Ok(());
    }
    let Some(schema) = line.catalog.schema(&view.application, mark).await? else { return Ok(()) };
    let violations = schema.violations(&publication.data);
    if violations.is_empty() { Ok(()) } else { Err(PublishError::Misfit(violations)) }
}

/// Takes the event's token, if the organization has a limit. Everhook's own events about it are exempt.
fn take_token(line: &Line, view: &ApplicationView) -> Result<(), PublishError> {
    let is_exempt = view.application.kind == ApplicationKind::Operational;
    let Some(limit) = view.limits.events_per_minute.and_then(NonZeroU32::new).filter(|_| !is_exempt) else { return Ok(()) };
    let now = line.ports.clock.now();
    let taken = line.publish_rates.take(view.application.organization, RateLimit::per_minute(limit, None), now);
    taken.map_err(|until| PublishError::TooMany { retry_after: until.since(now) })
}

/// An event that has its ids and its matches, on its way into the store.
struct Draft {
    index: usize,
    publication: Publication,
    event: Event,
    config_version: i64,
    matches: Arc<[Arc<Destination>]>,
    deliveries: Vec<NewDelivery>,
}

impl Draft {
    fn new(line: &Line, index: usize, publication: Publication, view: &ApplicationView) -> Self {
        let now = line.ports.clock.now();
        let id = EventId::from_uuid(line.ports.entropy.uuid(now));
        let matches = match publication.only {
            None => select(view.matching(&publication.event_type), &publication.labels, &publication.data),
            Some(endpoint) => view.enabled(endpoint).into_iter().cloned().collect(),
        };
        let new_delivery = |destination: &Arc<Destination>| NewDelivery {
            id: DeliveryId::from_uuid(line.ports.entropy.uuid(now)),
            endpoint: destination.endpoint.id,
            retry_schedule: destination.endpoint.retry_schedule,
            placement: Placement::of(destination.endpoint.ordering),
        };
        let deliveries = matches.iter().map(new_delivery).collect();
        let event = Event {
            id,
            application: publication.application,
            event_type: publication.event_type.clone(),
            data: publication.data.clone(),
            timestamp: publication.timestamp.unwrap_or(now),
            idempotency_key: publication.idempotency_key.clone().unwrap_or_else(|| id.to_string()),
            source: publication.source.clone(),
            priority: publication.priority,
            sequence_number: 0,
            traceparent: publication.traceparent.clone(),
            labels: publication.labels.clone(),
            headers: publication.headers.clone(),
            created_at: now,
        };
        Self { index, publication, event, config_version: view.config_version, matches, deliveries }
    }

    fn to_new_event(&self, line: &Line) -> NewEvent {
        let key = match self.publication.idempotency_key {
            Some(_) => KeyOrigin::Given { valid_since: self.event.created_at - line.idempotency_window },
            None => KeyOrigin::Made,
        };
        NewEvent {
            organization: self.publication.organization,
            event: self.event.clone(),
            key,
            config_version: self.config_version,
            deliveries: self.deliveries.clone(),
        }
    }

    fn published(&self, sequence_number: i64) -> Published {
        let deliveries = u32::try_from(self.deliveries.len()).unwrap_or(u32::MAX);
        Published { event: self.event.id, deliveries, duplicate: false, sequence_number }
    }

    /// The durable deliveries go straight into their lanes, so that the first attempt waits for no poll. Those that are held come when they are freed.
    fn hand_over(self, sequence_number: i64, held: &[DeliveryId], committed: &mut Vec<Committed>) {
        let (priority, due_at) = (self.event.priority, self.event.created_at);
        let event = Arc::new(Event { sequence_number, ..self.event });
        let pairs = self.deliveries.into_iter().zip(self.matches.iter()).filter(|(delivery, _)| !held.contains(&delivery.id));
        committed.extend(pairs.map(|(delivery, destination)| Committed {
            lane: destination.lane.clone(),
            priority,
            due: Due {
                delivery: delivery.id,
                event: event.id,
                loaded: Some(event.clone()),
                retry_schedule: delivery.retry_schedule,
                attempts: 0,
                due_at,
                replay_of: None,
                ordered: delivery.placement.is_ordered(),
            },
        }));
    }
}
