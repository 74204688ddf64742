//! Deliveries: one event for one endpoint, the unit that is retried.

use std::sync::Arc;

use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OperationId, OrganizationId, ScheduleVersion},
    model::{AfterExpiry, BreakerState, Event, EventType, FailureCategory, LaneKind, Order, Parking, Priority},
    time::Timestamp,
};

/// One event for one endpoint, as history shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its identity.
    pub id: DeliveryId,
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// The application the event was published to.
    pub application: ApplicationId,
    /// What is delivered.
    pub event: EventId,
    /// The event's type.
    pub event_type: EventType,
    /// Where to.
    pub lane_id: LaneId,
    /// What that is.
    pub kind: LaneKind,
    /// The event's priority, or the one chosen when it was retried by hand.
    pub priority: Priority,
    /// The schedule version it was made with.
    pub retry_schedule: ScheduleVersion,
    /// Its state.
    pub stage: Stage,
    /// How many attempts were recorded.
    pub attempts: u32,
    /// Why the last attempt failed; `None` before the first failure and after success.
    pub failure_category: Option<FailureCategory>,
    /// The last attempt's error, in words.
    pub last_error: Option<String>,
    /// The delivery that this one does again.
    pub replay_of: Option<DeliveryId>,
    /// The operation that made it.
    pub operation: Option<OperationId>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The stage of a delivery. Only `lifecycle.rs` turns one stage into another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// To be attempted at `due_at`, or as soon after as its lane flows.
    Waiting {
        /// When its turn comes.
        due_at: Timestamp,
    },
    /// Behind another delivery in an ordered lane: it waits from the moment at which that one has ended.
    Held,
    /// Something outside must come first: its last attempt found that, or it was made so. It is not attempted until that is there, or its time is over.
    Parked(Parking),
    /// The endpoint answered 2xx.
    Delivered {
        /// When that was recorded.
        at: Timestamp,
    },
    /// It gave up; there is a dead letter of it.
    Dead {
        /// When.
        at: Timestamp,
        /// Why.
        cause: DeathCause,
    },
    /// Its endpoint was disabled or deleted first, its event was erased, or a person cancelled it.
    Cancelled {
        /// When.
        at: Timestamp,
        /// Why.
        cause: CancelCause,
    },
}

impl Stage {
    /// Its name on every wire.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Held => "held",
            Self::Parked(_) => "parked",
            Self::Delivered { .. } => "delivered",
            Self::Dead { .. } => "dead",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Whether nothing more happens to it. Until then it keeps its place in its order.
    pub const fn has_ended(&self) -> bool {
        match self {
            Self::Waiting { .. } | Self::Held | Self::Parked(_) => false,
            Self::Delivered { .. } | Self::Dead { .. } | Self::Cancelled { .. } => true,
        }
    }
}

/// Why a delivery gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathCause {
    /// The schedule has no further attempt.
    RetriesExhausted,
    /// Such an answer is not retried: its status is one that the schedule gives up on, or a mail server refused the message for good.
    GivenUp,
    /// The endpoint answered `410 Gone`.
    Gone,
    /// The TLS handshake failed three times.
    TlsFailed,
}

impl DeathCause {
    const ALL: [Self; 4] = [Self::RetriesExhausted, Self::GivenUp, Self::Gone, Self::TlsFailed];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetriesExhausted => "retries_exhausted",
            Self::GivenUp => "given_up",
            Self::Gone => "gone",
            Self::TlsFailed => "tls_failed",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == name)
    }
}

/// Why a delivery was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelCause {
    /// Its endpoint was disabled.
    EndpointDisabled,
    /// Its endpoint or channel was deleted.
    DestinationDeleted,
    /// Its event's data was erased: there is nothing left to send.
    Erased,
    /// A person cancelled it.
    ByPerson,
}

impl CancelCause {
    const ALL: [Self; 4] = [Self::EndpointDisabled, Self::DestinationDeleted, Self::Erased, Self::ByPerson];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EndpointDisabled => "endpoint_disabled",
            Self::DestinationDeleted => "destination_deleted",
            Self::Erased => "erased",
            Self::ByPerson => "by_person",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == name)
    }
}

/// A waiting delivery, as a lane keeps it: no more than is needed to take its turn.
#[derive(Clone, Debug)]
pub struct Due {
    /// Which delivery.
    pub delivery: DeliveryId,
    /// Which event it carries.
    pub event: EventId,
    /// The event itself, where it is at hand; read from the store at sending otherwise.
    pub loaded: Option<Arc<Event>>,
    /// The schedule version it was made with.
    pub retry_schedule: ScheduleVersion,
    /// How many attempts were recorded.
    pub attempts: u32,
    /// How many of those parked it: its schedule does not count them.
    pub parkings: u32,
    /// Set if its parking ended without what it waited for: there is nothing to send, and this is what its attempt says.
    pub expired: Option<AfterExpiry>,
    /// When its turn came.
    pub due_at: Timestamp,
    /// The delivery that this one does again.
    pub replay_of: Option<DeliveryId>,
    /// Its order, if it has one: another may be held behind it.
    pub order: Option<Order>,
}

/// A delivery whose turn has come: exactly one owner is about to attempt it, or is attempting it.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// What is attempted.
    pub due: Due,
    /// Which lane it came from.
    pub lane_id: LaneId,
    /// Which of the lane's queues it came from.
    pub priority: Priority,
    /// Whose lane that is.
    pub application: ApplicationId,
    /// When it was taken from the lane.
    pub picked_at: Timestamp,
    /// The state of the endpoint's breaker then.
    pub breaker: BreakerState,
}

impl InFlight {
    /// The number of this attempt, from 1. A request whose outcome was never recorded repeats its number.
    pub const fn attempt_number(&self) -> u32 {
        self.due.attempts + 1
    }

    /// The number of this attempt as its schedule counts: without those that parked the delivery.
    pub const fn scheduled_number(&self) -> u32 {
        self.attempt_number().saturating_sub(self.due.parkings)
    }
}
