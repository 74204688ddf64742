//! The smallest parts: one number that rises, and how values are spread.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only rises. Readers may see it a moment late, which is all that relaxed order costs.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// In what part a sum of values is kept: a value of a spread is told to a millionth.
const PARTS: f64 = 1e6;

/// How values are spread over buckets, the last of which has no upper bound.
#[derive(Debug)]
pub struct Spread<const BOUNDS: usize> {
    bounds: [f64; BOUNDS],
    counts: [Counter; BOUNDS],
    beyond: Counter,
    sum: Counter,
}

/// What a spread had counted at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spreading<const BOUNDS: usize> {
    /// The upper bounds of the buckets.
    pub bounds: [f64; BOUNDS],
    /// How many values each has that the one before has not.
    pub counts: [u64; BOUNDS],
    /// How many are above the last bound.
    pub beyond: u64,
    /// All values together.
    pub sum: f64,
}

impl<const BOUNDS: usize> Spread<BOUNDS> {
    /// Nothing was counted. The bounds rise.
    pub const fn new(bounds: [f64; BOUNDS]) -> Self {
        Self { bounds, counts: [const { Counter::new() }; BOUNDS], beyond: Counter::new(), sum: Counter::new() }
    }

    /// Counts a value: two additions.
    pub fn add(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts.get(bucket).unwrap_or(&self.beyond).add(1);
        // A value is never below zero, and what is too large for the sum counts as the most that it takes.
        self.sum.add((value * PARTS) as u64);
    }

    /// What was counted until now.
    pub fn read(&self) -> Spreading<BOUNDS> {
        Spreading {
            bounds: self.bounds,
            counts: std::array::from_fn(|bucket| self.counts[bucket].get()),
            beyond: self.beyond.get(),
            sum: self.sum.get() as f64 / PARTS,
        }
    }
}

impl<const BOUNDS: usize> Spreading<BOUNDS> {
    /// How many values there were.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.beyond
    }

    /// What was counted since an earlier moment.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bounds: self.bounds,
            counts: std::array::from_fn(|bucket| self.counts[bucket].saturating_sub(earlier.counts[bucket])),
            beyond: self.beyond.saturating_sub(earlier.beyond),
            sum: self.sum - earlier.sum,
        }
    }

    /// Both together.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            bounds: self.bounds,
            counts: std::array::from_fn(|bucket| self.counts[bucket] + other.counts[bucket]),
            beyond: self.beyond + other.beyond,
            sum: self.sum + other.sum,
        }
    }

    /// What `share` of all values are at most; `None` if there were none. The values of a bucket are taken to be spread evenly over it, and those beyond the
    /// last bound to be at it.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let (rank, mut before, mut from) = (share * total as f64, 0.0, 0.0);
        for (count, to) in self.counts.iter().zip(self.bounds) {
            let count = *count as f64;
            if count > 0.0 && before + count >= rank {
                return Some(from + (to - from) * ((rank - before) / count).max(0.0));
            }
            (before, from) = (before + count, to);
        }
        Some(from)
    }
}
