//! What a person does to single deliveries: retries one, attempts one now that still waits, or cancels it. Called by the API.
//!
//! A delivery that has ended is resent by `line::recall`, as a new one. One that waits keeps its attempts and its place in the order: only the time of its
//! next attempt changes.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    Conflict, Noun, Refusal, audit,
    endpoints::find as find_endpoint,
    operations::{self, Pace},
    why,
};
use crate::{
    catalog::Destination,
    ids::{ApplicationId, DeliveryId, EndpointId, EventId, LaneId, OperationId, Ref},
    lifecycle,
    line::{
        Line,
        recall::{self, NotResendable, RECALLED_MAX, RecallError, RecallRequest, Recalled, Retry, open_destination},
        tokens,
    },
    model::{AuditAction, Author, CancelCause, Delivery, NewestDelivery, OperationKind, Priority, Selection, Stage},
    policy::{self, audit::Facts, why::Why},
    ports::{BringForward, BroughtForward, CancelDelivery, Committed, DeliveryCancelled, Forwarded, InLane, Lanes, StoreError, Withdrawal},
    time::Timestamp,
};

/// How many ids of deliveries an audit entry names; more are only counted.
const IDS_IN_ENTRY: usize = 100;

/// What a retry did.
#[derive(Clone, Debug, Default)]
pub struct Retried {
    /// What was resent, and what was neither resent nor brought forward.
    pub recalled: Recalled,
    /// The deliveries whose next attempt is due now.
    pub forwarded: Vec<DueNow>,
    /// The deliveries that were to be resent, and why none of them was although others were brought forward.
    pub refused: Option<(Vec<DeliveryId>, Arc<RecallError>)>,
}

/// A delivery whose next attempt is due now.
#[derive(Clone, Debug)]
pub struct DueNow {
    /// The delivery.
    pub delivery: DeliveryId,
    /// What holds it up all the same.
    pub waits_for: Option<Why>,
}

/// Retries one delivery: resends it if it has ended, and otherwise makes its next attempt due now.
///
/// # Errors
/// [`RecallError`] says why not.
pub async fn retry(line: &Line, by: &Author, retry: Retry) -> Result<Retried, RecallError> {
    let found = read(line, by, retry.delivery, retry.endpoint).await?.ok_or(RecallError::NotFound("delivery"))?;
    if !is_waiting(&found) {
        let recalled = recall::resend(line, by.organization, vec![RecallRequest::of(&found)], retry.priority).await?;
        return Ok(Retried { recalled, ..Retried::default() });
    }
    bring_forward(line, by, found.id.as_uuid(), &[Waiting::of(&found)]).await?.some()
}

/// Retries some deliveries of one endpoint, in the order of their events. Those that cannot be retried are named in the answer.
///
/// # Errors
/// [`RecallError`] if none can be retried, or if some are not the endpoint's.
pub async fn retry_batch(
    line: &Line,
    by: &Author,
    endpoint: EndpointId,
    deliveries: &[DeliveryId],
    priority: Option<Priority>,
) -> Result<Retried, RecallError> {
    let (mut waiting, mut ended, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for delivery in deliveries {
        match read(line, by, *delivery, Some(endpoint)).await? {
            Some(found) if is_waiting(&found) => waiting.push(Waiting::of(&found)),
            Some(found) => ended.push(RecallRequest::of(&found)),
            None => unknown.push(*delivery),
        }
    }
    if !unknown.is_empty() {
        return Err(RecallError::Unknown(unknown));
    }
    retry_both(line, by, endpoint.as_uuid(), &waiting, Resend { ended, priority }).await
}

/// Retries all deliveries of an event that have failed or still wait: for each endpoint the newest.
///
/// # Errors
/// [`RecallError`] if there is none.
pub async fn retry_event(line: &Line, by: &Author, event: EventId) -> Result<Retried, RecallError> {
    let found = line.ports.operation_candidates.newest_deliveries(by.organization, event).await?.ok_or(RecallError::NotFound("event"))?;
    let (mut waiting, mut ended) = (Vec::new(), Vec::new());
    for (lane_id, newest) in &found.newest {
        match newest {
            NewestDelivery::Open(delivery) => {
                waiting.push(Waiting { delivery: *delivery, lane_id: *lane_id, application: found.application });
            }
            NewestDelivery::Failed(of) => ended.push(RecallRequest {
                event: found.event,
                lane_id: *lane_id,
                application: found.application,
                of: *of,
                only_dead: false,
            }),
            NewestDelivery::Absent | NewestDelivery::Delivered(_) => {}
        }
    }
    match waiting.len() + ended.len() {
        0 => Err(RecallError::NoneFailed),
        1..=RECALLED_MAX => retry_both(line, by, event.as_uuid(), &waiting, Resend { ended, priority: None }).await,
        many => Err(RecallError::TooMany(many)),
    }
}

/// What is to be resent.
struct Resend {
    ended: Vec<RecallRequest>,
    priority: Option<Priority>,
}

/// Brings forward what waits, and resends what has ended. One that refuses all of its own does not refuse the other; the answer says so.
async fn retry_both(line: &Line, by: &Author, resource: &Uuid, waiting: &[Waiting], resend: Resend) -> Result<Retried, RecallError> {
    let mut retried = if waiting.is_empty() { Retried::default() } else { bring_forward(line, by, resource, waiting).await? };
    if !resend.ended.is_empty() {
        let ids = resend.ended.iter().map(|request| request.of).collect();
        match recall::resend(line, by.organization, resend.ended, resend.priority).await {
            Ok(Recalled { made, skipped }) => {
                retried.recalled.made = made;
                retried.recalled.skipped.extend(skipped);
            }
            Err(error) if retried.forwarded.is_empty() => return Err(error),
            // What waits is due now: the response says that, and which of the others are not resent.
            Err(error) => retried.refused = Some((ids, Arc::new(error))),
        }
    }
    retried.some()
}

impl Retried {
    /// At least one must have been done.
    fn some(self) -> Result<Self, RecallError> {
        match self.recalled.skipped.first() {
            Some((_, why)) if self.recalled.made.is_empty() && self.forwarded.is_empty() => Err(RecallError::Refused(*why)),
            _ => Ok(self),
        }
    }
}

/// Begins to make everything due now that waits for an endpoint.
///
/// # Errors
/// [`Refusal`] if there is no such endpoint, it gets no events, or too many operations are under way.
pub async fn attempt_endpoint_now(line: &Line, by: &Author, of: &Ref<EndpointId>, pace: Pace) -> Result<OperationId, Refusal> {
    let endpoint = find_endpoint(line, by.organization, of).await?;
    if lifecycle::cancellation(endpoint.state).is_some() {
        return Err(Refusal::Conflict(
            Conflict::EndpointDisabled,
            "the endpoint is disabled: what waits for it is being cancelled".to_owned(),
        ));
    }
    operations::begin(line, by, OperationKind::AttemptNow, Some(endpoint.application), Selection::Waiting(endpoint.id), pace).await
}

/// Cancels a delivery that waits, is held or parked. It stays visible, and a retry resends it.
///
/// # Errors
/// [`Refusal`] if there is no such delivery, it has ended, or an attempt is under way.
pub async fn cancel(line: &Line, by: &Author, id: DeliveryId) -> Result<(), Refusal> {
    let found = read(line, by, id, None).await?.ok_or(Refusal::NotFound(Noun::Delivery))?;
    let at = line.ports.clock.now();
    let Some(Stage::Cancelled { cause, .. }) = lifecycle::cancelled_by_person(&found.stage, at) else { return Err(ended(&found)) };
    let withdrawn = match Withdrawn::take(line, &found).await {
        Ok(withdrawn) => withdrawn,
        Err(UnderWay) => {
            let words = "an attempt of this delivery is under way: cancel it once that has ended, if it is still waiting then";
            return Err(Refusal::Conflict(Conflict::AttemptUnderWay, words.to_owned()));
        }
    };
    let request = CancelDelivery {
        delivery: id,
        lane_id: found.lane_id,
        application: found.application,
        cause,
        at,
        entry: cancel_entry(line, by, &found, cause),
    };
    let cancelled = line.ports.delivery_control.cancel_delivery(request).await?;
    withdrawn.has_ended();
    match cancelled {
        DeliveryCancelled::Ended => Err(Refusal::Conflict(Conflict::DeliveryEnded, "the delivery has ended a moment ago".to_owned())),
        DeliveryCancelled::Cancelled { freed } => {
            // What cannot be looked up now is found by the lanes' periodic look.
            if let Some(freed) = freed
                && let Ok(Some(destination)) = open_destination(line, found.application, found.lane_id).await
            {
                line.wake_up.committed(vec![Committed { lane: destination.lane().clone(), priority: freed.priority, due: freed.due }]);
            }
            Ok(())
        }
    }
}

fn cancel_entry(line: &Line, by: &Author, delivery: &Delivery, cause: CancelCause) -> crate::model::AuditEntry {
    let facts = |status: &str| {
        let facts = Facts::default().plain("status", status);
        facts.plain("event_id", delivery.event.to_string()).plain("endpoint_id", delivery.lane_id.to_string())
    };
    let before = facts(delivery.stage.as_str());
    let after = facts("cancelled").plain("cause", cause.as_str());
    audit::entry(line, by, AuditAction::DeliveryCancel, delivery.id.as_uuid(), policy::audit::changed(&before, &after))
}

fn ended(delivery: &Delivery) -> Refusal {
    Refusal::Conflict(Conflict::DeliveryEnded, format!("the delivery has ended: it is {}", delivery.stage.as_str()))
}

/// A delivery that its lane does not attempt while it is being cancelled. However the holder of this ends, the lane is notified of the end.
struct Withdrawn {
    lanes: Arc<dyn Lanes>,
    delivery: InLane,
    /// When it is due, if it turns out that it was not cancelled.
    due_at: Option<Timestamp>,
}

/// An attempt is under way.
struct UnderWay;

impl Withdrawn {
    async fn take(line: &Line, found: &Delivery) -> Result<Self, UnderWay> {
        let delivery = InLane { lane_id: found.lane_id, priority: found.priority, delivery: found.id };
        let due_at = match found.stage {
            Stage::Waiting { due_at } => Some(due_at),
            _ => None,
        };
        match line.lanes.withdraw(delivery).await {
            Withdrawal::UnderWay => Err(UnderWay),
            Withdrawal::Withdrawn | Withdrawal::Elsewhere => Ok(Self { lanes: line.lanes.clone(), delivery, due_at }),
        }
    }

    /// The store says that it has ended.
    fn has_ended(mut self) {
        self.due_at = None;
    }
}

impl Drop for Withdrawn {
    fn drop(&mut self) {
        self.lanes.end_withdrawal(self.delivery, self.due_at);
    }
}

async fn read(line: &Line, by: &Author, delivery: DeliveryId, endpoint: Option<EndpointId>) -> Result<Option<Delivery>, StoreError> {
    let found = line.ports.history.delivery(by.organization, delivery).await?.map(|(delivery, _)| delivery);
    Ok(found.filter(|found| endpoint.is_none_or(|endpoint| found.lane_id == endpoint.into())))
}

const fn is_waiting(delivery: &Delivery) -> bool {
    !delivery.stage.has_ended()
}

/// A delivery that has not ended.
#[derive(Clone, Copy)]
struct Waiting {
    delivery: DeliveryId,
    lane_id: LaneId,
    application: ApplicationId,
}

impl Waiting {
    fn of(delivery: &Delivery) -> Self {
        Self { delivery: delivery.id, lane_id: delivery.lane_id, application: delivery.application }
    }
}

/// Makes the next attempts of deliveries due now, as far as they wait and their endpoints get events.
async fn bring_forward(line: &Line, by: &Author, resource: &Uuid, waiting: &[Waiting]) -> Result<Retried, RecallError> {
    let (mut retried, mut open) = (Retried::default(), Vec::with_capacity(waiting.len()));
    for one in waiting {
        match open_destination(line, one.application, one.lane_id).await? {
            Some(destination) => open.push((*one, destination)),
            None => retried.recalled.skipped.push((one.delivery, NotResendable::EndpointClosed)),
        }
    }
    let Some((_, first)) = open.first() else { return Ok(retried) };
    let retries = u32::try_from(open.len()).unwrap_or(u32::MAX);
    tokens::take_retries(line, by.organization, first.limits(), retries).await.map_err(RecallError::TooOften)?;
    let at = line.ports.clock.now();
    let request = BringForward {
        deliveries: open.iter().map(|(one, _)| (one.lane_id, one.delivery)).collect(),
        at,
        entry: forward_entry(line, by, resource, &open),
    };
    let answers = line.ports.delivery_control.bring_forward(request).await?;
    let mut forwarded = Vec::new();
    for ((one, destination), answer) in open.iter().zip(answers) {
        match answer {
            BroughtForward::Forwarded(priority) => {
                forwarded.push(Forwarded { lane: destination.lane().clone(), priority, delivery: one.delivery, due_at: at });
                let waits_for = why::holds_lane(line, destination, at).await?;
                retried.forwarded.push(DueNow { delivery: one.delivery, waits_for });
            }
            BroughtForward::AlreadyDue => {
                let waits_for = Some(why::of_due(line, destination, at).await?);
                retried.forwarded.push(DueNow { delivery: one.delivery, waits_for });
            }
            BroughtForward::Held => retried.recalled.skipped.push((one.delivery, NotResendable::Held)),
            BroughtForward::Parked => retried.recalled.skipped.push((one.delivery, NotResendable::Parked)),
            BroughtForward::Ended => retried.recalled.skipped.push((one.delivery, NotResendable::JustEnded)),
        }
    }
    if !forwarded.is_empty() {
        line.wake_up.forwarded(forwarded);
    }
    Ok(retried)
}

fn forward_entry(line: &Line, by: &Author, resource: &Uuid, open: &[(Waiting, Destination)]) -> crate::model::AuditEntry {
    let ids: Vec<_> = open.iter().take(IDS_IN_ENTRY).map(|(one, _)| one.delivery.to_string()).collect();
    let facts = Facts::default().plain("deliveries", open.len()).plain("delivery_ids", ids);
    audit::entry(line, by, AuditAction::DeliveryAttemptNow, resource, policy::audit::made(&facts))
}
