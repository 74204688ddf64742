//! The calls that a closed breaker counts: those of a sliding window, or the failures in a row.

use std::{collections::VecDeque, time::Duration};

use super::CallOutcome;
use crate::{
    model::{KeptSlice, KeptWindow, TripRule},
    time::Timestamp,
};

/// Into how many slices the window is cut, so that it takes the same memory at any rate. What is counted is up to one slice younger than
/// the window is long, and never older.
const SLICES: i64 = 60;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) successes: u32,
    pub(super) failures: u32,
    /// Since when; `None` if nothing was.
    pub(super) since: Option<Timestamp>,
}

impl Counts {
    pub(super) fn total(self) -> u32 {
        self.successes.saturating_add(self.failures)
    }

    fn add(&mut self, other: Self) {
        self.successes = self.successes.saturating_add(other.successes);
        self.failures = self.failures.saturating_add(other.failures);
        self.since = self.since.or(other.since);
    }
}

/// Counts calls as its rule wants them counted.
#[derive(Clone, Debug)]
pub(super) enum Calls {
    Window(Window),
    /// The failures since the last success.
    Run(Counts),
}

impl Calls {
    pub(super) fn new(rule: &TripRule) -> Self {
        match rule {
            TripRule::Window { window, .. } => Self::Window(Window::new(*window)),
            TripRule::Consecutive { .. } => Self::Run(Counts::default()),
        }
    }

    /// Counts one more.
    pub(super) fn add(&mut self, outcome: CallOutcome, now: Timestamp) {
        let one = match outcome {
            CallOutcome::Success => Counts { successes: 1, failures: 0, since: Some(now) },
            CallOutcome::Failure => Counts { successes: 0, failures: 1, since: Some(now) },
            CallOutcome::Ignored => return,
        };
        match (self, outcome) {
            (Self::Window(window), _) => window.add(one, now),
            (Self::Run(run), CallOutcome::Success) => *run = Counts::default(),
            (Self::Run(run), _) => run.add(one),
        }
    }

    /// Whether what counts now opens the breaker.
    pub(super) fn trip(&self, rule: &TripRule, now: Timestamp) -> bool {
        if let (Self::Window(window), TripRule::Window { error_threshold_percentage: 1.., .. }) = (self, rule)
            && !window.has_failures(now)
        {
            return false;
        }
        let counts = self.counts(now);
        match *rule {
            TripRule::Window { error_threshold_percentage, minimum_throughput, .. } => {
                let share = u64::from(counts.failures) * 100;
                let limit = u64::from(counts.total()) * u64::from(error_threshold_percentage);
                counts.total() >= minimum_throughput && share >= limit
            }
            TripRule::Consecutive { failure_threshold, .. } => counts.failures >= failure_threshold,
        }
    }

    /// What counts now.
    pub(super) fn counts(&self, now: Timestamp) -> Counts {
        match self {
            Self::Window(window) => window.counts(now),
            Self::Run(run) => *run,
        }
    }

    /// What is handed on.
    pub(super) fn keep(&self, now: Timestamp) -> KeptWindow {
        let slice_of = |number: i64, counts: &Counts| KeptSlice {
            number,
            since: counts.since.unwrap_or(now),
            successes: counts.successes,
            failures: counts.failures,
        };
        match self {
            Self::Window(window) => KeptWindow {
                at: now,
                slice: Duration::from_micros(window.slice_micros.cast_unsigned()),
                slices: window.slices.iter().map(|slice| slice_of(slice.number, &slice.counts)).collect(),
            },
            Self::Run(run) => KeptWindow { at: now, slice: Duration::ZERO, slices: vec![slice_of(0, run)] },
        }
    }

    /// Goes on with what was handed on, if nothing was counted yet and it was counted in the same way.
    pub(super) fn resume_window(&mut self, kept: &KeptWindow, not_before: Timestamp) {
        let slices = kept.slices.iter().filter(|slice| slice.since >= not_before);
        let counts_of = |slice: &KeptSlice| Counts { successes: slice.successes, failures: slice.failures, since: Some(slice.since) };
        match self {
            Self::Window(window)
                if window.slices.is_empty() && kept.slice == Duration::from_micros(window.slice_micros.cast_unsigned()) =>
            {
                window.slices =
                    slices.map(|slice| Slice { number: slice.number, counts: counts_of(slice) }).take(SLICES as usize).collect();
                window.last_failure = window.slices.iter().rfind(|slice| slice.counts.failures > 0).map(|slice| slice.number);
            }
            Self::Run(run) if *run == Counts::default() && kept.slice.is_zero() => {
                slices.take(1).for_each(|slice| *run = Counts { successes: 0, ..counts_of(slice) });
            }
            Self::Window(_) | Self::Run(_) => {}
        }
    }

    /// What counted when the last call came: what opened a breaker that is open.
    pub(super) fn last_counts(&self) -> Counts {
        match self {
            Self::Window(window) => window.slices.back().map_or_else(Counts::default, |last| window.counts_from(last.number - SLICES + 1)),
            Self::Run(run) => *run,
        }
    }
}

/// The calls of the last while, slice by slice.
#[derive(Clone, Debug)]
pub(super) struct Window {
    slice_micros: i64,
    /// Those that hold something, oldest first; at most [`SLICES`].
    slices: VecDeque<Slice>,
    /// The slice with the latest failure. Most windows have none, and are then not added up after each call.
    last_failure: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    /// Counted from the epoch.
    number: i64,
    counts: Counts,
}

impl Window {
    fn new(length: Duration) -> Self {
        let micros = i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
        Self { slice_micros: (micros / SLICES).max(1), slices: VecDeque::new(), last_failure: None }
    }

    fn number(&self, now: Timestamp) -> i64 {
        now.as_micros().div_euclid(self.slice_micros)
    }

    fn add(&mut self, one: Counts, now: Timestamp) {
        let number = self.number(now);
        // The clock was set back by more than the window: what was counted would not age until it caught up.
        if self.slices.back().is_some_and(|last| last.number - number >= SLICES) {
            self.slices.clear();
            self.last_failure = None;
        }
        while self.slices.front().is_some_and(|first| number - first.number >= SLICES) {
            self.slices.pop_front();
        }
        match self.slices.back_mut() {
            // Also for a moment that was read a little earlier than the last.
            Some(last) if last.number >= number => last.counts.add(one),
            _ => self.slices.push_back(Slice { number, counts: one }),
        }
        if one.failures > 0 {
            self.last_failure = self.slices.back().map(|slice| slice.number);
        }
    }

    /// Whether a failure counts now.
    fn has_failures(&self, now: Timestamp) -> bool {
        self.last_failure.is_some_and(|last| last > self.number(now) - SLICES)
    }

    fn counts(&self, now: Timestamp) -> Counts {
        self.counts_from(self.number(now) - SLICES + 1)
    }

    fn counts_from(&self, first: i64) -> Counts {
        let mut sum = Counts::default();
        self.slices.iter().filter(|slice| slice.number >= first).for_each(|slice| sum.add(slice.counts));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_secs(1_700_000_000);

    fn window() -> Window {
        Window::new(Duration::from_secs(60))
    }

    fn failure(window: &mut Window, at: i64) {
        let now = Timestamp::from_secs(START.as_secs() + at);
        window.add(Counts { successes: 0, failures: 1, since: Some(now) }, now);
    }

    fn failures(window: &Window, at: i64) -> u32 {
        window.counts(Timestamp::from_secs(START.as_secs() + at)).failures
    }

    #[test]
    fn what_is_older_than_the_window_does_not_count() {
        let mut window = window();
        failure(&mut window, 0);
        failure(&mut window, 30);
        #[rustfmt::skip]
        let cases = [(30, 2), (59, 2), (60, 1), (89, 1), (90, 0)];
        for (at, expected) in cases {
            assert_eq!(failures(&window, at), expected, "after {at} s");
        }
        assert_eq!(window.counts(START + Duration::from_secs(60)).since, Some(START + Duration::from_secs(30)));
    }

    #[test]
    fn any_number_of_calls_takes_the_same_memory() {
        let mut window = window();
        for second in 0..1_000 {
            (0..10).for_each(|_| failure(&mut window, second));
        }
        assert_eq!(window.slices.len(), 60);
        assert_eq!(failures(&window, 999), 600);
    }

    #[test]
    fn a_clock_that_is_set_back_far_empties_the_window_and_a_little_does_not() {
        let mut window = window();
        failure(&mut window, 3_600);
        failure(&mut window, 3_599);
        assert_eq!(failures(&window, 3_600), 2);
        failure(&mut window, 0);
        assert_eq!(failures(&window, 0), 1);
    }
}
