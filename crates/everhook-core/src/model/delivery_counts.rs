//! Deliveries by the attempt that ended them: whether a retry schedule is worth its retries.
//!
//! A part of [`AttemptStatistics`](super::AttemptStatistics), counted and added up with them.

use std::ops::Index;

use crate::model::{Attempt, AttemptStatus};

/// How a delivery ended, as far as it tells whether a retry schedule is worth its retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DeliveryEnd {
    /// It succeeded with its first attempt.
    FirstAttempt,
    /// It succeeded with its second attempt.
    SecondAttempt,
    /// It succeeded with its third attempt, or a later one.
    LaterAttempt,
    /// Its last attempt failed.
    Dead,
}

impl DeliveryEnd {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::FirstAttempt, Self::SecondAttempt, Self::LaterAttempt, Self::Dead];

    /// How a delivery ended with an attempt; `None` if it did not.
    pub fn of(attempt: &Attempt) -> Option<Self> {
        match (attempt.status, attempt.number) {
            (AttemptStatus::Success, 0 | 1) => Some(Self::FirstAttempt),
            (AttemptStatus::Success, 2) => Some(Self::SecondAttempt),
            (AttemptStatus::Success, _) => Some(Self::LaterAttempt),
            (AttemptStatus::Exhausted, _) => Some(Self::Dead),
            (AttemptStatus::Failed | AttemptStatus::Parked, _) => None,
        }
    }
}

/// Deliveries by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts([u32; DeliveryEnd::ALL.len()]);

impl DeliveryCounts {
    /// Counts so many.
    pub fn add(&mut self, end: DeliveryEnd, count: u32) {
        let kept = &mut self.0[end as usize];
        *kept = kept.saturating_add(count);
    }

    /// Counts the delivery that ended with this attempt, if one did.
    pub(super) fn add_last(&mut self, attempt: &Attempt) {
        DeliveryEnd::of(attempt).into_iter().for_each(|end| self.add(end, 1));
    }

    /// Counts everything that the other ones have.
    pub fn merge(&mut self, other: &Self) {
        DeliveryEnd::ALL.into_iter().for_each(|end| self.add(end, other[end]));
    }

    /// All that ended.
    pub fn total(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }

    /// The share that ended so, from 0 to 100; `None` if none ended.
    pub fn rate(&self, end: DeliveryEnd) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| f64::from(self[end]) * 100.0 / total as f64)
    }

    /// Those that occurred, with their counts.
    pub fn occurred(&self) -> impl Iterator<Item = (DeliveryEnd, u32)> {
        DeliveryEnd::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

impl Index<DeliveryEnd> for DeliveryCounts {
    type Output = u32;

    fn index(&self, end: DeliveryEnd) -> &u32 {
        &self.0[end as usize]
    }
}
