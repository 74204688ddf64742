//! Time, so that five days can pass in milliseconds.

use std::time::Duration;

use async_trait::async_trait;

use crate::time::Timestamp;

/// How long an answer of another clock may take to be worth anything: it was read at some moment of it, and nobody knows which.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(500);

/// How far the calendar may run from uptime meanwhile. Past it, somebody set it, and the measurement says nothing.
const APART_MAX: Duration = Duration::from_millis(50);

/// What time it is, and waiting until it is later.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The present instant: the machine's calendar, or the store's where [`Clock::correct`] says how far that is. Never goes backwards within one
    /// process.
    fn now(&self) -> Timestamp;

    /// What the machine's own calendar shows, whatever the store's does. Somebody may set it at any time.
    fn calendar(&self) -> Timestamp {
        self.now()
    }

    /// How long this process has been there, whatever anybody does to the machine's calendar: what a lease is measured by.
    fn uptime(&self) -> Duration;

    /// Lets [`Clock::now`] be so far from the calendar from here on. Forward at once; back by going more slowly until that is reached. A clock
    /// that nobody may correct leaves it.
    fn correct(&self, _offset: Offset) {}

    /// Returns once `at` has come; at once if it has passed.
    async fn sleep_until(&self, at: Timestamp);

    /// Returns after so much uptime, whatever happens to the calendar meanwhile.
    async fn sleep_for(&self, span: Duration) {
        self.sleep_until(self.now() + span).await;
    }

    /// An instant on both of the machine's clocks.
    fn reading(&self) -> Reading {
        Reading { calendar: self.calendar(), uptime: self.uptime() }
    }
}

/// An instant on both of a machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// By its calendar.
    pub calendar: Timestamp,
    /// Since the process began.
    pub uptime: Duration,
}

/// How far another clock is from this machine's calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// In microseconds; more than none if the other one is ahead.
    pub micros: i64,
}

impl Offset {
    /// None: both show the same.
    pub const NONE: Self = Self { micros: 0 };

    /// Taken from what another clock showed between question and answer: in the middle of them, as far as anybody knows. `None` if that took too
    /// long, or if the calendar was set meanwhile.
    pub fn measured(other: Timestamp, asked: Reading, answered: Reading) -> Option<Self> {
        let round_trip = answered.uptime.saturating_sub(asked.uptime);
        let by_calendar = answered.calendar.since(asked.calendar);
        if round_trip > ROUND_TRIP_MAX || round_trip.abs_diff(by_calendar) > APART_MAX {
            return None;
        }
        let middle = asked.calendar + round_trip / 2;
        Some(Self { micros: other.as_micros().saturating_sub(middle.as_micros()) })
    }

    /// How far apart two offsets are.
    pub const fn apart_from(self, other: Self) -> Duration {
        Duration::from_micros(self.micros.abs_diff(other.micros))
    }
}

/// Waits for `work` as long as `patience`; `None` if that was not long enough, and `work` is dropped.
pub async fn within<T>(clock: &dyn Clock, patience: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = clock.sleep_until(clock.now() + patience) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_measured_from_the_middle_of_question_and_answer_if_that_was_short() {
        let millis = |millis: i64| Timestamp::from_micros(millis * 1_000);
        // Asked and answered by the calendar, how long that took by uptime, what the other clock showed, and how far it is, in milliseconds.
        let table = [
            ("in step", 1_000, 1_100, 100, 1_050, Some(0)),
            ("ahead", 1_000, 1_100, 100, 9_050, Some(8_000)),
            ("behind", 10_000, 10_100, 100, 2_050, Some(-8_000)),
            ("the answer took too long", 1_000, 1_600, 600, 1_300, None),
            ("the calendar was set forward", 1_000, 9_000, 100, 1_050, None),
            ("the calendar was set back", 10_000, 9_000, 100, 10_050, None),
        ];
        for (case, asked, answered, round_trip, other, expected) in table {
            let asked = Reading { calendar: millis(asked), uptime: Duration::from_secs(7) };
            let answered = Reading { calendar: millis(answered), uptime: asked.uptime + Duration::from_millis(round_trip) };
            let offset = Offset::measured(millis(other), asked, answered);
            assert_eq!(offset.map(|offset| offset.micros / 1_000), expected, "{case}");
        }
    }
}
