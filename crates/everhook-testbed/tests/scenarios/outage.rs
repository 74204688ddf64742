//! What `everhook simulate` predicts of an outage is what the engine makes of it.

use std::{collections::BTreeMap, time::Duration};

use everhook_core::{
    model::{BreakerConfig, Jitter, RetrySchedule},
    policy::{
        outage::{Outage, OutageOutcome, simulate},
        presets,
    },
    ports::Clock as _,
};
use everhook_testbed::{Answer, World, mins, secs};

const DOWN_FOR: Duration = mins(5);
const EVENTS_PER_SECOND: u32 = 1;
/// Slow enough that the five slots of the endpoint bound how quickly what waited is delivered.
const SLOW: Duration = Duration::from_millis(900);
/// How far the prediction may be off: requests that are under way at once are counted by a breaker in another order.
const TOLERANCE: f64 = 0.05;

/// What became of the events that were published in the outage.
#[derive(Debug)]
struct Life {
    attempts_in_vain: u64,
    dead: u64,
    late_p50: Duration,
    late_max: Duration,
}

#[tokio::test]
async fn a_predicted_outage_is_what_the_engine_makes_of_it() {
    for (preset, response_time) in
        [("standard", Duration::ZERO), ("backoff", Duration::ZERO), ("relay", Duration::ZERO), ("standard", SLOW)]
    {
        let schedule = RetrySchedule { jitter: Jitter::Share(0.0), ..presets::preset(preset).unwrap() };
        for enabled in [true, false] {
            let breaker = BreakerConfig { enabled, ..BreakerConfig::window() };
            let outage =
                Outage { schedule: &schedule, breaker, down_for: DOWN_FOR, events_per_second: f64::from(EVENTS_PER_SECOND), response_time };
            let predicted = simulate(&outage, || 0.5);
            let lived = live_through(&schedule, enabled, response_time).await;
            assert_alike(&format!("{preset}, breaker {enabled}, {response_time:?}"), &predicted, &lived);
        }
    }
}

/// The same outage, with the real engine: events come before it, in it and after it.
async fn live_through(schedule: &RetrySchedule, has_breaker: bool, response_time: Duration) -> Life {
    let answer = |status| if response_time.is_zero() { Answer::Status(status) } else { Answer::Slow(status, response_time) };
    let mut world = World::new().await;
    let builder = world.endpoint().retrying_by(schedule);
    let endpoint = if has_breaker { builder.create().await } else { builder.without_breaker().create().await };
    publish_for(&mut world, secs(60)).await;
    world.network.script(&endpoint.url, [], answer(503));
    let published = publish_for(&mut world, DOWN_FOR).await;
    world.network.script(&endpoint.url, [], answer(200));
    world.pass(mins(30)).await;
    let arrivals = world.arrivals_of(&endpoint);
    let of_outage = |event: &str| published.get(event).copied();
    let in_vain = arrivals.iter().filter(|arrival| of_outage(&arrival.event).is_some() && arrival.answer == answer(503)).count();
    let taken = arrivals.iter().filter(|arrival| arrival.answer == answer(200));
    let mut late: Vec<Duration> = taken.filter_map(|arrival| Some(arrival.at.since(of_outage(&arrival.event)?))).collect();
    late.sort_unstable();
    let delivered = late.len();
    Life {
        attempts_in_vain: in_vain as u64,
        dead: (published.len() - delivered) as u64,
        late_p50: late.get(delivered / 2).copied().unwrap_or_default(),
        late_max: late.last().copied().unwrap_or_default(),
    }
}

/// Publishes evenly for so long. Says when each event was.
async fn publish_for(world: &mut World, span: Duration) -> BTreeMap<String, everhook_core::time::Timestamp> {
    let mut published = BTreeMap::new();
    for _ in 0..span.as_secs() * u64::from(EVENTS_PER_SECOND) {
        let at = world.clock.now();
        published.insert(world.event("order.paid").publish().await.event.to_string(), at);
        world.pass(secs(1) / EVENTS_PER_SECOND).await;
    }
    published
}

fn assert_alike(case: &str, predicted: &OutageOutcome, lived: &Life) {
    let late = predicted.lateness;
    let pairs = [
        ("attempts in vain", predicted.attempts_in_vain as f64, lived.attempts_in_vain as f64),
        ("dead", predicted.dead as f64, lived.dead as f64),
        ("late by (half)", late.map_or(0.0, |late| late.p50.as_secs_f64()), lived.late_p50.as_secs_f64()),
        ("late by (all)", late.map_or(0.0, |late| late.max.as_secs_f64()), lived.late_max.as_secs_f64()),
    ];
    for (what, predicted, lived) in pairs {
        let is_alike = (predicted - lived).abs() <= TOLERANCE * lived.max(predicted) + 1.0;
        assert!(is_alike, "{case}: {what}: predicted {predicted}, and it was {lived}");
    }
}
