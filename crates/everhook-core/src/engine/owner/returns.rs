//! What the owner does with what its errands bring home.

use std::sync::Arc;

use super::{
    super::{
        board::QueueKey,
        errand::{Done, Errand, Inspection, Standing},
    },
    Owner, RETRY_DELAY, Surveyed, Sweeping,
};
use crate::{
    ids::{ApplicationId, EndpointId},
    model::{CancelCause, LanePolicy, ShardSet},
    ports::{BreakerChange, BreakerKept, DueRead},
    time::Timestamp,
};

/// How many of the queues that a survey found are heeded before others have their turn: some milliseconds of work.
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
            Done::Learned(shards, rows) => self.learned(shards, rows, now),
            Done::Greeted(arrivals, rows) => self.greeted(arrivals, rows, now),
            Done::Departed(departure) => self.departed(departure),
            Done::HintedLookedUp(found) => self.hinted_looked_up(found, now),
            Done::Inspected(application, endpoint, inspection) => self.inspected(application, endpoint, inspection, now),
            Done::Swept(endpoint) => self.swept(endpoint),
            Done::DrainEnded => {}
            Done::BreakersKept(changes, kept) => self.kept(changes, kept, now),
            Done::TalliesAdded(tallies, added) => {
                self.adding_tallies = false;
                self.tallies.put_back(&tallies[added..]);
            }
            Done::AlertsTold(told) => {
                self.telling_alerts = false;
                if !told {
                    self.alerts_at = Some(now + RETRY_DELAY);
                }
            }
        }
    }

    fn looked(&mut self, queue: QueueKey, mut read: Option<DueRead>, now: Timestamp) {
        read.iter_mut().flat_map(|read| &mut read.rows).for_each(|due| self.line.erasures.unload(due, now));
        let stranded = self.board.looked(queue, read.ok_or(now + RETRY_DELAY), now);
        // Where nodes share a store, hints of others are lost, and lanes change hands.
        if stranded > 0 && self.has_surveyed && !self.line.tenure.is_shared() {
            tracing::warn!(stranded, endpoint.id = %queue.0, "deliveries were due and in no lane; a survey found them");
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
            self.line.tell_delay("sending, because it cannot be read how breakers stand,", &error);
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
            let windows = kept.windows(self.tenancy.active).await;
            self.board.breakers.learn_windows(windows, self.line.ports.clock.now());
        }
    }

    /// Heeds some of what a survey found, between which others have their turn.
    pub(super) fn heed_some_surveyed(&mut self, now: Timestamp) {
        let Some(Surveyed { shards, heads }) = &mut self.surveyed else { return };
        let (shards, some): (_, Vec<_>) = (*shards, heads.take(SURVEYED_AT_ONCE).collect());
        let is_last = some.len() < SURVEYED_AT_ONCE;
        for (head, standing) in some {
            if let Some(policy) = self.heed_standing(head.application, head.endpoint, standing, now) {
                self.board.heed(&head, &policy, now);
            }
        }
        if is_last {
            self.surveyed = None;
            self.end_survey(shards, now);
        }
    }

    fn end_survey(&mut self, shards: ShardSet, now: Timestamp) {
        self.has_surveyed = true;
        if self.tenancy.active.without(shards).is_empty() && !self.survey_again {
            self.board.know_what_waits(now);
        }
        self.survey_at = if std::mem::take(&mut self.survey_again) { now } else { now + self.survey_interval() };
    }

    fn inspected(&mut self, application: ApplicationId, endpoint: EndpointId, inspection: Option<Inspection>, now: Timestamp) {
        let Some(Inspection { standing, breaker }) = inspection else {
            // A survey would find a changed limit, but not what a person decided about the breaker.
            self.uninspected.insert((application, endpoint));
            self.inspect_again_at = now + RETRY_DELAY;
            self.line.catalog.forget(application);
            return;
        };
        // Whoever changed a breaker by hand left an alert with it.
        if breaker.is_some_and(|row| self.board.breakers.learn(row)) {
            self.alerts_at = Some(now);
        }
        self.heed_standing(application, endpoint, standing, now);
    }

    /// Does with a lane what follows from how its endpoint stands. Says under which policy something may be sent in it now, if anything may.
    pub(super) fn heed_standing(
        &mut self,
        application: ApplicationId,
        endpoint: EndpointId,
        standing: Standing,
        now: Timestamp,
    ) -> Option<Arc<LanePolicy>> {
        match standing {
            // It was left meanwhile.
            _ if !self.is_ours(endpoint) => None,
            Standing::Elsewhere => {
                self.leave_lane(endpoint, now);
                None
            }
            Standing::Closed(cause, made_until) => {
                self.close(application, endpoint, cause, made_until);
                None
            }
            Standing::Open(_) if self.is_swept(endpoint) => None,
            Standing::Open(policy) if !self.is_greeted(&policy) => None,
            Standing::Open(policy) => {
                self.board.adjust(&policy, now);
                Some(policy)
            }
        }
    }

    /// What is in flight may end first: its outcome is written as it came. The last one to be written brings us here again.
    fn close(&mut self, application: ApplicationId, endpoint: EndpointId, cause: CancelCause, made_until: Timestamp) {
        if self.board.close(endpoint) && !self.sweeping.contains_key(&endpoint) {
            self.sweeping.insert(endpoint, Sweeping { application, reopened: false });
            self.send(Errand::Sweep(endpoint, cause, made_until));
        }
    }

    /// Whether an endpoint that gets events again is still being swept. It is looked at when that is over.
    fn is_swept(&mut self, endpoint: EndpointId) -> bool {
        self.sweeping.get_mut(&endpoint).map(|sweeping| sweeping.reopened = true).is_some()
    }

    fn swept(&mut self, endpoint: EndpointId) {
        self.board.forget_closed(endpoint);
        if let Some(Sweeping { application, reopened: true }) = self.sweeping.remove(&endpoint) {
            self.send(Errand::Inspect(application, endpoint));
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
                self.send(Errand::Inspect(change.application, change.endpoint));
            }
        }
    }
}
