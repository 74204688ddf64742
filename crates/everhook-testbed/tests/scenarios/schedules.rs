//! Retry schedules that are changed or deleted while deliveries are under way.

use everhook_core::{
    manage::{
        Change,
        schedules::{self, Intervals, ScheduleChange},
    },
    model::OrganizationSchedule,
    ports::ScheduleRef,
};
use everhook_testbed::{World, hours, mins, secs};

/// A schedule without jitter that waits as often as there are delays.
fn asking(name: &str, delays: &[f64]) -> ScheduleChange {
    ScheduleChange {
        name: Change::Set(name.to_owned()),
        intervals: Change::Set(Intervals::List(delays.to_vec())),
        max_attempts: Change::Set(delays.len() as u64 + 1),
        jitter: Change::Set(0.0),
        ..ScheduleChange::default()
    }
}

async fn schedule(world: &World, delays: &[f64]) -> OrganizationSchedule {
    schedules::create(world.line(), &world.author(), asking("mine", delays)).await.expect("the schedule is made")
}

#[tokio::test]
async fn changing_a_schedule_changes_nothing_under_way() {
    // Given a delivery that has failed once under a schedule of two retries.
    let mut world = World::new().await;
    let schedule = schedule(&world, &[60.0, 120.0]).await;
    let endpoint = world.endpoint().answering(500).following(&schedule).create().await;
    let before = world.event("order.paid").publish().await;
    world.pass(secs(10)).await;
    // When the schedule is changed to one retry after an hour, and another event is published.
    let of = ScheduleRef::Id(schedule.id);
    schedules::change(world.line(), &world.author(), &of, asking("mine", &[3_600.0])).await.unwrap();
    let after = world.event("order.paid").publish().await;
    world.pass(hours(2)).await;
    // Then the first keeps to what it was made with, also over a restart, and the second to the change.
    let arrivals: Vec<_> = world.arrivals_of(&endpoint).iter().map(|arrival| arrival.event == before.event.to_string()).collect();
    assert_eq!(arrivals, [true, false, true, true, false]);
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(10), secs(60), secs(180), secs(3_610)]);
    for event in [before, after] {
        assert_eq!(world.stages(event.event).await, ["dead: retries_exhausted"]);
    }
    world.end().await;
}

#[tokio::test]
async fn deleting_a_schedule_changes_nothing_under_way_either_also_after_a_restart() {
    let mut world = World::new().await;
    let schedule = schedule(&world, &[60.0, 120.0]).await;
    let endpoint = world.endpoint().answering(500).following(&schedule).create().await;
    world.event("order.paid").publish().await;
    world.pass(secs(10)).await;
    schedules::delete(world.line(), &world.author(), &ScheduleRef::Id(schedule.id), Some("default")).await.unwrap();
    world.crash().await;
    world.pass(mins(10)).await;
    assert_eq!(world.arrivals_at(&endpoint), [secs(0), secs(60), secs(180)]);
    // What is published now follows the heir.
    world.event("order.paid").publish().await;
    world.pass(secs(2)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 4);
    let found = world.line().ports.endpoints.endpoint(world.organization, &everhook_core::ids::Ref::Id(endpoint.id)).await;
    assert_eq!(found.unwrap().unwrap().follows, None);
}
