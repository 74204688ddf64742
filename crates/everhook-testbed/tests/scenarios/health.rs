//! What people see of an endpoint and what they can do about it, while time passes.

use std::time::Duration;

use everhook_core::{
    ids::Ref,
    manage::{
        Change,
        endpoints::{self, BreakerOrder, EndpointChange, Health, HealthStatus},
    },
    model::{BreakerState, DisabledReason, EndpointState, FailureCategory},
    policy::{address::AddressRules, blocked::blocked, target::TargetRules},
    ports::Clock,
    time::Timestamp,
};
use everhook_testbed::{Answer, World, faults::Kind, hours, mins, secs, world::Receiver};

async fn health(world: &World, receiver: &Receiver) -> Health {
    endpoints::health(world.line(), world.organization, &Ref::Id(receiver.id)).await.expect("the endpoint is there")
}

async fn order(world: &World, receiver: &Receiver, action: &str, duration_seconds: Option<i64>) {
    let order = BreakerOrder { action: action.to_owned(), duration_seconds };
    endpoints::command_breaker(world.line(), &world.author(), &Ref::Id(receiver.id), order).await.expect("the breaker obeys");
}

async fn publish(world: &World, events: usize) {
    for _ in 0..events {
        world.event("order.paid").publish().await;
    }
}

#[tokio::test]
async fn attempts_are_added_up_within_a_second() {
    let mut world = World::new().await;
    let answers = [Answer::Status(500), Answer::Hangs, Answer::Slow(200, secs(2))];
    let endpoint = world.endpoint().answering_in_turn(answers).taking_at_once(1).create().await;
    publish(&world, 3).await;
    world.pass(secs(25)).await;
    let health = health(&world, &endpoint).await;
    let statistics = &health.statistics;
    assert_eq!((statistics.total(), statistics.successes), (5, 3));
    assert_eq!((statistics.failures[FailureCategory::ServerError], statistics.failures[FailureCategory::Timeout]), (1, 1));
    assert_eq!(statistics.duration_sum, secs(15 + 2));
    assert_eq!((health.status, health.activity.consecutive_failures), (HealthStatus::Healthy, 0));
    world.pass(hours(25)).await;
    assert_eq!(self::health(&world, &endpoint).await.statistics.total(), 0, "a day later it is over");
}

#[tokio::test]
async fn a_graceful_stop_loses_no_figure_and_a_crash_at_most_the_last_second() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    publish(&world, 7).await;
    world.settle_down().await;
    world.stop_within(secs(30)).await;
    world.start_again();
    assert_eq!(health(&world, &endpoint).await.statistics.total(), 7);
    publish(&world, 5).await;
    world.pass(secs(2)).await;
    publish(&world, 3).await;
    // Long enough for outcomes to be written, too short for statistics.
    world.pass(Duration::from_millis(100)).await;
    world.crash().await;
    world.pass(secs(2)).await;
    assert_eq!(health(&world, &endpoint).await.statistics.total(), 12);
    assert_eq!(world.arrivals_of(&endpoint).len(), 15, "every delivery was made all the same, and once");
}

#[tokio::test]
async fn statistics_that_could_not_be_written_are_added_with_the_next() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    publish(&world, 3).await;
    world.pass(Duration::from_millis(900)).await;
    world.faults.plan(0, Kind::Before);
    world.pass(Duration::from_millis(200)).await;
    assert!(world.faults.has_struck());
    publish(&world, 2).await;
    world.pass(secs(3)).await;
    assert_eq!(health(&world, &endpoint).await.statistics.total(), 5);
}

#[tokio::test]
async fn statistics_are_kept_by_the_minute() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    for minute in 1..=4_usize {
        publish(&world, minute).await;
        world.pass(mins(1)).await;
    }
    let beginning = everhook_testbed::world::BEGINNING;
    let line = world.line().clone();
    let total = async |from: Timestamp, to: Timestamp| {
        line.ports.statistics.attempt_statistics(endpoint.id.into(), from, to).await.expect("the store answers").total()
    };
    assert_eq!(total(beginning, beginning + mins(4)).await, 1 + 2 + 3 + 4);
    assert_eq!(total(beginning + mins(1), beginning + mins(3)).await, 2 + 3);
    assert_eq!(total(beginning + mins(1), beginning + mins(1) + secs(1)).await, 2, "a minute that is touched counts");
}

#[tokio::test]
async fn a_breaker_that_is_forced_open_holds_everything_until_it_is_reset() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    publish(&world, 1).await;
    world.settle_down().await;
    order(&world, &endpoint, "force_open", None).await;
    world.settle_down().await;
    publish(&world, 10).await;
    world.pass(hours(30)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 1);
    let seen = health(&world, &endpoint).await;
    assert_eq!((seen.status, seen.breaker.state), (HealthStatus::Failing, BreakerState::Open));
    // Also over a crash.
    world.crash().await;
    world.pass(mins(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 1);
    order(&world, &endpoint, "reset", None).await;
    world.pass(secs(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 11);
    assert_eq!(health(&world, &endpoint).await.status, HealthStatus::Healthy);
    assert_eq!(world.operational_types().await, ["circuit.opened", "circuit.closed"]);
}

#[tokio::test]
async fn a_breaker_that_is_forced_for_a_time_decides_again_afterwards() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    order(&world, &endpoint, "force_open", Some(60)).await;
    publish(&world, 3).await;
    world.pass(secs(59)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 0);
    world.pass(secs(2)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 3);
    // Forced closed, it lets an endpoint fail.
    world.network.script(&endpoint.url, [], Answer::Status(500));
    order(&world, &endpoint, "force_close", Some(60)).await;
    world.settle_down().await;
    publish(&world, 50).await;
    world.pass(secs(2)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 53);
    assert_eq!(health(&world, &endpoint).await.breaker.state, BreakerState::Closed);
}

#[tokio::test]
async fn a_delivery_shows_each_time_that_the_breaker_kept_it() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    order(&world, &endpoint, "force_open", Some(60)).await;
    publish(&world, 1).await;
    world.pass(mins(5)).await;
    let id = world.deliveries().await[0].id;
    let (delivery, attempts) = world.delivery(id).await;
    assert_eq!(attempts.iter().map(|attempt| attempt.breaker).collect::<Vec<_>>(), [BreakerState::HalfOpen]);
    let line = world.line().clone();
    let periods = line.ports.breakers.open_periods(endpoint.id.into(), delivery.created_at, 10).await.expect("the store answers");
    let notes = blocked(&delivery, &attempts, &periods, world.clock.now());
    assert_eq!(notes.iter().map(|note| (note.attempt_number, note.at)).collect::<Vec<_>>(), [(1, delivery.created_at)]);
    assert_eq!(delivery.attempts, 1, "a note is no attempt");
}

#[tokio::test]
async fn a_paused_endpoint_is_resumed_at_the_rate_that_is_asked_for() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    let of = Ref::Id(endpoint.id);
    endpoints::pause(world.line(), &world.author(), &of).await.expect("it is there");
    world.settle_down().await;
    publish(&world, 40).await;
    world.pass(hours(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 0);
    assert_eq!(health(&world, &endpoint).await.status, HealthStatus::Paused);
    endpoints::resume(world.line(), &world.author(), &of, Some(2)).await.expect("it is there");
    world.pass(secs(10)).await;
    let arrived = world.arrivals_of(&endpoint).len();
    assert!((19..=22).contains(&arrived), "{arrived} in ten seconds");
    world.pass(secs(15)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 40);
    // What gathered is sent, and the rate is forgotten.
    let found = endpoints::find(world.line(), world.organization, &of).await.expect("it is there");
    assert_eq!((found.drain, found.paused_at), (None, None));
}

#[tokio::test]
async fn enabling_again_resets_the_breaker_and_the_failures() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().answering(500).create().await;
    publish(&world, 30).await;
    world.pass(secs(3)).await;
    let seen = health(&world, &endpoint).await;
    assert_eq!(seen.breaker.state, BreakerState::Open);
    assert!(seen.activity.consecutive_failures >= 20 && seen.activity.first_failure_at.is_some());
    let now = world.clock.now();
    world.set_state(&endpoint, EndpointState::Disabled { at: now, reason: DisabledReason::ByOwner }).await;
    world.pass(secs(2)).await;
    world.network.script(&endpoint.url, [], Answer::Status(200));
    let found = endpoints::find(world.line(), world.organization, &Ref::Id(endpoint.id)).await.expect("it is there");
    let rules = TargetRules { allow_http: false, allow_amqp: false, addresses: AddressRules::public_only() };
    let asked = EndpointChange { enabled: Change::Set(true), ..EndpointChange::default() };
    endpoints::change(world.line(), &rules, &world.author(), found, asked).await.expect("it can be enabled");
    let seen = health(&world, &endpoint).await;
    assert_eq!((seen.status, seen.breaker.state), (HealthStatus::Healthy, BreakerState::Closed));
    assert_eq!((seen.activity.consecutive_failures, seen.activity.first_failure_at), (0, None));
    let before = world.arrivals_of(&endpoint).len();
    publish(&world, 1).await;
    world.settle_down().await;
    assert_eq!(world.arrivals_of(&endpoint).len(), before + 1);
    world.pass(secs(1)).await;
}
