//! What happened at endpoints is added up by the minute, and outlives the process.

use std::time::Duration;

use everhook_core::{
    ids::{EndpointId, LaneId, SourceId},
    model::{
        AnswerCount, AttemptStatistics, ClockReset, EndpointActivity, EventCounts, EventType, FailingClock, FailingRule, FailureCategory,
        RetentionClass, SourceStatistics, SourceTally, Tally, minute_of,
    },
    ports::Alert,
    time::Timestamp,
};

use super::given::{Given, NOW, after, failure, success};

/// Attempts that ended a second apart from the instant on: `+` succeeds, `-` fails.
fn tally(endpoint: EndpointId, from: Timestamp, line: &str) -> Tally {
    let mut tally = Tally::new(endpoint.into(), minute_of(from));
    for (second, outcome) in (0..).zip(line.chars()) {
        let attempt = if outcome == '+' { success(1) } else { failure(1) };
        tally.add(&attempt, from + Duration::from_secs(second));
    }
    tally
}

#[tokio::test]
async fn tallies_of_one_minute_are_one_row_and_every_number_is_read_back() {
    let given = Given::new().await;
    let (first, second) = (tally(given.endpoint, NOW, "++-"), tally(given.endpoint, NOW + Duration::from_secs(5), "-+"));
    given.store.add(vec![first.clone()], FailingRule::default()).await.unwrap();
    given.store.add(vec![second.clone()], FailingRule::default()).await.unwrap();
    let mut expected = first.statistics;
    expected.merge(&second.statistics);
    let given = given.reopened().await;
    let read = given.store.attempt_statistics(given.endpoint.into(), NOW, after(60)).await.unwrap();
    assert_eq!(read, expected);
    assert_eq!((read.total(), read.successes), (5, 3));
    assert_eq!(read.durations.counts().map(|(_, count)| count).sum::<u32>(), 5);
}

#[tokio::test]
async fn every_category_has_a_place_of_its_own() {
    let given = Given::new().await;
    let mut tally = Tally::new(given.endpoint.into(), minute_of(NOW));
    for (times, category) in (1..).zip(FailureCategory::ALL) {
        tally.statistics.failures.add(category, times);
    }
    given.store.add(vec![tally.clone()], FailingRule::default()).await.unwrap();
    let read = given.store.attempt_statistics(given.endpoint.into(), NOW, after(60)).await.unwrap();
    assert_eq!(read.failures, tally.statistics.failures);
}

#[tokio::test]
async fn statistics_are_of_one_endpoint_and_of_the_minutes_that_are_touched() {
    let given = Given::new().await;
    let other = given.another_endpoint().await;
    let minute = minute_of(NOW);
    let at = |minutes: u64| minute + Duration::from_secs(minutes * 60);
    let tallies = (0..5).map(|n| tally(given.endpoint, at(n), &"+".repeat(n as usize + 1))).chain([tally(other, at(1), "---")]);
    given.store.add(tallies.collect(), FailingRule::default()).await.unwrap();
    let second = Duration::from_secs(1);
    for (from, to, total) in [
        (at(0), at(5), 15),
        (at(1), at(3), 2 + 3),
        (at(1) + second, at(3), 2 + 3),
        (at(1), at(3) + second, 2 + 3 + 4),
        (at(5), at(9), 0),
        (at(3), at(3), 0),
    ] {
        assert_eq!(given.store.attempt_statistics(given.endpoint.into(), from, to).await.unwrap().total(), total, "{from} {to}");
    }
    assert_eq!(given.store.attempt_statistics(other.into(), at(0), at(5)).await.unwrap().failures.total(), 3);
    let nobody = EndpointId::from_uuid(super::given::id());
    assert_eq!(given.store.attempt_statistics(nobody.into(), at(0), at(5)).await.unwrap(), AttemptStatistics::default());
}

#[tokio::test]
async fn activities_are_kept_in_the_order_of_what_happened() {
    let given = Given::new().await;
    let other = given.another_endpoint().await;
    let tallies = vec![tally(given.endpoint, NOW, "+--"), tally(other, NOW, "+"), tally(given.endpoint, after(60), "-")];
    given.store.add(tallies, FailingRule::default()).await.unwrap();
    let given = given.reopened().await;
    let failing = EndpointActivity {
        consecutive_failures: 3,
        first_failure_at: Some(after(1)),
        last_failure_at: Some(after(60)),
        last_success_at: Some(NOW),
        clock: FailingClock {
            observed_from: Some(after(1)),
            observed: 3,
            last_counted_at: Some(after(60)),
            previous_counted_at: Some(after(2)),
            ..FailingClock::default()
        },
    };
    let fine = EndpointActivity { last_success_at: Some(NOW), ..EndpointActivity::default() };
    let nobody = EndpointId::from_uuid(super::given::id());
    let read = given.store.activities(vec![other.into(), nobody.into(), given.endpoint.into()]).await.unwrap();
    assert_eq!(read, [fine, EndpointActivity::default(), failing]);
    given.store.forget_failures(given.endpoint.into(), ClockReset::ByOwner).await.unwrap();
    let begun_anew = EndpointActivity { consecutive_failures: 0, first_failure_at: None, clock: FailingClock::default(), ..failing };
    assert_eq!(given.store.activities(vec![given.endpoint.into()]).await.unwrap(), [begun_anew]);
}

#[tokio::test]
async fn what_happens_at_endpoints_is_counted_for_their_application_and_organization_too() {
    let given = Given::new().await;
    let other = given.another_endpoint().await;
    given.store.add(vec![tally(given.endpoint, NOW, "++-"), tally(other, NOW, "-")], FailingRule::default()).await.unwrap();
    given.store.add(vec![tally(other, NOW, "+"), tally(given.endpoint, after(120), "+")], FailingRule::default()).await.unwrap();
    let given = given.reopened().await;
    for scope in [LaneId::from(given.application), LaneId::from(given.organization)] {
        let of_minute = given.store.attempt_statistics(scope, NOW, after(60)).await.unwrap();
        assert_eq!((of_minute.total(), of_minute.successes), (5, 3));
        assert_eq!(given.store.attempt_statistics(scope, NOW, after(180)).await.unwrap().total(), 6);
        assert_eq!(given.store.activities(vec![scope]).await.unwrap(), [EndpointActivity::default()], "only endpoints are active");
    }
    assert_eq!(given.store.attempt_statistics(other.into(), NOW, after(180)).await.unwrap().total(), 2);
}

#[tokio::test]
async fn what_calls_were_answered_with_is_added_up() {
    let given = Given::new().await;
    let mut tally = Tally::new(given.endpoint.into(), minute_of(NOW));
    for (times, what) in (1..).zip(AnswerCount::ALL) {
        tally.statistics.answers.add(what, times);
    }
    given.store.add(vec![tally.clone(), tally.clone()], FailingRule::default()).await.unwrap();
    let read = given.store.attempt_statistics(given.organization.into(), NOW, after(60)).await.unwrap();
    assert_eq!(AnswerCount::ALL.map(|what| read.answers[what]), [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22]);
    assert_eq!((read.answers.calls(), read.total()), (42, 0));
}

#[tokio::test]
async fn what_organizations_are_told_of_calls_is_kept_with_their_counts_and_once() {
    let given = Given::new().await;
    let organization = given.organization;
    let alert = |n: u8| Alert {
        id: super::given::id(),
        organization,
        event_type: EventType::parse("call.fallback").unwrap(),
        data: vec![b'0' + n].into(),
    };
    let alerts = vec![alert(1), alert(2)];
    let mut tally = Tally::new(given.endpoint.into(), minute_of(NOW));
    tally.count(None, Duration::from_millis(1), NOW);
    given.store.add_calls(vec![tally.clone()], alerts.clone()).await.unwrap();
    // Its answer was lost, and it is written again.
    given.store.add_calls(vec![tally], alerts.clone()).await.unwrap();
    let given = given.reopened().await;
    let statistics = given.store.attempt_statistics(given.application.into(), NOW, after(60)).await.unwrap();
    assert_eq!(statistics.successes, 2, "counts may be added twice");
    let sorted = |mut alerts: Vec<Alert>| {
        alerts.sort_by_key(|alert| alert.id);
        alerts
    };
    assert_eq!(sorted(given.store.pending(10).await.unwrap()), sorted(alerts.clone()));
    let unknown = Tally::new(EndpointId::from_uuid(super::given::id()).into(), minute_of(NOW));
    given.store.add_calls(vec![unknown], vec![alert(3)]).await.unwrap_err();
    assert_eq!(given.store.pending(10).await.unwrap().len(), 2, "both or nothing");
    given.store.add_calls(Vec::new(), vec![alert(4)]).await.unwrap();
    assert_eq!(given.store.pending(10).await.unwrap().len(), 3);
}

/// What a source had in a minute, in numbers that differ from each other.
fn source_tally(source: SourceId, minute: Timestamp, n: u64) -> SourceTally {
    let mut statistics = SourceStatistics { accepted: n, handshakes: 2 * n, ..SourceStatistics::default() };
    statistics.reject("bad_signature", 3 * n);
    *statistics.events_mut("sleeps") = EventCounts { received: 4 * n, completed: 5 * n, failed: 6 * n, dead: 7 * n };
    statistics.other_events.received = n;
    (0..n).for_each(|n| statistics.took(Duration::from_millis(10 << n)));
    SourceTally { source, minute, statistics }
}

#[tokio::test]
async fn what_happened_at_a_source_is_added_up_by_the_minute_and_read_back_in_steps() {
    let given = Given::new().await;
    let (one, other) = (SourceId::from_uuid(super::given::id()), SourceId::from_uuid(super::given::id()));
    let first = minute_of(NOW - Duration::from_micros(NOW.as_micros().rem_euclid(900_000_000).unsigned_abs()));
    let at = |minutes: u64| first + Duration::from_secs(minutes * 60);
    given
        .store
        .add_source_tallies(vec![source_tally(one, at(0), 1), source_tally(one, at(14), 2), source_tally(other, at(0), 9)])
        .await
        .unwrap();
    given.store.add_source_tallies(vec![source_tally(one, at(0), 3), source_tally(one, at(15), 4)]).await.unwrap();
    let given = given.reopened().await;
    let minute = Duration::from_secs(60);
    let minutes = given.store.source_statistics(one, at(0), at(60), minute).await.unwrap();
    let mut first_minute = source_tally(one, at(0), 1);
    first_minute.statistics.merge(&source_tally(one, at(0), 3).statistics);
    assert_eq!(minutes, [first_minute.clone(), source_tally(one, at(14), 2), source_tally(one, at(15), 4)]);
    let mut quarter = first_minute.clone();
    quarter.statistics.merge(&source_tally(one, at(14), 2).statistics);
    assert_eq!(given.store.source_statistics(one, at(0), at(60), 15 * minute).await.unwrap(), [quarter, source_tally(one, at(15), 4)]);
    // Minutes that are only touched count, and others do not.
    let second = Duration::from_secs(1);
    let touched = given.store.source_statistics(one, at(0) + second, at(14) + second, minute).await.unwrap();
    assert_eq!(touched, [first_minute, source_tally(one, at(14), 2)]);
    assert_eq!(given.store.source_statistics(one, at(1), at(14), minute).await.unwrap(), []);
    assert_eq!(given.store.source_statistics(other, at(0), at(60), minute).await.unwrap().len(), 1);
}

#[tokio::test]
async fn statistics_of_sources_go_by_their_minute() {
    let given = Given::new().await;
    let sources = [(); 2].map(|()| SourceId::from_uuid(super::given::id()));
    let at = |minutes: u64| minute_of(NOW) + Duration::from_secs(minutes * 60);
    let tallies = sources.iter().flat_map(|source| (0..5).map(|minute| source_tally(*source, at(minute), 1))).collect();
    given.store.add_source_tallies(tallies).await.unwrap();
    assert_eq!(given.purge_in_steps(RetentionClass::SourceRollups, at(3), 2).await.0, 6);
    for source in sources {
        let left = given.store.source_statistics(source, at(0), at(60), Duration::from_secs(60)).await.unwrap();
        assert_eq!(left.iter().map(|tally| tally.minute).collect::<Vec<_>>(), [at(3), at(4)]);
    }
}
