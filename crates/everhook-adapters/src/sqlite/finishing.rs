//! Completes what one commit began and left for others: the deliveries of a large event, made or ended. Called by `fan_out` and `erasing`.

use std::{sync::Arc, time::Duration};

use everhook_core::{ids::EventId, ports::StoreError};

use super::{fault::Outcome, transaction::Tx, writer::Writer};

/// How long somebody waits for all deliveries of a large event. The rest is done all the same.
const FINISH_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait after a commit failed, for example on a full disk.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// What is left of an event.
#[derive(Clone, Copy)]
pub(super) struct Remainder {
    /// Which event.
    pub(super) event: EventId,
    /// About how many rows each step writes.
    pub(super) rows: usize,
    /// What is still to be done with its deliveries, for the log.
    pub(super) to_be: &'static str,
}

/// Takes one step after the other, each a commit, until one finds nothing left. Returns what they gave after the last of them.
///
/// # Errors
/// [`StoreError::Unavailable`] if that takes too long; it goes on in the background.
pub(super) async fn finish<T, F>(writer: &Arc<Writer>, rest: Remainder, step: F) -> Result<Vec<T>, StoreError>
where
    T: Send + 'static,
    F: FnMut(&mut Tx<'_>) -> Outcome<Option<T>> + Clone + Send + 'static,
{
    let mut given = Vec::new();
    if writer.is_inline() {
        while let Some(one) = writer.write(rest.rows, step.clone()).await? {
            given.push(one);
        }
        return Ok(given);
    }
    // On a task of its own, so that somebody who goes away leaves nothing half done, and without keeping the store open.
    let weak = Arc::downgrade(writer);
    let finishing = tokio::spawn(async move {
        while let Some(writer) = weak.upgrade() {
            let outcome = writer.write(rest.rows, step.clone()).await;
            drop(writer);
            match outcome {
                Ok(Some(one)) => given.push(one),
                Ok(None) => break,
                Err(error) => {
                    let Remainder { event, to_be, .. } = rest;
                    tracing::warn!(event.id = %event, error = %error, "deliveries of event {event} are still waiting to be {to_be}: {error}");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
        given
    });
    let finished = tokio::time::timeout(FINISH_TIMEOUT, finishing).await;
    finished.map_err(StoreError::unavailable)?.map_err(StoreError::unavailable)
}
