//! How endpoints and organizations are held back: what they are made with, and what their owners choose later. Pure chance, from the dice.

use everhook_core::{
    manage::endpoints::BreakerInput,
    model::{OrderingKey, OrderingMode},
};

use super::settings::{Limits, Order, Rate};
use crate::dice::Dice;

/// Rates that a run notices: it publishes some hundred events in an hour.
const RATES: [Rate; 4] =
    [Rate { requests: 2, burst: 1 }, Rate { requests: 6, burst: 3 }, Rate { requests: 30, burst: 1 }, Rate { requests: 120, burst: 10 }];

/// How many requests an organization may start a minute. Its burst is one in a hundred, at least 1.
const ORGANIZATION_RATES: [u32; 4] = [10, 30, 100, 600];

/// For how long a breaker is forced, at most.
const FORCED_SECONDS_MAX: u64 = 900;

pub(super) fn some_ordering(dice: &Dice) -> OrderingMode {
    match dice.below(12) {
        0..4 => OrderingMode::None,
        4..7 => OrderingMode::PerEventType,
        7..9 => OrderingMode::PerKey,
        _ => OrderingMode::Strict,
    }
}

/// Few, so that events of one key meet.
pub(super) fn some_ordering_key(dice: &Dice) -> OrderingKey {
    OrderingKey::parse(&format!("customer-{}", dice.below(4))).expect("a good key")
}

/// Mostly none.
pub(super) fn some_rate(dice: &Dice) -> Option<Rate> {
    (dice.below(3) == 0).then(|| RATES[dice.below(RATES.len() as u64) as usize])
}

/// Mostly none.
pub(super) fn some_limits(dice: &Dice) -> Limits {
    let requests = ORGANIZATION_RATES[dice.below(ORGANIZATION_RATES.len() as u64) as usize];
    Limits {
        rate: (dice.below(3) == 0).then_some(Rate { requests, burst: (requests / 100).max(1) }),
        concurrency: (dice.below(3) == 0).then_some(1 + dice.below(4) as u32),
    }
}

/// The default, which few endpoints of a run get enough requests for, one that opens soon, or none.
pub(super) fn some_breaker(dice: &Dice) -> BreakerInput {
    let sleep = std::time::Duration::from_secs(2 + dice.below(60));
    let probes = 1 + dice.below(4) as u32;
    let tight = BreakerInput { sleep: Some(sleep), sleep_max: Some(sleep * 4), half_open_max_calls: Some(probes), ..Default::default() };
    match dice.below(6) {
        0..2 => BreakerInput::default(),
        2..4 => {
            BreakerInput { minimum_throughput: Some(2 + dice.below(4) as u32), window: Some(std::time::Duration::from_secs(300)), ..tight }
        }
        4 => BreakerInput {
            rule: Some("consecutive".to_owned()),
            failure_threshold: Some(1 + dice.below(3) as u32),
            success_threshold: Some(1 + dice.below(3) as u32),
            ..tight
        },
        _ => BreakerInput { enabled: Some(false), ..Default::default() },
    }
}

pub(super) fn some_order(dice: &Dice) -> Order {
    let seconds = (dice.below(4) != 0).then(|| 1 + dice.below(FORCED_SECONDS_MAX));
    match dice.below(4) {
        0 => Order::Reset,
        1 => Order::ForceClose(seconds),
        _ => Order::ForceOpen(seconds),
    }
}
