//! What this node has in hand of the organizations' limits, where nodes share a store: one place that lanes, publishers and people take from, and that
//! the engine's exchange fills.
//!
//! Taking never waits for a store; it says what is missing and rings the bell. While the counters cannot be reached, everything here is set aside: each node
//! then counts for itself, with the whole limit, because a limit that cannot be counted must not stop deliveries.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, watch};

use crate::{
    ids::OrganizationId,
    model::{Budget, OrganizationLimits, RateLimit, SlotRequest},
    policy::allowance::{AHEAD, Allowance, Missing, SlotAllowance},
    ports::{ASKS_MAX, Ask, Grant, Wanted},
    time::Timestamp,
};

/// What is in hand.
pub struct Budgets {
    state: Mutex<State>,
    /// Rung when something is missing.
    bell: Notify,
    /// Counts the answers, whatever they were.
    answers: watch::Sender<u64>,
    /// Whether the counters cannot be reached: nobody is held back by what is in hand.
    is_away: AtomicBool,
}

#[derive(Default)]
struct State {
    rates: BTreeMap<(OrganizationId, Budget), Allowance>,
    slots: BTreeMap<OrganizationId, SlotAllowance>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            bell: Notify::new(),
            answers: watch::channel(0).0,
            // Nobody has asked yet: the first who misses something does.
            is_away: AtomicBool::new(false),
        }
    }
}

impl Budgets {
    /// Whether the counters cannot be reached, and each node counts for itself.
    pub fn are_away(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Tells of every answer, whatever it was.
    pub fn answers(&self) -> watch::Receiver<u64> {
        self.answers.subscribe()
    }

    /// Whether a request of the organization may start now. If not, what is missing is asked for.
    pub(crate) fn may_start(&self, organization: OrganizationId, limits: &OrganizationLimits, now: Timestamp) -> bool {
        let mut state = self.state();
        let slots = concurrency(limits).map(|limit| state.slots(organization, limit, now));
        let lacks_room = slots.is_some_and(SlotAllowance::lacks_room);
        let allowance = deliveries(limits).map(|limit| state.rate(organization, Budget::Deliveries, limit, AHEAD, now));
        let token = allowance.map(|allowance| allowance.look(now));
        drop(state);
        if lacks_room || matches!(token, Some(Err(Missing::Dry(_) | Missing::Asked))) {
            self.bell.notify_one();
        }
        !lacks_room && !matches!(token, Some(Err(_)))
    }

    /// When a token that is in hand is good.
    pub(crate) fn flows_from(&self, organization: OrganizationId) -> Option<Timestamp> {
        self.state().rates.get(&(organization, Budget::Deliveries))?.flows_from()
    }

    /// A request starts, which was seen that it may.
    pub(crate) fn start(&self, organization: OrganizationId, now: Timestamp) {
        if let Some(allowance) = self.state().rates.get_mut(&(organization, Budget::Deliveries)) {
            allowance.take_or_owe(now);
        }
    }

    /// A request that was started was not made.
    pub(crate) fn unmade(&self, organization: OrganizationId, now: Timestamp) {
        if let Some(allowance) = self.state().rates.get_mut(&(organization, Budget::Deliveries)) {
            allowance.put_back(now);
        }
    }

    /// So many requests of the organization are under way now.
    pub(crate) fn note_flights(&self, organization: OrganizationId, limits: &OrganizationLimits, in_flight: u32, now: Timestamp) {
        let mut state = self.state();
        match concurrency(limits) {
            Some(limit) => state.slots(organization, limit, now).note(in_flight),
            None => _ = state.slots.remove(&organization),
        }
    }

    /// The lanes begin anew: nothing is under way.
    pub(crate) fn forget_flights(&self) {
        self.state().slots.values_mut().for_each(|slots| slots.note(0));
    }

    /// Takes a token of a budget from which nobody takes ahead.
    ///
    /// # Errors
    /// What is missing. [`Missing::Asked`] was asked for: wait for the next answer.
    pub(crate) fn take(&self, organization: OrganizationId, budget: Budget, limit: RateLimit, now: Timestamp) -> Result<(), Missing> {
        let taken = self.state().rate(organization, budget, limit, Duration::ZERO, now).take(now);
        if taken == Err(Missing::Asked) {
            self.bell.notify_one();
        }
        taken
    }

    /// Waits until something may have to be asked for.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// When something should be asked for.
    pub(crate) fn ask_at(&self, now: Timestamp) -> Option<Timestamp> {
        let state = self.state();
        let rates = state.rates.values().filter_map(|allowance| allowance.ask_at(now));
        rates.chain(state.slots.values().filter_map(SlotAllowance::ask_at)).min()
    }

    /// What should be asked for now. What a new entry would do as well is forgotten.
    pub(crate) fn asks(&self, now: Timestamp) -> Vec<Ask> {
        let state = &mut *self.state();
        state.rates.retain(|_, allowance| !allowance.is_idle(now));
        state.slots.retain(|_, slots| !slots.is_idle());
        let tokens = |((organization, budget), allowance): (&(OrganizationId, Budget), &mut Allowance)| {
            allowance.ask(now).map(|draw| Ask { organization: *organization, what: Wanted::Tokens(*budget, draw) })
        };
        let due = |(_, slots): &(&OrganizationId, &mut SlotAllowance)| slots.ask_at().is_some_and(|at| at <= now);
        let slots = |(organization, slots): (&OrganizationId, &mut SlotAllowance)| Ask {
            organization: *organization,
            what: Wanted::Slots(slots.ask()),
        };
        let mut asks: Vec<Ask> = state.rates.iter_mut().filter_map(tokens).take(ASKS_MAX).collect();
        let room = ASKS_MAX - asks.len();
        asks.extend(state.slots.iter_mut().filter(due).map(slots).take(room));
        asks
    }

    /// Everything that is in hand and not in use, to be given back before this node ends.
    pub(crate) fn give_up(&self) -> Vec<Ask> {
        let state = &mut *self.state();
        let tokens = state.rates.iter_mut().filter_map(|((organization, budget), allowance)| {
            allowance.give_up().map(|draw| Ask { organization: *organization, what: Wanted::Tokens(*budget, draw) })
        });
        let slots = std::mem::take(&mut state.slots).into_iter().map(|(organization, mut slots)| {
            let ask = slots.ask();
            Ask { organization, what: Wanted::Slots(SlotRequest { bound: 0, wanted: 0, ..ask }) }
        });
        tokens.chain(slots).take(ASKS_MAX).collect()
    }

    /// What was granted is in hand. `chance` spreads the nodes, see [`Allowance::granted`].
    pub(crate) fn granted(&self, asks: &[Ask], grants: &[Grant], now: Timestamp, mut chance: impl FnMut() -> f64) {
        let mut state = self.state();
        for (ask, grant) in asks.iter().zip(grants) {
            match (ask.what, grant) {
                (Wanted::Tokens(budget, draw), Grant::Tokens(drawn)) => {
                    if let Some(allowance) = state.rates.get_mut(&(ask.organization, budget)) {
                        allowance.granted(&draw, *drawn, now, chance());
                    }
                }
                (Wanted::Slots(_), Grant::Slots(allowed)) => {
                    if let Some(slots) = state.slots.get_mut(&ask.organization) {
                        slots.granted(*allowed, now, chance());
                    }
                }
                _ => {}
            }
        }
        drop(state);
        self.tell(false);
    }

    /// The counters cannot be reached. What was asked for is asked for again when they can.
    pub(crate) fn failed(&self) {
        self.tell(true);
    }

    fn tell(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
        self.answers.send_modify(|answers| *answers += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn rate(&mut self, organization: OrganizationId, budget: Budget, limit: RateLimit, ahead: Duration, now: Timestamp) -> &mut Allowance {
        let allowance = self.rates.entry((organization, budget)).or_insert_with(|| Allowance::new(limit, ahead, now));
        allowance.change(limit);
        allowance
    }

    fn slots(&mut self, organization: OrganizationId, limit: NonZeroU32, now: Timestamp) -> &mut SlotAllowance {
        let slots = self.slots.entry(organization).or_insert_with(|| SlotAllowance::new(limit, now));
        slots.change(limit);
        slots
    }
}

/// The organization's limit of requests under way.
pub(crate) fn concurrency(limits: &OrganizationLimits) -> Option<NonZeroU32> {
    limits.concurrency.and_then(NonZeroU32::new)
}

/// The organization's limit of requests that start.
pub(crate) fn deliveries(limits: &OrganizationLimits) -> Option<RateLimit> {
    limits.deliveries_per_minute.and_then(NonZeroU32::new).map(|requests| RateLimit::per_minute(requests, None))
}
