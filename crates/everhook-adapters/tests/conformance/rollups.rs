//! Minutes, hours and days say the same as one look at everything that happened, whenever it came, and parts of organizations are counted as lanes are.

use std::{sync::Arc, time::Duration};

use everhook_core::{
    ids::{EndpointId, LaneId, SourceId},
    model::{
        AttemptStatistics, Breakdown, BreakdownKind, BreakdownTally, EventType, FailingRule, RetentionClass, ScheduleName, Tally, minute_of,
    },
    time::Timestamp,
};

use super::given::{Given, NOW, failure, success};

const MINUTE: Duration = Duration::from_secs(60);
const MINUTES_A_DAY: u64 = 1_440;

/// How many tallies a history has.
const TALLIES: usize = 600;
/// How many times are asked for.
const TIMES: usize = 300;
/// How many write at once.
const WRITERS: u64 = 24;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        // Knuth's generator; its upper bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The first instant of the day before [`NOW`].
fn day() -> Timestamp {
    let day = Duration::from_secs(MINUTES_A_DAY * 60);
    NOW - day - Duration::from_micros(NOW.as_micros().rem_euclid(86_400_000_000).unsigned_abs())
}

fn at(minutes: u64) -> Timestamp {
    day() + MINUTE * u32::try_from(minutes).unwrap()
}

/// What happened in a minute: so many successes, and a failure.
fn tally(lane_id: LaneId, minute: Timestamp, successes: u64) -> Tally {
    let mut tally = Tally::new(lane_id, minute_of(minute));
    (0..successes).for_each(|second| tally.add(&success(u32::try_from(second).unwrap() + 1), minute + Duration::from_secs(second)));
    tally.add(&failure(1), minute + Duration::from_secs(50));
    tally
}

/// What a look at everything says of a time, in the minutes that it touches.
fn by_looking_at_all(history: &[Tally], from: Timestamp, to: Timestamp) -> AttemptStatistics {
    let mut all = AttemptStatistics::default();
    let touched = history.iter().filter(|tally| tally.minute + MINUTE > from && tally.minute < to);
    touched.for_each(|tally| all.merge(&tally.statistics));
    all
}

/// A history of three days, mostly in order, in a few stretches with pauses between them.
fn history(lane_id: LaneId, dice: &mut Dice) -> Vec<Tally> {
    let mut minute = 30;
    let mut history = Vec::new();
    for _ in 0..TALLIES {
        minute += [0, 0, 1, 1, 1, 2, 7, 70][dice.below(8) as usize];
        // Another node is late, or could not write for a while.
        let late = if dice.below(6) == 0 { dice.below(200) } else { 0 };
        history.push(tally(lane_id, at(u64::saturating_sub(minute % (3 * MINUTES_A_DAY), late)), dice.below(4)));
    }
    history
}

#[tokio::test]
async fn any_time_of_any_history_adds_up_to_what_happened_in_it() {
    for seed in [1, 2, 3] {
        let given = Given::new().await;
        let mut dice = Dice(seed);
        let history = history(given.endpoint.into(), &mut dice);
        for some in history.chunks(7) {
            given.store.add(some.to_vec(), FailingRule::default()).await.unwrap();
        }
        let given = given.reopened().await;
        for _ in 0..TIMES {
            let from = at(0) + Duration::from_secs(dice.below(3 * MINUTES_A_DAY * 60));
            let lengths = [1, 60, 3_600, 86_400, 3 * 86_400][dice.below(5) as usize];
            let to = from + Duration::from_secs(dice.below(2 * lengths));
            let (from, to) = if dice.below(4) == 0 { (minute_of(from), minute_of(to)) } else { (from, to) };
            let expected = by_looking_at_all(&history, from, to);
            for lane in [LaneId::from(given.endpoint), given.application.into(), given.organization.into()] {
                let read = given.store.attempt_statistics(lane, from, to).await.unwrap();
                assert_eq!(read, expected, "seed {seed}, from {from} until {to}");
            }
        }
    }
}

#[tokio::test]
async fn edges_of_hours_and_days_count_on_one_side() {
    let given = Given::new().await;
    let minutes = [0, 59, 60, 119, 120, 1_379, 1_380, 1_439, 1_440, 1_441, 1_499, 1_500, 2_879, 2_880];
    let history: Vec<Tally> = minutes.iter().map(|minute| tally(given.endpoint.into(), at(*minute), 1)).collect();
    for tally in &history {
        given.store.add(vec![tally.clone()], FailingRule::default()).await.unwrap();
    }
    let edges = [0, 1, 59, 60, 61, 120, 1_380, 1_439, 1_440, 1_441, 1_500, 2_880, 2_881];
    for (from, to) in edges.iter().flat_map(|from| edges.iter().map(move |to| (at(*from), at(*to)))) {
        let read = given.store.attempt_statistics(given.endpoint.into(), from, to).await.unwrap();
        assert_eq!(read, by_looking_at_all(&history, from, to), "from {from} until {to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_add_at_once_each_is_counted_once() {
    let given = Given::new().await;
    let endpoints = [given.endpoint, given.another_endpoint().await];
    let tallies = |writer: u64| -> Vec<Tally> {
        // Each begins minutes that others are still adding to.
        (0..12)
            .flat_map(|round| endpoints.map(|endpoint: EndpointId| tally(endpoint.into(), at((writer * 5 + round * 3) % 130), 1)))
            .collect()
    };
    let add = |writer: u64| {
        let (store, tallies) = (Arc::clone(&given.store), tallies(writer));
        tokio::spawn(async move {
            for tally in tallies {
                store.add(vec![tally], FailingRule::default()).await.unwrap();
            }
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(add).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    // One that comes last folds what the others have left.
    given.store.add(vec![tally(given.endpoint.into(), at(140), 0)], FailingRule::default()).await.unwrap();
    let each = WRITERS * 12 * 2;
    for (lane, minutes, expected) in [
        (LaneId::from(given.organization), 130, 2 * each),
        (given.endpoint.into(), 130, each),
        (given.organization.into(), MINUTES_A_DAY, 2 * each + 1),
        (given.endpoint.into(), MINUTES_A_DAY, each + 1),
    ] {
        assert_eq!(given.store.attempt_statistics(lane, at(0), at(minutes)).await.unwrap().total(), expected);
    }
}

#[tokio::test]
async fn hours_and_days_go_once_they_are_over() {
    let given = Given::new().await;
    let add = async |minute| given.store.add(vec![tally(given.endpoint.into(), at(minute), 0)], FailingRule::default()).await.unwrap();
    for minute in [10, 70, 80, 1_450, 1_460] {
        add(minute).await;
    }
    let lane = LaneId::from(given.endpoint);
    let total = async || given.store.attempt_statistics(lane, at(0), at(3 * MINUTES_A_DAY)).await.unwrap().total();
    // Two minutes and an hour, of the endpoint, its application and its organization. The day is not over, and still has all of its minutes.
    assert_eq!(given.purge_in_steps(RetentionClass::Rollups, at(75), 2).await.0, 3 * 3);
    assert_eq!(total().await, 5);
    assert_eq!(given.purge_in_steps(RetentionClass::Rollups, at(MINUTES_A_DAY), 4).await.0, 3 * 3);
    assert_eq!(total().await, 2);
    // The newest minute is in no hour and no day until another begins.
    assert_eq!(given.purge(RetentionClass::Rollups, at(3 * MINUTES_A_DAY)).await, 3 * 4);
    assert_eq!(total().await, 0);
}

fn part(given: &Given, of: Breakdown, minute: Timestamp, successes: u64) -> BreakdownTally {
    BreakdownTally { organization: given.organization, of, minute, statistics: tally(given.endpoint.into(), minute, successes).statistics }
}

fn event_type(n: u32) -> Breakdown {
    Breakdown::EventType(EventType::parse(&format!("type.{n}")).unwrap())
}

#[tokio::test]
async fn parts_of_an_organization_are_counted_apart_from_it_and_from_each_other() {
    let given = Given::new().await;
    let source = Breakdown::Source(SourceId::from_uuid(super::given::id()));
    let schedule = Breakdown::RetrySchedule(ScheduleName("patient".to_owned()));
    let parts = [(source.clone(), 1), (schedule.clone(), 2), (event_type(1), 3), (schedule.clone(), 2)];
    for minute in [1_439, 1_440] {
        let tallies = parts.iter().map(|(of, successes)| part(&given, of.clone(), at(minute), *successes)).collect();
        given.store.add_breakdowns(tallies).await.unwrap();
    }
    let given = given.reopened().await;
    for (of, total) in [(source, 4), (schedule.clone(), 12), (event_type(1), 8), (event_type(2), 0)] {
        let read = given.store.attempt_statistics(of.lane(given.organization), at(0), at(1_441)).await.unwrap();
        assert_eq!(read.total(), total, "{of:?}");
    }
    let mut expected = AttemptStatistics::default();
    (0..4).for_each(|n| expected.merge(&part(&given, schedule.clone(), at(if n < 2 { 1_439 } else { 1_440 }), 2).statistics));
    assert_eq!(given.store.attempt_statistics(schedule.lane(given.organization), at(0), at(2_000)).await.unwrap(), expected);
    assert_eq!(given.store.attempt_statistics(given.organization.into(), at(0), at(2_000)).await.unwrap().total(), 0);
    let stranger = everhook_core::ids::OrganizationId::from_uuid(super::given::id());
    assert_eq!(given.store.attempt_statistics(schedule.lane(stranger), at(0), at(2_000)).await.unwrap().total(), 0);
}

#[tokio::test]
async fn event_types_beyond_the_bound_are_counted_together_and_known_ones_still_apart() {
    let given = Given::new().await;
    let told_apart = BreakdownKind::EventType.told_apart_max().unwrap();
    for n in 0..told_apart + 7 {
        given.store.add_breakdowns(vec![part(&given, event_type(n), at(0), 0)]).await.unwrap();
    }
    let more = [0, told_apart + 1, told_apart + 2].map(|n| part(&given, event_type(n), at(1), 0));
    given.store.add_breakdowns(more.to_vec()).await.unwrap();
    let total = async |lane| given.store.attempt_statistics(lane, at(0), at(2)).await.unwrap().total();
    assert_eq!(total(event_type(0).lane(given.organization)).await, 2);
    assert_eq!(total(event_type(told_apart - 1).lane(given.organization)).await, 1);
    assert_eq!(total(event_type(told_apart).lane(given.organization)).await, 0);
    assert_eq!(total(BreakdownKind::EventType.others(given.organization)).await, 7 + 2);
    // Once their statistics are old, others may take their places.
    given.purge(RetentionClass::Rollups, at(2 * MINUTES_A_DAY)).await;
    given.another_endpoint().await;
    given.purge_in_steps(RetentionClass::DeletedEndpoints, at(2 * MINUTES_A_DAY), 100).await;
    given.store.add_breakdowns(vec![part(&given, event_type(told_apart), at(3), 0)]).await.unwrap();
    let read = given.store.attempt_statistics(event_type(told_apart).lane(given.organization), at(0), at(4)).await.unwrap();
    assert_eq!(read.total(), 1);
}
