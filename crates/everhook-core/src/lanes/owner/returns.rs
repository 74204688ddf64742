//! What the owner does with the results of its background tasks.

use std::sync::Arc;

use crate::{
    ids::{ApplicationId, LaneId},
    lanes::{
        background_task::{BackgroundTask, Done, Inspection, LaneState},
        board::QueueKey,
        owner::{Owner, RETRY_DELAY, Surveyed, Sweeping},
    },
    model::{CancelCause, LanePolicy, ShardSet},
    ports::{BreakerChange, BreakerKept, DueRead},
    time::Timestamp,
};

/// How many of the queues that a survey found are applied before others have their turn: some milliseconds of work.
const SURVEYED_AT_ONCE: usize = 1_000;

impl Owner<'_> {
    pub(super) fn finish(&mut self, done: Option<Done>) {
        let Some(done) = done else { return };
        let now = self.line.ports.clock.now();
        match done {
            Done::Looked(reads) => {
                self.looks_under_way -= 1;
                reads.into_iter().for_each(|(queue, read)| self.looked(queue, read, now));
            }
            Done::Surveyed(_, None) => self.survey_at = now + RETRY_DELAY,
            Done::Surveyed(shards, Some(heads)) => self.surveyed = Some(Surveyed { shards, heads: heads.into_iter() }),
            Done::BreakersLoaded(shards, rows) => self.breakers_loaded(shards, rows, now),
            Done::MovedBreakersLoaded(arrivals, rows) => self.moved_breakers_read(arrivals, rows, now),
            Done::Departed(departure) => self.departed(departure),
            Done::HintedLookedUp(found) => self.hinted_looked_up(found, now),
            Done::Inspected(application, lane_id, inspection) => self.inspected(application, lane_id, inspection, now),
            Done::Swept(lane_id) => self.swept(lane_id),
            Done::DrainEnded => {}
            Done::BreakersKept(changes, kept) => self.kept(changes, kept, now),
            Done::TalliesAdded(tallies, added) => {
                self.adding_tallies = false;
                self.tallies.put_back(&tallies[added..]);
            }
            Done::AlertsPublished(is_done) => {
                self.telling_alerts = false;
                if !is_done {
                    self.alerts_at = Some(now + RETRY_DELAY);
                }
            }
        }
    }

    fn looked(&mut self, queue: QueueKey, mut read: Option<DueRead>, now: Timestamp) {
        read.iter_mut().flat_map(|read| &mut read.rows).for_each(|due| self.line.erasures.unload(due, now));
        let stranded = self.board.looked(queue, read.ok_or(now + RETRY_DELAY), now);
        // Where nodes share a store, hints of others are lost, and lanes change hands.
        if stranded > 0 && self.has_surveyed && !self.line.held_lease.is_shared() {
            tracing::warn!(stranded, lane.id = %queue.0, "the periodic query found {stranded} due deliveries that no hint had announced; they are sent now, up to five seconds late");
        }
    }

    /// Reads how breakers stood before this process began: until then nothing is sent. Says whether to go on; a stop ends the wait.
    pub(super) async fn remember_breakers(&mut self) -> bool {
        let clock = self.line.ports.clock.clone();
        loop {
            let error = match self.line.ports.breakers.breakers().await {
                Ok(rows) => {
                    rows.into_iter().for_each(|row| _ = self.board.breakers.learn(row));
                    self.remember_windows().await;
                    return true;
                }
                Err(error) => error,
            };
            self.line.log_delay("loading circuit-breaker state (sending is paused)", &error);
            let retry_at = clock.now() + RETRY_DELAY;
            tokio::select! {
                () = clock.sleep_until(retry_at) => {}
                _ = self.with.stop.changed() => {}
            }
            if self.with.stop.borrow().is_some() {
                return false;
            }
        }
    }

    /// What the former owners of the lanes have counted, if somebody keeps that.
    async fn remember_windows(&mut self) {
        let kept = &self.line.ports.breaker_windows;
        if kept.are_kept() {
            self.board.breakers.keeps_windows = true;
            let windows = kept.windows(self.shards.active).await;
            self.board.breakers.learn_windows(windows, self.line.ports.clock.now());
        }
    }

    /// Applies some of what a survey found, between which others have their turn.
    pub(super) fn apply_some_surveyed(&mut self, now: Timestamp) {
        let Some(Surveyed { shards, heads }) = &mut self.surveyed else { return };
        let (shards, some): (_, Vec<_>) = (*shards, heads.take(SURVEYED_AT_ONCE).collect());
        let is_last = some.len() < SURVEYED_AT_ONCE;
        for (head, state) in some {
            if let Some(policy) = self.apply_lane_state(head.application, head.lane_id, state, now) {
                self.board.note_head(&head, &policy, now);
            }
        }
        if is_last {
            self.surveyed = None;
            self.end_survey(shards, now);
        }
    }

    fn end_survey(&mut self, shards: ShardSet, now: Timestamp) {
        self.has_surveyed = true;
        if self.shards.active.without(shards).is_empty() && !self.survey_again {
            self.board.know_what_waits(now);
        }
        self.survey_at = if std::mem::take(&mut self.survey_again) { now } else { now + self.survey_interval() };
    }

    fn inspected(&mut self, application: ApplicationId, lane_id: LaneId, inspection: Option<Inspection>, now: Timestamp) {
        let Some(Inspection { state, breaker }) = inspection else {
            // A survey would find a changed limit, but not what a person decided about the breaker.
            self.uninspected.insert((application, lane_id));
            self.inspect_again_at = now + RETRY_DELAY;
            self.line.catalog.forget(application);
            return;
        };
        // Whoever changed a breaker by hand left an alert with it.
        if breaker.is_some_and(|row| self.board.breakers.learn(row)) {
            self.alerts_at = Some(now);
        }
        self.apply_lane_state(application, lane_id, state, now);
    }

    /// Does with a lane what follows from how its endpoint stands. Says under which policy something may be sent in it now, if anything may.
    pub(super) fn apply_lane_state(
        &mut self,
        application: ApplicationId,
        lane_id: LaneId,
        state: LaneState,
        now: Timestamp,
    ) -> Option<Arc<LanePolicy>> {
        match state {
            // It was left meanwhile.
            _ if !self.is_ours(lane_id) => None,
            LaneState::Elsewhere => {
                self.leave_lane(lane_id, now);
                None
            }
            LaneState::Closed(cause, made_until) => {
                self.close(application, lane_id, cause, made_until);
                None
            }
            LaneState::Open(_) if self.is_swept(lane_id) => None,
            LaneState::Open(policy) if !self.has_moved_breakers(&policy) => None,
            LaneState::Open(policy) => {
                self.board.adjust(&policy, now);
                Some(policy)
            }
        }
    }

    /// What is in flight may end first: its outcome is written as it came. The last one to be written brings us here again.
    fn close(&mut self, application: ApplicationId, lane_id: LaneId, cause: CancelCause, made_until: Timestamp) {
        if self.board.close(lane_id) && !self.sweeping.contains_key(&lane_id) {
            self.sweeping.insert(lane_id, Sweeping { application, reopened: false });
            self.send(BackgroundTask::Sweep(lane_id, cause, made_until));
        }
    }

    /// Whether an endpoint that gets events again is still being swept. It is looked at when that is over.
    fn is_swept(&mut self, lane_id: LaneId) -> bool {
        self.sweeping.get_mut(&lane_id).map(|sweeping| sweeping.reopened = true).is_some()
    }

    fn swept(&mut self, lane_id: LaneId) {
        self.board.forget_closed(lane_id);
        if let Some(Sweeping { application, reopened: true }) = self.sweeping.remove(&lane_id) {
            self.send(BackgroundTask::Inspect(application, lane_id));
        }
    }

    /// How breakers stand is written, or will be tried again; where a person was faster, their word holds. A row that is as we wanted it was
    /// written by a try whose answer was lost.
    fn kept(&mut self, changes: Vec<BreakerChange>, kept: Option<Vec<BreakerKept>>, now: Timestamp) {
        self.keeping_breakers = false;
        let Some(kept) = kept else {
            self.board.breakers.put_back(changes);
            self.keep_breakers_at = now + RETRY_DELAY;
            return;
        };
        self.alerts_at = Some(now);
        for (change, kept) in changes.into_iter().zip(kept) {
            if let BreakerKept::Outdated(row) = kept
                && (row.revision, row.kept) != (change.revision, change.kept)
            {
                self.board.breakers.overruled(row);
                self.send(BackgroundTask::Inspect(change.application, change.lane_id));
            }
        }
    }
}
