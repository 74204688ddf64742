//! Keeps this node's lease, where several nodes share a store: renews it each second, takes its share of the shards and the duties that are free, and
//! leaves what others should have.
//!
//! Started by the supervisor, beside the owner, which follows what is written into the line's `held_lease`. It never sends and never touches a lane. What the
//! store grants is in force only once nothing of an earlier life is left.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::sync::watch;

use crate::{
    line::Line,
    model::{DutySet, Shard, ShardSet},
    nodes::{
        held_lease::{HeldState, SKEW_MAX, SKEW_WARNED_FROM},
        watch::Watch,
    },
    ports::{Departure, Heartbeat, Held, LEASE_RENEWED_EVERY, LeaseRequest, Offset, Reading, Renewed, Roles, StoreError},
    repeated_failure::RepeatedFailure,
    time::{Timestamp, millis},
};

/// How long all renewals must show the store's clock further ahead than [`SKEW_MAX`], by the same, before the node's follows it. Time that was given out cannot
/// be taken back: following a clock that was wrong for a moment would cost twice as much time as it was ahead.
const LEAP_DOUBTED_FOR: Duration = Duration::from_secs(3);

/// Keeps the lease for ever.
pub(crate) async fn run(line: Arc<Line>, roles: Roles, stop: watch::Receiver<Option<Timestamp>>) {
    let (repeated_failure, refusal) = (RepeatedFailure::reported_at_once(), RepeatedFailure::reported_at_once());
    let mut keeper = Keeper {
        roles,
        stop,
        begun_as: None,
        failures: 0,
        repeated_failure,
        refusal,
        is_skewed: false,
        leap: None,
        watch: Watch::default(),
        line: line.clone(),
    };
    tokio::select! {
        // In order, not by chance: a seed must give the same run again.
        biased;
        () = watch_trust(&line) => {}
        () = keeper.keep() => {}
    }
}

/// Ends the trust in a lease that was not renewed in time, whatever the renewal that is under way is waiting for.
async fn watch_trust(line: &Line) {
    let mut changes = line.held_lease.changes();
    loop {
        if !line.held_lease.state().has_lease {
            // The sender lives as long as the line.
            let _ = changes.changed().await;
            continue;
        }
        tokio::select! {
            biased;
            _ = changes.changed() => {}
            () = line.ports.clock.sleep_for(line.held_lease.trust_left()) => {
                if !line.held_lease.is_trusted() {
                    tracing::warn!("the lease was not renewed in time; requests are aborted, and sending is paused until it is renewed");
                    line.held_lease.revoke();
                }
            }
        }
    }
}

struct Keeper {
    line: Arc<Line>,
    roles: Roles,
    stop: watch::Receiver<Option<Timestamp>>,
    /// What the boot has begun as that is not known to be dead, if there is one.
    begun_as: Option<Roles>,
    /// How many rounds failed in a row.
    failures: u32,
    /// What the log hears of them. All others who use the store are quiet meanwhile: this is who notices first.
    repeated_failure: RepeatedFailure,
    /// And of those that need a person.
    refusal: RepeatedFailure,
    is_skewed: bool,
    /// Where the store's clock has gone, while that is doubted.
    leap: Option<ClockJump>,
    watch: Watch,
}

impl Keeper {
    async fn keep(&mut self) {
        let clock = self.line.ports.clock.clone();
        let mut changes = self.line.held_lease.changes();
        loop {
            // By uptime, as the trust in the lease: a calendar that is set, or corrected, must not make it late.
            let next_at = clock.uptime() + LEASE_RENEWED_EVERY;
            match AssertUnwindSafe(self.round()).catch_unwind().await {
                Ok(Ok(())) => self.succeeded(),
                Ok(Err(error)) => self.failed(&error),
                Err(_) => self.failed(&StoreError::unavailable("keeping the lease panicked")),
            }
            tokio::select! {
                biased;
                // Something may have been left: others wait for it.
                _ = changes.wait_for(|state| !state.left.is_empty()), if self.failures == 0 => {}
                () = clock.sleep_for(next_at.saturating_sub(clock.uptime())) => {}
            }
        }
    }

    async fn round(&mut self) -> Result<(), StoreError> {
        if self.begun_as.is_none() {
            self.begin().await?;
        }
        let asked = self.line.ports.clock.reading();
        match self.line.ports.leases.renew().await? {
            Renewed::Lost => {
                tracing::warn!("another node took over the shards of this node; its memory is discarded and reloaded from the store");
                self.lose();
                self.begin().await
            }
            Renewed::Held { held, departures, workers, others, store_time } => {
                let overdue = self.watch.overdue(&others, asked.uptime, self.line.ports.clock.uptime());
                self.apply_store_time(store_time, asked);
                self.let_go(departures);
                self.adopt(held, asked).await;
                if held == Held::NOTHING && self.begun_as != Some(self.roles_now()) {
                    // The others count it out, or in again.
                    self.lose();
                    return self.begin().await;
                }
                // A store that is back is back for the others, too: they have a second to renew before somebody takes what they held.
                if self.failures > 0 { Ok(()) } else { self.balance(workers, overdue, asked).await }
            }
        }
    }

    /// Organizations that went to another pool are let go of by the owner. What is remembered of them is dropped first, so that whatever it still
    /// starts finds out before it sends.
    fn let_go(&self, departures: Vec<Departure>) {
        if !departures.is_empty() {
            departures.iter().for_each(|departure| self.line.catalog.forget_organization(departure.organization));
            self.line.wake_up.departing(departures);
        }
    }

    /// Nothing of the former boot may be written under the new one: the store could not tell it from the new one's.
    async fn begin(&mut self) -> Result<(), StoreError> {
        let _nobody = self.line.held_lease.life().await;
        let roles = self.roles_now();
        self.line.ports.leases.begin(roles).await?;
        // An organization that went to another pool before this boot was there does not wait for it.
        self.line.catalog.forget_all();
        self.line.held_lease.unfence();
        self.begun_as = Some(roles);
        Ok(())
    }

    /// What this node is there for. One whose clock is far off is there for nothing.
    fn roles_now(&self) -> Roles {
        if self.is_skewed { Roles { worker: false, scheduler: false } } else { self.roles }
    }

    fn lose(&mut self) {
        self.begun_as = None;
        self.line.held_lease.fence();
    }

    fn failed(&mut self, error: &StoreError) {
        self.failures += 1;
        if matches!(error, StoreError::Conflict) {
            self.lose();
        }
        self.tell(error);
    }

    fn tell(&mut self, error: &StoreError) {
        let (now, words) = (self.line.ports.clock.uptime(), error.in_words());
        let lasts_for = self.repeated_failure.failed(now);
        if error.is_refusal() {
            // At once, also in the middle of an outage: until then nobody had to act.
            if self.refusal.failed(now).is_some() {
                tracing::error!("the store refuses this node; sending is paused until the cause is corrected: {words}");
            }
            return;
        }
        let Some(away_secs) = lasts_for.map(|lasts_for| lasts_for.as_secs()) else { return };
        if away_secs == 0 {
            tracing::warn!("the store is unavailable; the lease cannot be renewed: {words}");
        } else {
            tracing::warn!(away_secs, "the store has been unavailable for {away_secs} s; sending is paused: {words}");
        }
    }

    fn succeeded(&mut self) {
        self.failures = 0;
        let _ = self.refusal.worked(self.line.ports.clock.uptime());
        if let Some(lasted_for) = self.repeated_failure.worked(self.line.ports.clock.uptime()) {
            let away_ms = millis(lasted_for);
            tracing::info!(away_ms, "the store is available again after {away_ms} ms; sending resumes");
        }
    }

    /// What the store says is held is in force. If something is missing that was held here, or the trust had ended, what is in memory is void.
    async fn adopt(&self, held: Held, asked: Reading) {
        let held_lease = &self.line.held_lease;
        let state = held_lease.state();
        let missing = state.held.shards.without(state.left).without(held.shards);
        if state.has_lease && missing.is_empty() {
            held_lease.grant(held, asked, state.epoch);
            return;
        }
        held_lease.revoke();
        let _nobody = held_lease.life().await;
        held_lease.unfence();
        held_lease.grant(held, asked, held_lease.state().epoch);
    }

    /// Gives back what was left, leaves what is more than this node's share, and takes what is less.
    async fn balance(&self, workers: u32, overdue: Vec<Heartbeat>, asked: Reading) -> Result<(), StoreError> {
        let (leases, held_lease) = (&self.line.ports.leases, &self.line.held_lease);
        let state = held_lease.state();
        let wanted = self.wanted(&state, workers);
        held_lease.leave(wanted.leave);
        let surplus = Held { shards: state.left, duties: wanted.resign };
        if surplus != Held::NOTHING {
            // A duty ends before it is given back; a shard was left long ago.
            held_lease.gave_back(Held { duties: surplus.duties, ..Held::NOTHING });
            leases.release(surplus).await?;
            held_lease.gave_back(surplus);
        }
        // Whoever is over must not count as one who shares, even where nothing of it is asked for yet.
        if wanted.request.shards_max > 0 || !wanted.request.duties.is_empty() || !overdue.is_empty() {
            let taken = leases.take(wanted.request, overdue).await?;
            let held = held_lease.state().held;
            let held = Held { shards: held.shards.with(taken.shards), duties: held.duties.with(taken.duties) };
            held_lease.grant(held, asked, state.epoch);
        }
        Ok(())
    }

    fn wanted(&self, state: &HeldState, workers: u32) -> Wanted {
        let is_stopping = self.stop.borrow().is_some();
        let staying = state.staying();
        let roles = self.roles_now();
        let share = if roles.worker { Shard::COUNT.div_ceil(workers.max(1)) } else { 0 };
        let duties = if roles.scheduler { DutySet::ALL } else { DutySet::NONE };
        // A stop lets everything go when its last request has ended.
        let request = if is_stopping {
            LeaseRequest { shards_max: 0, duties: DutySet::NONE }
        } else {
            LeaseRequest { shards_max: share.saturating_sub(state.held.shards.len()), duties: duties.without(state.held.duties) }
        };
        Wanted { leave: staying.without(staying.first(share)), resign: state.held.duties.without(duties), request }
    }

    /// What is due, signed and stamped from here on uses the store's time, unless that may yet turn out to be wrong; what the machine's own clock shows
    /// is reported if it is wrong.
    fn apply_store_time(&mut self, store_time: Timestamp, asked: Reading) {
        let clock = self.line.ports.clock.clone();
        let answered = clock.reading();
        if let Some(offset) = Offset::measured(store_time, asked, answered)
            && self.may_follow(offset, store_time.since(clock.now()), answered.uptime)
        {
            clock.correct(offset);
        }
        // Time never goes back: after a calendar that ran ahead was set right, the time that is given out stands still until that time has come.
        let ahead = clock.now().since(store_time);
        self.report_skew(skew(asked.calendar, answered.calendar, store_time).max(ahead));
    }

    /// Whether the node's time may go where the store's is, which is so far ahead of it.
    fn may_follow(&mut self, to: Offset, ahead: Duration, uptime: Duration) -> bool {
        self.leap = ClockJump::doubted(self.leap, to, ahead, uptime);
        self.leap.is_none_or(|leap| leap.is_over(uptime))
    }

    fn report_skew(&mut self, skew: Duration) {
        self.line.held_lease.note_clock_skew(skew);
        let was_skewed = std::mem::replace(&mut self.is_skewed, skew > SKEW_MAX);
        let skew_ms = millis(skew);
        if self.is_skewed && !was_skewed {
            tracing::error!(
                skew_ms,
                "this node's clock differs from the store's by {skew_ms} ms; it holds no shards until the clock is corrected (run NTP)"
            );
        } else if skew > SKEW_WARNED_FROM && !self.is_skewed {
            tracing::warn!(skew_ms, "this node's clock differs from the store's by {skew_ms} ms; check NTP");
        }
    }
}

/// Where the store's clock was found, too far ahead to be believed at once.
#[derive(Clone, Copy)]
struct ClockJump {
    to: Offset,
    /// When it was found there for the first time, by uptime.
    since: Duration,
}

impl ClockJump {
    /// What is to be doubted now that the store's clock is found there, so far ahead of the node's time. `None` if nothing is.
    fn doubted(before: Option<Self>, to: Offset, ahead: Duration, uptime: Duration) -> Option<Self> {
        let is_same = |before: &Self| before.to.apart_from(to) <= SKEW_MAX;
        (ahead > SKEW_MAX).then(|| before.filter(is_same).unwrap_or(Self { to, since: uptime }))
    }

    fn is_over(&self, uptime: Duration) -> bool {
        uptime.saturating_sub(self.since) >= LEAP_DOUBTED_FOR
    }
}

/// What should change about what is held.
struct Wanted {
    leave: ShardSet,
    resign: DutySet,
    request: LeaseRequest,
}

/// How far the store's clock is from the node's, at the least: it was read somewhere between question and answer.
fn skew(asked_at: Timestamp, answered_at: Timestamp, store_time: Timestamp) -> Duration {
    asked_at.since(store_time).max(store_time.since(answered_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_is_how_far_the_stores_time_lies_outside_of_question_and_answer() {
        let at = Timestamp::from_secs;
        let table = [(10, 12, 11, 0), (10, 12, 10, 0), (10, 12, 12, 0), (10, 12, 7, 3), (10, 12, 20, 8)];
        for (asked, answered, store, expected) in table {
            assert_eq!(skew(at(asked), at(answered), at(store)), Duration::from_secs(expected), "{store}");
        }
    }

    #[test]
    fn a_store_that_is_suddenly_far_ahead_is_followed_when_it_has_been_there_for_a_while() {
        // How far the store is from the node's calendar, and how far the node's time is when it has heard of that, in seconds: a renewal each second.
        let table: [(&str, &[(i64, i64)]); 5] = [
            ("a little, at once", &[(0, 0), (4, 4), (8, 8)]),
            ("back, at once: the clock sees to it that time does not", &[(0, 0), (-3_600, -3_600)]),
            ("an hour that stays", &[(0, 0), (3_600, 0), (3_602, 0), (3_599, 0), (3_600, 3_600), (3_601, 3_601)]),
            ("an hour for a moment", &[(0, 0), (3_600, 0), (0, 0), (3_600, 0), (3_600, 0), (3_600, 0), (1, 1)]),
            ("never the same", &[(0, 0), (3_600, 0), (7_200, 0), (3_600, 0), (7_200, 0), (3_600, 0)]),
        ];
        for (case, renewals) in table {
            let (mut leap, mut node) = (None, 0);
            for ((store, expected), second) in renewals.iter().zip(0..) {
                let (ahead, uptime) = (Duration::from_secs(u64::try_from(store - node).unwrap_or(0)), Duration::from_secs(second));
                leap = ClockJump::doubted(leap, Offset { micros: store * 1_000_000 }, ahead, uptime);
                if leap.is_none_or(|leap| leap.is_over(uptime)) {
                    node = *store;
                }
                assert_eq!(node, *expected, "{case}, after {second} s");
            }
        }
    }
}
