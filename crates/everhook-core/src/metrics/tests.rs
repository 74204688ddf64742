use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::{
    model::{BreakerCause, BreakerState, BreakerTransition, FailureCategory, KeptBreaker, KeptStage, PhaseTimes},
    time::Timestamp,
};

const NOW: Timestamp = Timestamp::from_secs(1_000);

fn organization(n: u128) -> OrganizationId {
    OrganizationId::from_uuid(Uuid::from_u128(n))
}

fn event_type(name: &str) -> EventType {
    EventType::parse(name).unwrap()
}

fn attempt(number: u32, status: AttemptStatus, failure_category: Option<FailureCategory>, millis: u64) -> Attempt {
    Attempt {
        number,
        status,
        failure_category,
        error: None,
        response: None,
        duration: Duration::from_millis(millis),
        phases: PhaseTimes::default(),
        scheduled_at: NOW,
        picked_at: NOW,
        executed_at: NOW,
        next_retry_at: None,
        revision: None,
        node: "here".to_owned(),
        user_agent: "Everhook/1".into(),
        breaker: BreakerState::Closed,
    }
}

#[test]
fn an_attempt_is_counted_under_its_type_its_schedule_its_length_and_its_number() {
    use AttemptStatus::{Exhausted, Failed, Parked, Success};
    let metrics = Metrics::default();
    let labels = metrics.labels(organization(1), Some(&event_type("order.paid")), ScheduleVersion(7), "patient");
    metrics.attempted(&labels, &attempt(1, Failed, Some(FailureCategory::Timeout), 30_000));
    metrics.attempted(&labels, &attempt(2, Success, None, 20));
    metrics.attempted(&labels, &attempt(9, Exhausted, Some(FailureCategory::Dns), 1));
    metrics.attempted(&labels, &attempt(1, Parked, None, 20));
    let [(of, name, outcomes)] = &metrics.attempts.all()[..] else { panic!("one type") };
    assert_eq!((*of, name.as_str()), (organization(1), "order.paid"));
    let found: Vec<_> = outcomes.all().collect();
    let expected =
        [(Success, None, 1), (Failed, Some(FailureCategory::Timeout), 1), (Exhausted, Some(FailureCategory::Dns), 1), (Parked, None, 1)];
    assert_eq!(found, expected);
    let [(_, schedule)] = &metrics.schedules.all()[..] else { panic!("one schedule") };
    assert_eq!(schedule.name, "patient");
    assert_eq!(schedule.all().collect::<Vec<_>>(), [(Success, 2, 1), (Failed, 1, 1), (Exhausted, 3, 1)]);
    assert_eq!(metrics.durations.each_ref().map(|spread| spread.read().total()), [1, 1, 1], "what parked has no length");
    assert_eq!(metrics.durations[1].read().sum, 30.0);
    assert_eq!(metrics.attempt_numbers[2].read().sum, 9.0);
}

#[test]
fn an_attempt_whose_event_is_not_known_is_counted_under_other() {
    let metrics = Metrics::default();
    let labels = metrics.labels(organization(1), None, ScheduleVersion(7), "patient");
    metrics.attempted(&labels, &attempt(1, AttemptStatus::Success, None, 1));
    assert_eq!(metrics.attempts.other().all().count(), 1);
    assert!(metrics.attempts.all().is_empty());
}

#[test]
fn event_types_that_find_no_room_are_counted_together_and_known_ones_still_apart() {
    let types = EventTypes::with_room_for(3);
    for n in 0..10 {
        types.get(organization(n % 2), &event_type(&format!("type.{n}"))).count(AttemptStatus::Success, None);
    }
    types.get(organization(0), &event_type("type.0")).count(AttemptStatus::Success, None);
    let successes = |counts: &OutcomeCounts| counts.all().map(|(.., count)| count).sum::<u64>();
    let mut apart: Vec<_> = types.all().iter().map(|(_, name, counts)| (name.as_str().to_owned(), successes(counts))).collect();
    apart.sort();
    assert_eq!(apart, [("type.0".to_owned(), 2), ("type.1".to_owned(), 1), ("type.2".to_owned(), 1)]);
    assert_eq!(successes(types.other()), 7);
}

#[test]
fn labels_that_find_no_room_are_counted_together_until_others_are_not_in_use_any_more() {
    let counts: Labeled<u32, Counter> = Labeled::with_room_for(2);
    let kept = counts.get_to_keep(&0, Counter::new);
    drop(counts.get_to_keep(&1, Counter::new));
    for _ in 0..2_000 {
        counts.get_to_keep(&2, Counter::new).add(1);
    }
    let known: Vec<u32> = counts.all().into_iter().map(|(key, _)| key).collect();
    assert!(known.contains(&0) && known.contains(&2) && !known.contains(&1), "{known:?}");
    assert_eq!(counts.other().get() + counts.get(&2, Counter::new).get(), 2_000);
    assert!(counts.other().get() > 1_000);
    drop(kept);
    counts.forget(&2);
    assert_eq!(counts.all().len(), 1);
}

#[test]
fn a_value_is_in_the_first_bucket_that_it_fits_in() {
    let spread = Spread::new([1.0, 2.0, 5.0]);
    [0.0, 1.0, 1.5, 5.0, 6.0].into_iter().for_each(|value| spread.add(value));
    let read = spread.read();
    assert_eq!((read.counts, read.beyond, read.total(), read.sum), ([2, 1, 1], 1, 5, 13.5));
}

#[test]
fn a_percentile_is_of_what_was_counted_in_between() {
    let spread = Spread::new(DURATION_BOUNDS);
    (0..100).for_each(|_| spread.add(20.0));
    let earlier = spread.read();
    assert_eq!(earlier.since(&earlier).quantile(0.99), None);
    (0..95).for_each(|_| spread.add(0.007));
    (0..5).for_each(|_| spread.add(0.9));
    let lately = spread.read().since(&earlier);
    let [p50, p99] = [0.5, 0.99].map(|share| lately.quantile(share).unwrap());
    assert!((0.005..=0.01).contains(&p50) && (0.5..=1.0).contains(&p99), "{p50} {p99}");
    let two = lately.and(&lately);
    assert_eq!((two.total(), two.quantile(0.5)), (200, lately.quantile(0.5)));
    spread.add(1e9);
    assert_eq!(spread.read().quantile(1.0), Some(120.0));
}

#[test]
fn a_lane_shows_when_its_open_breaker_becomes_half_open() {
    let counts = LaneCounts::default();
    assert_eq!(counts.breaker(NOW), BreakerState::Closed);
    let after = |secs| NOW + Duration::from_secs(secs);
    let kept = |stage| KeptBreaker { stage, since: NOW, failed_recoveries: 0 };
    counts.set_breaker(&kept(KeptStage::Open { until: after(30) }));
    assert_eq!([NOW, after(29), after(30)].map(|at| counts.breaker(at)), [BreakerState::Open, BreakerState::Open, BreakerState::HalfOpen]);
    counts.set_breaker(&kept(KeptStage::ForcedOpen { until: None }));
    assert_eq!(counts.breaker(after(1_000_000)), BreakerState::Open);
    counts.set_breaker(&kept(KeptStage::HalfOpen));
    assert_eq!(counts.breaker(NOW), BreakerState::HalfOpen);
    counts.set_breaker(&kept(KeptStage::ForcedClosed { until: None }));
    assert_eq!(counts.breaker(NOW), BreakerState::Closed);
}

#[test]
fn a_breaker_that_decides_was_half_open_before() {
    use BreakerState::{Closed, HalfOpen, Open};
    let transitions = Transitions::default();
    let transition = |from, to, cause| BreakerTransition { from, to, at: NOW, cause };
    transitions.count(&transition(Closed, Open, BreakerCause::TooManyFailures));
    transitions.count(&transition(HalfOpen, Open, BreakerCause::RecoveryFailed));
    transitions.count(&transition(HalfOpen, Closed, BreakerCause::Recovered));
    let found = transitions.all();
    let expected = [
        (Closed, Open, "too_many_failures", 1),
        (HalfOpen, Closed, "recovered", 1),
        (HalfOpen, Open, "recovery_failed", 1),
        (Open, HalfOpen, "sleep_over", 2),
    ];
    assert_eq!(found, expected);
}

#[test]
fn reasons_of_a_source_are_bounded() {
    let counts = SourceCounts::default();
    (0..100).for_each(|n| counts.reject(&format!("reason_{n}")));
    counts.reject("reason_0");
    let rejected = counts.rejected();
    assert_eq!((rejected.len(), rejected["reason_0"], rejected["other"]), (33, 2, 68));
}
