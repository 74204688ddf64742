//! What this node holds, as far as it knows: which lanes it may send for, and which duties are its.
//!
//! The engine's keeper writes it, the owner of the lanes follows it, and every request asks it once more before it goes out. It never asks the store: a
//! lease that could not be renewed in time ends here by itself, before it ends there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Mutex, MutexGuard, watch};

use crate::{
    catalog::Destination,
    ids::LaneId,
    model::{Duty, ShardSet},
    ports::{Clock, Held, LEASE_TRUSTED_FOR, Reading, Terms},
};

/// How far this node's clock may be from the store's before a person should look at it.
pub const SKEW_WARNED_FROM: Duration = Duration::from_secs(1);

/// How far it may be before the node holds nothing. What is due it knows by the store's time, but a machine that is so far off is not to be trusted
/// with anything that others could do.
pub const SKEW_MAX: Duration = Duration::from_secs(5);

/// What this node holds. Of a store that has one owner it holds everything, and no look at it costs anything.
pub struct HeldLease {
    terms: Terms,
    clock: Arc<dyn Clock>,
    state: watch::Sender<HeldState>,
    /// Until when the lease is trusted, in microseconds of the machine's own calendar and of uptime. The first notices a machine that was
    /// suspended, the second a calendar that was set back. What the clock is corrected by changes neither.
    trusted_until: AtomicI64,
    trusted_until_uptime: AtomicU64,
    /// Whether the boot is known to be dead: what it has not written will never be.
    fenced: AtomicBool,
    /// How far this node's clock was from the store's at the last renewal, in milliseconds.
    skew_ms: AtomicU64,
    /// Held by each life of the lanes' owner, until its last outcome is written or refused.
    life: Mutex<()>,
}

/// What this node holds at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldState {
    /// Rises whenever everything is lost: what was begun before is void, even if the same is held again.
    pub epoch: u64,
    /// Whether there is a lease that could be trusted when it was last looked at.
    pub has_lease: bool,
    /// What is held.
    pub held: Held,
    /// Those of the shards that others should have: nothing new is started for them.
    pub leaving: ShardSet,
    /// Those of the shards that are left of which nothing is in memory any more.
    pub left: ShardSet,
}

impl HeldState {
    /// The shards that are here to stay.
    pub fn staying(&self) -> ShardSet {
        self.held.shards.without(self.leaving)
    }
}

impl HeldLease {
    /// Everything, if nobody else is there; nothing, until there is a lease.
    pub fn new(terms: Terms, clock: Arc<dyn Clock>) -> Self {
        let state = match terms {
            Terms::SingleNode => HeldState { has_lease: true, held: Held::EVERYTHING, ..HeldState::default() },
            Terms::Shared => HeldState::default(),
        };
        Self {
            terms,
            clock,
            state: watch::channel(state).0,
            trusted_until: AtomicI64::new(i64::MIN),
            trusted_until_uptime: AtomicU64::new(0),
            fenced: AtomicBool::new(false),
            skew_ms: AtomicU64::new(0),
            life: Mutex::new(()),
        }
    }

    /// Whether other nodes may use the same store.
    pub fn is_shared(&self) -> bool {
        self.terms == Terms::Shared
    }

    /// Whether a request to this destination may go out now: its worker pool is this node's, and so is its lane.
    pub fn may_send(&self, destination: &Destination) -> bool {
        destination.is_sent_from_here() && self.holds_lane(destination.lane_id())
    }

    /// Whether this node holds the lane, by a lease that can be trusted.
    pub fn holds_lane(&self, lane_id: LaneId) -> bool {
        !self.is_shared() || (self.is_trusted() && self.state.borrow().held.shards.has_lane(lane_id))
    }

    /// Whether this duty is this node's now.
    pub fn does(&self, duty: Duty) -> bool {
        !self.is_shared() || (self.is_trusted() && self.state.borrow().held.duties.contains(duty))
    }

    /// Whether the lease was renewed so lately that nobody else can have taken anything.
    pub fn is_trusted(&self) -> bool {
        if !self.is_shared() {
            return true;
        }
        !self.trust_left().is_zero()
    }

    /// How far this node's clock was from the store's at the last renewal. Beyond [`SKEW_MAX`] the node holds nothing, and so sends nothing.
    pub fn clock_skew(&self) -> Duration {
        Duration::from_millis(self.skew_ms.load(Ordering::Relaxed))
    }

    /// Notes how far that is.
    pub(crate) fn note_clock_skew(&self, skew: Duration) {
        self.skew_ms.store(u64::try_from(skew.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// What is held now.
    pub fn state(&self) -> HeldState {
        *self.state.borrow()
    }

    /// Reports each change of what is held.
    pub(crate) fn changes(&self) -> watch::Receiver<HeldState> {
        self.state.subscribe()
    }

    /// Waits until no life of the owner is left, or begins one.
    pub(crate) async fn life(&self) -> MutexGuard<'_, ()> {
        self.life.lock().await
    }

    /// How much longer the lease is trusted, by whichever of the machine's clocks has gone further.
    pub(crate) fn trust_left(&self) -> Duration {
        let by_calendar = self.trusted_until.load(Ordering::Acquire).saturating_sub(self.clock.calendar().as_micros());
        let by_uptime = self.trusted_until_uptime.load(Ordering::Acquire).saturating_sub(micros(self.clock.uptime()));
        Duration::from_micros(u64::try_from(by_calendar).unwrap_or(0).min(by_uptime))
    }

    /// A renewal that was asked for then was granted: this is held, and can be trusted for a while. Unless everything was lost since that epoch.
    pub(crate) fn grant(&self, held: Held, asked: Reading, epoch: u64) {
        self.trusted_until.store((asked.calendar + LEASE_TRUSTED_FOR).as_micros(), Ordering::Release);
        self.trusted_until_uptime.store(micros(asked.uptime + LEASE_TRUSTED_FOR), Ordering::Release);
        self.change(|state| {
            if state.epoch != epoch {
                return;
            }
            state.has_lease = true;
            state.held = held;
            state.leaving = state.leaving.and(held.shards);
            state.left = state.left.and(held.shards);
        });
    }

    /// These shards are to be left.
    pub(crate) fn leave(&self, shards: ShardSet) {
        self.change(|state| state.leaving = state.leaving.with(shards.and(state.held.shards)));
    }

    /// Nothing of these shards is in memory any more. The owner says so.
    pub(crate) fn left(&self, shards: ShardSet) {
        self.change(|state| state.left = state.left.with(shards.and(state.leaving)));
    }

    /// This is not held any more.
    pub(crate) fn gave_back(&self, given: Held) {
        self.change(|state| {
            let shards = state.held.shards.without(given.shards);
            state.held = Held { shards, duties: state.held.duties.without(given.duties) };
            state.leaving = state.leaving.and(shards);
            state.left = state.left.and(shards);
        });
    }

    /// Nothing is held any more, and what was begun is void. Where the store has one owner, that cannot be.
    pub(crate) fn revoke(&self) {
        if self.is_shared() {
            self.change(|state| {
                if state.has_lease {
                    *state = HeldState { epoch: state.epoch + 1, ..HeldState::default() };
                }
            });
        }
    }

    /// The boot is dead: everything is lost, and what is unwritten will never be written.
    pub(crate) fn fence(&self) {
        self.fenced.store(true, Ordering::Release);
        self.revoke();
    }

    /// Whether the boot is dead.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// Nothing of a dead boot is left in memory.
    pub(crate) fn unfence(&self) {
        self.fenced.store(false, Ordering::Release);
    }

    fn change(&self, edit: impl FnOnce(&mut HeldState)) {
        self.state.send_if_modified(|state| {
            let before = *state;
            edit(state);
            *state != before
        });
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use uuid::Uuid;

    use super::*;
    use crate::{model::DutySet, time::Timestamp};

    /// A calendar and an uptime that the test sets, in seconds. Corrections hold it still for as long as it is looked at.
    struct ManualClock(Mutex<(i64, u64)>);

    #[async_trait]
    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(100)
        }

        fn calendar(&self) -> Timestamp {
            Timestamp::from_secs(self.0.lock().unwrap().0)
        }

        fn uptime(&self) -> Duration {
            Duration::from_secs(self.0.lock().unwrap().1)
        }

        async fn sleep_until(&self, _at: Timestamp) {
            std::future::pending().await
        }
    }

    fn lane_id(shard: u128) -> LaneId {
        LaneId::from_uuid(Uuid::from_u128(shard))
    }

    fn some() -> Held {
        Held { shards: ShardSet::from_bits(0b11), duties: [Duty::Alerts].into_iter().collect() }
    }

    #[test]
    fn a_store_with_one_owner_is_held_whole_for_ever() {
        let held_lease = HeldLease::new(Terms::SingleNode, Arc::new(ManualClock(Mutex::new((1_000, 1_000)))));
        held_lease.revoke();
        assert!(held_lease.holds_lane(lane_id(63)) && held_lease.does(Duty::ForgetKeys) && held_lease.is_trusted());
        assert_eq!(held_lease.state().held, Held::EVERYTHING);
    }

    #[test]
    fn a_lease_is_trusted_for_three_seconds_by_the_machines_calendar_and_by_uptime_whatever_the_clock_is_corrected_by() {
        let hands = Arc::new(ManualClock(Mutex::new((100, 10))));
        let held_lease = HeldLease::new(Terms::Shared, hands.clone());
        assert!(!held_lease.holds_lane(lane_id(0)), "nothing is held before there is a lease");
        held_lease.grant(some(), held_lease.clock.reading(), 0);
        let table = [
            ("at once", (100, 10), true),
            ("two seconds later", (102, 12), true),
            ("three seconds later", (103, 13), false),
            ("the calendar was set back", (50, 13), false),
            ("the machine was suspended", (103, 10), false),
        ];
        for (when, set, expected) in table {
            *hands.0.lock().unwrap() = set;
            let (sends, does) = (held_lease.holds_lane(lane_id(1)), held_lease.does(Duty::Alerts));
            assert_eq!((sends, does), (expected, expected), "{when}");
            assert!(!held_lease.holds_lane(lane_id(2)) && !held_lease.does(Duty::Operations), "{when}");
        }
    }

    #[test]
    fn what_was_granted_before_a_loss_is_void_after_it() {
        let held_lease = HeldLease::new(Terms::Shared, Arc::new(ManualClock(Mutex::new((100, 10)))));
        let asked = held_lease.clock.reading();
        held_lease.grant(some(), asked, 0);
        held_lease.revoke();
        held_lease.grant(some(), asked, 0);
        assert_eq!(held_lease.state(), HeldState { epoch: 1, ..HeldState::default() });
    }

    #[test]
    fn a_shard_is_left_before_it_is_given_back() {
        let held_lease = HeldLease::new(Terms::Shared, Arc::new(ManualClock(Mutex::new((100, 10)))));
        held_lease.grant(some(), held_lease.clock.reading(), 0);
        let second = ShardSet::from_bits(0b10);
        // Only what is held can be left, and only what is being left can have been.
        held_lease.left(second);
        held_lease.leave(ShardSet::from_bits(0b110));
        let state = held_lease.state();
        assert_eq!((state.leaving, state.left, state.staying()), (second, ShardSet::NONE, ShardSet::from_bits(0b01)));
        // What is under way may end meanwhile.
        assert!(held_lease.holds_lane(lane_id(1)));
        held_lease.left(second);
        held_lease.gave_back(Held { shards: second, duties: DutySet::NONE });
        let state = held_lease.state();
        assert_eq!((state.held.shards, state.leaving, state.left), (ShardSet::from_bits(0b01), ShardSet::NONE, ShardSet::NONE));
        assert!(!held_lease.holds_lane(lane_id(1)));
    }
}
