//! Something that keeps failing, as the log hears of it: when it begins, at most once a minute while it lasts, and when it is over.
//!
//! Kept by whatever tries again for ever. It says when something is to be told, never what; time is uptime, which nobody sets.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use rustc_hash::FxHashMap;

use crate::ports::Terms;

/// How often what lasts is told again. After so long it is no restart of a server any more, and a person should look.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// How long something must have failed before it is told, where somebody else tells that the store is away: longer than anything is tried without a lease.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether something fails at present, and when that was last told.
#[derive(Debug)]
pub struct RepeatedFailure {
    /// How long it must have failed before that is worth a word.
    patience: Duration,
    since: Option<Duration>,
    failed_at: Duration,
    told_at: Option<Duration>,
}

impl RepeatedFailure {
    /// Nothing has failed yet. The first failure is told.
    pub const fn reported_at_once() -> Self {
        Self::reported_after(Duration::ZERO)
    }

    /// Nothing has failed yet. What ends before this time is never told: somebody else tells of what everybody notices.
    pub const fn reported_after(patience: Duration) -> Self {
        Self { patience, since: None, failed_at: Duration::ZERO, told_at: None }
    }

    /// It failed again. If that is to be told now, says for how long it has.
    pub fn failed(&mut self, now: Duration) -> Option<Duration> {
        // What nobody has tried for so long may have worked long since.
        if now.saturating_sub(self.failed_at) > REPORT_INTERVAL {
            self.since = None;
        }
        self.failed_at = now;
        let lasts_for = now.saturating_sub(*self.since.get_or_insert(now));
        let is_news = self.told_at.is_none_or(|told_at| now.saturating_sub(told_at) >= REPORT_INTERVAL);
        if lasts_for < self.patience || !is_news {
            return None;
        }
        self.told_at = Some(now);
        Some(lasts_for)
    }

    /// It works. If it was told that it did not, says how long that was.
    pub fn worked(&mut self, now: Duration) -> Option<Duration> {
        let since = self.since.take()?;
        self.told_at.take().map(|_| now.saturating_sub(since))
    }
}

/// What fails now and then, each by its name. Nobody says that something works again: what has not failed for a minute is over.
#[derive(Debug)]
pub struct RepeatedFailures {
    patience: Duration,
    /// Few: each name stands in the code.
    by_name: Mutex<FxHashMap<&'static str, RepeatedFailure>>,
}

impl RepeatedFailures {
    /// None yet, in a node that shares its store or does not.
    pub fn new(terms: Terms) -> Self {
        let patience = match terms {
            Terms::Shared => PATIENCE,
            Terms::SingleNode => Duration::ZERO,
        };
        Self { patience, by_name: Mutex::default() }
    }

    /// This failed. Says whether that is to be told now.
    pub fn failed(&self, what: &'static str, now: Duration) -> bool {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        by_name.entry(what).or_insert(RepeatedFailure::reported_after(self.patience)).failed(now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_is_told_when_it_begins_once_a_minute_and_when_it_is_over() {
        let secs = Duration::from_secs;
        let mut repeated_failure = RepeatedFailure::reported_at_once();
        assert_eq!(repeated_failure.worked(secs(5)), None);
        let told: Vec<u64> = (10..200).filter_map(|second| repeated_failure.failed(secs(second))).map(|lasts| lasts.as_secs()).collect();
        assert_eq!(told, [0, 60, 120, 180]);
        assert_eq!((repeated_failure.worked(secs(200)), repeated_failure.worked(secs(201))), (Some(secs(190)), None));
        assert_eq!(repeated_failure.failed(secs(202)), Some(Duration::ZERO), "another one");
    }

    #[test]
    fn what_is_tried_now_and_then_is_told_if_it_fails_again_within_a_minute() {
        let secs = Duration::from_secs;
        let table = [
            (Terms::SingleNode, vec![0, 1, 59, 60, 300], vec![0, 60, 300]),
            (Terms::Shared, vec![0, 1, 4], vec![]),
            (Terms::Shared, vec![0, 4, 5, 6, 64, 65], vec![5, 65]),
            (Terms::Shared, vec![0, 61, 200], vec![]),
        ];
        for (terms, failures, told) in table {
            let repeated_failures = RepeatedFailures::new(terms);
            let _ = repeated_failures.failed("something else", secs(0));
            let heard: Vec<u64> = failures.iter().copied().filter(|second| repeated_failures.failed("this", secs(*second))).collect();
            assert_eq!(heard, told, "{failures:?}");
        }
    }

    #[test]
    fn what_others_tell_of_is_told_only_if_it_lasts() {
        let secs = Duration::from_secs;
        let mut repeated_failure = RepeatedFailure::reported_after(secs(10));
        assert!((0..10).all(|second| repeated_failure.failed(secs(second)).is_none()));
        assert_eq!(repeated_failure.worked(secs(10)), None, "nobody heard of it");
        let told: Vec<u64> = (20..100).filter_map(|second| repeated_failure.failed(secs(second))).map(|lasts| lasts.as_secs()).collect();
        assert_eq!(told, [10, 70]);
        assert_eq!(repeated_failure.worked(secs(100)), Some(secs(80)));
    }
}
