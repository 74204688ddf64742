//! Retry schedules: when to try again, how often, and when to stop at once.

use std::time::Duration;

use crate::{
    ids::{OrganizationId, ScheduleId, ScheduleVersion},
    time::Timestamp,
};

/// A policy of retries. Immutable: changing one makes a new version, and deliveries under way keep theirs.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrySchedule {
    /// What users call it.
    pub name: ScheduleName,
    /// How the delays between attempts are found.
    pub strategy: Strategy,
    /// How many attempts at most, the first included.
    pub max_attempts: u32,
    /// How far a delay may be moved, so that retries do not come in step.
    pub jitter: Jitter,
    /// HTTP statuses that end a delivery at once.
    pub give_up_on: Vec<u16>,
    /// How long one attempt may take, where the endpoint does not say.
    pub timeout: Option<Duration>,
}

/// A retry schedule that an organization created and named, in its current version.
#[derive(Clone, Debug, PartialEq)]
pub struct OrganizationSchedule {
    /// Its identity; the name can change.
    pub id: ScheduleId,
    /// The tenant that owns it.
    pub organization: OrganizationId,
    /// What it says now. Its name is unique in the organization.
    pub policy: RetrySchedule,
    /// The version that says so: what new deliveries of its endpoints keep.
    pub version: ScheduleVersion,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// A schedule's name: one of the presets, or a user's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScheduleName(pub String);

/// How the delays between attempts are found. All three are a list of delays, or a rule that makes one.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// Growing delays: written out, or made by a rule.
    Exponential(Backoff),
    /// The same delay again and again, or the delays as written.
    Linear(Backoff),
    /// The delays as written.
    Custom(Vec<Duration>),
}

/// Delays between attempts; the first attempt is made at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// Used as written; past the end the last one repeats.
    Intervals(Vec<Duration>),
    /// `base × multiplierⁿ` after the n-th failure (counted from 0), at most `max`.
    Growing {
        /// The first delay.
        base: Duration,
        /// The factor from one delay to the next.
        multiplier: f64,
        /// The longest delay.
        max: Duration,
    },
}

/// How far a delay is moved at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Jitter {
    /// Up to this share of the delay, either way: `0.1` is ±10 %.
    Share(f64),
    /// Up to this much later.
    Later(Duration),
}
