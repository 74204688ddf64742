//! What happened on this node since it started, in numbers: for whoever watches the server. Pure, and no I/O: the binary renders it.
//!
//! Counted where things happen, by adding to an atomic. Counts with labels are found by a look under a read lock, which nobody holds for long, and take memory
//! only for the first of a label set; how many there may be is bounded. Nothing here is kept, and nothing depends on it.

mod counter;
mod labeled;
mod lane_counts;
mod node_counts;

use std::sync::Arc;

pub use self::{
    counter::{Counter, Spread, Spreading},
    labeled::{LABEL_SETS_MAX, Labeled},
    lane_counts::LaneCounts,
    node_counts::{EventResult, EventTypes, OutcomeCounts, ScheduleCounts, SourceCounts, SourceEvents, Transitions},
};
use crate::{
    ids::{LaneId, OrganizationId, ScheduleVersion, SourceId},
    model::{AnswerCount, Attempt, AttemptStatus, EventType},
};

/// How many seconds an attempt took: the upper bounds of the buckets.
pub const DURATION_BOUNDS: [f64; 15] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0];

/// Which attempt it was.
pub const ATTEMPT_BOUNDS: [f64; 10] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0];

/// How many seconds a commit took.
pub const COMMIT_BOUNDS: [f64; 12] = [0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

/// Everything that is counted on this node.
pub struct Metrics {
    /// Attempts, by organization and event type.
    pub attempts: EventTypes,
    /// Attempts, by organization and the version of the retry schedule that they go by.
    pub schedules: Labeled<(OrganizationId, ScheduleVersion), ScheduleCounts>,
    /// What happened in lanes.
    pub lanes: Labeled<LaneId, LaneCounts>,
    /// Notifications that were sent, by the operational event that they tell of.
    pub notifications: Labeled<EventType, Counter>,
    /// Requests to sources.
    pub sources: Labeled<SourceId, SourceCounts>,
    /// How long attempts took, in the order of [`OUTCOMES`].
    pub durations: [Spread<{ DURATION_BOUNDS.len() }>; 3],
    /// Which attempts they were, in the same order.
    pub attempt_numbers: [Spread<{ ATTEMPT_BOUNDS.len() }>; 3],
    /// What circuit breakers did by themselves.
    pub transitions: Transitions,
    /// Events that were published, in the order of [`EventResult::ALL`].
    pub events: [Counter; EventResult::ALL.len()],
    /// What callers of apps were answered with, in the order of [`AnswerCount::ALL`].
    pub answers: [Counter; AnswerCount::ALL.len()],
    /// How long it took to record published events.
    pub publish_commits: Spread<{ COMMIT_BOUNDS.len() }>,
    /// How long it took to record outcomes of attempts.
    pub settle_commits: Spread<{ COMMIT_BOUNDS.len() }>,
}

/// The outcomes of attempts whose length counts. One that parked its delivery has neither succeeded nor failed.
pub const OUTCOMES: [AttemptStatus; 3] = [AttemptStatus::Success, AttemptStatus::Failed, AttemptStatus::Exhausted];

impl Default for Metrics {
    fn default() -> Self {
        Self {
            attempts: EventTypes::default(),
            schedules: Labeled::default(),
            lanes: Labeled::default(),
            notifications: Labeled::default(),
            sources: Labeled::default(),
            durations: [const { Spread::new(DURATION_BOUNDS) }; 3],
            attempt_numbers: [const { Spread::new(ATTEMPT_BOUNDS) }; 3],
            transitions: Transitions::default(),
            events: Default::default(),
            answers: Default::default(),
            publish_commits: Spread::new(COMMIT_BOUNDS),
            settle_commits: Spread::new(COMMIT_BOUNDS),
        }
    }
}

/// What an attempt is counted under. Looked up once, before its request.
pub struct AttemptLabels {
    /// Its event type.
    pub outcomes: Arc<OutcomeCounts>,
    /// Its retry schedule.
    pub schedule: Arc<ScheduleCounts>,
    /// The notifications of its kind, if it is one.
    pub notifications: Option<Arc<Counter>>,
}

impl Metrics {
    /// What an attempt is counted under. One whose event could not be read has no type.
    pub fn labels(
        &self,
        organization: OrganizationId,
        event_type: Option<&EventType>,
        version: ScheduleVersion,
        schedule_name: &str,
    ) -> AttemptLabels {
        let outcomes = event_type.map_or_else(|| self.attempts.other().clone(), |name| self.attempts.get(organization, name));
        let schedule = self.schedules.get(&(organization, version), || ScheduleCounts::named(schedule_name));
        AttemptLabels { outcomes, schedule, notifications: None }
    }

    /// Counts an attempt that ended: six additions, and one more for a notification.
    pub fn attempted(&self, labels: &AttemptLabels, attempt: &Attempt) {
        labels.outcomes.count(attempt.status, attempt.failure_category);
        let Some(outcome) = OUTCOMES.iter().position(|status| *status == attempt.status) else { return };
        labels.schedule.count(attempt.number, attempt.status);
        self.durations[outcome].add(attempt.duration.as_secs_f64());
        self.attempt_numbers[outcome].add(f64::from(attempt.number));
        if attempt.status == AttemptStatus::Success
            && let Some(notifications) = &labels.notifications
        {
            notifications.add(1);
        }
    }

    /// Counts events of one call.
    pub fn published(&self, result: EventResult, events: u64) {
        self.events[result as usize].add(events);
    }

    /// Counts something about the answer of a call.
    pub fn answered(&self, what: AnswerCount) {
        self.answers[what as usize].add(1);
    }
}

#[cfg(test)]
mod tests;
