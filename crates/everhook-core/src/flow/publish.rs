//! Step 1: an event is matched with endpoints and recorded with its deliveries, in one atomic write.
//!
//! Called by the API and by `alert`. It returns only when everything is on disk, and it must run to its end once the write has begun: callers
//! that may be dropped half-way spawn it, or the lanes would learn of the deliveries only by their periodic look.

use std::{collections::VecDeque, num::NonZeroU32, sync::Arc, time::Duration};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::{
    catalog::ApplicationView,
    flow::{
        Line,
        draft::{Draft, Views},
        evaluations::{Busy, EventData, NotEvaluated, RequestWork},
        publishers::{Acquainted, LookUpError},
        rates,
        selection::{Matches, select},
    },
    ids::{ApplicationId, EndpointId, EventId, OrganizationId},
    model::{ApplicationKind, Event, EventType, EventTypeMark, Priority, RateLimit},
    policy::{
        labels::Labels,
        schema::{Misfit, Schema, Violation},
        work::{SCHEMA_UNITS_MAX, WorkBudget},
    },
    ports::{IncomingEvent, KeyOrigin, KeyReused, Recorded, Spool, StoreError, Taken, within},
    time::Timestamp,
};

/// How often an event is matched again because the configuration changed under it. Each round needs another change at the very moment of the
/// write, so that reaching the bound means that something changes it in a loop.
pub(super) const MATCH_ROUNDS_MAX: u32 = 20;

/// How many deliveries are made before those of the next events are: a small batch for many endpoints would otherwise be millions of them in memory.
/// An event's own are made together, however many they are.
const DELIVERIES_AT_ONCE: usize = 20_000;

/// How long the store may take to answer before it counts as away, where there is a spool: longer than a commit on a busy server takes, and shorter
/// than publishers wait for an answer.
pub(super) const STORE_PATIENCE: Duration = Duration::from_secs(3);

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
    #[error("there is no such application in this organization")]
    NoSuchApplication,
    /// The application carries Everhook's own events, and nobody else publishes there.
    #[error("the application carries Everhook's own events")]
    Operational,
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
    Misfit(Violation),
    /// Checking the data against the type's schema takes more than it may.
    #[error("checking the data against the schema of its type takes too much work")]
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
    #[error("the event could not be stored")]
    Store(#[from] StoreError),
    /// The store does not take it now, and this node has no room for it until it does.
    #[error("the store does not take it now, and the spool has no room for it")]
    SpoolFull,
    /// The store is away, and this node does not know the application.
    #[error("the store is away, and this node has not seen the application before")]
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

/// Which time an event is matched. Its organization pays for the first alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Matching {
    First,
    Again,
}

/// Whose events they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A publisher's.
    Publisher,
    /// Ours: they alone go to the application `operational`.
    Everhook,
}

/// How events are matched in one round.
#[derive(Clone, Copy)]
struct RoundOf {
    origin: Origin,
    matching: Matching,
}

/// Publishes events, in order, each alone: one answer for each.
///
/// Whatever was recorded is handed over to its lanes, also if the store failed at others. Where there is a spool, it takes what the store does
/// not, under the id that the store was asked to record: if the store recorded it all the same, it knows that id when it is forwarded.
pub async fn publish(line: &Line, publications: Vec<Publication>) -> Vec<Result<Acceptance, PublishError>> {
    publish_all(line, publications, Origin::Publisher).await
}

/// Publishes events that Everhook itself makes, as [`publish`] does; also to the application `operational`, where a publisher could otherwise forge
/// them.
pub async fn publish_own(line: &Line, publications: Vec<Publication>) -> Vec<Result<Acceptance, PublishError>> {
    publish_all(line, publications, Origin::Everhook).await
}

async fn publish_all(line: &Line, publications: Vec<Publication>, origin: Origin) -> Vec<Answer> {
    let mut answers: Vec<Option<Answer>> = publications.iter().map(|_| None).collect();
    let mut waiting: VecDeque<Open> = publications.into_iter().map(|publication| arrive(line, publication)).enumerate().collect();
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
    answers.into_iter().map(|answer| answer.unwrap_or(Err(PublishError::Store(StoreError::Conflict)))).collect()
}

/// Gives an event its identity, which it keeps whatever happens to it.
fn arrive(line: &Line, publication: Publication) -> IncomingEvent {
    let now = line.ports.clock.now();
    let id = EventId::from_uuid(line.ports.entropy.uuid(now));
    let key = match publication.idempotency_key {
        Some(_) => KeyOrigin::Given { valid_since: now - line.idempotency_window },
        None => KeyOrigin::Made,
    };
    let event = Event {
        id,
        application: publication.application,
        event_type: publication.event_type,
        data: publication.data,
        timestamp: publication.timestamp.unwrap_or(now),
        idempotency_key: publication.idempotency_key.unwrap_or_else(|| id.to_string()),
        source: publication.source,
        priority: publication.priority,
        sequence_number: 0,
        traceparent: publication.traceparent,
        labels: publication.labels,
        headers: publication.headers,
        created_at: now,
    };
    IncomingEvent { organization: publication.organization, event, key, only: publication.only }
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
    let drafts = match &line.ports.spool {
        // What is in the spool or must go there is the exception.
        Some(spool) if spool.standing().events > 0 || !admitted.unmatched.is_empty() => {
            let (queueing, drafts) = queue_up(line, admitted);
            spool_all(line, &**spool, queueing, answers).await;
            drafts
        }
        _ => admitted.drafts,
    };
    if drafts.is_empty() { Vec::new() } else { record_each(line, drafts, answers).await }
}

/// Parts those that must go behind what waits in the spool from those that may go straight into the store: whoever was answered from the spool
/// must reach the store first. Asked once for each application, or a later event of a batch could overtake an earlier one.
fn queue_up(line: &Line, Admitted { drafts, unmatched }: Admitted) -> (Vec<Open>, Vec<(usize, Draft)>) {
    // Who is stalled need not be known to anybody; with all others, the store is what is missing.
    let is_away = unmatched.iter().any(|(_, incoming)| !line.backlog.is_stalled(incoming.event.application));
    let mut must_queue: FxHashMap<ApplicationId, bool> = unmatched.iter().map(|(_, incoming)| (incoming.event.application, true)).collect();
    let (mut queueing, mut straight) = (unmatched, Vec::new());
    for (index, draft) in drafts {
        let application = draft.incoming.event.application;
        if *must_queue.entry(application).or_insert_with(|| is_away || line.backlog.holds_up(application)) {
            queueing.push((index, draft.incoming));
        } else {
            straight.push((index, draft));
        }
    }
    queueing.sort_by_key(|(index, _)| *index);
    (queueing, straight)
}

/// Records what was matched, spools what the store did not take, and returns what must be matched again.
async fn record_each(line: &Line, drafts: Vec<(usize, Draft)>, answers: &mut [Option<Answer>]) -> Vec<Open> {
    let recorded = record(line, &drafts).await;
    let (mut committed, mut unrecorded, mut failed) = (Vec::new(), Vec::new(), None);
    for ((index, draft), recorded) in drafts.into_iter().zip(recorded) {
        match recorded {
            Ok(Recorded::ConfigChanged) => {
                line.catalog.forget(draft.incoming.event.application);
                unrecorded.push((index, draft.incoming));
            }
            Ok(Recorded::Duplicate { event, deliveries, sequence_number }) => {
                answers[index] = Some(Ok(Acceptance::Recorded(Published { event, deliveries, duplicate: true, sequence_number })));
            }
            Ok(Recorded::KeyReused(reused)) => answers[index] = Some(Err(PublishError::KeyReused(reused))),
            Ok(Recorded::Accepted { sequence_number, held }) => {
                let (event, deliveries) = (draft.incoming.event.id, draft.delivery_count());
                answers[index] = Some(Ok(Acceptance::Recorded(Published { event, deliveries, duplicate: false, sequence_number })));
                draft.hand_over(sequence_number, &held, &mut committed);
            }
            Err(error @ StoreError::Unavailable(_)) if line.ports.spool.is_some() => {
                failed.get_or_insert(error);
                unrecorded.push((index, draft.incoming));
            }
            Err(error) => answers[index] = Some(Err(error.into())),
        }
    }
    if !committed.is_empty() {
        line.wake_up.committed(committed);
    }
    match (&line.ports.spool, failed) {
        (Some(spool), Some(error)) => {
            // Those that were to be matched again too, or they would come behind what followed them.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                events = unrecorded.len(),
                "the store did not take events, which are spooled"
            );
            spool_all(line, &**spool, unrecorded, answers).await;
            Vec::new()
        }
        _ => unrecorded,
    }
}

/// Asks the store to record. Where there is a spool, a store that does not answer in time counts as away: nobody is to wait for its time-outs.
async fn record(line: &Line, drafts: &[(usize, Draft)]) -> Vec<Result<Recorded, StoreError>> {
    let recording = line.ports.events.record(drafts.iter().map(|(_, draft)| draft.to_new_event()).collect());
    if line.ports.spool.is_none() {
        return recording.await;
    }
    let silence = || Err(StoreError::unavailable(format!("it did not answer within {STORE_PATIENCE:?}")));
    let recorded = within(&*line.ports.clock, STORE_PATIENCE, recording).await;
    recorded.unwrap_or_else(|| drafts.iter().map(|_| silence()).collect())
}

/// Puts events into the spool and answers each.
async fn spool_all(line: &Line, spool: &dyn Spool, mut events: Vec<Open>, answers: &mut [Option<Answer>]) {
    events.retain(|(index, incoming)| {
        let finds_room = has_share(line, spool, incoming.event.application);
        if !finds_room {
            answers[*index] = Some(Err(PublishError::SpoolFull));
        }
        finds_room
    });
    if events.is_empty() {
        return;
    }
    let (places, events): (Vec<_>, Vec<_>) = events.into_iter().map(|(index, incoming)| ((index, incoming.event.id), incoming)).unzip();
    let taken = match spool.take(events).await {
        Ok(taken) => taken,
        Err(error) => {
            let refusal = || match error.full_disk() {
                Some(disk) => StoreError::disk_full(disk),
                None => StoreError::unavailable("neither the store nor the spool takes events"),
            };
            // Of a full disk the log hears once, from whoever watches it.
            if error.full_disk().is_none() {
                tracing::error!(error = &error as &dyn std::error::Error, "the spool did not take events while the store is away");
            }
            places.iter().for_each(|(index, _)| answers[*index] = Some(Err(refusal().into())));
            return;
        }
    };
    for ((index, event), taken) in places.into_iter().zip(taken) {
        answers[index] = Some(match taken {
            Taken::Taken => Ok(Acceptance::Spooled(Spooled { event, duplicate: false })),
            Taken::Duplicate(first) => Ok(Acceptance::Spooled(Spooled { event: first, duplicate: true })),
            Taken::KeyReused(original) => Err(PublishError::KeyReused(KeyReused { original, is_erased: false })),
            Taken::Full => Err(PublishError::SpoolFull),
        });
    }
    line.spool_bell.notify_one();
}

/// Whether the spool is there for an application: for one that is stalled only while half of it is free, or those who need it when the store is away
/// would find it full of what nobody can forward.
fn has_share(line: &Line, spool: &dyn Spool, application: ApplicationId) -> bool {
    let standing = spool.standing();
    standing.has_room_for(standing.bytes_max / 2) || !line.backlog.is_stalled(application)
}

/// Events that may be published.
#[derive(Default)]
struct Admitted {
    /// Matched with their endpoints.
    drafts: Vec<(usize, Draft)>,
    /// Of an application that is known, though the store is not asked who wants them: it is away, or the application is stalled.
    unmatched: Vec<Open>,
}

/// Matches events with their endpoints, one by one, until they make [`DELIVERIES_AT_ONCE`]. One that is refused is answered; the others go on.
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
                admitted.drafts.push((index, Draft::new(line, incoming, &view, matches)));
            }
            Ok(None) => admitted.unmatched.push((index, incoming)),
            Err(error) => answers[index] = Some(Err(error)),
        }
    }
    admitted
}

/// Finds the application, if it takes this event, and the endpoints that get it; `None` if nothing is known but that there is such an application, because the store is away.
async fn admit(
    line: &Line,
    incoming: &IncomingEvent,
    round: RoundOf,
    views: &mut Views,
    work: &mut RequestWork,
) -> Result<Option<(Arc<ApplicationView>, Matches)>, PublishError> {
    let Some(view) = find(line, incoming, views).await? else { return Ok(None) };
    if view.application.organization != incoming.organization {
        return Err(PublishError::NoSuchApplication);
    }
    if view.application.kind == ApplicationKind::Operational && round.origin == Origin::Publisher {
        return Err(PublishError::Operational);
    }
    let mut data = EventData::new(incoming.event.data.clone());
    // Everhook's own events, and samples to one endpoint, are not the organization's to define.
    if view.application.kind != ApplicationKind::Operational && incoming.only.is_none() {
        check_type(line, &view, incoming, &mut data, work).await?;
    }
    if round.matching == Matching::First {
        take_token(line, &view, incoming).await?;
    }
    let matches = select(line, incoming, &view, &mut data, work).await?;
    Ok(Some((view, matches)))
}

/// Finds the application, as the events before this one found it.
async fn find(line: &Line, incoming: &IncomingEvent, views: &mut Views) -> Result<Option<Arc<ApplicationView>>, PublishError> {
    let (organization, application) = (incoming.organization, incoming.event.application);
    if let Some(view) = views.get(application) {
        return Ok(Some(view));
    }
    match line.publishers.view(&line.catalog, organization, application).await {
        Ok(Acquainted::Fully(view)) => {
            views.keep(&view);
            Ok(Some(view))
        }
        Ok(Acquainted::NotAtAll) => Err(PublishError::NoSuchApplication),
        Ok(Acquainted::ByName) => Ok(None),
        Err(LookUpError::NotKnown(error)) => Err(PublishError::NotKnown(error)),
        Err(LookUpError::Store(error)) => Err(error.into()),
    }
}

async fn check_type(
    line: &Line,
    view: &ApplicationView,
    incoming: &IncomingEvent,
    data: &mut EventData,
    work: &mut RequestWork,
) -> Result<(), PublishError> {
    let event = &incoming.event;
    let Some(mark) = view.event_type(&event.event_type) else {
        let unknown = || PublishError::UnknownType(event.event_type.clone());
        return if view.application.strict_event_types { Err(unknown()) } else { Ok(()) };
    };
    if mark.archived {
        return Err(PublishError::ArchivedType(event.event_type.clone()));
    }
    if !mark.has_schema {
        return Ok(());
    }
    // On the heap, because most types have no schema: publishers carry the room for it with every event.
    let Some(schema) = Box::pin(find_schema(line, view, mark, work)).await? else { return Ok(()) };
    let check = move |data: Option<&Value>, budget: &mut WorkBudget| match data.map(|data| schema.check(data, budget)) {
        Some(Ok(())) => Ok(None),
        Some(Err(Misfit::Violation(violation))) => Ok(Some(violation)),
        Some(Err(Misfit::TooCostly)) => Err(None),
        None => Ok(Some(Violation::unreadable())),
    };
    let violation = Box::pin(work.evaluate(&line.evaluations, incoming.organization, data, SCHEMA_UNITS_MAX, check)).await?;
    violation.map_or(Ok(()), |violation| Err(PublishError::Misfit(violation)))
}

/// The schema of a type, compiled once for each definition. `None` if it has none any more, or cannot be read while the store is away.
async fn find_schema(
    line: &Line,
    view: &ApplicationView,
    mark: &EventTypeMark,
    work: &mut RequestWork,
) -> Result<Option<Arc<Schema>>, PublishError> {
    if let Some(known) = line.catalog.schemas.get(mark) {
        return Ok(Some(known));
    }
    let Some((defined_at, text)) = line.publishers.schema_text(&line.catalog, &view.application, mark).await? else { return Ok(None) };
    let (catalog, mark, organization) = (line.catalog.clone(), mark.clone(), view.application.organization);
    let compile = move || {
        // While this waited for its turn, another event of the type may have had it compiled.
        if let Some(known) = catalog.schemas.get(&mark) {
            return Ok(known);
        }
        let schema = Arc::new(Schema::compile(&text).map_err(StoreError::corrupt)?);
        catalog.schemas.keep(organization, mark.id, defined_at, schema.clone());
        Ok::<_, StoreError>(schema)
    };
    let timeout = work.timeout(&*line.ports.clock)?;
    Ok(Some(line.evaluations.run(organization, timeout, compile).await??))
}

/// Takes the event's token, if the organization has a limit. Everhook's own events about it are exempt; test events, which go to one endpoint
/// alone, are not.
async fn take_token(line: &Line, view: &ApplicationView, incoming: &IncomingEvent) -> Result<(), PublishError> {
    let is_exempt = view.application.kind == ApplicationKind::Operational && incoming.only.is_none();
    let Some(limit) = view.limits.events_per_minute.and_then(NonZeroU32::new).filter(|_| !is_exempt) else { return Ok(()) };
    let taken = rates::take_event(line, view.application.organization, RateLimit::per_minute(limit, None)).await;
    taken.map_err(|retry_after| PublishError::TooMany { retry_after })
}
