//! What a closed breaker has counted, handed on to the next owner of its lane.

use super::*;
use crate::model::TripRule;

/// Closed, after this.
fn after(config: BreakerConfig, script: &str) -> Play {
    let play = Play::new(config).does(script);
    assert_eq!(play.breaker.state(play.now), BreakerState::Closed, "{script}");
    play
}

/// The same lane at its next owner, some seconds later.
fn next_owner(play: &Play, config: BreakerConfig, after: u64, not_before: Option<Timestamp>) -> Play {
    let now = play.now + secs(after);
    let mut next = Play { breaker: Breaker::new(config, now), now, events: 1_000, blocked: 0 };
    if let Some(window) = play.breaker.window(play.now) {
        next.breaker.resume_window(&window, not_before);
    }
    next
}

fn failures(play: &Play) -> u32 {
    play.breaker.facts(play.now).failure_count_in_window
}

#[test]
fn the_next_owner_goes_on_with_what_was_counted_and_opens_at_the_same_call() {
    for config in [BreakerConfig::window(), BreakerConfig::consecutive()] {
        // One failure too few.
        let (mut play, mut count) = (Play::new(config), 0);
        while play.breaker.state(play.now) == BreakerState::Closed {
            play.call(CallOutcome::Failure);
            count += 1;
        }
        let last = after(config, &format!("{} fail", count - 1));
        let next = next_owner(&last, config, 1, None);
        assert_eq!(failures(&next), count - 1);
        assert_eq!(next.breaker.state(next.now), BreakerState::Closed, "going on opens nothing by itself");
        let next = next.does("1 fail");
        assert_eq!(next.breaker.state(next.now), BreakerState::Open, "{config:?}");
    }
}

#[test]
fn what_is_gone_on_with_grows_old_as_if_it_had_been_counted_here() {
    let config = BreakerConfig::window();
    let TripRule::Window { window, .. } = config.rule else { panic!() };
    let last = after(config, "3 fail");
    assert_eq!(failures(&next_owner(&last, config, window.as_secs() - 2, None)), 3);
    assert_eq!(failures(&next_owner(&last, config, window.as_secs() + 1, None)), 0);
}

#[test]
fn what_speaks_of_another_time_or_another_rule_is_left_out() {
    let config = BreakerConfig::window();
    let last = after(config, "3 fail");
    assert_eq!(failures(&next_owner(&last, config, 1, Some(at(1)))), 0, "the breaker has changed since");
    assert_eq!(failures(&next_owner(&last, BreakerConfig::consecutive(), 1, None)), 0, "the endpoint has another rule now");
}

#[test]
fn only_a_closed_breaker_with_failures_has_something_to_hand_on() {
    let config = BreakerConfig::window();
    assert_eq!(after(config, "30 ok").breaker.window(START), None);
    let mut open = after(config, "3 fail");
    let _ = open.breaker.force_open(None, open.now);
    assert_eq!(open.breaker.window(open.now), None);
}
