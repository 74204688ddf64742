//! What happened at a source, in numbers: by the minute, and over a time.
//!
//! The door and the attempts count while the node runs, a store adds up what it is given, and the API shows it. Names that strangers choose are bounded here:
//! a source that gets a thousand types of events has one row for most of them.

use std::{collections::BTreeMap, time::Duration};

use crate::{ids::SourceId, model::LatencyHistogram, time::Timestamp};

/// How many types of events are told apart, of one source. Those of others are counted together.
pub const SOURCE_EVENT_TYPES_MAX: usize = 50;

/// How many reasons of rejections are told apart. They are words of ours and of recipes, which are fewer.
pub const REJECTION_REASONS_MAX: usize = 50;

/// The reason under which those beyond [`REJECTION_REASONS_MAX`] are counted.
const OTHER_REASONS: &str = "other";

/// What happened at a source in a time, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceStatistics {
    /// Requests that were accepted.
    pub accepted: u64,
    /// Handshakes that were answered.
    pub handshakes: u64,
    /// Requests that were rejected, by why: a word such as `bad_signature`.
    pub rejected: BTreeMap<String, u64>,
    /// Events, by their type.
    pub events: BTreeMap<String, EventCounts>,
    /// Events of more types than are told apart.
    pub other_events: EventCounts,
    /// How long all events took together from their receipt to the end of a delivery.
    pub latency_sum: Duration,
    /// How long each of them took, roughly.
    pub latencies: LatencyHistogram,
}

/// What became of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Those that came in.
    pub received: u64,
    /// Deliveries of them that succeeded: to a processor or to an endpoint.
    pub completed: u64,
    /// Attempts that failed, the last ones of those that died included.
    pub failed: u64,
    /// Deliveries that became dead letters.
    pub dead: u64,
}

impl EventCounts {
    /// Counts everything that the other ones have.
    pub fn merge(&mut self, other: &Self) {
        self.received += other.received;
        self.completed += other.completed;
        self.failed += other.failed;
        self.dead += other.dead;
    }

    /// The share of attempts that failed, from 0 to 100; `None` if there were none.
    pub fn failure_rate(&self) -> Option<f64> {
        let attempts = self.completed + self.failed;
        (attempts > 0).then(|| self.failed as f64 * 100.0 / attempts as f64)
    }
}

impl SourceStatistics {
    /// The counts of a type of events: its own, or those of all that are not told apart.
    pub fn events_mut(&mut self, event_type: &str) -> &mut EventCounts {
        if self.events.len() < SOURCE_EVENT_TYPES_MAX && !self.events.contains_key(event_type) {
            self.events.insert(event_type.to_owned(), EventCounts::default());
        }
        self.events.get_mut(event_type).unwrap_or(&mut self.other_events)
    }

    /// Counts rejections.
    pub fn reject(&mut self, reason: &str, count: u64) {
        let is_distinguished = self.rejected.contains_key(reason) || self.rejected.len() < REJECTION_REASONS_MAX;
        let reason = if is_distinguished { reason } else { OTHER_REASONS };
        match self.rejected.get_mut(reason) {
            Some(known) => *known += count,
            None => drop(self.rejected.insert(reason.to_owned(), count)),
        }
    }

    /// Counts how long an event took.
    pub fn took(&mut self, latency: Duration) {
        self.latency_sum = self.latency_sum.saturating_add(latency);
        self.latencies.add(latency);
    }

    /// Counts everything that the other ones have.
    pub fn merge(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.handshakes += other.handshakes;
        other.rejected.iter().for_each(|(reason, count)| self.reject(reason, *count));
        other.events.iter().for_each(|(event_type, counts)| self.events_mut(event_type).merge(counts));
        self.other_events.merge(&other.other_events);
        self.latency_sum = self.latency_sum.saturating_add(other.latency_sum);
        self.latencies.merge(&other.latencies);
    }

    /// The events of all types together.
    pub fn all_events(&self) -> EventCounts {
        let mut all = self.other_events;
        self.events.values().for_each(|counts| all.merge(counts));
        all
    }

    /// How many requests were rejected.
    pub fn rejections(&self) -> u64 {
        self.rejected.values().sum()
    }

    /// How long an event took on average; `None` if none was completed.
    pub fn mean_latency(&self) -> Option<Duration> {
        let count: u64 = self.latencies.counts().map(|(_, count)| u64::from(count)).sum();
        (count > 0).then(|| self.latency_sum.div_f64(count as f64))
    }
}

/// What happened at one source in a part of one minute, or of a longer step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTally {
    /// Where.
    pub source: SourceId,
    /// The first instant of the minute or step.
    pub minute: Timestamp,
    /// What.
    pub statistics: SourceStatistics,
}

impl SourceTally {
    /// Adds minutes up to steps that begin at multiples of `step` since the epoch. They come and go in order.
    pub fn add_to_steps(steps: &mut Vec<Self>, minute: &Self, step: Duration) {
        let length = i64::try_from(step.as_micros()).unwrap_or(i64::MAX).max(1);
        let micros = minute.minute.as_micros();
        let begins = Timestamp::from_micros(micros - micros.rem_euclid(length));
        match steps.last_mut() {
            Some(last) if last.minute == begins => last.statistics.merge(&minute.statistics),
            _ => steps.push(Self { minute: begins, ..minute.clone() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn types_and_reasons_beyond_the_bound_are_counted_together() {
        let mut statistics = SourceStatistics::default();
        for n in 0..SOURCE_EVENT_TYPES_MAX + 7 {
            statistics.events_mut(&format!("type-{n:03}")).received += 1;
            statistics.reject(&format!("reason-{n:03}"), 1);
        }
        statistics.events_mut("type-000").received += 1;
        statistics.reject("reason-000", 1);
        assert_eq!((statistics.events.len(), statistics.other_events.received), (SOURCE_EVENT_TYPES_MAX, 7));
        assert_eq!(statistics.events["type-000"].received, 2);
        assert_eq!((statistics.rejected.len(), statistics.rejected[OTHER_REASONS]), (REJECTION_REASONS_MAX + 1, 7));
        // Two that are full stay within the bound when they are added, and lose nothing.
        let mut other = SourceStatistics::default();
        (0..60).for_each(|n| other.events_mut(&format!("other-{n}")).received += 1);
        let all = statistics.all_events().received + 60;
        statistics.merge(&other);
        assert_eq!((statistics.events.len(), statistics.all_events().received), (SOURCE_EVENT_TYPES_MAX, all));
    }

    #[test]
    fn a_failure_rate_is_of_attempts() {
        for (completed, failed, rate) in [(0, 0, None), (9, 1, Some(10.0)), (0, 3, Some(100.0)), (4, 0, Some(0.0))] {
            assert_eq!(EventCounts { received: 100, completed, failed, dead: failed }.failure_rate(), rate);
        }
    }

    #[test]
    fn minutes_make_steps_that_begin_at_multiples_of_their_length() {
        let minute = |number: i64| {
            let mut statistics = SourceStatistics { accepted: 1, ..SourceStatistics::default() };
            statistics.took(Duration::from_secs(2));
            SourceTally { source: SourceId::from_uuid(Uuid::nil()), minute: Timestamp::from_secs(number * 60), statistics }
        };
        let mut steps = Vec::new();
        [14, 15, 29, 30, 60].iter().for_each(|number| SourceTally::add_to_steps(&mut steps, &minute(*number), Duration::from_secs(900)));
        let found: Vec<_> = steps.iter().map(|step| (step.minute.as_secs() / 60, step.statistics.accepted)).collect();
        assert_eq!(found, [(0, 1), (15, 2), (30, 1), (60, 1)]);
        assert_eq!(steps[1].statistics.mean_latency(), Some(Duration::from_secs(2)));
    }
}
