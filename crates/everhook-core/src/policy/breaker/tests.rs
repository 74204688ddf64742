//! The breaker, as tables of what happens and where it then stands.

use uuid::Uuid;

use super::*;
use crate::model::{KeptBreaker, KeptStage};

mod bounds;
mod handing_on;

const START: Timestamp = Timestamp::from_secs(1_700_000_000);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn at(after: u64) -> Timestamp {
    START + secs(after)
}

fn event(number: u128) -> EventId {
    EventId::from_uuid(Uuid::from_u128(number))
}

/// A breaker, driven by a test.
struct Play {
    breaker: Breaker,
    now: Timestamp,
    events: u128,
    blocked: u32,
}

impl Play {
    fn new(config: BreakerConfig) -> Self {
        Self { breaker: Breaker::new(config, START), now: START, events: 0, blocked: 0 }
    }

    fn begin(&mut self) -> Option<Pass> {
        self.events += 1;
        match self.breaker.begin(self.now, event(self.events)) {
            Admission::Flows(pass) => Some(pass),
            Admission::Blocked { .. } => {
                self.blocked += 1;
                None
            }
        }
    }

    fn call(&mut self, outcome: CallOutcome) {
        if let Some(pass) = self.begin() {
            self.breaker.end(pass, outcome, self.now);
        }
    }

    /// Does what the script says: `12 fail`, `8 ok`, `3 ignored`, `30 s` pass, nothing `waits`, or what a person does, for some seconds.
    fn does(mut self, script: &str) -> Self {
        for step in script.split(", ").filter(|step| !step.is_empty()) {
            let words: Vec<_> = step.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().unwrap();
            match words[..] {
                [times, "ok"] => (0..number(times)).for_each(|_| self.call(CallOutcome::Success)),
                [times, "fail"] => (0..number(times)).for_each(|_| self.call(CallOutcome::Failure)),
                [times, "ignored"] => (0..number(times)).for_each(|_| self.call(CallOutcome::Ignored)),
                [length, "s"] => self.now = self.now + secs(number(length)),
                ["empty"] => drop(self.breaker.nothing_more_waits(self.now)),
                ["reset"] => drop(self.breaker.reset(self.now)),
                ["force_open"] => drop(self.breaker.force_open(None, self.now)),
                ["force_open", length] => drop(self.breaker.force_open(Some(self.now + secs(number(length))), self.now)),
                ["force_close"] => drop(self.breaker.force_close(None, self.now)),
                ["force_close", length] => drop(self.breaker.force_close(Some(self.now + secs(number(length))), self.now)),
                _ => panic!("`{step}` is not a step"),
            }
        }
        self
    }

    fn stands(&self) -> String {
        match (self.breaker.state(self.now), self.breaker.facts(self.now).next_half_open_at) {
            (BreakerState::Closed, _) => "closed".to_owned(),
            (BreakerState::HalfOpen, _) => "half-open".to_owned(),
            (BreakerState::Open, Some(until)) => format!("open until {} s", until.since(START).as_secs()),
            (BreakerState::Open, None) => "open until reset".to_owned(),
        }
    }
}

#[test]
fn the_window_rule() {
    #[rustfmt::skip]
    let table = [
        // from closed, this happens → it stands
        ("",                                         "closed"),
        ("11 fail, 8 ok, 1 fail",                    "open until 30 s"),
        ("12 fail, 8 ok",                            "open until 30 s"),
        ("9 ok, 11 fail",                            "closed"),
        ("9 ok, 14 fail",                            "open until 30 s"),
        ("19 fail",                                  "closed"),
        ("20 fail",                                  "open until 30 s"),
        ("19 fail, 100 ignored",                     "closed"),
        // The window slides.
        ("10 fail, 59 s, 10 fail",                   "open until 89 s"),
        ("10 fail, 60 s, 10 fail",                   "closed"),
        ("1000 ok, 60 s, 20 fail",                   "open until 90 s"),
        // Open lets nothing through, until its time.
        ("20 fail, 29 s, 9 ok",                      "open until 30 s"),
        ("20 fail, 30 s",                            "half-open"),
        // Five probes decide, as soon as the rest of them cannot change it.
        ("20 fail, 30 s, 2 ok",                      "half-open"),
        ("20 fail, 30 s, 2 fail",                    "half-open"),
        ("20 fail, 30 s, 2 fail, 2 ok",              "half-open"),
        ("20 fail, 30 s, 2 fail, 3 ok",              "closed"),
        ("20 fail, 30 s, 3 ok",                      "closed"),
        ("20 fail, 30 s, 2 ok, 3 fail",              "open until 60 s"),
        ("20 fail, 30 s, 50 ignored",                "half-open"),
        ("20 fail, 30 s, 50 ignored, 3 ok",          "closed"),
        // Fewer wait than there may be probes: those that there were decide.
        ("20 fail, 30 s, empty",                     "half-open"),
        ("20 fail, 30 s, 9 ignored, empty",          "half-open"),
        ("20 fail, 30 s, 1 ok, empty",               "closed"),
        ("20 fail, 30 s, 1 fail, empty",             "open until 60 s"),
        ("20 fail, 30 s, 1 ok, 1 fail, empty",       "open until 60 s"),
        ("20 fail, 30 s, 2 ok, 1 fail, empty",       "closed"),
        ("20 fail, empty",                           "open until 30 s"),
        ("19 fail, empty",                           "closed"),
        // Closing empties the window, and the next sleep is the first again.
        ("20 fail, 30 s, 3 ok, 19 fail",             "closed"),
        ("20 fail, 30 s, 3 ok, 20 fail",             "open until 60 s"),
        ("20 fail, 30 s, 3 fail, 30 s, 3 fail, 60 s, 3 ok, 20 fail", "open until 150 s"),
    ];
    for (script, stands) in table {
        assert_eq!(Play::new(BreakerConfig::window()).does(script).stands(), stands, "{script}");
    }
}

#[test]
fn the_consecutive_rule() {
    #[rustfmt::skip]
    let table = [
        ("4 fail",                               "closed"),
        ("5 fail",                               "open until 60 s"),
        ("4 fail, 1 ok, 4 fail",                 "closed"),
        ("4 fail, 9 ignored, 1 fail",            "open until 60 s"),
        ("4 fail, 3600 s, 1 fail",               "open until 3660 s"),
        ("5 fail, 59 s, 9 ok",                   "open until 60 s"),
        ("5 fail, 60 s, 2 ok",                   "half-open"),
        ("5 fail, 60 s, 3 ok",                   "closed"),
        ("5 fail, 60 s, 2 ok, 1 fail",           "open until 120 s"),
        // It names a number of successes, so fewer decide nothing.
        ("5 fail, 60 s, 2 ok, empty",            "half-open"),
        ("5 fail, 60 s, 2 ok, empty, 1 ok",      "closed"),
        // The sleep stays the same.
        ("5 fail, 60 s, 1 fail, 60 s, 1 fail, 60 s, 1 fail", "open until 240 s"),
        ("5 fail, 60 s, 3 ok, 4 fail",           "closed"),
    ];
    for (script, stands) in table {
        assert_eq!(Play::new(BreakerConfig::consecutive()).does(script).stands(), stands, "{script}");
    }
}

#[test]
fn what_a_person_says() {
    #[rustfmt::skip]
    let table = [
        ("force_open",                                   "open until reset"),
        ("force_open, 1000000 s, 9 ok",                  "open until reset"),
        ("force_open, 1000000 s, reset",                 "closed"),
        ("force_open 7200",                              "open until 7200 s"),
        ("force_open 7200, 7200 s",                      "half-open"),
        ("force_open 60, 60 s, 3 ok",                    "closed"),
        ("force_open 60, 60 s, 3 fail",                  "open until 90 s"),
        ("20 fail, force_open 5",                        "open until 5 s"),
        ("20 fail, 30 s, 2 fail, force_open 60",         "open until 90 s"),
        ("force_open, force_close",                      "closed"),
        ("force_close, 1000 fail",                       "closed"),
        ("force_close, 1000000 s, 1000 fail",            "closed"),
        ("force_close, reset, 20 fail",                  "open until 30 s"),
        ("force_close 60, 59 s, 1000 fail",              "closed"),
        ("force_close 60, 59 s, 19 fail, 1 s, 19 fail",  "closed"),
        ("force_close 60, 60 s, 20 fail",                "open until 90 s"),
        ("19 fail, force_close 1, 1 s, 19 fail",         "closed"),
        ("20 fail, force_close 60",                      "closed"),
        ("20 fail, reset",                               "closed"),
        ("19 fail, reset, 19 fail",                      "closed"),
        ("20 fail, 30 s, 3 fail, 30 s, 3 fail, reset, 20 fail", "open until 90 s"),
    ];
    for (script, stands) in table {
        assert_eq!(Play::new(BreakerConfig::window()).does(script).stands(), stands, "{script}");
    }
}

#[test]
fn one_that_is_switched_off_opens_only_if_it_is_forced() {
    #[rustfmt::skip]
    let table = [
        ("1000 fail",                        "closed"),
        ("force_open 60",                    "open until 60 s"),
        ("force_open 60, 60 s, 1 fail",      "closed"),
    ];
    for (script, stands) in table {
        let config = BreakerConfig { enabled: false, ..BreakerConfig::window() };
        assert_eq!(Play::new(config).does(script).stands(), stands, "{script}");
    }
}

#[test]
fn the_sleep_doubles_from_the_second_failed_recovery_on_up_to_15_min() {
    let mut play = Play::new(BreakerConfig::window()).does("20 fail");
    let mut sleeps = Vec::new();
    for _ in 0..40 {
        let until = play.breaker.flows_from(play.now).unwrap();
        sleeps.push(until.since(play.now).as_secs());
        play.now = until;
        play = play.does("3 fail");
    }
    assert_eq!(sleeps[..8], [30, 30, 60, 120, 240, 480, 900, 900]);
    assert_eq!(sleeps[39], 900);
    assert_eq!(play.breaker.facts(play.now).consecutive_half_open_failures, 40);
}

#[test]
fn half_open_lets_as_many_through_as_can_still_matter() {
    let few = BreakerConfig { half_open_max_calls: 2, ..BreakerConfig::consecutive() };
    #[rustfmt::skip]
    let cases = [
        // config, before → may be under way at once
        (BreakerConfig::window(),      "20 fail, 30 s",              5),
        (BreakerConfig::window(),      "20 fail, 30 s, 2 ok",        3),
        (BreakerConfig::window(),      "20 fail, 30 s, 2 ignored",   5),
        (BreakerConfig::consecutive(), "5 fail, 60 s",               3),
        (BreakerConfig::consecutive(), "5 fail, 60 s, 2 ok",         1),
        (few,                          "5 fail, 60 s",               2),
    ];
    for (config, before, expected) in cases {
        let mut play = Play::new(config).does(before);
        let passes: Vec<_> = (0..9).map_while(|_| play.begin()).collect();
        assert_eq!(passes.len(), expected, "{before}");
        assert!(passes.iter().all(|pass| pass.state() == BreakerState::HalfOpen));
        assert_eq!((play.breaker.may_begin(play.now), play.breaker.flows_from(play.now)), (false, None), "{before}");
    }
}

#[test]
fn probes_that_are_under_way_at_once_are_of_different_events() {
    let mut play = Play::new(BreakerConfig::window()).does("20 fail, 30 s");
    let Admission::Flows(pass) = play.breaker.begin(play.now, event(1_000)) else { panic!("blocked") };
    assert_eq!(play.breaker.begin(play.now, event(1_000)), Admission::Blocked { until: None });
    assert!(matches!(play.breaker.begin(play.now, event(1_001)), Admission::Flows(_)));
    play.breaker.end(pass, CallOutcome::Failure, play.now);
    assert!(matches!(play.breaker.begin(play.now, event(1_000)), Admission::Flows(_)), "a strict lane has no other");
}

#[test]
fn few_probes_decide_only_once_none_is_under_way() {
    let mut play = Play::new(BreakerConfig::window()).does("20 fail, 30 s");
    let (first, second) = (play.begin().unwrap(), play.begin().unwrap());
    assert_eq!(play.breaker.end(first, CallOutcome::Success, play.now), None);
    assert_eq!(play.breaker.nothing_more_waits(play.now), None);
    assert_eq!(play.breaker.end(second, CallOutcome::Ignored, play.now), None);
    let closed = play.breaker.nothing_more_waits(play.now).unwrap();
    assert_eq!((closed.from, closed.to, closed.cause), (BreakerState::HalfOpen, BreakerState::Closed, Cause::Recovered));
}

#[test]
fn each_change_is_told_with_its_cause() {
    use BreakerState::{Closed, HalfOpen, Open};
    let change = |from, to, cause| (from, to, cause);
    let mut play = Play::new(BreakerConfig::window()).does("19 fail");
    let mut reported = Vec::new();
    let mut tell = |transition: Transition| {
        reported.push((transition.from, transition.to, transition.cause));
        (transition.opens(), transition.closes())
    };
    let last = |play: &mut Play, outcome| {
        let pass = play.begin().unwrap();
        play.breaker.end(pass, outcome, play.now).unwrap()
    };
    assert_eq!(tell(last(&mut play, CallOutcome::Failure)), (true, false));
    play = play.does("30 s, 2 fail");
    assert_eq!(tell(last(&mut play, CallOutcome::Failure)), (false, false));
    play = play.does("30 s, 2 ok");
    assert_eq!(tell(last(&mut play, CallOutcome::Success)), (false, true));
    assert_eq!(tell(play.breaker.force_open(None, play.now)), (true, false));
    assert_eq!(tell(play.breaker.force_close(None, play.now)), (false, true));
    assert_eq!(tell(play.breaker.reset(play.now)), (false, false));
    play = play.does("20 fail");
    let off = BreakerConfig { enabled: false, ..BreakerConfig::window() };
    assert_eq!(tell(play.breaker.reconfigure(off, play.now).unwrap()), (false, true));
    let expected = [
        change(Closed, Open, Cause::TooManyFailures),
        change(HalfOpen, Open, Cause::RecoveryFailed),
        change(HalfOpen, Closed, Cause::Recovered),
        change(Closed, Open, Cause::ForcedOpen),
        change(Open, Closed, Cause::ForcedClosed),
        change(Closed, Closed, Cause::Reset),
        change(Open, Closed, Cause::SwitchedOff),
    ];
    assert_eq!(reported, expected);
}

#[test]
fn after_closing_concurrency_grows_from_one() {
    #[rustfmt::skip]
    let table = [
        ("",                                            None),
        ("reset",                                       None),
        ("20 fail, 30 s",                               None),
        ("20 fail, 30 s, 3 ok",                         Some(1)),
        ("20 fail, 30 s, 3 ok, 1 ok",                   Some(2)),
        ("20 fail, 30 s, 3 ok, 2 ok",                   Some(2)),
        ("20 fail, 30 s, 3 ok, 1 fail, 3 ok",           Some(4)),
        ("20 fail, 30 s, 3 ok, 1022 ok",                Some(512)),
        ("20 fail, 30 s, 3 ok, 1023 ok",                None),
        ("20 fail, reset",                              Some(1)),
        ("20 fail, force_close",                        Some(1)),
        ("20 fail, force_close, 3 ok, reset",           Some(4)),
        ("20 fail, force_close 60, 3 ok, 60 s, 4 ok",   Some(8)),
    ];
    for (script, limit) in table {
        assert_eq!(Play::new(BreakerConfig::window()).does(script).breaker.concurrency_limit(), limit, "{script}");
    }
}

#[test]
fn health_shows_what_counts_and_while_it_is_open_what_opened_it() {
    #[rustfmt::skip]
    let table = [
        // script → failures, successes, percentage, window from, since, probes, of them successful
        ("",                               (0, 0, 0.0, None, 0, 0, 0)),
        ("5 s, 3 ok, 1 fail",              (1, 3, 25.0, Some(5), 0, 0, 0)),
        ("3 ok, 60 s",                     (0, 0, 0.0, None, 0, 0, 0)),
        ("5 s, 5 ok, 15 fail",             (15, 5, 75.0, Some(5), 5, 0, 0)),
        ("5 s, 5 ok, 15 fail, 40 s",       (15, 5, 75.0, Some(5), 35, 0, 0)),
        ("20 fail, 40 s, 1 fail, 2 ok",    (20, 0, 100.0, Some(0), 30, 3, 2)),
        ("20 fail, 40 s, 3 ok",            (0, 0, 0.0, None, 40, 0, 0)),
    ];
    for (script, expected) in table {
        let play = Play::new(BreakerConfig::window()).does(script);
        let facts = play.breaker.facts(play.now);
        let from_start = |instant: Timestamp| instant.since(START).as_secs();
        assert_eq!(facts.total_calls_in_window, facts.failure_count_in_window + facts.success_count_in_window);
        let shown = (
            facts.failure_count_in_window,
            facts.success_count_in_window,
            facts.error_percentage,
            facts.window_start.map(from_start),
            from_start(facts.state_transition_at),
            facts.half_open_attempts,
            facts.half_open_successes,
        );
        assert_eq!(shown, expected, "{script}");
    }
}

#[test]
fn health_shows_what_was_forced_until_it_is_over() {
    #[rustfmt::skip]
    let table = [
        // script → is forced, open until, closed until
        ("20 fail",               (false, None, None)),
        ("force_open",            (true, None, None)),
        ("force_open 60, 59 s",   (true, Some(at(60)), None)),
        ("force_open 60, 60 s",   (false, None, None)),
        ("force_close",           (true, None, None)),
        ("force_close 60, 59 s",  (true, None, Some(at(60)))),
        ("force_close 60, 60 s",  (false, None, None)),
    ];
    for (script, expected) in table {
        let play = Play::new(BreakerConfig::window()).does(script);
        let facts = play.breaker.facts(play.now);
        assert_eq!((facts.is_forced, facts.force_open_until, facts.force_close_until), expected, "{script}");
    }
}

#[test]
fn a_restart_changes_nothing_but_what_was_counted() {
    #[rustfmt::skip]
    let table = [
        // before → after a restart, then this happens → it stands
        ("19 fail",                               "1 fail",                "closed"),
        ("20 fail, 10 s",                         "",                      "open until 30 s"),
        ("20 fail, 10 s",                         "20 s",                  "half-open"),
        ("20 fail, 3600 s",                       "",                      "half-open"),
        ("20 fail, 30 s, 2 ok",                   "2 ok",                  "half-open"),
        ("20 fail, 30 s, 2 ok",                   "3 ok",                  "closed"),
        ("20 fail, 30 s, 3 fail",                 "30 s, 3 fail",          "open until 120 s"),
        ("20 fail, 30 s, 3 fail, 30 s, 3 fail",   "60 s, 3 fail",          "open until 240 s"),
        ("force_open",                            "1000 s",                "open until reset"),
        ("force_open 60",                         "",                      "open until 60 s"),
        ("force_open 60",                         "60 s",                  "half-open"),
        ("force_close",                           "1000 fail",             "closed"),
        ("force_close 60",                        "1000 fail",             "closed"),
        ("force_close 60",                        "60 s, 20 fail",         "open until 90 s"),
    ];
    for (before, after, stands) in table {
        let mut play = Play::new(BreakerConfig::window()).does(before);
        play.breaker = Breaker::restore(play.breaker.keep(), BreakerConfig::window(), play.now);
        assert_eq!(play.does(after).stands(), stands, "{before} | {after}");
    }
}

#[test]
fn one_that_was_switched_off_while_nothing_ran_is_closed() {
    for before in ["20 fail", "20 fail, 30 s, 1 ok", "20 fail, 30 s, 3 fail"] {
        let play = Play::new(BreakerConfig::window()).does(before);
        let off = BreakerConfig { enabled: false, ..BreakerConfig::window() };
        let restored = Breaker::restore(play.breaker.keep(), off, play.now);
        assert_eq!((restored.state(play.now), restored.concurrency_limit()), (BreakerState::Closed, Some(1)), "{before}");
        assert_eq!(restored.keep(), KeptBreaker { stage: KeptStage::Closed, since: play.now, failed_recoveries: 0 }, "{before}");
    }
}

#[test]
fn requests_begun_before_a_change_do_not_count_after_it() {
    type Change = fn(&mut Play);
    let restart: Change = |play| play.breaker = Breaker::restore(play.breaker.keep(), play.breaker.config, play.now);
    let retune: Change = |play| {
        play.breaker.reconfigure(BreakerConfig { sleep: secs(9), ..BreakerConfig::window() }, play.now);
    };
    let nothing: Change = |_| {};
    #[rustfmt::skip]
    let table = [
        // before they begin, a second later and before they all fail → it stands
        ("",                    "",      nothing, "open until 31 s"),
        ("",                    "",      restart, "closed"),
        ("",                    "",      retune,  "closed"),
        ("",                    "reset", nothing, "closed"),
        ("force_close 1",       "",      nothing, "closed"),
        ("20 fail, 30 s",       "",      nothing, "open until 61 s"),
        ("20 fail, 30 s",       "",      restart, "half-open"),
        ("20 fail, 30 s",       "",      retune,  "half-open"),
        ("20 fail, 30 s",       "reset", nothing, "closed"),
    ];
    for (before, meanwhile, change, stands) in table {
        let mut play = Play::new(BreakerConfig::window()).does(before);
        let passes: Vec<_> = (0..20).filter_map(|_| play.begin()).collect();
        play = play.does("1 s").does(meanwhile);
        change(&mut play);
        for pass in passes {
            play.breaker.end(pass, CallOutcome::Failure, play.now);
        }
        assert_eq!(play.stands(), stands, "{before} | {meanwhile}");
    }
}

#[test]
fn a_restart_shortly_after_closing_grows_from_one_again() {
    #[rustfmt::skip]
    let table = [
        ("20 fail, 30 s, 3 ok, 899 s", Some(1)),
        ("20 fail, 30 s, 3 ok, 900 s", None),
    ];
    for (before, limit) in table {
        let play = Play::new(BreakerConfig::window()).does(before);
        let restored = Breaker::restore(play.breaker.keep(), BreakerConfig::window(), play.now);
        assert_eq!(restored.concurrency_limit(), limit, "{before}");
    }
}

#[test]
fn a_clock_that_is_set_back_does_not_keep_it_open() {
    // While it runs: what began in the future is over.
    let mut play = Play::new(BreakerConfig::window()).does("20 fail");
    play.now = START - secs(3_600);
    assert_eq!(play.stands(), "half-open");
    assert_eq!(play.does("3 ok").stands(), "closed");
    // Over a restart: no later than the longest sleep from now.
    let kept = KeptBreaker { stage: KeptStage::Open { until: at(3_600) }, since: at(3_570), failed_recoveries: 0 };
    assert_eq!(Breaker::restore(kept, BreakerConfig::window(), START).flows_from(START), Some(at(900)));
}

#[test]
fn a_moment_that_was_read_a_little_earlier_does_not_wake_it() {
    let play = Play::new(BreakerConfig::window()).does("20 fail");
    assert_eq!(play.breaker.state(START - Duration::from_millis(900)), BreakerState::Open);
}

#[test]
fn other_numbers_hold_from_now_on() {
    let short = BreakerConfig { sleep: secs(1), sleep_max: secs(10), ..BreakerConfig::window() };
    let off = BreakerConfig { enabled: false, ..BreakerConfig::window() };
    #[rustfmt::skip]
    let table = [
        // before, config, after → it stands
        ("19 fail",              BreakerConfig::window(),      "1 fail",   "open until 30 s"),
        ("19 fail",              short,                        "1 fail",   "open until 1 s"),
        ("19 fail",              BreakerConfig::consecutive(), "4 fail",   "closed"),
        ("19 fail",              BreakerConfig::consecutive(), "5 fail",   "open until 60 s"),
        ("20 fail, 5 s",         short,                        "",         "open until 15 s"),
        ("20 fail, 30 s, 2 ok",  short,                        "2 ok",     "half-open"),
        ("20 fail",              off,                          "99 fail",  "closed"),
        ("20 fail, 30 s",        off,                          "99 fail",  "closed"),
        ("force_open",           off,                          "",         "open until reset"),
    ];
    for (before, config, after, stands) in table {
        let mut play = Play::new(BreakerConfig::window()).does(before);
        play.breaker.reconfigure(config, play.now);
        assert_eq!(play.does(after).stands(), stands, "{before} | {config:?} | {after}");
    }
}
