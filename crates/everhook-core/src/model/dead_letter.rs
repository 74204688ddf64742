//! Dead letters: what gave up, for a person to see and bring back.

use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OrganizationId},
    model::{DeathCause, EventType, FailureCategory, LaneKind},
    time::Timestamp,
};

/// An event that gave up at one destination. There is one, however often it is retried and fails again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its identity: the first dead delivery's.
    pub id: DeliveryId,
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// The application the event was published to.
    pub application: ApplicationId,
    /// What could not be delivered.
    pub event: EventId,
    /// The event's type.
    pub event_type: EventType,
    /// Where to.
    pub lane_id: LaneId,
    /// What kind of destination that is.
    pub kind: LaneKind,
    /// What the destination was when it last failed: a URL, an address, or a name.
    pub target: String,
    /// The newest delivery of this event to this endpoint.
    pub last_delivery: DeliveryId,
    /// Its state.
    pub status: DeadLetterStatus,
    /// Why it last gave up.
    pub cause: DeathCause,
    /// What kind of failure the last attempt was.
    pub failure_category: FailureCategory,
    /// The last attempt's error, in words.
    pub last_error: String,
    /// How many attempts were recorded, over all its deliveries.
    pub attempts: u32,
    /// How many of its deliveries died.
    pub failures: u32,
    /// When it first died.
    pub first_failure_at: Timestamp,
    /// When it last died.
    pub last_failure_at: Timestamp,
    /// When it was last retried.
    pub requeued_at: Option<Timestamp>,
}

impl DeadLetter {
    /// Whether trying again can help without a change at the endpoint.
    pub fn recoverable(&self) -> bool {
        Self::is_recoverable(self.cause, self.failure_category)
    }

    /// The same, from why it gave up and how its last attempt failed.
    pub const fn is_recoverable(cause: DeathCause, category: FailureCategory) -> bool {
        let hopeless = matches!(category, FailureCategory::BlockedAddress | FailureCategory::PayloadTooLarge);
        !hopeless && !matches!(cause, DeathCause::Gone | DeathCause::GivenUp)
    }
}

/// The status of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterStatus {
    /// Waiting for a person.
    Dead,
    /// A new delivery of it is under way.
    Retrying,
    /// A retry was delivered.
    Resolved,
    /// A person threw it away.
    Discarded,
}

impl DeadLetterStatus {
    /// All statuses.
    pub const ALL: [Self; 4] = [Self::Dead, Self::Retrying, Self::Resolved, Self::Discarded];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Retrying => "retrying",
            Self::Resolved => "resolved",
            Self::Discarded => "discarded",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }
}
