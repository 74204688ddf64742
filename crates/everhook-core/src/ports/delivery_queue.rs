//! Where deliveries wait and are settled: steps 2 and 4 of the line.

use std::sync::Arc;

use async_trait::async_trait;
use rustc_hash::FxHashSet;

use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OperationId, OrganizationId, ScheduleVersion},
    model::{Attempt, AuditEntry, CancelCause, DeadLetterStatus, DisabledReason, Due, OrderedBy, Placement, Priority, ShardSet, Stage},
    ports::{Alert, StoreError},
    time::Timestamp,
};

/// The durable queue behind every lane. Claiming writes nothing: the lane's one owner remembers what it is attempting.
#[async_trait]
pub trait DeliveryQueue: Send + Sync {
    /// The queues of lanes in these shards that have anything waiting, each with the instant at which its first delivery is due.
    ///
    /// Costs one index look-up a queue, however many deliveries wait.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn lanes(&self, shards: ShardSet) -> Result<Vec<LaneHead>, StoreError>;

    /// Reads the deliveries of some queues that are due, oldest first: an answer for each queue, in their order. A read: it claims nothing.
    ///
    /// An event that several of them wait with is read once. A delivery whose event is missing or damaged comes without it, so that it costs none
    /// of the others.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the store cannot be read.
    async fn due(&self, request: DueRequest) -> Result<Vec<DueRead>, StoreError>;

    /// Records attempts and moves their deliveries on, in one atomic write for all of them.
    ///
    /// Everything that follows from a settlement is part of the write: the dead letter, its resolution, the endpoint's disabling, the alerts, and
    /// the next delivery of its order, which waits from then on.
    /// The answers are in the order of `settlements`, which are shared because a write that failed is tried again with the same ones.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was written, as far as is known; settling again is safe. [`StoreError::Conflict`], where nodes share
    /// the store: this boot's lease is gone, or another holds one of the lanes. Nothing was written, and never will be.
    async fn settle(&self, settlements: Arc<Vec<Settlement>>) -> Result<Vec<Settled>, StoreError>;

    /// Frees deliveries that are held behind nothing: their predecessors were cancelled, or the barrier that they waited behind has no open
    /// delivery before it. Settling frees all others, so that most calls find nothing and write nothing.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was written, as far as is known.
    async fn free_heads(&self, at: Timestamp) -> Result<FreedHeads, StoreError>;

    /// Cancels some of the deliveries that wait, are held or parked for an endpoint, oldest first, and says how many; fewer than the limit means that none are left.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was written, as far as is known.
    async fn cancel_waiting(&self, request: CancelWaiting) -> Result<u32, StoreError>;

    /// Makes new deliveries of events, with fresh attempts, in one atomic write: those of one lane join its tail in the order of their events.
    ///
    /// A dead letter of such an event and endpoint is `retrying` from then on. An item of an operation is taken off its list in the same write,
    /// so that none is done twice, whatever is killed in between.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was written, as far as is known.
    async fn replay(&self, replay: Replay) -> Result<Replayed, StoreError>;
}

/// A queue that has something waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneHead {
    /// Whose lane it is.
    pub organization: OrganizationId,
    /// The application of the endpoint.
    pub application: ApplicationId,
    /// Which lane.
    pub lane_id: LaneId,
    /// Which of the lane's queues.
    pub priority: Priority,
    /// The delivery that is due first.
    pub delivery: DeliveryId,
    /// When its first delivery is due.
    pub next_due_at: Timestamp,
}

/// Which deliveries to read.
#[derive(Clone, Debug)]
pub struct DueRequest {
    /// Of these queues.
    pub queues: Vec<DueQueue>,
    /// Due at this instant or before.
    pub due_by: Timestamp,
    /// With the events of those that are not known, until these add up to so many bytes of data; the rest without.
    pub event_bytes_max: usize,
}

/// Which deliveries of one queue to read.
#[derive(Clone, Debug)]
pub struct DueQueue {
    /// Of this lane.
    pub lane_id: LaneId,
    /// Of this of its queues.
    pub priority: Priority,
    /// Not due before this instant.
    pub due_from: Timestamp,
    /// At most this many.
    pub limit: u32,
    /// The caller has these already: they are read too, but without their events.
    pub known: FxHashSet<DeliveryId>,
}

/// The deliveries of one queue that were read.
#[derive(Clone, Debug, Default)]
pub struct DueRead {
    /// Those that are due, oldest first.
    pub rows: Vec<Due>,
    /// When the first one that is not among them is due: in the past if the limit cut the list.
    pub next_due_at: Option<Timestamp>,
}

/// What came of one attempt, ready to be written.
#[derive(Clone, Debug)]
pub struct Settlement {
    /// Which delivery.
    pub delivery: DeliveryId,
    /// Where it went.
    pub lane_id: LaneId,
    /// The delivery that this one does again. A dead letter that it brings back is then resolved, or dead again.
    pub replay_of: Option<DeliveryId>,
    /// Whether another may be held behind it: if it ends, that one is freed.
    pub ordered: bool,
    /// The attempt. Its number fences: it is recorded only if it is the delivery's next.
    pub attempt: Attempt,
    /// The current stage of the delivery.
    pub stage: Stage,
    /// What the destination was when the attempt was made (a URL, an address, a name), for the dead letter.
    pub target: String,
    /// Disables the endpoint for this reason, if it is enabled and still has this URL: what an old address answers says nothing of a new one.
    pub disables: Option<Box<Disabling>>,
    /// The alerts to record, each under its condition.
    pub alerts: Vec<SettlementAlert>,
}

/// An alert about a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettlementAlert {
    /// What.
    pub alert: Alert,
    /// Whether.
    pub condition: AlertCondition,
}

/// What must be true of a settlement for an alert of it to be published. Only the store knows that, in the write that records both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlertCondition {
    /// The settlement was recorded.
    Always,
    /// It is this settlement that disabled the endpoint. This is also published if the delivery had ended before, because its event was erased.
    IfDisabledByThis,
    /// The delivery was made by [`ReplayBy::Automatic`].
    IfAutomaticReplay,
}

/// What the store found out about a settlement that it recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertFacts {
    /// The endpoint was enabled, and is not any more.
    pub disabled_by_this: bool,
    /// The delivery was made by [`ReplayBy::Automatic`].
    pub automatic_replay: bool,
}

impl Settlement {
    /// When it was decided. Only a delivery that has not ended has no instant of its own: its attempt's end is closest.
    pub fn settled_at(&self) -> Timestamp {
        match self.stage {
            Stage::Delivered { at } | Stage::Dead { at, .. } | Stage::Cancelled { at, .. } => at,
            Stage::Waiting { .. } | Stage::Held | Stage::Parked(_) => self.attempt.executed_at + self.attempt.duration,
        }
    }

    /// Whether what is held behind the delivery waits from then on.
    pub fn frees_next(&self) -> bool {
        self.ordered && self.stage.has_ended()
    }

    /// What becomes of the dead letter that the delivery brought back, if it is not made anew by its death.
    pub fn end_of_retry(&self) -> Option<DeadLetterStatus> {
        self.replay_of?;
        match self.stage {
            Stage::Delivered { .. } => Some(DeadLetterStatus::Resolved),
            Stage::Cancelled { .. } => Some(DeadLetterStatus::Dead),
            Stage::Waiting { .. } | Stage::Held | Stage::Parked(_) | Stage::Dead { .. } => None,
        }
    }

    /// Whether more is written for it than the attempt and the delivery's stage.
    pub fn has_consequences(&self) -> bool {
        let is_special = matches!(self.stage, Stage::Dead { .. } | Stage::Parked(_));
        self.frees_next() || is_special || self.replay_of.is_some() || self.disables.is_some() || !self.alerts.is_empty()
    }

    /// Whether an alert depends on what made the delivery, so that the store has to look.
    pub fn asks_for_origin(&self) -> bool {
        self.alerts.iter().any(|alert| alert.condition == AlertCondition::IfAutomaticReplay)
    }

    /// The alerts of a settlement that was recorded.
    pub fn alerts_given(&self, facts: AlertFacts) -> impl Iterator<Item = &Alert> {
        let is_true = move |condition| match condition {
            AlertCondition::Always => true,
            AlertCondition::IfDisabledByThis => facts.disabled_by_this,
            AlertCondition::IfAutomaticReplay => facts.automatic_replay,
        };
        self.alerts.iter().filter(move |alert| is_true(alert.condition)).map(|alert| &alert.alert)
    }

    /// The alerts of a settlement that came too late for its delivery and still disabled the endpoint.
    pub fn alerts_of_disabling(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.iter().filter(|alert| alert.condition == AlertCondition::IfDisabledByThis).map(|alert| &alert.alert)
    }
}

/// The end of an endpoint that asked for it.
#[derive(Clone, Debug)]
pub struct Disabling {
    /// Why.
    pub reason: DisabledReason,
    /// What the audit log gets, if this settlement is what disabled the endpoint.
    pub entry: AuditEntry,
}

/// What became of a settlement.
#[derive(Clone, Debug)]
pub enum Settled {
    /// It is durable.
    Recorded {
        /// The delivery that was held behind it and waits now.
        freed: Option<Box<Freed>>,
    },
    /// The delivery had moved on (cancelled, or the attempt was recorded before); nothing was written for it.
    Stale,
}

/// A delivery that was held and waits now.
#[derive(Clone, Debug)]
pub struct Freed {
    /// Which of its lane's queues it waits in.
    pub priority: Priority,
    /// The delivery.
    pub due: Due,
}

/// What was freed because nothing was before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FreedHeads {
    /// The deliveries. They wait, due at once.
    pub deliveries: Vec<DeliveryId>,
    /// The applications in which an endpoint's barrier was lifted: their configuration has changed.
    pub applications: Vec<ApplicationId>,
    /// Whether there may be more: ask again.
    pub may_be_more: bool,
}

/// Which deliveries to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelWaiting {
    /// Those that wait for this endpoint.
    pub lane_id: LaneId,
    /// Of those, the ones made at this instant or before: what an endpoint gets after it was enabled again stays.
    pub made_until: Timestamp,
    /// Why.
    pub cause: CancelCause,
    /// When.
    pub at: Timestamp,
    /// At most this many.
    pub limit: u32,
}

/// Events that endpoints get again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The tenant that asks.
    pub organization: OrganizationId,
    /// On whose account.
    pub by: ReplayBy,
    /// What is delivered, and where to.
    pub items: Vec<ReplayItem>,
    /// When: each is due at once, unless it is held.
    pub at: Timestamp,
}

/// On whose account events are delivered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayBy {
    /// A person's, who named what to do again.
    Hand,
    /// An operation's. Its items are taken off its list and counted.
    Operation {
        /// Which operation.
        id: OperationId,
        /// Items that cannot be done: taken off and counted, too.
        failed: Vec<FailedItem>,
    },
    /// The organization's automatic replay of dead letters.
    Automatic,
}

/// An item of an operation that cannot be done, because its endpoint gets no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedItem {
    /// Its place on the list.
    pub position: i64,
    /// Where to.
    pub lane_id: LaneId,
    /// The endpoint's application, and the version of its configuration that says so; `None` if there is no such application any more.
    pub judged_by: Option<(ApplicationId, i64)>,
}

impl Replay {
    /// The configurations that it goes by, also those that say what cannot be done: nothing is written if one of them has changed.
    pub fn configurations(&self) -> impl Iterator<Item = (ApplicationId, i64)> {
        let failed = match &self.by {
            ReplayBy::Operation { failed, .. } => failed.as_slice(),
            ReplayBy::Hand | ReplayBy::Automatic => &[],
        };
        let items = self.items.iter().map(|item| (item.application, item.config_version));
        items.chain(failed.iter().filter_map(|failed| failed.judged_by))
    }
}

/// One event for one endpoint, again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayItem {
    /// Its place on the operation's list, if it is on one.
    pub position: Option<i64>,
    /// What.
    pub event: EventId,
    /// Where to.
    pub lane_id: LaneId,
    /// The endpoint's application.
    pub application: ApplicationId,
    /// The delivery that is done again; `None` if there was none.
    pub of: Option<DeliveryId>,
    /// Whether it is done only if there is a dead letter that is `dead`, instead of whenever no delivery is open.
    pub only_dead: bool,
    /// The new delivery's id.
    pub delivery: DeliveryId,
    /// The schedule version it keeps.
    pub retry_schedule: ScheduleVersion,
    /// Its place in its endpoint's order: at the tail.
    pub placement: Placement,
    /// The version of the application's configuration that the placement was read from.
    pub config_version: i64,
    /// Its priority; the event's if absent.
    pub priority: Option<Priority>,
}

impl ReplayItem {
    /// The new delivery of an event that says this about its order, as its lane gets it if it waits.
    pub fn due(&self, by: OrderedBy<'_>, at: Timestamp) -> Due {
        Due {
            delivery: self.delivery,
            event: self.event,
            loaded: None,
            retry_schedule: self.retry_schedule,
            attempts: 0,
            parkings: 0,
            expired: None,
            due_at: at,
            replay_of: self.of,
            order: self.placement.order(by, self.delivery),
        }
    }
}

/// What became of a replay.
#[derive(Clone, Debug)]
pub enum Replayed {
    /// It was written; one answer for each item, in the order of the items.
    Answered(Vec<ReplayAnswer>),
    /// The configuration of these applications has changed: read it again. Nothing was written.
    ConfigChanged(Vec<ApplicationId>),
    /// The operation has been stopped. Nothing was written.
    Stopped,
}

/// What became of one item of a replay.
#[derive(Clone, Debug)]
pub enum ReplayAnswer {
    /// A new delivery waits or is held.
    Made {
        /// The new delivery, if it waits.
        due: Option<Due>,
        /// Which of its lane's queues it belongs to.
        priority: Priority,
    },
    /// A delivery of this event to this endpoint is open.
    Open,
    /// The dead letter is not `dead`.
    NotDead(DeadLetterStatus),
    /// There is no such event, or no such dead letter, in this organization.
    NotFound,
    /// The event's data was erased: there is nothing to deliver.
    Erased,
    /// It is no longer on the operation's list: it was done before.
    DoneBefore,
}
