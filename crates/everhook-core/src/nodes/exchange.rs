//! Asks the counters that nodes share for what this node misses, and gives back what it does not use: one task, beside the owner of the lanes.
//!
//! Started by the supervisor where nodes share a store. Nothing waits for it but a publisher whose organization has nothing in hand, and that briefly. While
//! nobody misses anything it asks nothing.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;

use crate::{
    line::Line,
    ports::{Ask, Grant, StoreError},
    time::{Timestamp, millis},
};

/// How long counters may take to answer before they count as away. Then nobody is held back by them.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long counters that are away are left alone before they are asked again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// The least time from one exchange to the next: what is missed meanwhile is asked for together.
const GATHER_FOR: Duration = Duration::from_millis(5);

/// Exchanges for ever.
pub(crate) async fn run(line: Arc<Line>) {
    let clock = line.ports.clock.clone();
    let mut away_since = None;
    loop {
        await_need(&line).await;
        let now = clock.now();
        let asks = line.budgets.asks(now);
        if asks.is_empty() {
            clock.sleep_until(now + GATHER_FOR).await;
            continue;
        }
        match ask(&line, asks.clone()).await {
            Ok(grants) => {
                line.budgets.granted(&asks, &grants, clock.now(), || line.ports.entropy.unit());
                note_return(&mut away_since, clock.now());
                clock.sleep_until(clock.now() + GATHER_FOR).await;
            }
            Err(error) => {
                line.budgets.failed();
                note_failure(&mut away_since, &error, now);
                clock.sleep_until(clock.now() + RETRY_DELAY).await;
            }
        }
    }
}

/// Gives back what is in hand, so that others need not wait until it expires.
pub(crate) async fn hand_back(line: &Line) {
    let asks = line.budgets.give_up();
    if !asks.is_empty()
        && let Err(error) = ask(line, asks).await
    {
        tracing::debug!(error = &error as &dyn std::error::Error, "cannot return this node's share of limits; it expires on its own");
    }
}

/// Returns once something is to be asked for.
async fn await_need(line: &Line) {
    let clock = &line.ports.clock;
    loop {
        match line.budgets.ask_at(clock.now()) {
            Some(at) if at <= clock.now() => return,
            Some(at) => tokio::select! {
                // In order, not by chance: a seed must give the same run again.
                biased;
                () = line.budgets.rung() => {}
                () = clock.sleep_until(at) => {}
            },
            None => line.budgets.rung().await,
        }
    }
}

async fn ask(line: &Line, asks: Vec<Ask>) -> Result<Vec<Grant>, StoreError> {
    let clock = &line.ports.clock;
    let count = asks.len();
    tokio::select! {
        biased;
        answer = AssertUnwindSafe(line.ports.throttle.exchange(asks)).catch_unwind() => match answer {
            Ok(Ok(grants)) if grants.len() == count => Ok(grants),
            Ok(Ok(_)) => Err(StoreError::corrupt("not every ask was answered")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StoreError::unavailable("the exchange panicked")),
        },
        () = clock.sleep_until(clock.now() + PATIENCE) => Err(StoreError::unavailable("no answer in time")),
    }
}

fn note_failure(away_since: &mut Option<Timestamp>, error: &StoreError, now: Timestamp) {
    if away_since.is_none() {
        *away_since = Some(now);
        let error = error as &dyn std::error::Error;
        tracing::warn!(error, "the shared counters of limits are unavailable; each node applies the whole limit on its own");
    }
}

fn note_return(away_since: &mut Option<Timestamp>, now: Timestamp) {
    if let Some(since) = away_since.take() {
        let away_ms = millis(now.since(since));
        tracing::info!(away_ms, "the shared counters of limits are available again after {away_ms} ms");
    }
}
