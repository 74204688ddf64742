//! What holds for any numbers, whatever happens to a breaker.

use proptest::prelude::{Just, Strategy, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::*;
use crate::model::TripRule;

/// Anything that can happen to a breaker.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    /// One of those under way ends.
    End(usize, CallOutcome),
    Pass(u64),
    Empty,
    Restart,
    Reset,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![6 => Just(CallOutcome::Failure), 3 => Just(CallOutcome::Success), 1 => Just(CallOutcome::Ignored)];
    let step = prop_oneof![
        20 => Just(Step::Begin),
        20 => (0usize..8, outcome).prop_map(|(which, outcome)| Step::End(which, outcome)),
        5 => (0u64..100).prop_map(Step::Pass),
        3 => Just(Step::Empty),
        1 => Just(Step::Restart),
        1 => Just(Step::Reset),
    ];
    prop::collection::vec(step, 1..400)
}

fn config() -> impl Strategy<Value = BreakerConfig> {
    let rule = prop_oneof![
        (1u32..=100, 1u32..10, 1u64..100, 0.01..=1.0f64).prop_map(|(error_threshold_percentage, minimum_throughput, window, share)| {
            TripRule::Window { error_threshold_percentage, minimum_throughput, window: secs(window), half_open_success_threshold: share }
        }),
        (1u32..5, 1u32..5)
            .prop_map(|(failure_threshold, success_threshold)| TripRule::Consecutive { failure_threshold, success_threshold }),
    ];
    (rule, 1u64..60, 0u64..600, 1u32..6).prop_map(|(rule, sleep, more, half_open_max_calls)| BreakerConfig {
        enabled: true,
        rule,
        sleep: secs(sleep),
        sleep_max: secs(sleep + more),
        half_open_max_calls,
    })
}

proptest! {
    #[test]
    fn it_never_blocks_for_longer_than_the_longest_sleep_and_flows_when_it_says(config in config(), steps in steps()) {
        let mut play = Play::new(config);
        let mut under_way = Vec::new();
        for step in steps {
            match step {
                Step::Begin => under_way.extend(play.begin()),
                Step::End(which, outcome) if which < under_way.len() => {
                    play.breaker.end(under_way.swap_remove(which), outcome, play.now);
                }
                Step::End(..) => {}
                Step::Pass(length) => play.now = play.now + secs(length),
                Step::Empty => drop(play.breaker.nothing_more_waits(play.now)),
                Step::Restart => {
                    play.breaker = Breaker::restore(play.breaker.keep(), config, play.now);
                    under_way.clear();
                }
                Step::Reset => drop(play.breaker.reset(play.now)),
            }
            let fresh = event(u128::MAX);
            match play.breaker.flows_from(play.now) {
                Some(from) => {
                    prop_assert!(from.since(play.now) <= config.sleep_max);
                    prop_assert!(play.breaker.may_begin(from));
                    prop_assert!(matches!(play.breaker.clone().begin(from, fresh), Admission::Flows(_)));
                }
                None => prop_assert!(!under_way.is_empty(), "blocked with nothing under way"),
            }
            let answer = matches!(play.breaker.clone().begin(play.now, fresh), Admission::Flows(_));
            prop_assert_eq!(play.breaker.may_begin(play.now), answer);
        }
    }

    #[test]
    fn requests_of_former_eras_never_count(
        config in config(),
        outcomes in prop::collection::vec(prop_oneof![Just(CallOutcome::Failure), Just(CallOutcome::Success)], 1..50),
        change in 0usize..4,
    ) {
        let mut play = Play::new(config);
        let passes: Vec<_> = outcomes.iter().filter_map(|_| play.begin()).collect();
        match change {
            0 => drop(play.breaker.reset(play.now)),
            1 => drop(play.breaker.force_open(Some(play.now + secs(60)), play.now)),
            2 => drop(play.breaker.force_close(Some(play.now), play.now)),
            _ => (0..100).for_each(|_| play.call(CallOutcome::Failure)),
        }
        let (facts, kept, limit) = (play.breaker.facts(play.now), play.breaker.keep(), play.breaker.concurrency_limit());
        for (pass, outcome) in passes.into_iter().zip(outcomes) {
            prop_assert_eq!(play.breaker.end(pass, outcome, play.now), None);
        }
        prop_assert_eq!(play.breaker.facts(play.now), facts);
        prop_assert_eq!(play.breaker.concurrency_limit(), limit);
        // Being forced closed may have ended meanwhile, which shows in what is kept and nowhere else.
        prop_assert!(play.breaker.keep() == kept || change == 2);
    }
}
