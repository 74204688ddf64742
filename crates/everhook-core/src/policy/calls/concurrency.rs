//! How many requests an app is sent at once: as many as it answers without queueing them. Pure.
//!
//! A queue in front of the app shows in how long answers take. With `limit` requests under way and answers that take `now` instead of `best`, about
//! `limit × (1 − best ÷ now)` of them wait (the rule of TCP Vegas). The limit grows while few wait and shrinks while many do. Decision 0059 says why it
//! is this rule.

use std::time::Duration;

use crate::time::Timestamp;

/// What a new limit begins with: enough for most apps, few enough for a small one.
const LIMIT_AT_FIRST: u32 = 20;
/// While fewer wait, the limit grows.
const WAITING_FEW: f64 = 1.0;
/// While more wait, it shrinks.
const WAITING_MANY: f64 = 4.0;
/// Answers within this time, in seconds, are as good as any: what they differ by is the network and the scheduler, not a queue of the app.
const QUICK: f64 = 0.005;
/// How long the best time is believed. An app that has become slower for good would else be throttled for ever.
const BEST_GOOD_FOR: Duration = Duration::from_secs(60);
/// Times are averaged over about so many answers, so that one slow answer says little.
const SMOOTHED_OVER: f64 = 8.0;
/// By how much the limit grows while as many answers come as it allows. More would overshoot before the queue shows.
const GROWTH_A_ROUND: f64 = 1.0;
/// What a failure by time leaves of the limit.
const AFTER_TIMEOUT: f64 = 0.9;

/// An adaptive limit of requests under way.
#[derive(Clone, Copy, Debug)]
pub struct ConcurrencyLimit {
    limit: f64,
    max: u32,
    in_flight: u32,
    /// The shortest average of this minute and of the last one, and when this minute began.
    best: Option<Best>,
    /// The smoothed time of the last answers.
    average: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Best {
    since: Timestamp,
    current: f64,
    previous: f64,
}

impl ConcurrencyLimit {
    /// A limit that never exceeds `max`.
    pub fn new(max: u32) -> Self {
        let max = max.max(1);
        Self { limit: f64::from(LIMIT_AT_FIRST.min(max)), max, in_flight: 0, best: None, average: None }
    }

    /// Goes by another maximum.
    pub fn change_max(&mut self, max: u32) {
        self.max = max.max(1);
        self.limit = self.limit.min(f64::from(self.max));
    }

    /// How many may be under way now.
    pub fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// How many are under way.
    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// A request begins, unless as many are under way as may be, or as `other` allows.
    pub fn begin(&mut self, other: Option<u32>) -> bool {
        let may = self.in_flight < other.map_or(self.limit(), |other| other.min(self.limit())).max(1);
        if may {
            self.in_flight += 1;
        }
        may
    }

    /// A request ended and says nothing about how quick the app is: it was cancelled, refused, or never made.
    pub fn ended(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// A request was not answered in time.
    pub fn timed_out(&mut self) {
        self.ended();
        self.limit = (self.limit * AFTER_TIMEOUT).max(1.0);
    }

    /// A request was answered after so long.
    pub fn answered(&mut self, took: Duration, now: Timestamp) {
        let was_used = f64::from(self.in_flight) * 2.0 >= self.limit;
        self.ended();
        let took = took.as_secs_f64().max(1e-6);
        let average = self.average.map_or(took, |average| average + (took - average) / SMOOTHED_OVER);
        self.average = Some(average);
        let best = self.best(average, now).max(QUICK);
        let waiting = self.limit * (1.0 - best / average).max(0.0);
        if waiting > WAITING_MANY {
            self.limit -= (waiting - WAITING_MANY).max(1.0) / self.limit;
        } else if waiting < WAITING_FEW && was_used {
            // A limit that is not used says nothing about what would be too many.
            self.limit += GROWTH_A_ROUND / self.limit;
        }
        self.limit = self.limit.clamp(1.0, f64::from(self.max));
    }

    /// The shortest average of the last one to two minutes.
    fn best(&mut self, average: f64, now: Timestamp) -> f64 {
        let best = self.best.get_or_insert(Best { since: now, current: average, previous: average });
        if now.since(best.since) >= BEST_GOOD_FOR {
            *best = Best { since: now, current: average, previous: best.current };
        }
        best.current = best.current.min(average);
        best.current.min(best.previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An app that works on so many at once, 20 ms each, and queues the rest. Offered as many as the limit lets through.
    fn rounds(limit: &mut ConcurrencyLimit, serves: u32, rounds: u32) -> u32 {
        let mut most = 0;
        for round in 0..rounds {
            let mut begun = 0;
            while limit.begin(None) {
                begun += 1;
            }
            most = most.max(begun);
            let took = Duration::from_millis(20).mul_f64((f64::from(begun) / f64::from(serves)).max(1.0));
            for _ in 0..begun {
                limit.answered(took, Timestamp::from_secs(i64::from(round) / 50));
            }
        }
        most
    }

    #[test]
    fn an_app_that_serves_twenty_at_once_never_sees_more_than_twenty_four() {
        let mut limit = ConcurrencyLimit::new(1_000);
        // A few at first, so that its best time is known.
        limit.begin(None);
        limit.answered(Duration::from_millis(20), Timestamp::EPOCH);
        let most = rounds(&mut limit, 20, 2_000);
        assert!(most <= 24, "{most} at once");
        assert!(limit.limit() >= 18, "{}", limit.limit());
    }

    #[test]
    fn an_app_that_takes_everything_is_given_everything() {
        let mut limit = ConcurrencyLimit::new(300);
        rounds(&mut limit, 1_000, 800);
        assert_eq!(limit.limit(), 300);
    }

    #[test]
    fn an_app_that_answers_within_milliseconds_is_not_held_up_by_their_differences() {
        let mut limit = ConcurrencyLimit::new(300);
        limit.begin(None);
        limit.answered(Duration::from_micros(300), Timestamp::EPOCH);
        for _ in 0..100 {
            let begun = (0..32).filter(|_| limit.begin(None)).count();
            for _ in 0..begun {
                limit.answered(Duration::from_millis(3), Timestamp::EPOCH);
            }
        }
        assert!(limit.limit() >= 32, "{}", limit.limit());
    }

    #[test]
    fn timeouts_shrink_it_to_one_and_answers_bring_it_back() {
        let mut limit = ConcurrencyLimit::new(100);
        for _ in 0..100 {
            assert!(limit.begin(None), "one is always let through");
            limit.timed_out();
        }
        assert_eq!((limit.limit(), limit.in_flight()), (1, 0));
        rounds(&mut limit, 1_000, 3_000);
        assert!(limit.limit() > 20, "{}", limit.limit());
    }

    #[test]
    fn a_breaker_that_has_just_closed_may_allow_fewer() {
        let mut limit = ConcurrencyLimit::new(100);
        assert!(limit.begin(Some(1)));
        assert!(!limit.begin(Some(1)));
        assert!(limit.begin(Some(2)));
        limit.change_max(1);
        assert!(!limit.begin(None));
    }
}
