//! Step 1: an event is matched with endpoints and recorded with its deliveries, in one atomic write.
//!
//! Called by the API and by `alert`. It returns only when everything is on disk, and it must run to its end once the write has begun: callers
//! that may be dropped half-way spawn it, or the lanes would learn of the deliveries only by their periodic look.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    catalog::{ApplicationView, Destination},
    flow::Line,
    ids::{ApplicationId, DeliveryId, EndpointId, EventId, OrganizationId},
    model::{ApplicationKind, Due, Event, EventType, OrderingMode, Placement, Priority, RateLimit},
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
        match find_application(line, &publication).await {
            Ok(Some(view)) => match admit(line, &view) {
                Ok(()) => drafts.push(Draft::new(line, index, publication, &view)),
                Err(until) => {
                    let retry_after = until.since(line.ports.clock.now());
                    answers[index] = Some(Err(PublishError::TooMany { retry_after }));
                }
            },
            Ok(None) => answers[index] = Some(Err(PublishError::NoSuchApplication)),
            Err(error) => answers[index] = Some(Err(error.into())),
        }
    }
    drafts
}

async fn find_application(line: &Line, publication: &Publication) -> Result<Option<Arc<ApplicationView>>, StoreError> {
    let view = line.catalog.application(publication.application).await?;
    Ok(view.filter(|view| view.application.organization == publication.organization))
}

/// Takes the event's token, if the organization has a limit. Everhook's own events about it are exempt.
///
/// # Errors
/// When there is one again.
fn admit(line: &Line, view: &ApplicationView) -> Result<(), Timestamp> {
    let limit = view.limits.events_per_minute.filter(|_| view.application.kind != ApplicationKind::Operational);
    match limit {
        None => Ok(()),
        Some(limit) => line.publish_rates.take(view.application.organization, RateLimit::per_minute(limit, None), line.ports.clock.now()),
    }
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
            None => view.matching(&publication.event_type),
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
                ordered: delivery.placement.mode != OrderingMode::None,
            },
        }));
    }
}
