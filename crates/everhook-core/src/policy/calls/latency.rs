//! How long an app's answers take at present: percentiles of the last minute or two. Asked for hedging, retries and what a capability shows. Pure.

use std::time::Duration;

use crate::{model::Histogram, time::Timestamp};

/// How long answers are counted together.
const WINDOW: Duration = Duration::from_secs(60);
/// Fewer answers than this say nothing.
const ANSWERS_MIN: u32 = 20;

/// The last answers, by how long they took.
#[derive(Clone, Debug)]
pub struct Latency {
    since: Timestamp,
    current: Counted,
    previous: Counted,
}

#[derive(Clone, Debug, Default)]
struct Counted {
    lengths: Histogram,
    count: u32,
}

impl Latency {
    /// Nothing is known yet.
    pub fn new(now: Timestamp) -> Self {
        Self { since: now, current: Counted::default(), previous: Counted::default() }
    }

    /// An answer took so long.
    pub fn add(&mut self, took: Duration, now: Timestamp) {
        self.advance(now);
        self.current.lengths.add(took);
        self.current.count += 1;
    }

    /// The length that `share` of the last answers are at most as long as; `None` if there were too few.
    pub fn quantile(&mut self, share: f64, now: Timestamp) -> Option<Duration> {
        self.advance(now);
        if self.current.count + self.previous.count < ANSWERS_MIN {
            return None;
        }
        let mut lengths = self.current.lengths.clone();
        lengths.merge(&self.previous.lengths);
        lengths.quantile(share)
    }

    fn advance(&mut self, now: Timestamp) {
        let passed = now.since(self.since);
        if passed < WINDOW {
            return;
        }
        let last = std::mem::take(&mut self.current);
        // After a pause of two windows, nothing of it is recent.
        self.previous = if passed < 2 * WINDOW { last } else { Counted::default() };
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_answers_say_nothing_and_old_ones_are_forgotten() {
        let at = Timestamp::from_secs;
        let mut latency = Latency::new(at(0));
        for n in 0..19 {
            latency.add(Duration::from_millis(20), at(n));
        }
        assert_eq!(latency.quantile(0.95, at(19)), None);
        latency.add(Duration::from_millis(20), at(20));
        let p95 = latency.quantile(0.95, at(20)).unwrap();
        assert!((20..25).contains(&p95.as_millis()), "{p95:?}");
        assert!(latency.quantile(0.95, at(70)).is_some(), "the last minute still counts");
        assert_eq!(latency.quantile(0.95, at(200)), None);
    }
}
