//! Deletes what deleted organizations and applications have left: their endpoints, in small steps that let other writes pass. And finds the lanes of removed
//! processors in which something is left: whoever removed one told the owner of its lane, and may have been killed before that was heard.
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

/// How often to look for lanes of removed processors where nobody rings and nobody else shares the store. Mostly at the start there is one.
const ORPHANS_EVERY: Duration = Duration::from_secs(60);
/// How many such lanes are told to their owner at once. Those that are swept make room for the next.
const ORPHANS: u32 = 100;

/// Deletes what is left, for ever. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    loop {
        let is_done = match AssertUnwindSafe(look(&line)).catch_unwind().await {
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
        let is_soon = !is_done || line.held_lease.is_shared();
        let next_at = line.ports.clock.now() + if is_soon { LOOK_EVERY } else { ORPHANS_EVERY };
        tokio::select! {
            () = line.deletions_bell.notified() => {}
            () = line.ports.clock.sleep_until(next_at) => {}
        }
    }
}

async fn look(line: &Line) -> Result<(), StoreError> {
    delete_all(line).await?;
    // At every node: each has the lanes of its own shards, and lets others be told in vain.
    for orphaned in line.ports.parked.orphaned_lanes(ORPHANS).await? {
        line.catalog.forget_organization(orphaned.organization);
        line.wake_up.changed(orphaned.application, orphaned.lane_id);
    }
    Ok(())
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
