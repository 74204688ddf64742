//! The last minutes of lanes and sources, in memory, from which rates and percentiles are measured. Pure; filled by the job that evaluates alert rules.
//!
//! A minute of a lane takes 16 bytes of counts for an hour, and about 24 bytes of histogram for a quarter of it: 1.5 KiB for a lane that is never idle.

use std::{collections::VecDeque, time::Duration};

use super::{Measured, SAMPLES_MIN};
use crate::{
    model::{AlertMetric, AttemptStatistics, FailureCategory, Histogram, LatencyHistogram, Lengths, SourceStatistics},
    time::Timestamp,
};

const MINUTE_MICROS: i64 = 60_000_000;

/// How many minutes are kept: a window that begins within a minute has the whole of it.
const COUNTS_KEPT: u32 = 60;
const DURATIONS_KEPT: u32 = 15;
const SOURCE_COUNTS_KEPT: u32 = 24 * 60;
const LATENCIES_KEPT: u32 = 60;

/// The word under which requests are counted that were not signed as they should be.
const BAD_SIGNATURE: &str = "bad_signature";

/// A minute since the epoch.
pub fn minute_number(at: Timestamp) -> u32 {
    u32::try_from(at.as_micros().div_euclid(MINUTE_MICROS)).unwrap_or_default()
}

/// The first minute of a window that ends now.
pub fn first_minute(now: Timestamp, window: Duration) -> u32 {
    minute_number(now - window)
}

/// The first minute of which anything is needed now, of lanes.
pub fn first_kept(now: Timestamp) -> u32 {
    minute_number(now).saturating_sub(COUNTS_KEPT)
}

/// The first minute of which anything is needed now, of sources.
pub fn first_kept_of_sources(now: Timestamp) -> u32 {
    minute_number(now).saturating_sub(SOURCE_COUNTS_KEPT)
}

/// Minutes in order, each at most once.
#[derive(Clone, Debug)]
struct Minutes<T>(VecDeque<(u32, T)>);

impl<T> Default for Minutes<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Minutes<T> {
    /// Puts what is known of a minute, instead of what was known.
    fn put(&mut self, minute: u32, value: T) {
        let place = self.0.partition_point(|(other, _)| *other < minute);
        match self.0.get_mut(place) {
            Some(found) if found.0 == minute => found.1 = value,
            _ => self.0.insert(place, (minute, value)),
        }
    }

    fn forget_before(&mut self, minute: u32) {
        while self.0.front().is_some_and(|(first, _)| *first < minute) {
            self.0.pop_front();
        }
    }

    fn since(&self, minute: u32) -> impl Iterator<Item = &T> {
        self.0.iter().rev().take_while(move |(other, _)| *other >= minute).map(|(_, value)| value)
    }
}

/// A histogram, as few bytes as it has buckets.
type Buckets = Box<[(u8, u32)]>;

fn pack<const BUCKETS: usize>(lengths: &Lengths<BUCKETS>) -> Buckets {
    // There are fewer buckets than a byte can tell apart.
    lengths.counts().map(|(bucket, count)| (bucket as u8, count)).collect()
}

fn unpack<'a, const BUCKETS: usize>(minutes: impl Iterator<Item = &'a Buckets>) -> Lengths<BUCKETS> {
    let mut all = Lengths::default();
    for (bucket, count) in minutes.flat_map(|buckets| buckets.iter()) {
        all.add_many(usize::from(*bucket), *count);
    }
    all
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    successes: u32,
    failures: u32,
    dns_failures: u32,
}

/// The last hour of a lane.
#[derive(Clone, Debug, Default)]
pub struct LaneWindow {
    counts: Minutes<Counts>,
    durations: Minutes<Buckets>,
}

impl LaneWindow {
    /// Puts what happened in a minute, as far as it is known.
    pub fn put(&mut self, minute: u32, statistics: &AttemptStatistics) {
        let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let counts = Counts {
            successes: count(statistics.successes),
            failures: count(statistics.failures.total()),
            dns_failures: count(statistics.failures[FailureCategory::Dns]),
        };
        self.counts.put(minute, counts);
        self.durations.put(minute, pack(&statistics.durations));
    }

    /// Forgets what no window has any more. Says whether anything is left.
    pub fn forget_old(&mut self, now: Timestamp) -> bool {
        let minute = minute_number(now);
        self.counts.forget_before(minute.saturating_sub(COUNTS_KEPT));
        self.durations.forget_before(minute.saturating_sub(DURATIONS_KEPT));
        !self.counts.0.is_empty()
    }

    /// How many minutes it has in memory.
    pub fn minutes(&self) -> usize {
        self.counts.0.len()
    }

    /// How long attempts took, at the given share of all; `None` if there are too few.
    pub fn quantile(&self, share: f64, window: Duration, now: Timestamp) -> Option<Duration> {
        let lengths: Histogram = unpack(self.durations.since(first_minute(now, window)));
        enough(lengths).and_then(|lengths| lengths.quantile(share))
    }

    /// What a rule compares. The timeout is needed for one metric only.
    pub fn measure(&self, metric: AlertMetric, window: Duration, timeout: Option<Duration>, now: Timestamp) -> Measured {
        let quantile = |share| self.quantile(share, window, now);
        let value = match metric {
            AlertMetric::SuccessRate => self.rate(window, now, |counts| counts.successes),
            AlertMetric::ErrorRate => self.rate(window, now, |counts| counts.failures),
            AlertMetric::DnsFailureRate => self.rate(window, now, |counts| counts.dns_failures),
            AlertMetric::P95 => quantile(0.95).map(millis),
            AlertMetric::P99 => quantile(0.99).map(millis),
            AlertMetric::P95OfTimeout => timeout
                .filter(|timeout| !timeout.is_zero())
                .and_then(|timeout| quantile(0.95).map(|p95| p95.as_secs_f64() * 100.0 / timeout.as_secs_f64())),
            _ => None,
        };
        value.map_or(Measured::TooFewSamples, Measured::Value)
    }

    /// The share of all attempts that these are, from 0 to 100.
    fn rate(&self, window: Duration, now: Timestamp, of: impl Fn(&Counts) -> u32) -> Option<f64> {
        let (mut part, mut total) = (0, 0);
        for counts in self.counts.since(first_minute(now, window)) {
            part += u64::from(of(counts));
            total += u64::from(counts.successes) + u64::from(counts.failures);
        }
        (total >= SAMPLES_MIN).then(|| part as f64 * 100.0 / total as f64)
    }
}

fn enough<const BUCKETS: usize>(lengths: Lengths<BUCKETS>) -> Option<Lengths<BUCKETS>> {
    let total: u64 = lengths.counts().map(|(_, count)| u64::from(count)).sum();
    (total >= SAMPLES_MIN).then_some(lengths)
}

fn millis(length: Duration) -> f64 {
    length.as_secs_f64() * 1_000.0
}

#[derive(Clone, Copy, Debug, Default)]
struct SourceCounts {
    completed: u32,
    failed: u32,
    dead: u32,
    bad_signatures: u32,
}

/// The last day of a source.
#[derive(Clone, Debug, Default)]
pub struct SourceWindow {
    counts: Minutes<SourceCounts>,
    latencies: Minutes<Buckets>,
}

impl SourceWindow {
    /// Puts what happened in a minute, as far as it is known.
    pub fn put(&mut self, minute: u32, statistics: &SourceStatistics) {
        let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let events = statistics.all_events();
        let counts = SourceCounts {
            completed: count(events.completed),
            failed: count(events.failed),
            dead: count(events.dead),
            bad_signatures: count(statistics.rejected.get(BAD_SIGNATURE).copied().unwrap_or_default()),
        };
        self.counts.put(minute, counts);
        self.latencies.put(minute, pack(&statistics.latencies));
    }

    /// Forgets what no window has any more. Says whether anything is left.
    pub fn forget_old(&mut self, now: Timestamp) -> bool {
        let minute = minute_number(now);
        self.counts.forget_before(minute.saturating_sub(SOURCE_COUNTS_KEPT));
        self.latencies.forget_before(minute.saturating_sub(LATENCIES_KEPT));
        !self.counts.0.is_empty()
    }

    /// How many minutes it has in memory.
    pub fn minutes(&self) -> usize {
        self.counts.0.len()
    }

    /// What a rule compares.
    pub fn measure(&self, metric: AlertMetric, window: Duration, now: Timestamp) -> Measured {
        let from = first_minute(now, window);
        let sum = |of: fn(&SourceCounts) -> u32| self.counts.since(from).map(|counts| u64::from(of(counts))).sum::<u64>();
        let value = match metric {
            AlertMetric::DeadEvents => Some(sum(|counts| counts.dead) as f64),
            AlertMetric::BadSignatures => Some(sum(|counts| counts.bad_signatures) as f64),
            AlertMetric::ProcessingFailureRate => {
                let (failed, completed) = (sum(|counts| counts.failed), sum(|counts| counts.completed));
                let total = failed + completed;
                (total >= SAMPLES_MIN).then(|| failed as f64 * 100.0 / total as f64)
            }
            AlertMetric::ProcessingP95 => {
                let lengths: LatencyHistogram = unpack(self.latencies.since(from));
                enough(lengths).and_then(|lengths| lengths.quantile(0.95)).map(millis)
            }
            _ => None,
        };
        value.map_or(Measured::TooFewSamples, Measured::Value)
    }
}
