//! How the owner stops: what is in flight lands, and what only its memory knows is written, both for a bounded time.

use std::time::Duration;

use crate::{
    lanes::{
        background_task::{self, Done},
        owner::Owner,
    },
    time::Timestamp,
};

/// How long a stop waits for breakers and statistics to be written: they are worth no more.
const STOP_GRACE: Duration = Duration::from_secs(2);

impl Owner<'_> {
    /// Starts nothing new, lets what is in flight land until `deadline`, and aborts the rest: it still waits in the store.
    pub(super) async fn stop(mut self, deadline: Timestamp) {
        let clock = self.line.ports.clock.clone();
        let mut time_is_up = clock.sleep_until(deadline);
        while !self.flights.is_empty() {
            tokio::select! {
                // In order, not by chance: a seed must give the same run again.
                biased;
                landed = self.flights.join_next() => self.land(landed.and_then(Result::ok)),
                () = self.shards.lost() => {
                    self.flights.abort_all();
                    break;
                }
                () = &mut time_is_up => {
                    tracing::warn!(in_flight = self.flights.len(), "requests in progress did not finish before shutdown; they will be repeated");
                    self.flights.abort_all();
                    break;
                }
            }
        }
        self.report();
        self.write_the_rest().await;
    }

    /// Writes how breakers stand and what was counted, unless the store takes too long.
    async fn write_the_rest(mut self) {
        let clock = self.line.ports.clock.clone();
        tokio::select! {
            biased;
            () = async {
                self.hand_windows_over(clock.now());
                self.keep_last_breakers().await;
                self.add_last_tallies().await;
            } => {}
            () = clock.sleep_until(clock.now() + STOP_GRACE) => {
                tracing::warn!("cannot write the state of all circuit breakers or the statistics of the last second before shutdown");
            }
        }
    }

    /// Writes what the last requests did to breakers. Other background tasks end with the owner.
    async fn keep_last_breakers(&mut self) {
        while self.keeping_breakers
            && let Some(done) = self.background_tasks.join_next().await
        {
            if let Ok(done @ Done::BreakersKept(..)) = done {
                self.finish(Some(done));
            }
        }
        while self.board.breakers.has_unwritten() {
            let changes = self.board.breakers.take_unwritten();
            if let Err(error) = background_task::keep_breakers(&self.line, changes).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot write the state of some circuit breakers before shutdown");
                return;
            }
        }
    }
}
