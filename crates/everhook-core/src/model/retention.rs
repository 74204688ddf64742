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
    /// Figures, and the times in which breakers were open.
    pub rollups: Option<Duration>,
    /// How often is looked for what is past its time.
    pub interval: Duration,
}

impl RetentionPeriods {
    /// Nothing ever goes.
    pub const FOR_EVER: Self =
        Self { events: None, attempts: None, dead_letters: None, rollups: None, interval: Duration::from_secs(3_600) };

    /// When a dead letter goes, as it stands now; `None` if never, or not while it is being retried.
    pub fn dead_letter_expires_at(&self, status: DeadLetterStatus, last_failure_at: Timestamp) -> Option<Timestamp> {
        (status != DeadLetterStatus::Retrying).then_some(())?;
        Some(last_failure_at + self.dead_letters?)
    }
}
