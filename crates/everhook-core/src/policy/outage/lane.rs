//! One lane's deliveries through an outage: in the order in which they come due, as the circuit breaker lets them. Every request is answered at once.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use uuid::Uuid;

use super::{ATTEMPTS_FOLLOWED_MAX, Outage, Try};
use crate::{
    ids::EventId,
    model::{BreakerConfig, FailureCategory, TripRule},
    policy::{
        breaker::{Admission, Breaker, CallOutcome, Pass},
        retry::{self, Retry},
    },
    time::Timestamp,
};

/// How many requests are under way at once at most: what an endpoint has if nothing else is set.
const CONCURRENCY: usize = 5;

/// When the outage begins: late enough that what was before it has a time.
const START: Timestamp = Timestamp::from_secs(1_000_000);

/// How long to wait before asking again a breaker that names no time.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A request that was made.
pub(super) struct Made {
    /// Which event it was about, by the order of publishing.
    pub(super) event: u64,
    /// When that was published, from the start of the outage.
    pub(super) published: Duration,
    /// When it was made, and how it ended.
    pub(super) attempt: Try,
    /// Whether no attempt follows it.
    pub(super) is_last: bool,
}

/// A delivery that is not over. Ordered by when it is due, then by publishing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    due: Timestamp,
    event: u64,
    attempts_made: u32,
}

struct Lane<'a, U> {
    outage: &'a Outage<'a>,
    events: u64,
    breaker: Breaker,
    waiting: BinaryHeap<Reverse<Waiting>>,
    unit: U,
}

/// Follows `events` that are published evenly in the outage, each standing for `weight` real ones, and says every request that is made about them.
pub(super) fn follow(outage: &Outage<'_>, events: u64, weight: f64, unit: impl FnMut() -> f64, mut made: impl FnMut(Made)) {
    let breaker = Breaker::new(scaled(outage.breaker, weight), START);
    let mut lane = Lane { outage, events, breaker, waiting: BinaryHeap::new(), unit };
    lane.succeed_before();
    lane.publish(0);
    let mut now = START;
    while let Some(due) = lane.waiting.peek().map(|Reverse(first)| first.due) {
        now = now.max(due);
        let started = match lane.start(now) {
            Ok(started) => started,
            Err(blocked_until) => {
                now = blocked_until;
                continue;
            }
        };
        for (delivery, pass) in started {
            made(lane.end(delivery, pass, now));
        }
        if lane.waiting.peek().is_none_or(|Reverse(first)| first.due > now) {
            // Written nowhere: only requests are asked for.
            let _ = lane.breaker.nothing_more_waits(now);
        }
    }
}

/// A breaker that judges by as many real calls, where each call that it sees stands for several.
fn scaled(config: BreakerConfig, weight: f64) -> BreakerConfig {
    let fewer = |count: u32| (f64::from(count) / weight.max(1.0)).ceil() as u32;
    let rule = match config.rule {
        TripRule::Window { error_threshold_percentage, minimum_throughput, window, half_open_success_threshold } => TripRule::Window {
            error_threshold_percentage,
            minimum_throughput: fewer(minimum_throughput),
            window,
            half_open_success_threshold,
        },
        TripRule::Consecutive { failure_threshold, success_threshold } => {
            TripRule::Consecutive { failure_threshold: fewer(failure_threshold), success_threshold }
        }
    };
    BreakerConfig { rule, ..config }
}

impl<U: FnMut() -> f64> Lane<'_, U> {
    /// Until the outage the endpoint answered. What its breaker remembers of that delays its opening.
    fn succeed_before(&mut self) {
        let TripRule::Window { window, .. } = self.outage.breaker.rule else { return };
        if !self.outage.breaker.enabled {
            return;
        }
        let interval = self.outage.down_for.div_f64(self.events as f64).max(Duration::from_micros(1));
        let calls = (window.as_micros() / interval.as_micros()).min(u128::from(ATTEMPTS_FOLLOWED_MAX)) as u32;
        for call in (1..=calls).rev() {
            let at = START - interval * call;
            if let Admission::Flows(pass) = self.breaker.begin(at, event_id(0)) {
                let _ = self.breaker.end(pass, CallOutcome::Success, at);
            }
        }
    }

    fn published(&self, event: u64) -> Duration {
        self.outage.down_for.mul_f64(event as f64 / self.events as f64)
    }

    fn publish(&mut self, event: u64) {
        if event < self.events {
            self.waiting.push(Reverse(Waiting { due: START + self.published(event), event, attempts_made: 0 }));
        }
    }

    /// Starts what is due, as many as may be under way at once; or says when it is worth asking again.
    fn start(&mut self, now: Timestamp) -> Result<Vec<(Waiting, Pass)>, Timestamp> {
        let mut started = Vec::with_capacity(CONCURRENCY);
        while let Some(Reverse(first)) = self.waiting.peek().copied()
            && first.due <= now
            && started.len() < self.breaker.concurrency_limit().map_or(CONCURRENCY, |limit| CONCURRENCY.min(limit as usize))
        {
            match self.breaker.begin(now, event_id(first.event)) {
                Admission::Flows(pass) => {
                    self.waiting.pop();
                    if first.attempts_made == 0 {
                        self.publish(first.event + 1);
                    }
                    started.push((first, pass));
                }
                Admission::Blocked { until } if started.is_empty() => {
                    return Err(until.unwrap_or(now + ASK_AGAIN).max(now + Duration::from_micros(1)));
                }
                Admission::Blocked { .. } => break,
            }
        }
        Ok(started)
    }

    /// A request is answered. What failed waits for its next attempt, if it has one.
    fn end(&mut self, delivery: Waiting, pass: Pass, now: Timestamp) -> Made {
        let at = now.since(START);
        let succeeds = at >= self.outage.down_for;
        let outcome = if succeeds { CallOutcome::Success } else { CallOutcome::Failure };
        let _ = self.breaker.end(pass, outcome, now);
        let attempt_number = delivery.attempts_made + 1;
        let next_due = if succeeds { None } else { self.next_due(attempt_number, now) };
        if let Some(due) = next_due {
            self.waiting.push(Reverse(Waiting { due, attempts_made: attempt_number, ..delivery }));
        }
        let (event, published) = (delivery.event, self.published(delivery.event));
        Made { event, published, attempt: Try { at, succeeds }, is_last: next_due.is_none() }
    }

    fn next_due(&mut self, attempt_number: u32, now: Timestamp) -> Option<Timestamp> {
        let failed = Retry { attempt_number, category: FailureCategory::ServerError, retry_after: None, now, unit: (self.unit)() };
        retry::next_due(self.outage.schedule, failed)
    }
}

fn event_id(event: u64) -> EventId {
    EventId::from_uuid(Uuid::from_u128(u128::from(event)))
}
