//! What statistics say of weeks, by retry schedule, event type and lane, and that none of it is lost or counted twice when the store is away.

use std::time::Duration;

use everhook_core::{
    ids::LaneId,
    manage::{
        Change,
        schedules::{self, Intervals, ScheduleChange},
    },
    model::{AttemptStatistics, Breakdown, DeliveryEnd, EventType, OrganizationSchedule},
    ports::ScheduleRef,
};
use everhook_testbed::{Answer, World, faults::Kind, hours, mins, secs, world::BEGINNING};

async fn schedule(world: &World, name: &str, delays: &[f64]) -> OrganizationSchedule {
    let asked = ScheduleChange {
        name: Change::Set(name.to_owned()),
        intervals: Change::Set(Intervals::List(delays.to_vec())),
        max_attempts: Change::Set(delays.len() as u64 + 1),
        jitter: Change::Set(0.0),
        ..ScheduleChange::default()
    };
    schedules::create(world.line(), &world.author(), asked).await.expect("the schedule is made")
}

async fn statistics(world: &World, lane: LaneId, window: Duration) -> AttemptStatistics {
    let now = world.line().ports.clock.now();
    world.line().ports.statistics.attempt_statistics(lane, now - window, now).await.expect("the statistics are read")
}

async fn of(world: &World, part: Breakdown, window: Duration) -> AttemptStatistics {
    statistics(world, part.lane(world.organization), window).await
}

fn ends(statistics: &AttemptStatistics) -> [u32; 4] {
    DeliveryEnd::ALL.map(|end| statistics.deliveries[end])
}

#[tokio::test]
async fn a_schedule_shows_what_its_retries_are_worth_whatever_version_deliveries_have() {
    // Given a schedule of two retries, and endpoints that answer well at once, after a retry, after two, and never.
    let mut world = World::new().await;
    let patient = schedule(&world, "mine", &[60.0, 3_600.0]).await;
    let fails = |times: usize| vec![Answer::Status(503); times];
    for (event_type, failures) in [("at.once", 0), ("after.one", 1), ("after.two", 2)] {
        world.endpoint().wanting(event_type).answering_in_turn(fails(failures)).following(&patient).create().await;
    }
    world.endpoint().wanting("never").answering(503).following(&patient).create().await;
    world.endpoint().wanting("at.once").create().await;
    // When two events of the first kind and one of each other are published, and the schedule is changed before the last.
    for event_type in ["at.once", "after.one", "after.two", "never"] {
        world.event(event_type).publish().await;
    }
    world.pass(hours(3)).await;
    let one_retry =
        ScheduleChange { intervals: Change::Set(Intervals::List(vec![60.0])), max_attempts: Change::Set(2), ..ScheduleChange::default() };
    schedules::change(world.line(), &world.author(), &ScheduleRef::Id(patient.id), one_retry).await.unwrap();
    world.event("at.once").publish().await;
    world.pass(mins(5)).await;
    // Then it was worth a retry for one of five, two for another, and nothing for the last.
    let mine = of(&world, Breakdown::RetrySchedule(patient.policy.name.clone()), hours(24)).await;
    assert_eq!((ends(&mine), mine.total(), mine.successes), ([2, 1, 1, 1], 2 + 2 + 3 + 3, 4));
    assert_eq!(mine.deliveries.rate(DeliveryEnd::FirstAttempt), Some(40.0));
    let at_once = of(&world, Breakdown::EventType(EventType::parse("at.once").unwrap()), hours(24)).await;
    assert_eq!((ends(&at_once), at_once.total()), ([4, 0, 0, 0], 4));
    let never = of(&world, Breakdown::EventType(EventType::parse("never").unwrap()), hours(24)).await;
    assert_eq!((ends(&never), never.total()), ([0, 0, 0, 1], 3));
    // And the operational event of the death is not among the published ones, but among all of the organization.
    assert_eq!(ends(&statistics(&world, world.organization.into(), hours(24)).await), [4, 1, 1, 1]);
    world.end().await;
}

#[tokio::test]
async fn weeks_of_deliveries_add_up_over_restarts_and_failures_of_the_store() {
    // Given an endpoint that gets an event every few hours for ten days, a crash now and then, and a store that sometimes takes nothing.
    let mut world = World::new().await;
    let endpoint = world.endpoint().wanting("order.paid").create().await;
    for n in 0..40_u32 {
        world.event("order.paid").publish().await;
        world.pass(Duration::from_millis(900)).await;
        if n % 5 == 3 {
            // Statistics are written about now.
            world.faults.plan(n % 3, Kind::Before);
        }
        world.pass(secs(10)).await;
        world.faults.forget();
        if n % 10 == 9 {
            world.stop_within(secs(1)).await;
            world.start_again();
        }
        world.pass(hours(6) + mins(n.into())).await;
    }
    // Then each was counted once, in its lane and among its type, whatever is asked for.
    let part = Breakdown::EventType(EventType::parse("order.paid").unwrap());
    for lane in [LaneId::from(endpoint.id), part.lane(world.organization), world.organization.into()] {
        assert_eq!(statistics(&world, lane, hours(24 * 20)).await.total(), 40, "{lane}");
        assert_eq!(ends(&statistics(&world, lane, hours(24 * 20)).await), [40, 0, 0, 0]);
    }
    let arrivals = world.arrivals_at(&endpoint);
    let age = world.line().ports.clock.now().since(BEGINNING);
    for window in [hours(1), hours(7), hours(24), hours(24 * 3), hours(24 * 7)] {
        let since = age - window;
        let expected = arrivals.iter().filter(|at| **at >= since).count() as u64;
        assert_eq!(statistics(&world, endpoint.id.into(), window).await.total(), expected, "{window:?}");
    }
    world.end().await;
}
