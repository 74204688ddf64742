//! How long things are kept.

use std::time::Duration;

use crate::{model::DeadLetterStatus, time::Timestamp};

/// Periods after which things go; `None` keeps them for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionPeriods {
    /// Events with their deliveries, from the end of the last of these.
    pub events: Option<Duration>,
    /// Attempts, from the same instant. Never longer than events.
    pub attempts: Option<Duration>,
    /// Dead letters, with the events that they are about, from their last failure.
    pub dead_letters: Option<Duration>,
    /// Statistics, and the times in which breakers were open.
    pub rollups: Option<Duration>,
    /// Health metrics, from when they were received.
    pub health: Option<Duration>,
    /// Operations that have ended, from their end.
    pub operations: Option<Duration>,
    /// Entries of the audit log.
    pub audit_log: Option<Duration>,
    /// How often is looked for what is past its time.
    pub interval: Duration,
}

impl RetentionPeriods {
    /// Nothing ever goes.
    pub const FOR_EVER: Self = Self {
        events: None,
        attempts: None,
        dead_letters: None,
        rollups: None,
        health: None,
        operations: None,
        audit_log: None,
        interval: Duration::from_secs(3_600),
    };

    /// When a dead letter in its current state is removed; `None` if never, or not while it is being retried.
    pub fn dead_letter_expires_at(&self, status: DeadLetterStatus, last_failure_at: Timestamp) -> Option<Timestamp> {
        (status != DeadLetterStatus::Retrying).then_some(())?;
        Some(last_failure_at + self.dead_letters?)
    }
}

/// What grows old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetentionClass {
    /// Operations that have ended, by their end.
    Operations,
    /// Dead letters, by their last failure; not while one is being retried.
    DeadLetters,
    /// Attempts, by the end of their event's last delivery; not while one of these is open or a dead letter of the event is kept.
    Attempts,
    /// Events with their data, deliveries and attempts, by the end of their last delivery; not while one is open, a dead letter is kept, or an
    /// operation that has not ended has the event on its list.
    Events,
    /// Statistics, by their minute.
    Rollups,
    /// Statistics of sources, by their minute.
    SourceRollups,
    /// Health metrics, by when they were received; a correction does not make one younger.
    HealthMetrics,
    /// Times in which breakers were open, by their end.
    OpenPeriods,
    /// Entries of the audit log, by when they were made.
    AuditLog,
    /// Revisions of endpoints that were replaced, by the next one's making; not while the endpoint has a delivery that may have been sent by it.
    Revisions,
    /// Endpoints that were deleted, by when; not while anything else is kept of them: deliveries, dead letters, statistics, older revisions.
    DeletedEndpoints,
    /// Versions of retry schedules that no endpoint and no schedule has; not while an event is kept that was published before the store noticed. The
    /// instant is the present.
    ScheduleVersions,
    /// Organizations that were deleted, by when; not while lanes, applications or entries of the audit log are kept of them.
    DeletedOrganizations,
    /// What was freed by all that went, as far as the store can give it back to the file system. The instant is the present.
    FreeSpace,
}
