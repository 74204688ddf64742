//! What happened at an endpoint, in numbers: by the minute, over a time, and since its last success.
//!
//! The engine counts while it runs, a store adds up what it is given, and health shows it. Plain values: what they mean is decided elsewhere.

use std::{ops::Index, time::Duration};

use crate::{
    ids::LaneId,
    model::{Attempt, AttemptStatus, ClockReset, DeliveryCounts, FailingClock, FailingRule, FailureCategory, Histogram},
    time::Timestamp,
};

const MINUTE_MICROS: i64 = 60_000_000;

/// The attempts of a time, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptStatistics {
    /// Those that were answered well.
    pub successes: u64,
    /// The others, by why.
    pub failures: FailureCounts,
    /// How long all of them took together.
    pub duration_sum: Duration,
    /// How long each of them took, roughly.
    pub durations: Histogram,
    /// What calls were answered with. They are more than the attempts: an answer may come from a cache, and calls may share a request.
    pub answers: AnswerCounts,
    /// The deliveries that ended with one of the attempts, by which it was.
    pub deliveries: DeliveryCounts,
    /// When the last one succeeded.
    pub last_success_at: Option<Timestamp>,
    /// When the last one failed.
    pub last_failure_at: Option<Timestamp>,
}

impl AttemptStatistics {
    /// Counts an attempt that ended at the instant given. One that parked its delivery says neither that the other side works nor that it does not.
    pub fn add(&mut self, attempt: &Attempt, at: Timestamp) {
        if attempt.status == AttemptStatus::Parked {
            return;
        }
        self.count(attempt.failure_category, attempt.duration, at);
        self.deliveries.add_last(attempt);
    }

    /// Counts a call that took so long, and failed for the reason given or succeeded.
    pub fn count(&mut self, failure: Option<FailureCategory>, took: Duration, at: Timestamp) {
        match failure {
            None => {
                self.successes += 1;
                self.last_success_at = Some(at);
            }
            Some(category) => {
                self.failures.add(category, 1);
                self.last_failure_at = Some(at);
            }
        }
        self.duration_sum = self.duration_sum.saturating_add(took);
        self.durations.add(took);
    }

    /// Counts everything that the other ones have.
    pub fn merge(&mut self, other: &Self) {
        self.successes += other.successes;
        FailureCategory::ALL.into_iter().for_each(|category| self.failures.add(category, other.failures[category]));
        self.duration_sum = self.duration_sum.saturating_add(other.duration_sum);
        self.durations.merge(&other.durations);
        self.answers.merge(&other.answers);
        self.deliveries.merge(&other.deliveries);
        self.last_success_at = self.last_success_at.max(other.last_success_at);
        self.last_failure_at = self.last_failure_at.max(other.last_failure_at);
    }

    /// All attempts.
    pub fn total(&self) -> u64 {
        self.successes + self.failures.total()
    }

    /// The share that succeeded, from 0 to 100; `None` if there were none.
    pub fn success_rate(&self) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| self.successes as f64 * 100.0 / total as f64)
    }

    /// How long an attempt took on average; `None` if there were none.
    pub fn mean_duration(&self) -> Option<Duration> {
        let total = self.total();
        (total > 0).then(|| self.duration_sum.div_f64(total as f64))
    }
}

/// Failures by category.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCounts([u64; FailureCategory::ALL.len()]);

impl FailureCounts {
    /// Counts so many of one category.
    pub fn add(&mut self, category: FailureCategory, count: u64) {
        self.0[category as usize] += count;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The categories that occurred, with their counts.
    pub fn occurred(&self) -> impl Iterator<Item = (FailureCategory, u64)> {
        FailureCategory::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

impl Index<FailureCategory> for FailureCounts {
    type Output = u64;

    fn index(&self, category: FailureCategory) -> &u64 {
        &self.0[category as usize]
    }
}

/// What is counted of the answers that callers got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerCount {
    /// The app answered.
    App,
    /// The app had answered earlier.
    Cache,
    /// What the manifest says instead.
    Default,
    /// The call became a job.
    Queued,
    /// A person decides.
    Pending,
    /// Nothing could answer.
    Error,
    /// The fallback was used because the app's answer could not be: counted beside one of the others.
    Fallback,
    /// In shadow mode, the app's answer was the same: counted beside one of the others.
    ShadowSame,
    /// In shadow mode, the app's answer was another, or there was none: counted beside one of the others.
    ShadowDifferent,
    /// The app answered after the deadline of its callers: counted beside what these were answered with.
    Late,
    /// The caller was let through without the app: what the manifest says instead was used because the app's answer could not be. Counted beside
    /// `Default` and `Fallback`.
    FailedOpen,
}

impl AnswerCount {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::App,
        Self::Cache,
        Self::Default,
        Self::Queued,
        Self::Pending,
        Self::Error,
        Self::Fallback,
        Self::ShadowSame,
        Self::ShadowDifferent,
        Self::Late,
        Self::FailedOpen,
    ];

    /// Those that are the source of an answer: each call is counted under one of them.
    pub const SOURCES: [Self; 6] = [Self::App, Self::Cache, Self::Default, Self::Queued, Self::Pending, Self::Error];

    /// Its name on every wire: the `source` of a call's answer.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::App => "app",
            Self::Cache => "cache",
            Self::Default => "default",
            Self::Queued => "queued",
            Self::Pending => "pending",
            Self::Error => "error",
            Self::Fallback => "fallback",
            Self::ShadowSame => "shadow_same",
            Self::ShadowDifferent => "shadow_different",
            Self::Late => "late",
            Self::FailedOpen => "failed_open",
        }
    }
}

/// Answers by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerCounts([u32; AnswerCount::ALL.len()]);

impl AnswerCounts {
    /// Counts so many.
    pub fn add(&mut self, what: AnswerCount, count: u32) {
        let kept = &mut self.0[what as usize];
        *kept = kept.saturating_add(count);
    }

    /// Counts everything that the other ones have.
    pub fn merge(&mut self, other: &Self) {
        AnswerCount::ALL.into_iter().for_each(|what| self.add(what, other[what]));
    }

    /// How many calls were answered, with a problem too.
    pub fn calls(&self) -> u64 {
        AnswerCount::SOURCES.into_iter().map(|what| u64::from(self[what])).sum()
    }

    /// Those that occurred, with their counts.
    pub fn occurred(&self) -> impl Iterator<Item = (AnswerCount, u32)> {
        AnswerCount::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

impl Index<AnswerCount> for AnswerCounts {
    type Output = u32;

    fn index(&self, what: AnswerCount) -> &u32 {
        &self.0[what as usize]
    }
}

/// What happened at one endpoint in a part of one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Where.
    pub lane_id: LaneId,
    /// The first instant of the minute.
    pub minute: Timestamp,
    /// What.
    pub statistics: AttemptStatistics,
    /// Failures since the last success in it; all, if there was none.
    pub failures_in_a_row: u32,
    /// When the first of those was.
    pub first_failure_at: Option<Timestamp>,
    /// Those of them that count toward disabling the endpoint.
    pub counted: CountedFailures,
}

/// Failures that count toward disabling an endpoint. What was brought back from the past does not: it fails because it failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedFailures {
    /// How many.
    pub count: u32,
    /// When the first was.
    pub first_at: Option<Timestamp>,
    /// When the last was.
    pub last_at: Option<Timestamp>,
}

impl Tally {
    /// Nothing yet.
    pub fn new(lane_id: LaneId, minute: Timestamp) -> Self {
        let (statistics, counted) = (AttemptStatistics::default(), CountedFailures::default());
        Self { lane_id, minute, statistics, failures_in_a_row: 0, first_failure_at: None, counted }
    }

    /// Counts a call that ended at the instant given, after all those counted before.
    pub fn count(&mut self, failure: Option<FailureCategory>, took: Duration, at: Timestamp) {
        self.statistics.count(failure, took, at);
        match failure {
            None => (self.failures_in_a_row, self.first_failure_at) = (0, None),
            Some(_) => {
                self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
                self.first_failure_at.get_or_insert(at);
            }
        }
    }

    /// Counts an attempt that ended at the instant given, after all those counted before.
    pub fn add(&mut self, attempt: &Attempt, at: Timestamp) {
        self.add_replay(attempt, at);
        if matches!(attempt.status, AttemptStatus::Failed | AttemptStatus::Exhausted) {
            let CountedFailures { count, first_at, .. } = self.counted;
            self.counted = CountedFailures { count: count.saturating_add(1), first_at: first_at.or(Some(at)), last_at: Some(at) };
        }
    }

    /// Counts an attempt of a delivery that was brought back: its failure does not count toward disabling the endpoint.
    pub fn add_replay(&mut self, attempt: &Attempt, at: Timestamp) {
        self.statistics.add(attempt, at);
        match attempt.status {
            AttemptStatus::Success => {
                (self.failures_in_a_row, self.first_failure_at, self.counted) = (0, None, CountedFailures::default());
            }
            AttemptStatus::Failed | AttemptStatus::Exhausted => {
                self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
                self.first_failure_at.get_or_insert(at);
            }
            AttemptStatus::Parked => {}
        }
    }
}

/// The first instant of the minute that holds the given one.
pub const fn minute_of(at: Timestamp) -> Timestamp {
    let micros = at.as_micros();
    Timestamp::from_micros(micros - micros.rem_euclid(MINUTE_MICROS))
}

/// The activity of an endpoint since its last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointActivity {
    /// Attempts that failed since; 0 if the last one succeeded.
    pub consecutive_failures: u32,
    /// When the first of those was.
    pub first_failure_at: Option<Timestamp>,
    /// When an attempt last failed, whatever came after.
    pub last_failure_at: Option<Timestamp>,
    /// When an attempt last succeeded.
    pub last_success_at: Option<Timestamp>,
    /// Since when it fails for good.
    pub clock: FailingClock,
}

impl EndpointActivity {
    /// Takes in what happened next.
    pub fn add(&mut self, tally: &Tally, rule: &FailingRule) {
        self.clock.add(tally, rule);
        if tally.statistics.last_success_at.is_some() {
            (self.consecutive_failures, self.first_failure_at) = (0, None);
        }
        self.consecutive_failures = self.consecutive_failures.saturating_add(tally.failures_in_a_row);
        self.first_failure_at = self.first_failure_at.or(tally.first_failure_at);
        self.last_failure_at = self.last_failure_at.max(tally.statistics.last_failure_at);
        self.last_success_at = self.last_success_at.max(tally.statistics.last_success_at);
    }

    /// Begins anew: what failed until now no longer counts.
    pub fn forget_failures(&mut self, why: ClockReset) {
        (self.consecutive_failures, self.first_failure_at) = (0, None);
        self.clock.reset(why);
    }
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
