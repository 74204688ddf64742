//! Step 1: an event is matched with endpoints and recorded with its deliveries, in one atomic write.
//!
//! Called by the API and by `alert`. It returns only when everything is on disk, and it must run to its end once the write has begun: callers
//! that may be dropped half-way spawn it, or the lanes would learn of the deliveries only by their periodic look.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;

use crate::{
    ids::{ApplicationId, EndpointId, EventId, OrganizationId},
    limits::evaluations::{Busy, NotEvaluated, RequestWork},
    line::{
        Line,
        admission::{Matching, Origin, RoundOf, admit},
        draft::{Draft, Views},
        source_backlogs::SOURCE_BACKLOG_MAX,
        spans::Publishing,
    },
    metrics::EventResult,
    model::{ContentType, Event, EventType, OrderingKey, Priority, Received, WaitsFor},
    policy::{labels::Labels, schema::Violation},
    ports::{IncomingEvent, KeyOrigin, KeyReused, Recorded, StoreError},
    spool::intake::{Candidate, Stored},
    time::Timestamp,
};

/// How often an event is matched again because the configuration changed under it. Each round needs another change at the very moment of the
/// write, so that reaching the bound means that something changes it in a loop.
pub(crate) const MATCH_ROUNDS_MAX: u32 = 20;

/// How many deliveries are made before those of the next events are: a small batch for many endpoints would otherwise be millions of them in memory.
/// An event's own are made together, however many they are.
const DELIVERIES_AT_ONCE: usize = 20_000;

/// An event that somebody wants to publish. Its spelling was checked.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The tenant that publishes.
    pub organization: OrganizationId,
    /// The application it is published to.
    pub application: ApplicationId,
    /// What kind of thing happened.
    pub event_type: EventType,
    /// The JSON value, or what a provider sent, byte for byte.
    pub data: Bytes,
    /// What the data is.
    pub content_type: ContentType,
    /// Makes publishing it twice the same as once.
    pub idempotency_key: Option<String>,
    /// For how long it does; as long as the server remembers keys if absent.
    pub idempotency_window: Option<Duration>,
    /// The part of the publisher's platform that it came from.
    pub source: Option<String>,
    /// How it shares the organization's capacity.
    pub priority: Priority,
    /// What it is about, for endpoints that are ordered by that.
    pub ordering_key: Option<OrderingKey>,
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
    /// How it came in, if a provider sent it. Cut to its bounds. A duplicate is recorded and goes nowhere.
    pub received: Option<Box<Received>>,
    /// Whether its data and its kept headers are encrypted where they are kept.
    pub sealed: bool,
    /// What its deliveries wait for: they are made parked, and go out once that was released. They are due at once if absent.
    pub parked: Option<WaitsFor>,
}

/// The answer to the publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It is in the store, with its deliveries.
    Recorded(Published),
    /// It is on this node's disk: the store is away, or others wait there that must come first.
    Spooled(Spooled),
}

/// An event that is in the store.
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

/// An event that waits on this node until the store is back. Who gets it, and its place, are decided then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spooled {
    /// The event; the one that waits already if this was a duplicate.
    pub event: EventId,
    /// Whether an event with the same key waits already.
    pub duplicate: bool,
}

impl Acceptance {
    /// The event's id.
    pub const fn event(&self) -> EventId {
        match self {
            Self::Recorded(published) => published.event,
            Self::Spooled(spooled) => spooled.event,
        }
    }

    /// Whether its key had been used before.
    pub const fn is_duplicate(&self) -> bool {
        match self {
            Self::Recorded(published) => published.duplicate,
            Self::Spooled(spooled) => spooled.duplicate,
        }
    }
}

/// Why an event was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The application does not exist in this organization.
    #[error("the organization has no such application")]
    NoSuchApplication,
    /// The application carries Everhook's own events, and nobody else publishes there.
    #[error("the application is reserved for Everhook's own events")]
    Operational,
    /// The organization publishes more than it may.
    #[error("the organization has reached its limit of events per minute")]
    TooMany {
        /// How long until it may publish again.
        retry_after: Duration,
    },
    /// The application takes only types that the organization defined, and this is none.
    #[error("the event type `{0}` is not defined, and the application accepts only defined event types")]
    UnknownType(EventType),
    /// The type is out of use.
    #[error("the event type `{0}` is archived")]
    ArchivedType(EventType),
    /// The data does not fit the type's schema.
    #[error("the data does not match the schema of its type")]
    SchemaMismatch(Violation),
    /// Checking the data against the type's schema takes more than it may.
    #[error("validating the data against the schema of its type takes too much work")]
    SchemaTooCostly,
    /// Evaluating the filters of the application's endpoints takes more than it may.
    #[error("evaluating the filters of endpoints takes too much work, at the one of {endpoint}")]
    FilterTooCostly {
        /// Whose filter was being evaluated.
        endpoint: EndpointId,
    },
    /// The events of one call take more than they may together; this one may be published by itself.
    #[error("the events that were published together take too much work")]
    RequestTooCostly,
    /// Too much is being evaluated, of the organization or of many.
    #[error("too much is being evaluated")]
    EvaluationBusy,
    /// Its idempotency key was given to another event before.
    #[error("the idempotency key was used for another event, {}", .0.original)]
    KeyReused(KeyReused),
    /// It was not recorded, as far as is known; its idempotency key makes trying again safe.
    #[error("cannot store the event")]
    Store(#[from] StoreError),
    /// As many events of the source as may be wait for its processor.
    #[error("{SOURCE_BACKLOG_MAX} events of the source wait for its processor")]
    SourceBacklogFull,
    /// The store does not take it now, and this node has no room for it until it does.
    #[error("the store is unavailable, and the spool is full")]
    SpoolFull,
    /// The store is away, and this node does not know the application.
    #[error("the store is unavailable, and this node does not know the application yet")]
    NotKnown(#[source] StoreError),
}

impl From<NotEvaluated> for PublishError {
    fn from(reason: NotEvaluated) -> Self {
        match reason {
            NotEvaluated::TooCostly(None) => Self::SchemaTooCostly,
            NotEvaluated::TooCostly(Some(endpoint)) => Self::FilterTooCostly { endpoint },
            NotEvaluated::RequestTooCostly => Self::RequestTooCostly,
            NotEvaluated::Busy => Self::EvaluationBusy,
        }
    }
}

impl From<Busy> for PublishError {
    fn from(Busy: Busy) -> Self {
        Self::EvaluationBusy
    }
}

/// What became of one event.
type Answer = Result<Acceptance, PublishError>;

/// An event of a call that is not answered yet, and its place there.
type Open = (usize, IncomingEvent);

/// Events that may be published, and their places in the call.
#[derive(Default)]
struct Admitted {
    places: Vec<usize>,
    events: Vec<Candidate>,
}

/// Publishes events, in order, each alone: one answer for each.
///
/// Whatever was recorded is handed over to its lanes, also if the store failed at others.
pub async fn publish(line: &Line, publications: Vec<Publication>) -> Vec<Result<Acceptance, PublishError>> {
    publish_all(line, arrive_all(line, publications), Origin::Publisher).await
}

/// Publishes an event under an id that was given before, as [`publish`] does. Published again, it is found and nothing is recorded.
///
/// # Errors
/// [`PublishError`] if it was not published.
pub(crate) async fn publish_as(line: &Line, id: EventId, publication: Publication) -> Result<Acceptance, PublishError> {
    let IncomingEvent { mut event, organization, only, parked, .. } = arrive(line, publication);
    event.id = id;
    event.idempotency_key = id.to_string();
    let incoming = IncomingEvent { event, organization, key: KeyOrigin::Made, only, parked };
    publish_all(line, vec![incoming], Origin::Publisher).await.pop().expect("one event has one answer")
}

/// Publishes events that Everhook itself makes, as [`publish`] does; also to the application `operational`, where a publisher could otherwise forge
/// them.
pub async fn publish_own(line: &Line, publications: Vec<Publication>) -> Vec<Result<Acceptance, PublishError>> {
    publish_all(line, arrive_all(line, publications), Origin::Everhook).await
}

/// Publishes what a provider sent and was verified, as [`publish`] does. Types and schemas do not apply, because providers do not know them, and a filter
/// that takes too much passes.
pub(crate) async fn publish_received(line: &Line, publications: Vec<Publication>) -> Vec<Result<Acceptance, PublishError>> {
    publish_all(line, arrive_all(line, publications), Origin::Provider).await
}

async fn publish_all(line: &Line, events: Vec<IncomingEvent>, origin: Origin) -> Vec<Answer> {
    let mut answers: Vec<Option<Answer>> = events.iter().map(|_| None).collect();
    let mut waiting: VecDeque<Open> = events.into_iter().enumerate().collect();
    let publishing: Vec<(usize, Publishing)> = match &line.ports.spans {
        Some(_) => waiting.iter().filter_map(|(index, incoming)| Some((*index, Publishing::of(line, incoming)?))).collect(),
        None => Vec::new(),
    };
    let mut work = RequestWork::new();
    // One part after the other, or events of a later part could overtake those of an earlier one that must be matched again.
    while !waiting.is_empty() {
        let mut round = RoundOf { origin, matching: Matching::First };
        let mut open = publish_round(line, &mut waiting, round, &mut work, &mut answers).await;
        for _ in 1..MATCH_ROUNDS_MAX {
            if open.is_empty() {
                break;
            }
            // That it is matched again is not its publisher's fault.
            (round.matching, work) = (Matching::Again, RequestWork::new());
            let mut again = VecDeque::from(open);
            open = publish_round(line, &mut again, round, &mut work, &mut answers).await;
            again.into_iter().rev().for_each(|later| waiting.push_front(later));
        }
    }
    // What has no answer was still being matched again at the last round.
    let answers: Vec<Answer> = answers.into_iter().map(|answer| answer.unwrap_or(Err(PublishError::Store(StoreError::Conflict)))).collect();
    publishing.into_iter().for_each(|(index, publishing)| publishing.end(line, &answers[index]));
    for result in EventResult::ALL {
        let count = answers.iter().filter(|answer| result_of(answer) == result).count();
        if count > 0 {
            line.metrics.published(result, count as u64);
        }
    }
    answers
}

fn result_of(answer: &Answer) -> EventResult {
    match answer {
        Ok(accepted) if accepted.is_duplicate() => EventResult::Duplicate,
        Ok(Acceptance::Recorded(_)) => EventResult::Recorded,
        Ok(Acceptance::Spooled(_)) => EventResult::Spooled,
        Err(PublishError::Store(_) | PublishError::SpoolFull | PublishError::NotKnown(_)) => EventResult::Failed,
        Err(_) => EventResult::Rejected,
    }
}

fn arrive_all(line: &Line, publications: Vec<Publication>) -> Vec<IncomingEvent> {
    publications.into_iter().map(|publication| arrive(line, publication)).collect()
}

/// Gives an event its identity, which it keeps whatever happens to it.
fn arrive(line: &Line, publication: Publication) -> IncomingEvent {
    let now = line.ports.clock.now();
    let id = EventId::from_uuid(line.ports.entropy.uuid(now));
    let key = match publication.idempotency_key {
        Some(_) => KeyOrigin::Given { valid_since: now - publication.idempotency_window.unwrap_or(line.idempotency_window) },
        None => KeyOrigin::Made,
    };
    let event = Event {
        id,
        application: publication.application,
        event_type: publication.event_type,
        data: publication.data,
        content_type: publication.content_type,
        sealed: publication.sealed || line.seal_payloads,
        timestamp: publication.timestamp.unwrap_or(now),
        idempotency_key: publication.idempotency_key.unwrap_or_else(|| id.to_string()),
        source: publication.source,
        priority: publication.priority,
        sequence_number: 0,
        ordering_key: publication.ordering_key,
        traceparent: publication.traceparent,
        labels: publication.labels,
        headers: publication.headers,
        received: publication.received.map(|received| Box::new(received.bounded())),
        created_at: now,
    };
    IncomingEvent { organization: publication.organization, event, key, only: publication.only, parked: publication.parked }
}

/// Publishes the first of those that wait, as many as make a bounded number of deliveries, and returns what must be matched again. An event costs its
/// organization one token, however often it is matched.
async fn publish_round(
    line: &Line,
    waiting: &mut VecDeque<Open>,
    round: RoundOf,
    work: &mut RequestWork,
    answers: &mut [Option<Answer>],
) -> Vec<Open> {
    let admitted = admit_each(line, waiting, round, work, answers).await;
    if admitted.events.is_empty() { Vec::new() } else { store_each(line, admitted, answers).await }
}

/// Has the events put where they are safe, hands those over to their lanes that are in the store, and returns what must be matched again.
async fn store_each(line: &Line, Admitted { places, events }: Admitted, answers: &mut [Option<Answer>]) -> Vec<Open> {
    let stored = line.intake.take(&events).await;
    let (mut committed, mut again) = (Vec::new(), Vec::new());
    for ((index, candidate), stored) in places.into_iter().zip(events).zip(stored) {
        match stored {
            Ok(Stored::InStore(Recorded::ConfigChanged)) => {
                line.catalog.forget(candidate.incoming().event.application);
                again.push((index, candidate.into_incoming()));
            }
            Ok(Stored::InStore(Recorded::Accepted { sequence_number, held })) => {
                let Candidate::Matched(draft) = candidate else { continue };
                let (event, deliveries) = (draft.incoming.event.id, draft.delivery_count());
                answers[index] = Some(Ok(Acceptance::Recorded(Published { event, deliveries, duplicate: false, sequence_number })));
                draft.hand_over(sequence_number, &held, &mut committed);
            }
            Ok(Stored::InStore(Recorded::Duplicate { event, deliveries, sequence_number })) => {
                answers[index] = Some(Ok(Acceptance::Recorded(Published { event, deliveries, duplicate: true, sequence_number })));
            }
            Ok(Stored::InStore(Recorded::KeyReused(reused))) => answers[index] = Some(Err(PublishError::KeyReused(reused))),
            Ok(Stored::InSpool { event, duplicate }) => answers[index] = Some(Ok(Acceptance::Spooled(Spooled { event, duplicate }))),
            Ok(Stored::NoRoom) => answers[index] = Some(Err(PublishError::SpoolFull)),
            Err(error) => answers[index] = Some(Err(error.into())),
        }
    }
    if !committed.is_empty() {
        line.wake_up.committed(committed);
    }
    again
}

/// Matches events with their endpoints, one by one, until they make [`DELIVERIES_AT_ONCE`]. One that is refused is answered; the others continue.
async fn admit_each(
    line: &Line,
    waiting: &mut VecDeque<Open>,
    round: RoundOf,
    work: &mut RequestWork,
    answers: &mut [Option<Answer>],
) -> Admitted {
    let (mut admitted, mut views, mut deliveries) = (Admitted::default(), Views::default(), 0);
    while deliveries < DELIVERIES_AT_ONCE
        && let Some((index, incoming)) = waiting.pop_front()
    {
        match admit(line, &incoming, round, &mut views, work).await {
            Ok(Some((view, matches))) => {
                deliveries += matches.len();
                admitted.push(index, Candidate::Matched(Draft::new(line, incoming, &view, matches)));
            }
            Ok(None) => admitted.push(index, Candidate::Unmatched(incoming)),
            Err(error) => answers[index] = Some(Err(error)),
        }
    }
    admitted
}

impl Admitted {
    fn push(&mut self, index: usize, event: Candidate) {
        self.places.push(index);
        self.events.push(event);
    }
}
