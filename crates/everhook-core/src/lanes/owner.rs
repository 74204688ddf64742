//! The one task that owns the lanes: it takes hints, starts flights, hands outcomes to the settler, and starts background tasks.
//!
//! Everything it knows is in its memory and may be lost at any moment; the store has it all. What background tasks return is handled in [`returns`],
//! attempts are counted in [`statistics`], and what a stop does is in [`stopping`].

mod alarm;
mod hinted;
mod moving;
mod returns;
mod shards;
mod statistics;
mod stopping;
mod windows;
mod withdrawing;

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rustc_hash::FxHashMap;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use self::{alarm::Alarm, hinted::Hinted, moving::Moving, shards::OwnedShards};
use crate::{
    ids::{ApplicationId, LaneId},
    lanes::{
        EngineSettings, EngineStatus,
        background_task::{self, BackgroundTask, Done, LaneState},
        board::{Board, Landed, Start},
        flight::{self, Landing},
        hints::{Hint, Hints},
        lane::UnreadRange,
        organizations::Organizations,
        settler::{Unwritten, UnwrittenOutcome, Written},
        tallies::Tallies,
    },
    line::{
        Line,
        settle::{LaneHold, LaneOutcome, Outcome},
    },
    model::{Duty, InFlight, ShardSet},
    ports::{Committed, LaneHead, Withdrawal},
    time::Timestamp,
};

/// How long the owner waits before it tries again what the store refused.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// How many reads of backlogs are under way at once. Each may bring as many bytes of events as there is room for, so that they must be few.
const LOOKS_MAX: usize = 4;

/// How many queues one read is of: where many lanes wait for the same events, these are read once. More would make a short queue wait for long ones.
const QUEUES_A_LOOK: usize = 8;

/// How many hints are taken in before flights are started.
const HINT_BATCH: usize = 256;

/// With so many flights in the air, the owner lets those land that are about to before it begins a round: a round costs as much as two landings. With
/// fewer there is little to gain, and each pause makes the runtime look at its sockets once more.
const MANY_FLIGHTS: usize = 16;

/// What the owner is connected to.
pub(crate) struct Connections<'a> {
    pub(crate) hints: &'a mut Hints,
    pub(crate) outcomes: mpsc::UnboundedSender<UnwrittenOutcome>,
    pub(crate) written: mpsc::UnboundedReceiver<Vec<Written>>,
    pub(crate) unwritten: Arc<Unwritten>,
    pub(crate) stop: watch::Receiver<Option<Timestamp>>,
    pub(crate) status: watch::Sender<EngineStatus>,
}

/// Why an owner's life is over.
pub(crate) enum OwnerExit {
    /// A stop was requested.
    Stopped,
    /// Nobody writes outcomes any more: start again from the store.
    SettlerGone,
    /// The lease is gone, and with it every lane: start again when there is another.
    Lost,
}

/// A sweep that is under way.
struct Sweeping {
    application: ApplicationId,
    /// Whether the endpoint gets events again: it is looked at when the sweep is over.
    reopened: bool,
}

/// What a survey found, as far as it was not applied yet.
struct Surveyed {
    shards: ShardSet,
    heads: std::vec::IntoIter<(LaneHead, LaneState)>,
}

/// The owner of every lane of this process.
pub(crate) struct Owner<'a> {
    line: Arc<Line>,
    board: Board,
    with: Connections<'a>,
    flights: JoinSet<(InFlight, Start, Landing)>,
    background_tasks: JoinSet<Done>,
    /// The endpoints whose deliveries are being cancelled. Nothing is sent to one before that is over, even if it gets events again meanwhile.
    sweeping: FxHashMap<LaneId, Sweeping>,
    /// What to do at a later time, beside what the board's alarms say.
    survey_at: Timestamp,
    /// Whether another survey follows the one that is under way at once.
    survey_again: bool,
    /// What a survey found and was not applied yet.
    surveyed: Option<Surveyed>,
    alerts_at: Option<Timestamp>,
    /// Endpoints that were changed and could not be looked at.
    uninspected: BTreeSet<(ApplicationId, LaneId)>,
    inspect_again_at: Timestamp,
    telling_alerts: bool,
    keeping_breakers: bool,
    keep_breakers_at: Timestamp,
    keep_windows_at: Timestamp,
    /// What happened at endpoints and is not added up yet.
    tallies: Tallies,
    adding_tallies: bool,
    add_tallies_at: Timestamp,
    /// Whether the first survey is over: before it, everything in the store is news.
    has_surveyed: bool,
    /// Which lanes are this owner's.
    shards: OwnedShards,
    /// Hints of other nodes for lanes that are not in memory.
    hinted: Hinted,
    /// Which organizations come from another worker pool, or go to one.
    moving: Moving,
    /// Tells when more was granted of what organizations may do on all nodes together.
    granted: watch::Receiver<u64>,
    looks_under_way: usize,
}

impl<'a> Owner<'a> {
    pub(crate) fn new(line: Arc<Line>, settings: EngineSettings, with: Connections<'a>) -> Self {
        let now = line.ports.clock.now();
        Self {
            shards: OwnedShards::new(&line.held_lease),
            granted: line.budgets.answers(),
            board: Board::with(organizations(&line), settings.concurrency, line.metrics.clone()),
            line,
            with,
            flights: JoinSet::new(),
            background_tasks: JoinSet::new(),
            sweeping: FxHashMap::default(),
            survey_at: now,
            survey_again: false,
            surveyed: None,
            alerts_at: Some(now),
            uninspected: BTreeSet::new(),
            inspect_again_at: now,
            telling_alerts: false,
            keeping_breakers: false,
            keep_breakers_at: now,
            keep_windows_at: now,
            tallies: Tallies::default(),
            adding_tallies: false,
            add_tallies_at: now,
            has_surveyed: false,
            hinted: Hinted::default(),
            moving: Moving::default(),
            looks_under_way: 0,
        }
    }

    /// Runs until a stop is requested. Returns with nothing in flight; outcomes may still be on their way through the settler.
    pub(crate) async fn run(mut self) -> OwnerExit {
        if !self.remember_breakers().await {
            return OwnerExit::Stopped;
        }
        let mut alarm = Alarm::default();
        let mut hints = Vec::with_capacity(HINT_BATCH);
        loop {
            if !self.apply_lease_changes() {
                self.flights.shutdown().await;
                return OwnerExit::Lost;
            }
            let now = self.line.ports.clock.now();
            self.start_what_can_be(now);
            alarm.set(&self.line, self.wake_at());
            let stop_at = *self.with.stop.borrow_and_update();
            if let Some(stop_at) = stop_at {
                self.stop(stop_at).await;
                return OwnerExit::Stopped;
            }
            match self.wait(&mut alarm, &mut hints).await {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(OwnerExit::Stopped) => {
                    self.stop(now).await;
                    return OwnerExit::Stopped;
                }
                ControlFlow::Break(ended) => return ended,
            }
            if self.flights.len() >= MANY_FLIGHTS {
                tokio::task::yield_now().await;
            }
            self.drain(&mut hints);
        }
    }

    fn start_what_can_be(&mut self, now: Timestamp) {
        self.keep_time(now);
        self.start_flights(now);
        self.start_looks(now);
        self.start_chores(now);
        self.report();
    }

    /// Waits until something happens, and handles it; hints are only collected. Returns whether the owner's life is over.
    async fn wait(&mut self, alarm: &mut Alarm, hints: &mut Vec<Hint>) -> ControlFlow<OwnerExit> {
        tokio::select! {
            biased;
            _ = self.with.stop.changed() => {}
            Some(landed) = self.flights.join_next(), if !self.flights.is_empty() => self.land(landed.ok()),
            written = self.with.written.recv() => match written {
                Some(written) => self.release(written),
                // It ends only by a panic while we live.
                None => return ControlFlow::Break(OwnerExit::SettlerGone),
            },
            taken = self.with.hints.receiver.recv_many(hints, HINT_BATCH) => {
                if taken == 0 {
                    // Every publisher is gone, and so is every hint: only time and flights are left to wait for.
                    return ControlFlow::Break(OwnerExit::Stopped);
                }
            }
            Some(done) = self.background_tasks.join_next(), if !self.background_tasks.is_empty() => self.finish(done.ok()),
            // `Line` owns the sender, so the channel cannot close here.
            _ = self.shards.changes.changed(), if self.shards.may_change => self.shards.changes.mark_changed(),
            _ = self.granted.changed(), if self.shards.may_change => self.board.resume_refused(),
            () = alarm.rung() => {}
        }
        ControlFlow::Continue(())
    }

    /// Takes in whatever else is ready, so that one round serves many deliveries.
    fn drain(&mut self, hints: &mut Vec<Hint>) {
        while hints.len() < HINT_BATCH
            && let Ok(hint) = self.with.hints.receiver.try_recv()
        {
            hints.push(hint);
        }
        self.with.hints.waiting.fetch_sub(hints.len(), Ordering::Relaxed);
        self.with.hints.remote.fetch_sub(hints.iter().map(Hint::remote_queues).sum(), Ordering::Relaxed);
        hints.drain(..).for_each(|hint| self.handle_hint(hint));
        while let Some(landed) = self.flights.try_join_next() {
            self.land(landed.ok());
        }
        while let Ok(written) = self.with.written.try_recv() {
            self.release(written);
        }
        while let Some(done) = self.background_tasks.try_join_next() {
            self.finish(done.ok());
        }
    }

    fn keep_time(&mut self, now: Timestamp) {
        self.board.ring(now);
        self.apply_some_surveyed(now);
        if self.survey_at <= now {
            self.survey_at = Timestamp::FAR_FUTURE;
            self.board.prune(now);
            self.send(BackgroundTask::Survey(self.shards.active));
            self.look_for_alerts(now);
        }
        if self.inspect_again_at <= now {
            let uninspected = std::mem::take(&mut self.uninspected);
            uninspected.into_iter().for_each(|(application, lane_id)| self.send(BackgroundTask::Inspect(application, lane_id)));
        }
        if self.alerts_at.is_some_and(|at| at <= now) && !self.telling_alerts {
            self.alerts_at = None;
            // Whoever's duty it is looks for them once a second.
            if self.line.held_lease.does(Duty::Alerts) {
                self.telling_alerts = true;
                self.send(BackgroundTask::PublishAlerts);
            }
        }
    }

    fn wake_at(&self) -> Timestamp {
        let alerts_at = self.alerts_at.filter(|_| !self.telling_alerts);
        let breakers_at = (self.board.breakers.has_unwritten() && !self.keeping_breakers).then_some(self.keep_breakers_at);
        let inspect_at = (!self.uninspected.is_empty()).then_some(self.inspect_again_at);
        let surveyed_at = self.surveyed.as_ref().map(|_| Timestamp::EPOCH);
        let [adding_at, windows_at] = [self.adding_at(), self.keeping_windows_at()];
        let alarms = [self.board.wake_at(), alerts_at, breakers_at, inspect_at, adding_at, windows_at, surveyed_at, Some(self.survey_at)];
        alarms.into_iter().flatten().min().unwrap_or(Timestamp::FAR_FUTURE)
    }

    fn start_flights(&mut self, now: Timestamp) {
        if self.with.unwritten.is_stalled(now) || !self.line.held_lease.is_trusted() {
            return;
        }
        while let Some((flight, start)) = self.board.next(now) {
            let fly = flight::fly(self.line.clone(), flight);
            // Boxed, because a task's own memory must lie at a multiple of 128 bytes, which is dear to find for large ones.
            self.flights.spawn(Box::pin(async move {
                let (flight, landing) = fly.await;
                (flight, start, landing)
            }));
        }
    }

    fn start_looks(&mut self, now: Timestamp) {
        while self.looks_under_way < LOOKS_MAX
            && let Some(look) = self.board.next_look(QUEUES_A_LOOK, now)
        {
            self.looks_under_way += 1;
            self.send(BackgroundTask::DueReads(look));
        }
    }

    /// Has written down what the lanes decided.
    fn start_chores(&mut self, now: Timestamp) {
        self.leave_what_is_clear(now);
        self.depart_where_clear(now);
        self.read_moved_breakers();
        self.keep_windows(now);
        if self.board.breakers.has_unwritten() && !self.keeping_breakers && self.keep_breakers_at <= now {
            self.keeping_breakers = true;
            let changes = self.board.breakers.take_unwritten();
            self.send(BackgroundTask::KeepBreakers(changes));
        }
        self.start_adding(now);
        while let Some((application, lane_id)) = self.board.next_drained() {
            self.send(BackgroundTask::EndDrain(application, lane_id));
        }
    }

    fn send(&mut self, background_task: BackgroundTask) {
        self.background_tasks.spawn(background_task::run(self.line.clone(), background_task));
    }

    fn handle_hint(&mut self, hint: Hint) {
        let now = self.line.ports.clock.now();
        match hint {
            Hint::Committed(deliveries) => {
                let ours = self.keep_ours(deliveries);
                ours.into_iter().for_each(|mut committed| {
                    self.line.erasures.unload(&mut committed.due, now);
                    self.board.offer(committed, now);
                });
            }
            Hint::Forwarded(deliveries) => {
                let ours = self.keep_our_forwarded(deliveries);
                ours.iter().for_each(|forwarded| self.board.bring_forward(forwarded, now));
            }
            Hint::Cancelled(lane_id) => self.board.read_again(lane_id, now),
            // Whoever asked may have gone away: then nothing was withdrawn.
            Hint::Withdraw(delivery, answer) => {
                let withdrawal = self.withdraw(delivery);
                if answer.send(withdrawal).is_err() && withdrawal == Withdrawal::Withdrawn {
                    self.end_withdrawal(delivery, Some(now), now);
                }
            }
            Hint::EndWithdrawal(delivery, due_at) => self.end_withdrawal(delivery, due_at, now),
            Hint::Erased(events) => self.board.erased(events),
            Hint::Departing(departures) => self.leave_organizations(departures),
            Hint::Waiting(queues) => self.expect(queues, now),
            Hint::Changed(application, lane_id) if self.is_ours(lane_id) => self.send(BackgroundTask::Inspect(application, lane_id)),
            // Its owner hears of it from the store.
            Hint::Changed(..) => {}
            Hint::Survey => self.survey_soon(now),
            Hint::Everything => self.send(BackgroundTask::LoadBreakers(self.shards.active)),
            // Whoever asked may have gone away.
            Hint::Report(lane_id, answer) => _ = answer.send(self.board.report(lane_id, now)),
        }
    }

    /// A flight is over: its slot is free, and its outcome goes to the settler. `None` is a flight that was aborted while winding down.
    fn land(&mut self, landed: Option<(InFlight, Start, Landing)>) {
        let Some((flight, start, landing)) = landed else { return };
        let now = self.line.ports.clock.now();
        let call = match &landing {
            Landing::Settle(outcome) => Some(outcome.lane.call),
            _ => None,
        };
        let landed = Landed { start, outcome: call };
        self.board.landed(flight.lane_id, landed, now);
        let queue = (flight.lane_id, flight.priority);
        // Of one without an outcome, which the store shows as it was.
        let rest = UnreadRange { due_from: flight.due.due_at, look_at: now + RETRY_DELAY };
        match landing {
            Landing::Settle(Outcome { settlement, lane, ended_job }) => {
                self.apply_outcome(flight.lane_id, lane, now);
                self.tally(&flight, &settlement.attempt, now);
                self.with.unwritten.add();
                let outcome = UnwrittenOutcome { queue, application: flight.application, settlement, ended_job, landed_at: now };
                // The settler outlives the owner, so that the channel is open.
                let _ = self.with.outcomes.send(outcome);
            }
            // It is cancelled, or about to be: if a crash kept it from that, a survey finds it.
            Landing::Erased => self.board.release(queue, flight.due.delivery, None, now),
            Landing::NotMade => self.board.release(queue, flight.due.delivery, Some(rest), now),
            // Its lane is held too: the rest of its window would be tried at once, and as much in vain.
            Landing::OutOfResources => {
                self.board.release(queue, flight.due.delivery, Some(rest), now);
                self.board.back_off(flight.lane_id, rest.look_at, now);
            }
            Landing::Withheld => {
                self.board.release(queue, flight.due.delivery, Some(rest), now);
                self.send(BackgroundTask::Inspect(flight.application, flight.lane_id));
            }
        }
    }

    /// Does with a lane what an attempt in it means. Its breaker has heard of it.
    fn apply_outcome(&mut self, lane_id: LaneId, lane: LaneOutcome, now: Timestamp) {
        match lane.hold {
            LaneHold::Unchanged => {}
            LaneHold::Lifted => self.board.hold(lane_id, None, now),
            LaneHold::Until(until) => self.board.hold(lane_id, Some(until), now),
        }
        // Nothing more is sent while that is being written.
        if lane.closes {
            self.board.close(lane_id);
        }
    }

    /// Outcomes are durable: their deliveries leave memory.
    fn release(&mut self, written: Vec<Written>) {
        let now = self.line.ports.clock.now();
        for Written { queue, application, delivery, rest, freed, disabled, alerts } in written {
            // What was freed comes first: a lane that seems to have nothing left would take its leave.
            if let Some(freed) = freed
                && let Some(lane) = self.board.lane(queue.0).map(|lane| lane.policy.clone())
            {
                self.board.offer(Committed { lane, priority: freed.priority, due: freed.due }, now);
            }
            self.board.release(queue, delivery, rest, now);
            if disabled {
                self.line.catalog.forget(application);
            }
            if disabled || self.board.is_closed_and_clear(queue.0) {
                self.send(BackgroundTask::Inspect(application, queue.0));
            }
            if alerts {
                self.alerts_at = Some(now);
            }
        }
    }

    fn report(&self) {
        let (in_flight, unwritten) = (self.board.in_flight(), self.with.unwritten.count());
        self.with.status.send_if_modified(|status| {
            let changed = (status.in_flight, status.unwritten) != (in_flight, unwritten);
            (status.in_flight, status.unwritten) = (in_flight, unwritten);
            changed
        });
    }
}

/// The organizations of this node's lanes. Where nodes share a store, they share the limits too.
fn organizations(line: &Line) -> Organizations {
    if line.held_lease.is_shared() { Organizations::sharing(line.budgets.clone()) } else { Organizations::default() }
}
