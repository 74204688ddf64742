//! One lane's deliveries through an outage: in the order in which they come due, as the circuit breaker and the free slots let them. Every request is
//! answered after the same time.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::Duration,
};

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
pub(super) struct SimulatedRequest {
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

/// A request under way.
struct InFlight {
    delivery: Waiting,
    pass: Pass,
    /// When it was made, from the start of the outage.
    at: Duration,
    answered: Timestamp,
}

struct Lane<'a, U> {
    outage: &'a Outage<'a>,
    events: u64,
    breaker: Breaker,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// In the order of their answers: all take the same time.
    in_flight: VecDeque<InFlight>,
    /// When the slots that were taken are free again, in order. One request stands for several, which are made one after the other.
    slots: VecDeque<Timestamp>,
    slot_for: Duration,
    unit: U,
}

/// Follows `events` that are published evenly in the outage, each activity for `weight` real ones, and says every request that is made about them.
pub(super) fn follow(outage: &Outage<'_>, events: u64, weight: f64, unit: impl FnMut() -> f64, mut made: impl FnMut(SimulatedRequest)) {
    let breaker = Breaker::new(scaled(outage.breaker, weight), START);
    let slot_for = outage.response_time.mul_f64(weight.max(1.0));
    let (waiting, in_flight, slots) = (BinaryHeap::new(), VecDeque::new(), VecDeque::new());
    let mut lane = Lane { outage, events, breaker, waiting, in_flight, slots, slot_for, unit };
    lane.succeed_before();
    lane.publish(0);
    let mut now = START;
    let mut blocked_until = START;
    while let Some(next) = lane.next_at(blocked_until) {
        now = now.max(next);
        lane.slots.retain(|free_at| *free_at > now);
        while lane.in_flight.front().is_some_and(|first| first.answered <= now) {
            if let Some(answered) = lane.in_flight.pop_front() {
                made(lane.end(answered, now));
            }
        }
        if lane.waiting.peek().is_none_or(|Reverse(first)| first.due > now) {
            // Written nowhere: only requests are asked for.
            let _ = lane.breaker.nothing_more_waits(now);
        }
        if now >= blocked_until {
            blocked_until = lane.start(now).unwrap_or(now);
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

    /// When something happens next: an answer comes, or a delivery is due, allowed and has a slot. `None` when all is over.
    fn next_at(&self, blocked_until: Timestamp) -> Option<Timestamp> {
        let answer = self.in_flight.front().map(|first| first.answered);
        let due = self.waiting.peek().map(|Reverse(first)| first.due.max(blocked_until));
        let due = if self.slots.len() < self.slots_max() { due } else { due.and_then(|due| Some(due.max(*self.slots.front()?))) };
        [answer, due].into_iter().flatten().min()
    }

    fn slots_max(&self) -> usize {
        self.breaker.concurrency_limit().map_or(CONCURRENCY, |limit| CONCURRENCY.min(limit as usize))
    }

    /// Starts what is due, as far as there are slots. Says when it is worth asking again, if the breaker refuses.
    fn start(&mut self, now: Timestamp) -> Option<Timestamp> {
        while let Some(Reverse(first)) = self.waiting.peek().copied()
            && first.due <= now
            && self.slots.len() < self.slots_max()
        {
            match self.breaker.begin(now, event_id(first.event)) {
                Admission::Flows(pass) => {
                    self.waiting.pop();
                    if first.attempts_made == 0 {
                        self.publish(first.event + 1);
                    }
                    self.slots.push_back(now + self.slot_for);
                    let answered = now + self.outage.response_time;
                    self.in_flight.push_back(InFlight { delivery: first, pass, at: now.since(START), answered });
                }
                // While probes are under way, their answers decide.
                Admission::Blocked { until } => {
                    let asked_again = || until.unwrap_or(now + ASK_AGAIN).max(now + Duration::from_micros(1));
                    return Some(self.in_flight.front().map_or_else(asked_again, |first| first.answered));
                }
            }
        }
        None
    }

    /// A request is answered. What failed waits for its next attempt, if it has one.
    fn end(&mut self, answered: InFlight, now: Timestamp) -> SimulatedRequest {
        let InFlight { delivery, pass, at, .. } = answered;
        let succeeds = at >= self.outage.down_for;
        let outcome = if succeeds { CallOutcome::Success } else { CallOutcome::Failure };
        let _ = self.breaker.end(pass, outcome, now);
        let attempt_number = delivery.attempts_made + 1;
        let next_due = if succeeds { None } else { self.next_due(attempt_number, now) };
        if let Some(due) = next_due {
            self.waiting.push(Reverse(Waiting { due, attempts_made: attempt_number, ..delivery }));
        }
        let (event, published) = (delivery.event, self.published(delivery.event));
        SimulatedRequest { event, published, attempt: Try { at, succeeds }, is_last: next_due.is_none() }
    }

    fn next_due(&mut self, attempt_number: u32, now: Timestamp) -> Option<Timestamp> {
        let failed = Retry { attempt_number, category: FailureCategory::ServerError, retry_after: None, now, unit: (self.unit)() };
        retry::next_due(self.outage.schedule, failed)
    }
}

fn event_id(event: u64) -> EventId {
    EventId::from_uuid(Uuid::from_u128(u128::from(event)))
}
