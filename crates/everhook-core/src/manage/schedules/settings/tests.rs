//! What a schedule may say, as a table.

use super::*;

fn list(seconds: &[f64]) -> Change<Intervals> {
    Change::Set(Intervals::List(seconds.to_vec()))
}

fn rule(base_ms: u64, multiplier: Option<f64>, max_ms: Option<u64>) -> Change<Intervals> {
    let (base, max) = (Some(Duration::from_millis(base_ms)), max_ms.map(Duration::from_millis));
    Change::Set(Intervals::Rule(Growth { base, multiplier, max }))
}

fn set(text: &str) -> Change<String> {
    Change::Set(text.to_owned())
}

fn valid() -> ScheduleChange {
    ScheduleChange { name: set("eager"), intervals: list(&[1.0, 5.0]), ..ScheduleChange::default() }
}

fn faults(asked: ScheduleChange) -> Vec<String> {
    match apply(asked, None) {
        Ok(_) => Vec::new(),
        Err(Refusal::Invalid(faults)) => faults.into_iter().map(|fault| fault.field).collect(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn every_field_has_its_rule() {
    let ok: &[&str] = &[];
    let attempts = |n| Change::Set(n);
    #[rustfmt::skip]
    let table: Vec<(ScheduleChange, &[&str])> = vec![
        (valid(), ok),
        (ScheduleChange::default(), &["name", "intervals"]),
        (ScheduleChange { name: Change::Clear, ..valid() }, &["name"]),
        (ScheduleChange { name: set(" "), ..valid() }, &["name"]),
        (ScheduleChange { name: set("standard"), ..valid() }, &["name"]),
        (ScheduleChange { name: set("default"), ..valid() }, &["name"]),
        (ScheduleChange { name: set("retry_config"), ..valid() }, &["name"]),
        (ScheduleChange { name: set("01890a5d-ac96-774b-bcce-b302099a8057"), ..valid() }, &["name"]),
        (ScheduleChange { name: set("Production Retry Policy"), ..valid() }, ok),
        (ScheduleChange { intervals: Change::Clear, ..valid() }, &["intervals"]),
        (ScheduleChange { intervals: list(&[]), ..valid() }, &["intervals"]),
        (ScheduleChange { intervals: list(&[0.999]), ..valid() }, &["intervals"]),
        (ScheduleChange { intervals: list(&[1.5, 604_800.0]), ..valid() }, ok),
        (ScheduleChange { intervals: list(&[604_801.0]), ..valid() }, &["intervals"]),
        (ScheduleChange { intervals: list(&[f64::NAN]), ..valid() }, &["intervals"]),
        (ScheduleChange { intervals: list(&[-1.0]), ..valid() }, &["intervals"]),
        (ScheduleChange { intervals: list(&[1.0; 100]), ..valid() }, ok),
        (ScheduleChange { intervals: list(&[1.0; 101]), ..valid() }, &["intervals"]),
        (ScheduleChange { strategy: set("quadratic"), ..valid() }, &["strategy"]),
        (ScheduleChange { strategy: set("linear"), ..valid() }, ok),
        (ScheduleChange { intervals: rule(1_000, Some(2.0), Some(60_000)), ..valid() }, ok),
        (ScheduleChange { intervals: rule(999, Some(0.5), Some(60_000)), ..valid() }, &["intervals.base_ms", "intervals.multiplier"]),
        (ScheduleChange { intervals: rule(2_000, Some(2.0), Some(1_000)), ..valid() }, &["intervals.max_ms"]),
        (ScheduleChange { intervals: rule(2_000, None, Some(1_000)), ..valid() }, &["intervals"]),
        (ScheduleChange { strategy: set("custom"), intervals: rule(1_000, Some(2.0), Some(60_000)), ..valid() }, &["intervals"]),
        (ScheduleChange { strategy: set("linear"), intervals: rule(300_000, None, None), ..valid() }, ok),
        (ScheduleChange { strategy: set("linear"), intervals: rule(300_000, Some(2.0), None), ..valid() }, &["intervals"]),
        (ScheduleChange { strategy: set("linear"), intervals: rule(999, None, None), ..valid() }, &["intervals.base_ms"]),
        (ScheduleChange { max_attempts: attempts(0), ..valid() }, &["max_attempts"]),
        (ScheduleChange { max_attempts: attempts(1), ..valid() }, ok),
        (ScheduleChange { max_attempts: attempts(100), ..valid() }, ok),
        (ScheduleChange { max_attempts: attempts(101), ..valid() }, &["max_attempts"]),
        (ScheduleChange { jitter: Change::Set(1.0), ..valid() }, ok),
        (ScheduleChange { jitter: Change::Set(1.1), ..valid() }, &["jitter"]),
        (ScheduleChange { jitter: Change::Set(f64::NAN), ..valid() }, &["jitter"]),
        (ScheduleChange { give_up_on: Change::Set(vec![410, 404, 410]), ..valid() }, ok),
        (ScheduleChange { give_up_on: Change::Set(vec![200]), ..valid() }, &["give_up_on"]),
        (ScheduleChange { give_up_on: Change::Set(vec![-1]), ..valid() }, &["give_up_on"]),
        (ScheduleChange { timeout: Change::Set(Duration::from_millis(99)), ..valid() }, &["timeout_ms"]),
        (ScheduleChange { timeout: Change::Set(Duration::from_secs(60)), ..valid() }, ok),
    ];
    for (asked, expected) in table {
        assert_eq!(faults(asked.clone()), expected, "{asked:?}");
    }
}

#[test]
fn what_is_not_said_has_its_default() {
    let made = apply(valid(), None).unwrap();
    let delays = vec![Duration::from_secs(1), Duration::from_secs(5)];
    let expected = RetrySchedule { name: ScheduleName("eager".to_owned()), strategy: Strategy::Custom(delays), ..blank() };
    assert_eq!(made, expected);
    assert_eq!((made.max_attempts, made.jitter), (8, Jitter::Share(0.1)));
    let ruled = apply(ScheduleChange { intervals: rule(1_000, Some(2.0), Some(8_000)), ..valid() }, None).unwrap();
    assert_eq!(strategy_name(&ruled.strategy), "exponential");
}

#[test]
fn a_change_keeps_what_it_does_not_name() {
    let made = apply(ScheduleChange { give_up_on: Change::Set(vec![410, 404, 410]), ..valid() }, None).unwrap();
    assert_eq!(made.give_up_on, [404, 410]);
    let renamed = apply(ScheduleChange { name: set("calm"), ..ScheduleChange::default() }, Some(&made)).unwrap();
    assert_eq!(renamed, RetrySchedule { name: ScheduleName("calm".to_owned()), ..made.clone() });
    let linear = apply(ScheduleChange { strategy: set("linear"), ..ScheduleChange::default() }, Some(&made)).unwrap();
    assert_eq!(strategy_name(&linear.strategy), "linear");
    let cleared = ScheduleChange { give_up_on: Change::Clear, max_attempts: Change::Clear, ..ScheduleChange::default() };
    assert_eq!(apply(cleared, Some(&made)).unwrap(), RetrySchedule { give_up_on: vec![], ..made });
}
