//! What alert rules are measured from: what happened lately everywhere, and what is out of order now. Used by the job that evaluates them.

use async_trait::async_trait;
use uuid::Uuid;

use crate::{
    ids::{ApplicationId, LaneId, OrganizationId, SourceId},
    model::{AlertScope, AttemptStatistics, SourceTally},
    ports::StoreError,
    time::Timestamp,
};

/// Reads of the whole store that cost as much as there is to report, not as much as there is. Each continues after the last row of the page before.
///
/// Nothing of applications `operational` is among what they return, but for [`WatchedLane::Channel`]: an alert about them would be delivered to them.
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be read.
#[async_trait]
pub trait AlertSignals: Send + Sync {
    /// What happened in lanes in minutes that begin at `since` or later, minute by minute. It costs as much as lanes had attempts in these minutes.
    async fn lane_minutes(&self, since: Timestamp, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<LaneMinute>, StoreError>;

    /// What happened at sources in minutes that begin at `since` or later, minute by minute.
    async fn source_minutes(
        &self,
        since: Timestamp,
        after: Option<SignalPlace>,
        limit: u32,
    ) -> Result<SignalPage<SourceMinute>, StoreError>;

    /// Lanes whose circuit breaker is open or half-open, but not by hand; not those of endpoints that are paused or not enabled. Each with 1.
    async fn open_circuits(&self, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError>;

    /// Applications with dead letters that are `dead`, each with how many, counted up to `count_max`. Not those of channels.
    async fn dead_letter_counts(&self, count_max: u32, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError>;

    /// Sources whose processor has deliveries waiting, each with how many, counted up to `count_max`.
    async fn source_depths(&self, count_max: u32, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError>;

    /// Applications whose last health check failed, each with how many did in a row.
    async fn failing_apps(&self, after: Option<SignalPlace>, limit: u32) -> Result<SignalPage<Signal>, StoreError>;

    /// What happened in one lane from one instant until before another, minute by minute, the oldest first. Minutes without attempts are left out.
    async fn minutes_of_lane(
        &self,
        lane_id: LaneId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, AttemptStatistics)>, StoreError>;
}

/// Where a page ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalPlace {
    /// The minute since the epoch.
    pub minute: i64,
    /// The number of the lane.
    pub lane: i64,
    /// The id of the thing.
    pub id: Uuid,
}

/// Some of what there is.
#[derive(Clone, Debug)]
pub struct SignalPage<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// Where to continue; `None` if that was all.
    pub next: Option<SignalPlace>,
}

/// What happened in a lane in a minute.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneMinute {
    /// Which.
    pub lane_id: LaneId,
    /// What kind of lane.
    pub lane: WatchedLane,
    /// Whose.
    pub organization: OrganizationId,
    /// Of which application.
    pub application: ApplicationId,
    /// When the minute began.
    pub minute: Timestamp,
    /// What happened.
    pub statistics: AttemptStatistics,
}

/// The kinds of lanes that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchedLane {
    /// An endpoint.
    Endpoint,
    /// A capability of an app.
    Capability,
    /// All lanes of an application together.
    Application,
    /// A channel for notifications. Its failures are no alert, which would have to go through the same channel.
    Channel,
}

impl WatchedLane {
    /// The lane of a kind, as stores name it; `None` if it is not watched.
    pub fn parse(kind: &str) -> Option<Self> {
        match kind {
            "endpoint" => Some(Self::Endpoint),
            "capability" => Some(Self::Capability),
            "application" => Some(Self::Application),
            "channel" => Some(Self::Channel),
            _ => None,
        }
    }

    /// What rules call it; `None` if none is about it.
    pub const fn scope(self) -> Option<AlertScope> {
        match self {
            Self::Endpoint => Some(AlertScope::Endpoint),
            Self::Capability => Some(AlertScope::Capability),
            Self::Application => Some(AlertScope::Application),
            Self::Channel => None,
        }
    }
}

/// What happened at a source in a minute.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceMinute {
    /// Whose.
    pub organization: OrganizationId,
    /// The application that its events are published to.
    pub application: ApplicationId,
    /// What happened, and when.
    pub tally: SourceTally,
}

impl SourceMinute {
    /// Which source.
    pub const fn source(&self) -> SourceId {
        self.tally.source
    }
}

/// Something that is out of order now, with its measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// What it is about.
    pub target: Uuid,
    /// What kind of thing that is.
    pub scope: AlertScope,
    /// Whose.
    pub organization: OrganizationId,
    /// The application that it belongs to, or is.
    pub application: ApplicationId,
    /// The measure.
    pub value: u64,
}
