//! When to try again, as tables, and as bounds that hold for any schedule.

use proptest::{
    prelude::{prop, prop_assert, prop_assert_eq, prop_oneof, proptest},
    strategy::Strategy as Arbitrary,
};

use super::*;
use crate::{model::ScheduleName, policy::presets};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn schedule(strategy: Strategy) -> RetrySchedule {
    RetrySchedule {
        name: ScheduleName("test".to_owned()),
        strategy,
        max_attempts: 100,
        jitter: Jitter::Share(0.0),
        give_up_on: vec![],
        timeout: None,
    }
}

fn server_error(attempt_number: u32) -> Retry {
    Retry { attempt_number, category: FailureCategory::ServerError, retry_after: None, now: NOW, unit: 0.5 }
}

#[test]
fn the_presets_wait_as_their_table_says() {
    const MIN: u64 = 60;
    const HOUR: u64 = 60 * MIN;
    let cases: &[(&str, &[u64])] = &[
        ("standard", &[5, 5 * MIN, 30 * MIN, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR]),
        ("backoff", &[1, 2, 4, 8]),
        ("relay", &[1, 2, 4]),
        ("job", &[1, 2]),
        ("ingest", &[MIN, 5 * MIN, 30 * MIN, 2 * HOUR]),
    ];
    for (name, delays) in cases {
        let preset = presets::preset(name).unwrap();
        let nominal: Vec<_> = (1..preset.max_attempts).map(|attempt| nominal_delay(&preset, attempt).as_secs()).collect();
        assert_eq!(nominal, *delays, "{name}");
    }
}

#[test]
fn the_long_presets_end_in_an_even_pace() {
    let cases: &[(&str, &[(u32, u64)])] = &[
        ("notify", &[(1, 5), (2, 30), (3, 120), (4, 600), (5, 3_600), (6, 3_600), (29, 3_600)]),
        ("patient", &[(1, 5), (2, 10), (29, 145), (30, 150), (31, 3_600), (59, 3_600)]),
    ];
    for (name, delays) in cases {
        let preset = presets::preset(name).unwrap();
        for (attempt, delay) in *delays {
            assert_eq!(nominal_delay(&preset, *attempt), secs(*delay), "{name} after attempt {attempt}");
        }
    }
}

#[test]
fn each_strategy_finds_its_delays() {
    let list = || vec![secs(3), secs(1), secs(9)];
    let rule = |multiplier| Backoff::Growing { base: secs(2), multiplier, max: secs(60) };
    let cases: &[(Strategy, [u64; 5])] = &[
        // After attempts 1, 2, 3, 4 and the largest number there is.
        (Strategy::Custom(list()), [3, 1, 9, 9, 9]),
        (Strategy::Linear(Backoff::Intervals(list())), [3, 1, 9, 9, 9]),
        (Strategy::Exponential(Backoff::Intervals(list())), [3, 1, 9, 9, 9]),
        (Strategy::Linear(rule(3.0)), [2, 2, 2, 2, 2]),
        (Strategy::Exponential(rule(3.0)), [2, 6, 18, 54, 60]),
        (Strategy::Exponential(rule(1.0)), [2, 2, 2, 2, 2]),
        (Strategy::Exponential(rule(f64::NAN)), [2, 60, 60, 60, 60]),
        (Strategy::Custom(vec![]), [1, 1, 1, 1, 1]),
    ];
    for (strategy, delays) in cases {
        let schedule = schedule(strategy.clone());
        let found = [1, 2, 3, 4, u32::MAX].map(|attempt| nominal_delay(&schedule, attempt).as_secs());
        assert_eq!(found, *delays, "{strategy:?}");
    }
}

#[test]
fn the_last_attempt_has_no_next() {
    let preset = presets::standard();
    assert_eq!(next_due(&preset, server_error(7)), Some(NOW + secs(36_000)));
    assert_eq!(next_due(&preset, server_error(8)), None);
    assert_eq!(next_due(&preset, server_error(9)), None);
    let once = RetrySchedule { max_attempts: 1, ..preset };
    assert_eq!(next_due(&once, server_error(1)), None);
}

#[test]
fn jitter_moves_a_delay_as_far_as_it_says() {
    let cases = [
        // jitter, random number → milliseconds of a delay of 100 s
        (Jitter::Share(0.0), 0.9, 100_000),
        (Jitter::Share(0.25), 0.0, 75_000),
        (Jitter::Share(0.25), 0.5, 100_000),
        (Jitter::Share(0.25), 1.0, 125_000),
        (Jitter::Share(1.0), 0.0, 0),
        (Jitter::Later(Duration::from_millis(500)), 0.0, 100_000),
        (Jitter::Later(Duration::from_millis(500)), 0.5, 100_250),
        (Jitter::Later(Duration::from_millis(500)), 1.0, 100_500),
    ];
    for (jitter, unit, millis) in cases {
        let schedule = RetrySchedule { jitter, ..schedule(Strategy::Custom(vec![secs(100)])) };
        let due = next_due(&schedule, Retry { unit, ..server_error(1) });
        assert_eq!(due, Some(NOW + Duration::from_millis(millis)), "{jitter:?} at {unit}");
    }
}

#[test]
fn the_category_sets_a_minimum_that_jitter_cannot_undercut() {
    let schedule = RetrySchedule { jitter: Jitter::Share(0.5), ..schedule(Strategy::Custom(vec![secs(1), secs(100)])) };
    for category in FailureCategory::ALL {
        let minimum_millis = match category {
            FailureCategory::RateLimit => 60_000,
            FailureCategory::Dns => 5_000,
            FailureCategory::Timeout => 2_000,
            _ => 500,
        };
        let after = |attempt_number, unit| next_due(&schedule, Retry { category, unit, ..server_error(attempt_number) });
        assert_eq!(after(1, 0.0), Some(NOW + Duration::from_millis(minimum_millis)), "{category:?}");
        assert_eq!(after(2, 0.5), Some(NOW + secs(100)), "{category:?}: a longer delay stands");
    }
}

#[test]
fn retry_after_lengthens_the_delay_and_replaces_the_minimum() {
    let delay = |secs| RetryAfter::Delay(Duration::from_secs(secs));
    let cases = [
        // category, asked, delay of the schedule → seconds
        (FailureCategory::RateLimit, None, 1, 60),
        (FailureCategory::RateLimit, Some(delay(10)), 1, 10),
        (FailureCategory::RateLimit, Some(delay(0)), 1, 1),
        (FailureCategory::RateLimit, Some(delay(10)), 300, 300),
        (FailureCategory::ServerError, Some(delay(120)), 1, 120),
        (FailureCategory::ServerError, Some(delay(1_000_000)), 1, 86_400),
        (FailureCategory::ServerError, Some(RetryAfter::At(NOW + Duration::from_secs(90))), 1, 90),
        (FailureCategory::ServerError, Some(RetryAfter::At(NOW - Duration::from_secs(90))), 1, 1),
        (FailureCategory::ServerError, Some(delay(1)), 172_800, 172_800),
    ];
    for (category, retry_after, scheduled, expected) in cases {
        let schedule = schedule(Strategy::Custom(vec![secs(scheduled)]));
        let due = next_due(&schedule, Retry { category, retry_after, ..server_error(1) });
        assert_eq!(due, Some(NOW + secs(expected)), "{category:?} {retry_after:?} on {scheduled} s");
    }
}

fn any_strategy() -> impl Arbitrary<Value = Strategy> {
    let delay = || (1_000..=604_800_000u64).prop_map(Duration::from_millis);
    let backoff = move || {
        prop_oneof![
            prop::collection::vec(delay(), 0..8).prop_map(Backoff::Intervals),
            (delay(), 1.0..=10.0f64, delay()).prop_map(|(base, multiplier, max)| Backoff::Growing { base, multiplier, max }),
        ]
    };
    prop_oneof![
        backoff().prop_map(Strategy::Exponential),
        backoff().prop_map(Strategy::Linear),
        prop::collection::vec(delay(), 0..8).prop_map(Strategy::Custom),
    ]
}

fn any_schedule() -> impl Arbitrary<Value = RetrySchedule> {
    let jitter =
        prop_oneof![(0.0..=1.0f64).prop_map(Jitter::Share), (0..60_000u64).prop_map(|millis| Jitter::Later(Duration::from_millis(millis)))];
    (any_strategy(), jitter, 1..=100u32).prop_map(|(strategy, jitter, max_attempts)| RetrySchedule {
        jitter,
        max_attempts,
        ..schedule(strategy)
    })
}

proptest! {
    #[test]
    fn a_delay_stays_within_its_jitter_and_above_its_minimum(
        schedule in any_schedule(),
        attempt_number in 1..=120u32,
        category in prop::sample::select(FailureCategory::ALL.to_vec()),
        unit in 0.0..1.0f64,
    ) {
        let due = next_due(&schedule, Retry { category, unit, ..server_error(attempt_number) });
        prop_assert_eq!(due.is_none(), attempt_number >= schedule.max_attempts);
        let Some(due) = due else { return Ok(()) };

        let nominal = nominal_delay(&schedule, attempt_number);
        prop_assert!((DELAY_MIN..=DELAY_MAX).contains(&nominal));
        let (earliest, latest) = match schedule.jitter {
            Jitter::Share(share) => (nominal.mul_f64(1.0 - share), nominal.mul_f64(1.0 + share)),
            Jitter::Later(by) => (nominal, nominal + by),
        };
        // Instants are whole microseconds, and floating point may be off by less than that.
        let rounding = Duration::from_micros(2);
        let delay = due.since(NOW);
        prop_assert!(delay >= category_minimum(category));
        prop_assert!(delay + rounding >= earliest);
        prop_assert!(delay <= latest.max(category_minimum(category)) + rounding);
    }

    #[test]
    fn nobody_is_asked_again_before_the_time_they_named(
        schedule in any_schedule(),
        asked_secs in 0..=86_400u64,
        unit in 0.0..1.0f64,
    ) {
        let schedule = RetrySchedule { max_attempts: 2, ..schedule };
        for asked in [RetryAfter::Delay(secs(asked_secs)), RetryAfter::At(NOW + secs(asked_secs))] {
            let due = next_due(&schedule, Retry { retry_after: Some(asked), unit, ..server_error(1) });
            prop_assert!(due.unwrap() >= NOW + secs(asked_secs));
        }
    }
}
