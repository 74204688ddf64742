//! The limit against simulated apps, over simulated minutes.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::Duration,
};

use super::*;
use crate::{policy::calls::pace::Pace, time::Timestamp};

const MS: i64 = 1_000;
const SECOND: i64 = 1_000 * MS;

/// A number from 0 to 1.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Around this mean, as long as things take that depend on nothing.
    fn around(&mut self, mean: i64) -> i64 {
        (-(1.0 - self.roll()).ln() * mean as f64) as i64
    }
}

/// How long an app works on a request, in microseconds.
#[derive(Clone, Copy)]
enum Work {
    Always(i64),
    /// From nothing to twice as long.
    Varying(i64),
    Random(i64),
}

impl Work {
    fn roll(self, dice: &mut Dice) -> i64 {
        match self {
            Self::Always(micros) => micros,
            Self::Varying(micros) => (dice.roll() * 2.0 * micros as f64) as i64,
            Self::Random(micros) => dice.around(micros),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Ask,
    Worked,
    Answered,
}

/// Callers who ask again as soon as they are answered, and some moments after they were refused.
struct Simulation {
    capabilities: Vec<Work>,
    /// How many requests the app works on at once: the others wait in it.
    serves: usize,
    callers: usize,
    max: u32,
    secs: i64,
}

#[derive(Default, Debug)]
struct Outcome {
    /// How many were at the app at once, at most.
    most: u32,
    asked: u64,
    /// Without the first seconds, in which a limit grows.
    refused: u64,
}

impl Simulation {
    fn run(self) -> Outcome {
        let mut dice = Dice(88_172_645_463_325_252);
        let count = self.capabilities.len();
        let (mut paces, mut own) = (vec![Pace::default(); count], vec![ConcurrencyLimit::new(self.max); count]);
        let mut app = ConcurrencyLimit::new(self.max);
        let mut events: BinaryHeap<_> = (0..self.callers).map(|caller| Reverse((dice.around(MS), Step::Ask, caller, 0))).collect();
        let (mut busy, mut waiting, mut at_app) = (0, VecDeque::new(), 0);
        let mut outcome = Outcome::default();
        while let Some(Reverse((at, step, caller, begun))) = events.pop().filter(|Reverse((at, ..))| *at < self.secs * SECOND) {
            let capability = caller % count;
            let mut work =
                |caller: usize, begun: i64| Reverse((at + self.capabilities[caller % count].roll(&mut dice), Step::Worked, caller, begun));
            match step {
                Step::Ask if own[capability].may_begin(None) && app.may_begin(None) => {
                    own[capability].begin();
                    app.begin();
                    (outcome.asked, at_app) = (outcome.asked + 1, at_app + 1);
                    outcome.most = outcome.most.max(at_app);
                    if busy < self.serves {
                        busy += 1;
                        events.push(work(caller, at));
                    } else {
                        waiting.push_back((caller, at));
                    }
                }
                Step::Ask => {
                    outcome.refused += u64::from(at > 5 * SECOND);
                    events.push(Reverse((at + MS + dice.around(30 * MS), Step::Ask, caller, 0)));
                }
                Step::Worked => {
                    at_app -= 1;
                    match waiting.pop_front() {
                        Some((next, since)) => events.push(work(next, since)),
                        None => busy -= 1,
                    }
                    // The network and the scheduler take their time as well.
                    events.push(Reverse((at + dice.around(300), Step::Answered, caller, begun)));
                }
                Step::Answered => {
                    let took = Duration::from_micros((at - begun).unsigned_abs());
                    let reading = paces[capability].answered(took, Timestamp::from_micros(at));
                    own[capability].answered(reading);
                    app.answered(reading);
                    events.push(Reverse((at, Step::Ask, caller, 0)));
                }
            }
        }
        outcome
    }
}

#[test]
fn an_app_that_serves_twenty_at_once_never_sees_more_than_twenty_four_and_is_kept_busy() {
    for (work, most_in_theory) in [(20 * MS, 200_000), (100 * MS, 40_000), (SECOND, 4_000)] {
        let simulation = Simulation { capabilities: vec![Work::Always(work)], serves: 20, callers: 200, max: 100, secs: 200 };
        let outcome = simulation.run();
        assert!(outcome.most <= 24, "{work}: {outcome:?}");
        assert!(outcome.asked * 100 > most_in_theory * 94, "{work}: {outcome:?}");
    }
}

#[test]
fn three_capabilities_of_one_app_put_no_more_on_it_together() {
    let alike = vec![Work::Always(20 * MS); 3];
    let different = vec![Work::Always(8 * MS), Work::Always(20 * MS), Work::Always(60 * MS)];
    for capabilities in [alike, different] {
        let outcome = Simulation { capabilities, serves: 20, callers: 200, max: 100, secs: 150 }.run();
        assert!(outcome.most <= 24, "{outcome:?}");
    }
}

#[test]
fn an_app_that_answers_in_a_fraction_of_a_millisecond_is_not_held_up_by_a_busy_machine() {
    // One processor does everything: each request waits for those before it, for some ten milliseconds.
    for work in [350, 800] {
        let outcome = Simulation { capabilities: vec![Work::Random(work)], serves: 1, callers: 32, max: 500, secs: 130 }.run();
        assert_eq!(outcome.refused, 0, "{work}: {outcome:?}");
    }
}

#[test]
fn an_app_whose_times_vary_by_themselves_is_not_taken_for_one_with_a_queue() {
    let outcome = Simulation { capabilities: vec![Work::Varying(100 * MS)], serves: 10_000, callers: 50, max: 100, secs: 150 }.run();
    // Without a limit, fifty callers are answered 500 times a second.
    assert!(outcome.asked > 150 * 500 / 2, "{outcome:?}");
}

#[test]
fn an_app_that_takes_everything_is_given_everything() {
    let outcome = Simulation { capabilities: vec![Work::Always(20 * MS)], serves: 10_000, callers: 300, max: 300, secs: 15 }.run();
    assert_eq!(outcome.most, 300);
}

fn reading(waiting: f64) -> Reading {
    Reading { waiting, is_outdated: false }
}

/// Answers to as many requests as may begin, again and again.
fn rounds(limit: &mut ConcurrencyLimit, waiting: f64, rounds: u32) {
    for _ in 0..rounds {
        while limit.may_begin(None) {
            limit.begin();
        }
        (0..limit.in_flight()).for_each(|_| limit.answered(reading(waiting)));
    }
}

#[test]
fn timeouts_shrink_it_to_one_and_answers_bring_it_back() {
    let mut limit = ConcurrencyLimit::new(100);
    for _ in 0..100 {
        assert!(limit.may_begin(None), "one is always let through");
        limit.begin();
        limit.timed_out();
        limit.ended();
    }
    assert_eq!((limit.limit(), limit.in_flight()), (1, 0));
    rounds(&mut limit, 0.0, 200);
    assert!(limit.limit() > 20, "{}", limit.limit());
}

#[test]
fn a_limit_that_is_not_used_does_not_grow_and_each_minute_a_used_one_lets_the_queue_run_empty() {
    let mut limit = ConcurrencyLimit::new(100);
    for _ in 0..1_000 {
        limit.begin();
        limit.answered(reading(0.0));
    }
    assert_eq!(limit.limit(), 20);
    limit.begin();
    limit.answered(Reading { waiting: 0.0, is_outdated: true });
    assert_eq!(limit.limit(), 20, "what is hardly used has no queue");
    (0..20).for_each(|_| limit.begin());
    limit.answered(Reading { waiting: 0.0, is_outdated: true });
    assert_eq!(limit.limit(), 16);
}

#[test]
fn a_breaker_that_has_just_closed_may_allow_fewer() {
    let mut limit = ConcurrencyLimit::new(100);
    assert!(limit.may_begin(Some(1)));
    limit.begin();
    assert!(!limit.may_begin(Some(1)) && limit.may_begin(Some(2)));
    limit.change_max(1);
    assert!(!limit.may_begin(None));
}
