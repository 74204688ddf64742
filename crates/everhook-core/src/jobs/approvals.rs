//! Goes on with calls that people decide about: publishes what follows from decisions where a process ended before it had done so, and ends calls about
//! which nobody decided in time.
//!
//! Started by the supervisor, woken by the line's bell. Where nodes share a store, the node that has the duty of operations does it. It remembers nothing:
//! what is left to do is in the store, and done twice it is done once.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;

use crate::{
    line::{Line, alert},
    manage::approvals,
    model::Duty,
    ports::StoreError,
    time::Timestamp,
};

/// How long before what failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// How long the store is not asked at the most: where this node alone answers calls,
const LOOK_INTERVAL: Duration = Duration::from_secs(3_600);
/// and where other nodes do, whose bells are not heard here.
const LOOK_INTERVAL_SHARED: Duration = Duration::from_secs(30);

/// Goes on for ever. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    let mut is_rung = false;
    loop {
        let next = match AssertUnwindSafe(round(&line, is_rung)).catch_unwind().await {
            Ok(Ok(next)) => next,
            Ok(Err(error)) => {
                line.log_delay("processing decided and expired approvals", &error);
                line.ports.clock.now() + RETRY_DELAY
            }
            Err(_) => {
                tracing::error!("panic while processing decided and expired approvals; it is tried again");
                line.ports.clock.now() + RETRY_DELAY
            }
        };
        is_rung = tokio::select! {
            // In order, not by chance: a seed must give the same run again.
            biased;
            () = line.approvals_bell.notified() => true,
            () = line.ports.clock.sleep_until(next) => false,
        };
    }
}

/// Does what there is to do. Says when to look again.
async fn round(line: &Line, is_rung: bool) -> Result<Timestamp, StoreError> {
    if is_rung {
        // Somebody waits on this node: the organization is told now, and not with the next alert of a delivery.
        alert::publish_pending(line).await?;
    }
    let interval = if line.held_lease.is_shared() { LOOK_INTERVAL_SHARED } else { LOOK_INTERVAL };
    let look_at = line.ports.clock.now() + interval;
    if !line.held_lease.does(Duty::Operations) {
        return Ok(look_at);
    }
    let next = approvals::expire(line).await?.unwrap_or(look_at);
    let is_all = approvals::publish_ends(line).await?;
    let retry_at = if is_all { look_at } else { line.ports.clock.now() + RETRY_DELAY };
    Ok(look_at.min(next).min(retry_at))
}
