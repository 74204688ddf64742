//! Writes what calls leave, and tells organizations of it: statistics, answers that are kept, withdrawn canaries, that fallbacks were used and breakers opened.
//!
//! Started by the supervisor, woken by the bells of the records: while nobody calls, it does nothing. What it could not write stays with the records and is
//! written a second later; what was recorded for an organization is in the store, and told after a crash as well.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;

use crate::{
    calls::CALL_RECORDS_WRITTEN_EVERY,
    line::{Line, alert},
    manage::{Refusal, manifests},
    ports::StoreError,
    time::Timestamp,
};

/// What is done next, and when.
#[derive(Default)]
struct Next {
    write_at: Option<Timestamp>,
    publish_at: Option<Timestamp>,
}

/// Goes on for ever. Never panics.
pub(crate) async fn run(line: Arc<Line>) {
    let (clock, records) = (&line.ports.clock, &line.calls.records);
    let mut next = Next::default();
    loop {
        let wake_at = next.write_at.into_iter().chain(next.publish_at).min().unwrap_or(Timestamp::FAR_FUTURE);
        tokio::select! {
            // In order, not by chance: a seed must give the same run again.
            biased;
            () = records.alerts_recorded.notified() => next.publish_at = Some(clock.now()),
            () = records.gathered.notified() => {
                let soon = clock.now() + CALL_RECORDS_WRITTEN_EVERY;
                next.write_at = Some(next.write_at.map_or(soon, |at| at.min(soon)));
            }
            () = clock.sleep_until(wake_at) => {}
        }
        if AssertUnwindSafe(work(&line, &mut next)).catch_unwind().await.is_err() {
            tracing::error!("panic while writing what calls left; it is tried again");
            next.write_at = Some(clock.now() + CALL_RECORDS_WRITTEN_EVERY);
        }
    }
}

/// Does what is due.
async fn work(line: &Line, next: &mut Next) {
    let clock = &line.ports.clock;
    let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= clock.now());
    if is_due(next.publish_at) {
        // A failure in between would else be forgotten.
        next.publish_at = Some(clock.now() + CALL_RECORDS_WRITTEN_EVERY);
        match alert::publish_pending(line).await {
            Ok(()) => next.publish_at = None,
            Err(error) => line.log_delay("publishing operational events about calls", &error),
        }
    }
    if is_due(next.write_at) {
        if let Err(error) = write(line).await {
            line.log_delay("writing statistics of calls", &error);
        }
        next.write_at = line.calls.records.next_write_at(clock.now());
    }
}

/// Writes what was gathered. What fails is gathered still, but for answers.
async fn write(line: &Line) -> Result<(), StoreError> {
    let records = &line.calls.records;
    for withdrawn in records.take_withdrawals() {
        match manifests::withdraw_canary(line, &withdrawn).await {
            Ok(_) => {}
            Err(Refusal::Store(error)) if !matches!(error, StoreError::Corrupt(_)) => {
                line.log_delay("withdrawing a canary", &error);
                records.withdraw_later(withdrawn);
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(
                    error,
                    "cannot note in a manifest that its canary is withdrawn; other nodes, and this one after a restart, call it again"
                );
            }
        }
    }
    records.write(&line.calls, &*line.ports.statistics).await
}
