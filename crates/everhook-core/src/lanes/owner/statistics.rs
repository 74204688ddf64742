//! How the owner has statistics added up: counted with each attempt, written once a second and before a stop. No delivery waits for it.

use std::{sync::Arc, time::Duration};

use crate::{
    lanes::{
        background_task::{self, BackgroundTask, Done},
        owner::Owner,
    },
    model::{Attempt, InFlight},
    time::Timestamp,
};

/// How often what happened at endpoints is added up in the store. A crash loses this much of the statistics, and nothing of the deliveries.
const ADD_INTERVAL: Duration = Duration::from_secs(1);

impl Owner<'_> {
    /// Counts an attempt.
    pub(super) fn tally(&mut self, flight: &InFlight, attempt: &Attempt, now: Timestamp) {
        if self.tallies.is_empty() && !self.adding_tallies {
            self.add_tallies_at = now + ADD_INTERVAL;
        }
        if let Some(category) = attempt.failure_category {
            self.board.count_failure(flight.lane_id, category);
        }
        match flight.due.replay_of {
            None => self.tallies.add(flight.lane_id, attempt, now),
            Some(_) => self.tallies.add_replay(flight.lane_id, attempt, now),
        }
    }

    /// When what was counted is to be added up, if something was.
    pub(super) fn adding_at(&self) -> Option<Timestamp> {
        (!self.tallies.is_empty() && !self.adding_tallies).then_some(self.add_tallies_at)
    }

    /// Has added up what was counted, if it is time.
    pub(super) fn start_adding(&mut self, now: Timestamp) {
        let is_time = self.adding_at().is_some_and(|at| at <= now || self.tallies.are_many());
        if is_time {
            self.adding_tallies = true;
            self.add_tallies_at = now + ADD_INTERVAL;
            let tallies = self.tallies.take();
            self.send(BackgroundTask::AddTallies(Arc::new(tallies)));
        }
    }

    /// Before a stop: waits for what is being added, and adds the rest. Other background tasks end with the owner.
    pub(super) async fn add_last_tallies(&mut self) {
        while self.adding_tallies
            && let Some(done) = self.background_tasks.join_next().await
        {
            if let Ok(done @ Done::TalliesAdded(..)) = done {
                self.finish(Some(done));
            }
        }
        background_task::add_tallies(&self.line, &self.tallies.take()).await;
    }
}
