//! Lanes: nobody waits for somebody else, and a backlog larger than memory's window is drained whole.

use everhook_core::model::Priority;
use everhook_testbed::{Answer, World, hours, mins, secs};

#[tokio::test]
async fn a_hanging_endpoint_costs_only_itself() {
    let mut world = World::new().await;
    let hanging = world.endpoint().always(Answer::Hangs).create().await;
    let healthy = world.endpoint().create().await;
    for _ in 0..50 {
        world.event("order.paid").publish().await;
    }
    world.settle_down().await;
    assert_eq!(world.arrivals_of(&healthy).len(), 50);
    assert_eq!(world.arrivals_of(&hanging).len(), 5);
    // It hangs still.
    world.leaves_work_over();
}

#[tokio::test]
async fn no_more_requests_are_under_way_than_the_endpoint_takes() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().always(Answer::Slow(200, secs(1))).taking_at_once(3).create().await;
    for _ in 0..10 {
        world.event("order.paid").publish().await;
    }
    world.pass(secs(20)).await;
    let at = world.arrivals_at(&endpoint);
    let expected: Vec<_> = [0, 0, 0, 1, 1, 1, 2, 2, 2, 3].map(secs).to_vec();
    assert_eq!(at, expected);
}

#[tokio::test]
async fn a_backlog_larger_than_the_window_is_delivered_whole_and_once() {
    // Given an endpoint that is slow to answer, and more events than its lane keeps in memory.
    let mut world = World::new().await;
    let endpoint = world.endpoint().always(Answer::Slow(200, secs(1))).taking_at_once(500).create().await;
    let mut events = Vec::new();
    for _ in 0..5_000 {
        events.push(world.event("order.paid").publish().await.event);
    }
    world.pass(hours(1)).await;
    // Then each arrived once.
    let mut arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().map(|arrival| arrival.event).collect();
    arrived.sort();
    let mut published: Vec<String> = events.iter().map(ToString::to_string).collect();
    published.sort();
    assert_eq!(arrived, published);
}

#[tokio::test]
async fn a_backlog_is_delivered_oldest_first() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().always(Answer::Slow(200, secs(1))).taking_at_once(1).create().await;
    let mut events = Vec::new();
    for _ in 0..30 {
        events.push(world.event("order.paid").publish().await.event.to_string());
    }
    world.pass(mins(5)).await;
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().map(|arrival| arrival.event).collect();
    assert_eq!(arrived, events);
}

#[tokio::test]
async fn low_priority_is_slow_under_pressure_and_never_starved() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().always(Answer::Slow(200, secs(1))).taking_at_once(1).create().await;
    let mut low = Vec::new();
    for n in 0..210 {
        let priority = if n % 2 == 0 { Priority::High } else { Priority::Low };
        let event = world.event("order.paid").priority(priority).publish().await;
        if priority == Priority::Low {
            low.push(event.event.to_string());
        }
    }
    world.pass(secs(84)).await;
    let arrived = world.arrivals_of(&endpoint);
    let low_arrived = arrived.iter().filter(|arrival| low.contains(&arrival.event)).count();
    assert!((4..=6).contains(&low_arrived), "{low_arrived} of {} were low", arrived.len());
    // The pressure has not ended.
    world.leaves_work_over();
}
