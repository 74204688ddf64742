//! How long something took, in few numbers: counts by length, four to each doubling.
//!
//! Two of them can be added, so that minutes make a day. A percentile is read from the counts: it is off by a quarter at most, and by
//! far less where lengths are spread.

use std::time::Duration;

/// The doublings from 1 ms to 131 s, past which no attempt may take longer.
const REQUEST_OCTAVES: usize = 17;

/// The doublings from 1 ms to 4.6 hours: an event may wait for a retry or for its provider.
const LATENCY_OCTAVES: usize = 24;

/// Parts of a doubling. Each is as wide as the others of its doubling.
const PARTS: usize = 4;

/// A part of the first doubling.
const QUARTER_MILLI_MICROS: u128 = 250;

/// How long requests took. What is under 1 ms is in the first bucket, what is over 131 s in the last.
pub type Histogram = Lengths<{ buckets(REQUEST_OCTAVES) }>;

/// How long it took from one event to another. What is under 1 ms is in the first bucket, what is over 4.6 hours in the last.
pub type LatencyHistogram = Lengths<{ buckets(LATENCY_OCTAVES) }>;

const fn buckets(octaves: usize) -> usize {
    1 + octaves * PARTS + 1
}

/// Counts of lengths of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths<const BUCKETS: usize>([u32; BUCKETS]);

impl<const BUCKETS: usize> Default for Lengths<BUCKETS> {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl<const BUCKETS: usize> Lengths<BUCKETS> {
    /// How many counts there are.
    pub const BUCKETS: usize = BUCKETS;

    /// Counts one.
    pub fn add(&mut self, length: Duration) {
        self.add_many(bucket_of(length).min(BUCKETS - 1), 1);
    }

    /// Counts many of one bucket, as a store kept them. Says whether there is such a bucket.
    pub fn add_many(&mut self, bucket: usize, count: u32) -> bool {
        let Some(kept) = self.0.get_mut(bucket) else { return false };
        *kept = kept.saturating_add(count);
        true
    }

    /// Counts everything that the other one has.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(kept, more)| *kept = kept.saturating_add(more));
    }

    /// The buckets that have something, with their counts.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u32)> {
        self.0.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// The length that `share` of all are at most as long as (`0.95` for the 95th percentile); `None` if nothing was counted.
    ///
    /// Those of one bucket are taken to be spread evenly over it.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let total: u64 = self.0.iter().map(|count| u64::from(*count)).sum();
        let rank = (share * total as f64).ceil().max(1.0);
        let mut before = 0.0;
        for (bucket, count) in self.counts() {
            let count = f64::from(count);
            if before + count >= rank {
                let (from, to) = (lower_bound(bucket), lower_bound(bucket + 1).min(lower_bound(BUCKETS - 1)));
                return Some(from + to.saturating_sub(from).mul_f64((rank - before - 0.5) / count));
            }
            before += count;
        }
        None
    }
}

fn bucket_of(length: Duration) -> usize {
    let quarters = length.as_micros() / QUARTER_MILLI_MICROS;
    if quarters < PARTS as u128 {
        return 0;
    }
    // The first doubling has the quarters 4 to 7, the second 8 to 15, and so on.
    let octave = quarters.ilog2() as usize - 2;
    let part = (quarters >> octave) as usize % PARTS;
    1 + octave * PARTS + part
}

/// The shortest length that belongs into a bucket.
fn lower_bound(bucket: usize) -> Duration {
    let Some(place) = bucket.checked_sub(1) else { return Duration::ZERO };
    let quarters = ((PARTS + place % PARTS) as u64) << (place / PARTS);
    Duration::from_micros(quarters * QUARTER_MILLI_MICROS as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn every_length_has_its_bucket() {
        let table = [
            (micros(0), 0),
            (micros(999), 0),
            (micros(1_000), 1),
            (micros(1_249), 1),
            (micros(1_250), 2),
            (micros(1_999), 4),
            (micros(2_000), 5),
            (micros(2_500), 6),
            (Duration::from_secs(1), 40),
            (Duration::from_secs(131), 68),
            (Duration::from_secs(132), 69),
            (Duration::MAX, 69),
        ];
        for (length, bucket) in table {
            let mut histogram = Histogram::default();
            histogram.add(length);
            assert_eq!(histogram.counts().collect::<Vec<_>>(), [(bucket, 1)], "{length:?}");
        }
    }

    #[test]
    fn a_bucket_begins_where_the_one_before_it_ends() {
        for bucket in 1..Histogram::BUCKETS {
            let from = lower_bound(bucket);
            assert_eq!((bucket_of(from), bucket_of(from - micros(1))), (bucket, bucket - 1));
        }
    }

    #[test]
    fn a_percentile_of_lengths_that_are_spread_is_close_to_what_it_was() {
        let mut histogram = Histogram::default();
        let lengths: Vec<_> = (1..=1_000).map(|n| micros(n * 731)).collect();
        lengths.iter().for_each(|length| histogram.add(*length));
        for share in [0.01, 0.5, 0.95, 0.99, 1.0] {
            let exact = lengths[(share * 1_000.0) as usize - 1].as_secs_f64();
            let read = histogram.quantile(share).expect("something was counted").as_secs_f64();
            assert!((read - exact).abs() / exact <= 0.05, "{share}: {read} instead of {exact}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn what_takes_for_ever_counts_as_just_over_the_longest() {
        let mut histogram = Histogram::default();
        histogram.add(Duration::MAX);
        assert_eq!(histogram.quantile(0.99), Some(Duration::from_millis(1 << 17)));
    }

    #[test]
    fn what_waits_for_hours_is_told_apart_from_what_waits_for_minutes() {
        for (minutes, seen) in [(5, 4.4..5.5), (60, 52.0..66.0), (24 * 60, 279.0..280.0)] {
            let mut histogram = LatencyHistogram::default();
            histogram.add(Duration::from_secs(minutes * 60));
            let read = histogram.quantile(0.95).expect("something was counted").as_secs_f64() / 60.0;
            assert!(seen.contains(&read), "{minutes}: {read}");
        }
    }

    #[test]
    fn two_halves_make_the_whole() {
        let (mut whole, mut one, mut other) = (Histogram::default(), Histogram::default(), Histogram::default());
        for n in 0..500 {
            let length = Duration::from_millis(n * n);
            whole.add(length);
            if n % 3 == 0 { one.add(length) } else { other.add(length) }
        }
        one.merge(&other);
        assert_eq!(one, whole);
        // What is kept of it bucket by bucket is all of it.
        let mut kept = Histogram::default();
        assert!(whole.counts().all(|(bucket, count)| kept.add_many(bucket, count)));
        assert_eq!(kept, whole);
        assert!(!kept.add_many(Histogram::BUCKETS, 1));
    }
}
