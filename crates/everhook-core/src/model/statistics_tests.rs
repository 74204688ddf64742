//! What statistics promise: minutes add up to what a count of all attempts would give.

use uuid::Uuid;

use super::*;
use crate::model::{BreakerState, DeliveryCounts, DeliveryEnd, PhaseTimes};

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn attempt(failure_category: Option<FailureCategory>, millis: u64) -> Attempt {
    Attempt {
        number: 1,
        status: if failure_category.is_none() { AttemptStatus::Success } else { AttemptStatus::Failed },
        failure_category,
        error: None,
        response: None,
        duration: Duration::from_millis(millis),
        phases: PhaseTimes::default(),
        scheduled_at: at(0),
        picked_at: at(0),
        executed_at: at(0),
        next_retry_at: None,
        revision: None,
        node: "node".to_owned(),
        user_agent: "Everhook/1".into(),
        breaker: BreakerState::Closed,
    }
}

/// Attempts in a line, one a second from `from` on: `+` succeeds, `-` fails.
fn tally(from: i64, line: &str) -> Tally {
    let mut tally = Tally::new(LaneId::from_uuid(Uuid::nil()), minute_of(at(from)));
    for (second, outcome) in (from..).zip(line.chars()) {
        let category = (outcome == '-').then_some(FailureCategory::ServerError);
        tally.add(&attempt(category, 10), at(second));
    }
    tally
}

#[test]
fn failures_in_a_row_are_those_since_the_last_success() {
    #[rustfmt::skip]
    let table: [(&[&str], u32, Option<i64>); 9] = [
        (&[""],             0, None),
        (&["+"],            0, None),
        (&["---"],          3, Some(0)),
        (&["--+"],          0, None),
        (&["-+--"],         2, Some(2)),
        (&["--", "--"],     4, Some(0)),
        (&["--", "+-"],     1, Some(61)),
        (&["--", "-+"],     0, None),
        (&["-+-", "", "-"], 2, Some(2)),
    ];
    for (minutes, failures, first) in table {
        let mut activity = EndpointActivity::default();
        for (minute, line) in (0..).zip(minutes) {
            activity.add(&tally(minute * 60, line), &FailingRule::default());
        }
        assert_eq!((activity.consecutive_failures, activity.first_failure_at), (failures, first.map(at)), "{minutes:?}");
    }
}

#[test]
fn the_last_of_each_kind_is_remembered_whatever_came_after() {
    let mut activity = EndpointActivity::default();
    activity.add(&tally(0, "+-"), &FailingRule::default());
    activity.add(&tally(60, "++"), &FailingRule::default());
    assert_eq!((activity.last_failure_at, activity.last_success_at), (Some(at(1)), Some(at(61))));
}

#[test]
fn an_endpoint_that_was_enabled_again_begins_anew() {
    let mut activity = EndpointActivity::default();
    activity.add(&tally(0, "---"), &FailingRule::default());
    activity.forget_failures(ClockReset::ByOwner);
    activity.add(&tally(60, "-"), &FailingRule::default());
    assert_eq!((activity.consecutive_failures, activity.first_failure_at), (1, Some(at(60))));
}

#[test]
fn minutes_add_up_to_a_day() {
    let mut statistics = tally(0, "++-").statistics;
    let mut other = tally(60, "-+").statistics;
    other.add(&attempt(Some(FailureCategory::Timeout), 130), at(70));
    statistics.merge(&other);
    assert_eq!((statistics.total(), statistics.successes, statistics.failures.total()), (6, 3, 3));
    assert_eq!((statistics.success_rate(), statistics.mean_duration()), (Some(50.0), Some(Duration::from_millis(30))));
    let occurred: Vec<_> = statistics.failures.occurred().collect();
    assert_eq!(occurred, [(FailureCategory::Timeout, 1), (FailureCategory::ServerError, 2)]);
    assert_eq!((statistics.last_success_at, statistics.last_failure_at), (Some(at(61)), Some(at(70))));
}

#[test]
fn deliveries_are_counted_by_the_attempt_that_ended_them() {
    let ended = |status: AttemptStatus, number: u32| {
        let failure = (status != AttemptStatus::Success).then_some(FailureCategory::ServerError);
        Attempt { status, number, ..attempt(failure, 10) }
    };
    let mut statistics = AttemptStatistics::default();
    use AttemptStatus::{Exhausted, Failed, Parked, Success};
    let attempts = [
        (Success, 1),
        (Success, 1),
        (Failed, 1),
        (Success, 2),
        (Success, 3),
        (Success, 9),
        (Parked, 1),
        (Failed, 2),
        (Exhausted, 1),
        (Exhausted, 7),
    ];
    attempts.into_iter().for_each(|(status, number)| statistics.add(&ended(status, number), at(1)));
    assert_eq!(DeliveryEnd::ALL.map(|end| statistics.deliveries[end]), [2, 1, 2, 2]);
    assert_eq!(statistics.deliveries.total(), 7);
    let other = statistics.clone();
    statistics.merge(&other);
    assert_eq!(DeliveryEnd::ALL.map(|end| statistics.deliveries[end]), [4, 2, 4, 4]);
    assert_eq!(statistics.deliveries.rate(DeliveryEnd::SecondAttempt).map(f64::round), Some(14.0));
    assert_eq!(DeliveryCounts::default().rate(DeliveryEnd::Dead), None);
}

#[test]
fn nothing_has_neither_rate_nor_mean() {
    let statistics = AttemptStatistics::default();
    assert_eq!((statistics.total(), statistics.success_rate(), statistics.mean_duration()), (0, None, None));
}

#[test]
fn a_minute_begins_at_its_first_instant() {
    assert_eq!(minute_of(at(119)), at(60));
    assert_eq!(minute_of(at(120)), at(120));
    assert_eq!(minute_of(Timestamp::from_micros(-1)), at(-60));
}
