//! Deletes what deleted organizations and applications have left: their endpoints, in small steps that let other writes pass.
//!
//! Started by the supervisor. Where nodes share a store, it works while the duty of operations is this node's. It remembers nothing: what is left is in the
//! store, over restarts too. What waits for the endpoints is cancelled by the owners of their lanes, as for any endpoint that is deleted.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;

use crate::{
    line::Line,
    model::Duty,
    ports::{ContentsDeleted, StoreError},
};

/// How many endpoints one step deletes: some milliseconds of a writer's time.
const STEP: u32 = 200;

/// How often to look without having been rung: after a failure, and where nodes share a store, because duties change hands. Elsewhere whoever deletes
/// something rings.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Deletes what is left, for ever. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    loop {
        let is_done = match AssertUnwindSafe(delete_all(&line)).catch_unwind().await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                line.log_delay("deleting the endpoints of a deleted application", &error);
                false
            }
            Err(_) => {
                tracing::error!("panic while deleting the endpoints of a deleted application; it is tried again");
                false
            }
        };
        let next_at = line.ports.clock.now() + LOOK_EVERY;
        tokio::select! {
            () = line.deletions_bell.notified() => {}
            () = line.ports.clock.sleep_until(next_at), if !is_done || line.held_lease.is_shared() => {}
        }
    }
}

async fn delete_all(line: &Line) -> Result<(), StoreError> {
    while line.held_lease.does(Duty::Operations) {
        let ContentsDeleted { awaited, has_more } = line.ports.applications.delete_contents(line.ports.clock.now(), STEP).await?;
        for (application, endpoint) in awaited {
            line.catalog.forget(application);
            line.wake_up.changed(application, endpoint.into());
        }
        if !has_more {
            return Ok(());
        }
        // Between two steps everybody else has their turn.
        tokio::task::yield_now().await;
    }
    Ok(())
}
