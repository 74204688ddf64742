//! Evaluates alert rules, for ever: what they measure is read, and what changed is kept and reported.
//!
//! Started by the supervisor; where nodes share a store, the node whose duty it is does it. It keeps the last minutes of what happened in memory, and reads
//! them again when it begins. What follows from a value is decided in `policy::alerts`, and each report is recorded in the write that changes the alert.
//!
//! An evaluation costs as much as lanes had attempts in the last minutes, and as much as is out of order: an endpoint without attempts costs nothing.

mod evaluation;
mod rules;
mod watched;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;

use self::watched::Watched;
use crate::{
    line::{Line, alert::publish_pending},
    model::Duty,
    ports::StoreError,
    time::Timestamp,
};

/// How long before an evaluation that failed is made again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long alerts that are over are kept: what is asked of them is how often they fired last week.
const OVER_KEPT_FOR: Duration = Duration::from_secs(30 * 86_400);

/// How often, and how many at a time, those are forgotten that are older.
const FORGET_INTERVAL: Duration = Duration::from_secs(3_600);
const FORGOTTEN_AT_ONCE: u32 = 500;

/// Evaluates for ever. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    let clock = line.ports.clock.clone();
    let (mut watched, mut may_have_unpublished) = (Watched::default(), false);
    let mut forget_at = clock.now() + FORGET_INTERVAL;
    loop {
        let delay = if may_have_unpublished { RETRY_DELAY } else { line.alert_interval };
        clock.sleep_until(clock.now() + delay).await;
        let now = clock.now();
        if !line.held_lease.does(Duty::AlertRules) {
            // Another node counts from here on.
            (watched, may_have_unpublished) = (Watched::default(), false);
            continue;
        }
        let evaluated = AssertUnwindSafe(evaluate(&line, &mut watched, may_have_unpublished, now)).catch_unwind().await;
        may_have_unpublished = match evaluated {
            Ok(Ok(())) => false,
            Ok(Err(error)) => {
                line.log_delay("evaluating alert rules", &error);
                // Something may have been kept before it failed.
                true
            }
            Err(_) => {
                tracing::error!("panic while evaluating alert rules; they are evaluated again");
                watched = Watched::default();
                false
            }
        };
        if now >= forget_at {
            forget_at = now + FORGET_INTERVAL;
            forget(&line, now).await;
        }
    }
}

async fn evaluate(line: &Line, watched: &mut Watched, may_have_unpublished: bool, now: Timestamp) -> Result<(), StoreError> {
    let is_reported = evaluation::evaluate(line, watched, now).await?;
    // Otherwise they would wait for the next settlement.
    if is_reported || may_have_unpublished { publish_pending(line).await } else { Ok(()) }
}

/// Forgets alerts that have been over for long, a little at a time.
async fn forget(line: &Line, now: Timestamp) {
    while line.held_lease.does(Duty::AlertRules) {
        match line.ports.alerts.forget_alerts(now - OVER_KEPT_FOR, FORGOTTEN_AT_ONCE).await {
            Ok(FORGOTTEN_AT_ONCE) => {}
            Ok(_) => return,
            Err(error) => return line.log_delay("forgetting alerts that are over", &error),
        }
    }
}
