//! Operations: long-running bulk actions with progress, and what they select.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use crate::{
    ids::{ApplicationId, DeliveryId, EndpointId, EventId, OperationId, OrganizationId},
    model::{EventTypePattern, FailureCategory, Priority, Stage, health::Backfill},
    time::Timestamp,
};

/// A bulk action. What it is about is fixed when it begins; then it is worked off, a little at a time, over restarts too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Its identity; deliveries that it makes carry it.
    pub id: OperationId,
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// The only application that it is about; any of the tenant's if absent.
    pub application: Option<ApplicationId>,
    /// The only endpoint that it is about; [`Selection::endpoint`] says it.
    pub endpoint: Option<EndpointId>,
    /// What it does.
    pub kind: OperationKind,
    /// Its state.
    pub status: OperationStatus,
    /// How many (event, endpoint), events to be erased or pieces of a backfill it is about; grows until the selection is complete.
    pub total: u64,
    /// How many were done: a delivery was made or brought forward, a dead letter discarded, an event erased, or a piece accepted by the provider.
    pub done: u64,
    /// How many could not be done: the endpoint gets no events any more, the event is gone or erased, or the provider refused the
    /// piece.
    pub failed: u64,
    /// How many needed nothing: a delivery is open already, is due already or has ended, the dead letter is no longer dead, the event was erased before, or the
    /// provider was asked for the piece before.
    pub skipped: u64,
    /// How many it does a second at most.
    pub rate: Option<NonZeroU32>,
    /// The priority of the deliveries that it makes.
    pub priority: Priority,
    /// Not before this instant.
    pub start_at: Option<Timestamp>,
    /// When it was asked for; the selection is as of then.
    pub created_at: Timestamp,
    /// When the first of them was worked on.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

impl Operation {
    /// How many are still to be worked on.
    pub fn remaining(&self) -> u64 {
        self.total.saturating_sub(self.worked())
    }

    /// How many it works on a second, as measured since it started.
    pub fn rate_per_second(&self, now: Timestamp) -> Option<f64> {
        let worked_for = self.finished_at.unwrap_or(now).since(self.started_at?);
        let is_measurable = worked_for >= Duration::from_millis(1) && self.worked() > 0;
        is_measurable.then(|| self.worked() as f64 / worked_for.as_secs_f64())
    }

    /// How long it still takes, as far as it can be estimated.
    pub fn eta(&self, now: Timestamp) -> Option<Duration> {
        if !matches!(self.status, OperationStatus::Pending | OperationStatus::Running) {
            return None;
        }
        let limit = self.rate.map(|rate| f64::from(rate.get()));
        let rate = self.rate_per_second(now).or(limit)?;
        let waits_for = self.start_at.map_or(Duration::ZERO, |at| at.since(now));
        Duration::try_from_secs_f64(self.remaining() as f64 / rate).ok().map(|work| waits_for.saturating_add(work))
    }

    fn worked(&self) -> u64 {
        self.done + self.failed + self.skipped
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Brings dead letters back.
    RetryBatch,
    /// Throws dead letters away.
    DiscardBatch,
    /// Delivers what endpoints missed.
    Recover,
    /// Delivers events again.
    Replay,
    /// Erases the data of events.
    Erase,
    /// Brings forward the next attempts of what waits for an endpoint.
    AttemptNow,
    /// Asks a health provider to push data of the past.
    Backfill,
    /// Erases the data of all events of an application or organization that was deleted.
    DeleteData,
}

impl OperationKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::RetryBatch,
        Self::DiscardBatch,
        Self::Recover,
        Self::Replay,
        Self::Erase,
        Self::AttemptNow,
        Self::Backfill,
        Self::DeleteData,
    ];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RetryBatch => "retry_batch",
            Self::DiscardBatch => "discard_batch",
            Self::Recover => "recover",
            Self::Replay => "replay",
            Self::Erase => "erase",
            Self::AttemptNow => "attempt_now",
            Self::Backfill => "backfill",
            Self::DeleteData => "delete_data",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// The status of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationStatus {
    /// It is selecting, or waits for its start.
    Pending,
    /// It works off what it selected.
    Running,
    /// Everything was worked off.
    Finished,
    /// A person stopped it. What it had done stays done.
    Cancelled,
    /// It cannot continue.
    Failed,
}

impl OperationStatus {
    const ALL: [Self; 5] = [Self::Pending, Self::Running, Self::Finished, Self::Cancelled, Self::Failed];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == name)
    }

    /// Whether it has ended.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Finished | Self::Cancelled | Self::Failed)
    }
}

/// What an operation is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Dead letters.
    DeadLetters(DeadLetterSelection),
    /// Events of one application, for its endpoints.
    Events(EventSelection),
    /// Events whose data is erased.
    Erasure(ErasureSelection),
    /// What waits for one endpoint when the operation begins and is not due yet.
    Waiting(EndpointId),
    /// Data of the past that a health provider is asked for. What it is about is complete from the beginning.
    Backfill(Backfill),
}

impl Selection {
    /// The only endpoint that is selected for, where there is one.
    pub fn endpoint(&self) -> Option<EndpointId> {
        let endpoints: &[EndpointId] = match self {
            Self::DeadLetters(letters) => &letters.endpoints,
            Self::Events(events) => &events.endpoints,
            Self::Waiting(endpoint) => return Some(*endpoint),
            Self::Erasure(_) | Self::Backfill(_) => &[],
        };
        if let [endpoint] = endpoints { Some(*endpoint) } else { None }
    }
}

/// Which events are erased: those that fit everything that is given. Where people ask for it, at least an application or a label is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureSelection {
    /// Of this organization, which was deleted, so that the operation is another's; of the operation's own if absent.
    pub deleted_organization: Option<OrganizationId>,
    /// Of this application.
    pub application: Option<ApplicationId>,
    /// With this label: its name and its value.
    pub label: Option<(String, String)>,
    /// Accepted at this instant or later.
    pub from: Option<Timestamp>,
    /// Accepted before this instant.
    pub to: Timestamp,
}

/// An event that may be erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureCandidate {
    /// Which.
    pub event: EventId,
    /// The application it was published to.
    pub application: ApplicationId,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// Whether it was erased before.
    pub is_erased: bool,
}

/// Which dead letters. A list that is empty does not narrow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterSelection {
    /// Of this application.
    pub application: Option<ApplicationId>,
    /// For these endpoints.
    pub endpoints: Vec<EndpointId>,
    /// Of these types.
    pub event_types: Vec<EventTypePattern>,
    /// Whose last attempt failed so.
    pub categories: Vec<FailureCategory>,
    /// That first died at this instant or later.
    pub from: Option<Timestamp>,
    /// That first died before this instant.
    pub to: Option<Timestamp>,
}

/// Which events of one application, and for which of its endpoints. A list that is empty does not narrow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSelection {
    /// Of this application.
    pub application: ApplicationId,
    /// Accepted at this instant or later.
    pub from: Timestamp,
    /// Accepted before this instant.
    pub to: Timestamp,
    /// Of these types.
    pub event_types: Vec<EventTypePattern>,
    /// For these endpoints, whatever types they want. Empty: for those that want the event now.
    pub endpoints: Vec<EndpointId>,
    /// In which case.
    pub wanted: Wanted,
}

/// In which case an (event, endpoint) is delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// In any.
    Any,
    /// If the newest delivery is dead or cancelled.
    Failed,
    /// If the newest delivery is dead or cancelled, or there is none although the endpoint was there: it was disabled then.
    Missed,
}

impl Wanted {
    const ALL: [Self; 3] = [Self::Any, Self::Failed, Self::Missed];

    /// Its name in stores.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Failed => "failed",
            Self::Missed => "missed",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wanted| wanted.as_str() == name)
    }
}

/// The state of an (event, endpoint): that of its newest delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewestDelivery {
    /// There is none.
    Absent,
    /// It waits or is held.
    Open(DeliveryId),
    /// It was delivered.
    Delivered(DeliveryId),
    /// It is dead or cancelled.
    Failed(DeliveryId),
}

impl NewestDelivery {
    /// What a delivery's stage makes of it.
    pub const fn of(delivery: DeliveryId, stage: &Stage) -> Self {
        match stage {
            Stage::Waiting { .. } | Stage::Held | Stage::Parked(_) => Self::Open(delivery),
            Stage::Delivered { .. } => Self::Delivered(delivery),
            Stage::Dead { .. } | Stage::Cancelled { .. } => Self::Failed(delivery),
        }
    }

    /// The newest delivery.
    pub const fn newest(self) -> Option<DeliveryId> {
        match self {
            Self::Absent => None,
            Self::Open(delivery) | Self::Delivered(delivery) | Self::Failed(delivery) => Some(delivery),
        }
    }
}
