//! Doing again by hand: a new delivery of the same event to the same endpoint, with fresh attempts and today's URL, secret and schedule.
//!
//! Called by the API. Bulk actions go through `jobs::operations`, which ends in the same port call. Nothing here sends anything: what is made
//! takes its turn like every other delivery.

use std::{sync::Arc, time::Duration};

use crate::{
    catalog::{ApplicationView, Destination},
    ids::{ApplicationId, DeliveryId, EndpointId, EventId, LaneId, OrganizationId},
    lifecycle,
    line::{Line, tokens},
    model::{DeadLetter, DeadLetterStatus, Delivery, LanePolicy, Placement, Priority},
    ports::{Committed, Replay, ReplayAnswer, ReplayBy, ReplayItem, Replayed, StoreError},
};

/// How many deliveries one request may do again. More are the business of an operation.
pub const RECALLED_MAX: usize = 1_000;

/// How often a recall is made again because the configuration changed under it, as a publish is.
const ROUNDS_MAX: u32 = 20;

/// Why nothing was done again.
#[derive(Debug, thiserror::Error)]
pub enum RecallError {
    /// There is no such thing in this organization.
    #[error("no {0} has this id")]
    NotFound(&'static str),
    /// Some deliveries of a batch are not this endpoint's.
    #[error("some deliveries do not belong to this endpoint")]
    Unknown(Vec<DeliveryId>),
    /// The dead letter is not dead.
    #[error("the dead letter is {}, not dead", .0.as_str())]
    NotDead(DeadLetterStatus),
    /// There is nothing that can be done again.
    #[error("{0}")]
    Refused(NotResendable),
    /// None of the event's deliveries is dead or cancelled.
    #[error("none of the event's deliveries has failed")]
    NoneFailed,
    /// More deliveries than one request may do again.
    #[error("{0} deliveries of the event have failed, and one request retries at most {RECALLED_MAX}: use an operation to recover them")]
    TooMany(usize),
    /// The organization has retried too much lately.
    #[error("too many manual retries: wait {} seconds", .0.as_secs())]
    TooOften(Duration),
    /// The store failed; nothing was changed, as far as is known.
    #[error("cannot resend anything")]
    Store(#[from] StoreError),
}

/// Why one delivery is not done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotResendable {
    /// One is under way.
    #[error("a delivery of this event to this endpoint is still open")]
    Open,
    /// Its endpoint gets no events now.
    #[error("its endpoint is disabled or deleted: enable it first")]
    EndpointClosed,
    /// The event is no longer there.
    #[error("its event was removed")]
    EventGone,
    /// The event's data was erased.
    #[error("its event was erased")]
    Erased,
    /// It waits for another to end.
    #[error("it is held behind another delivery of its order: only the first of an order can be attempted now")]
    Held,
    /// It waits for something outside.
    #[error("it is parked: it waits for something that has not come yet")]
    Parked,
    /// It ended while it was to be brought forward.
    #[error("its last attempt has just ended: read it again")]
    JustEnded,
}

/// What was done again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recalled {
    /// The new deliveries.
    pub made: Vec<DeliveryId>,
    /// The deliveries that were not done again, and why.
    pub skipped: Vec<(DeliveryId, NotResendable)>,
}

/// Makes a new delivery for a dead letter. Returns the dead letter as it is now, and the new delivery's id.
///
/// # Errors
/// [`RecallError`] says why there is nothing to bring back.
pub async fn recall(line: &Line, organization: OrganizationId, id: DeliveryId) -> Result<(DeadLetter, DeliveryId), RecallError> {
    let found = line.ports.history.dead_letter(organization, id).await?.ok_or(RecallError::NotFound("dead letter"))?;
    if found.status != DeadLetterStatus::Dead {
        // Erasing discards dead letters: that is what the one who asks wants to know.
        if line.ports.events.is_erased(found.event).await? {
            return Err(RecallError::Refused(NotResendable::Erased));
        }
        return Err(RecallError::NotDead(found.status));
    }
    let request = RecallRequest { event: found.event, lane_id: found.lane_id, application: found.application, of: id, only_dead: true };
    let recalled = replay_deliveries(line, organization, vec![request], None).await?.some()?;
    let requeued_at = Some(line.ports.clock.now());
    Ok((DeadLetter { status: DeadLetterStatus::Retrying, last_delivery: recalled.made[0], requeued_at, ..found }, recalled.made[0]))
}

/// Which delivery to do again.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The endpoint that it must be for, if one is named.
    pub endpoint: Option<EndpointId>,
    /// The new delivery's priority; the event's if absent.
    pub priority: Option<Priority>,
}

/// Does deliveries of one application again, in the order of their events: a dead or cancelled one is thereby brought back, and one that was delivered is
/// delivered once more. Those that cannot be done again are named in the answer.
///
/// # Errors
/// [`RecallError`] if nothing can be done again.
pub async fn resend(
    line: &Line,
    organization: OrganizationId,
    requests: Vec<RecallRequest>,
    priority: Option<Priority>,
) -> Result<Recalled, RecallError> {
    replay_deliveries(line, organization, requests, priority).await?.some()
}

/// A delivery that somebody wants again.
#[derive(Clone, Copy, Debug)]
pub struct RecallRequest {
    /// Of this event.
    pub event: EventId,
    /// To this destination.
    pub lane_id: LaneId,
    /// The application of both.
    pub application: ApplicationId,
    /// The delivery that is done again.
    pub of: DeliveryId,
    /// Whether it is done again only if its dead letter is dead.
    pub only_dead: bool,
}

impl RecallRequest {
    /// A delivery that has ended, whatever became of it.
    pub fn of(delivery: &Delivery) -> Self {
        Self { event: delivery.event, lane_id: delivery.lane_id, application: delivery.application, of: delivery.id, only_dead: false }
    }
}

impl Recalled {
    /// At least one must have been done.
    fn some(self) -> Result<Self, RecallError> {
        match self.skipped.first() {
            Some((_, why)) if self.made.is_empty() => Err(RecallError::Refused(*why)),
            _ => Ok(self),
        }
    }
}

/// All requests are of one application, so that its configuration is read once for all of them.
async fn replay_deliveries(
    line: &Line,
    organization: OrganizationId,
    requests: Vec<RecallRequest>,
    priority: Option<Priority>,
) -> Result<Recalled, RecallError> {
    let mut has_paid = false;
    for round in 0..ROUNDS_MAX {
        let mut recalled = Recalled::default();
        let mut items = Vec::with_capacity(requests.len());
        for request in &requests {
            match prepare(line, request, priority).await? {
                Some(prepared) => items.push((*request, prepared)),
                None => recalled.skipped.push((request.of, NotResendable::EndpointClosed)),
            }
        }
        if items.is_empty() {
            // With nothing to write, the store does not say whether the configuration changed. Where nodes share it, another may have enabled the
            // endpoint a moment ago: nobody is refused because of what this one remembers.
            if let Some(request) = requests.first().filter(|_| round == 0 && line.held_lease.is_shared()) {
                line.catalog.forget(request.application);
                continue;
            }
            return Ok(recalled);
        }
        if !std::mem::replace(&mut has_paid, true) {
            take_tokens(line, organization, &items).await?;
        }
        if write(line, organization, &items, &mut recalled).await? {
            return Ok(recalled);
        }
    }
    Err(RecallError::Store(StoreError::Conflict))
}

/// What a replay is made with.
type Prepared = (ReplayItem, Arc<LanePolicy>);

async fn prepare(line: &Line, request: &RecallRequest, priority: Option<Priority>) -> Result<Option<Prepared>, StoreError> {
    let Some(view) = line.catalog.application(request.application).await? else { return Ok(None) };
    let Some(destination) = open_in_view(&view, request.lane_id) else { return Ok(None) };
    let of = ItemOf { position: None, event: request.event, of: Some(request.of), only_dead: request.only_dead, priority };
    Ok(Some((new_item(line, &view, &destination, of), destination.lane().clone())))
}

/// A destination of an application as it is now, if it gets events.
pub(crate) async fn open_destination(line: &Line, application: ApplicationId, lane_id: LaneId) -> Result<Option<Destination>, StoreError> {
    let view = line.catalog.application(application).await?;
    Ok(view.as_ref().and_then(|view| open_in_view(view, lane_id)))
}

/// The same, of an application that was looked up.
pub(crate) fn open_in_view(view: &ApplicationView, lane_id: LaneId) -> Option<Destination> {
    view.destination(lane_id).filter(|destination| lifecycle::cancellation(destination.state()).is_none())
}

/// What is done again for an endpoint.
pub(crate) struct ItemOf {
    pub(crate) position: Option<i64>,
    pub(crate) event: EventId,
    pub(crate) of: Option<DeliveryId>,
    pub(crate) only_dead: bool,
    pub(crate) priority: Option<Priority>,
}

/// A delivery to be made, by the current settings of the application and its endpoint.
pub(crate) fn new_item(line: &Line, view: &ApplicationView, destination: &Destination, of: ItemOf) -> ReplayItem {
    ReplayItem {
        position: of.position,
        event: of.event,
        lane_id: destination.lane_id(),
        application: destination.lane().application,
        of: of.of,
        only_dead: of.only_dead,
        delivery: DeliveryId::from_uuid(line.ports.entropy.uuid(line.ports.clock.now())),
        retry_schedule: view.retry_schedule(destination),
        placement: Placement::of(destination.ordering()),
        config_version: view.config_version,
        priority: of.priority,
    }
}

async fn take_tokens(line: &Line, organization: OrganizationId, items: &[(RecallRequest, Prepared)]) -> Result<(), RecallError> {
    let Some((_, (_, lane))) = items.first() else { return Ok(()) };
    let retries = u32::try_from(items.len()).unwrap_or(u32::MAX);
    tokens::take_retries(line, organization, lane.limits, retries).await.map_err(RecallError::TooOften)
}

/// Has deliveries made for which nobody waits, and hands over to their lanes those that wait. What could not be written, because the configuration
/// changed or the operation ended meanwhile, was not created; the caller checks again.
pub(crate) async fn make(line: &Line, replay: Replay, lanes: Vec<Arc<LanePolicy>>) -> Result<(), StoreError> {
    match line.ports.deliveries.replay(replay).await? {
        Replayed::ConfigChanged(applications) => applications.into_iter().for_each(|application| line.catalog.forget(application)),
        Replayed::Stopped => {}
        Replayed::Answered(answers) => {
            let committed = |(lane, answer)| match answer {
                ReplayAnswer::Made { due: Some(due), priority } => Some(Committed { lane, priority, due }),
                _ => None,
            };
            line.wake_up.committed(lanes.into_iter().zip(answers).filter_map(committed).collect());
        }
    }
    Ok(())
}

/// Says whether it was written: not if the configuration changed meanwhile.
async fn write(
    line: &Line,
    organization: OrganizationId,
    items: &[(RecallRequest, Prepared)],
    recalled: &mut Recalled,
) -> Result<bool, RecallError> {
    let replay =
        Replay { organization, by: ReplayBy::Hand, items: items.iter().map(|(_, (item, _))| *item).collect(), at: line.ports.clock.now() };
    let answers = match line.ports.deliveries.replay(replay).await? {
        Replayed::Answered(answers) => answers,
        Replayed::ConfigChanged(applications) => {
            applications.into_iter().for_each(|application| line.catalog.forget(application));
            return Ok(false);
        }
        Replayed::Stopped => return Err(RecallError::Store(StoreError::Conflict)),
    };
    let mut committed = Vec::new();
    for ((request, (item, lane)), answer) in items.iter().zip(answers) {
        match answer {
            ReplayAnswer::Made { due, priority } => {
                recalled.made.push(item.delivery);
                committed.extend(due.map(|due| Committed { lane: lane.clone(), priority, due }));
            }
            ReplayAnswer::Open | ReplayAnswer::DoneBefore => recalled.skipped.push((request.of, NotResendable::Open)),
            ReplayAnswer::NotDead(status) => return Err(RecallError::NotDead(status)),
            ReplayAnswer::NotFound => recalled.skipped.push((request.of, NotResendable::EventGone)),
            ReplayAnswer::Erased => recalled.skipped.push((request.of, NotResendable::Erased)),
        }
    }
    if !committed.is_empty() {
        line.wake_up.committed(committed);
    }
    Ok(true)
}
