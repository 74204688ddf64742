//! One endpoint's lane: what of its waiting deliveries is in memory, and what is still in the store. Pure.

mod backlog;
mod watched;

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use rustc_hash::{FxHashMap, FxHashSet};

pub(super) use self::backlog::{Backlog, UnreadRange};
use crate::{
    ids::{DeliveryId, EventId},
    lanes::{
        board::{Landed, Start},
        gate::{Flow, Gate},
        organizations::FairShareKey,
        slots::{SlotClass, SlotClasses, Slots, UNKNOWN_LANE_MAX},
    },
    metrics::LaneCounts,
    model::{Due, KeptBreaker, KeptStage, LanePolicy, Order, Priority},
    policy::breaker::{Pass, Transition},
    time::Timestamp,
};

/// How many deliveries of one queue are kept in memory. The rest of a backlog stays in the store.
pub(super) const WINDOW_MAX: usize = 50_000;

/// The same while the lanes together keep many.
pub(super) const WINDOW_MAX_WHEN_CROWDED: usize = 500;

/// How many rounds of requests a window still holds when it is filled again from the store: that takes about as long as one or two. Filled sooner, a lane
/// that is busy reads the same rows again for every hint of a new one.
const ROUNDS_LOW: usize = 4;

/// A window this short is filled again, and one that is longer is not, however many requests make a round.
const WINDOW_LOW_MIN: usize = 20;
const WINDOW_LOW_MAX: usize = 200;

/// A window that is up to so many times as long is filled again if a read for others begins: lanes that wait for the same events then read them once.
const WINDOWS_SOON: usize = 4;

/// How long at most a queue that has just looked gathers hints before it looks again: one read then brings what many hints announced. Others look at once.
pub(super) const HINTS_GATHER: Duration = Duration::from_millis(20);

/// A request that takes longer than this is slow, and so is a lane that has had one under way for longer.
const SLOW_FROM: Duration = Duration::from_secs(1);

/// How quickly an endpoint answers, by its last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Nothing was answered since the lane was made.
    Unknown,
    /// In a second or less.
    Quick,
    /// In more, or not at all.
    Slow,
}

/// The deliveries of one endpoint.
pub(super) struct Lane {
    /// Its settings.
    pub(super) policy: Arc<LanePolicy>,
    /// Whether requests may start.
    pub(super) gate: Gate,
    /// What happened in it.
    pub(super) counts: Arc<LaneCounts>,
    /// Whether its breaker was ever open.
    has_opened: bool,
    /// How many are under way.
    pub(super) in_flight: u32,
    /// How many of those started at which instant.
    started: BTreeMap<Timestamp, u32>,
    /// How quickly it answers.
    pub(super) pace: Pace,
    /// Whether any of its deliveries had an order.
    has_order: bool,
    /// The endpoint is disabled or deleted: nothing starts, and what waits is being cancelled.
    pub(super) closed: bool,
    pub(super) queues: [Queue; 3],
    /// Deliveries with an order that are in flight or unwritten.
    ordered_in_flight: Vec<OrderedFlight>,
    /// Every delivery that is in memory: in a window, in flight, or landed and not yet written. The store shows all of them as waiting.
    known: FxHashSet<DeliveryId>,
    /// Those of them that were brought forward since: once their outcome is written, they are due at this instant.
    forwarded: FxHashMap<DeliveryId, Timestamp>,
}

/// A delivery with an order whose request is under way, or whose outcome is unwritten. The next waits until this one is over, even if the store has
/// ended it meanwhile, because its event was erased here or elsewhere: one of an order at a time.
struct OrderedFlight {
    delivery: DeliveryId,
    order: Order,
}

/// The deliveries of one endpoint and one priority.
#[derive(Default)]
pub(super) struct Queue {
    /// Due, oldest first.
    pub(super) window: VecDeque<Due>,
    /// What the store holds beside those that are known.
    pub(super) backlog: Backlog,
    /// Those that were made while the backlog was being read: they follow what is read.
    arrived: Vec<Due>,
    /// Those that left memory while the backlog was being read: what is read may still show them as they were.
    departed: Vec<DeliveryId>,
    /// When a read of the backlog was last asked for.
    looked_at: Option<Timestamp>,
    /// In which class the turns list this queue, if they do.
    pub(super) listed: Option<SlotClass>,
    /// In which classes they have an entry of it. Those of other classes than it is listed in are stale, and dropped at their turn.
    pub(super) entries: SlotClasses,
    /// Whether the board lists it among those that will want a read soon.
    pub(super) postponed: bool,
}

/// Whether a queue should be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueReadRequest {
    /// It runs low.
    Now,
    /// It will run low soon, and comes along where others are read.
    Soon,
    /// Nothing is due in the store, nothing flows, or there is enough in memory.
    No,
}

impl Lane {
    /// An empty lane, whose breaker was kept as given, if it was.
    pub(super) fn new(policy: Arc<LanePolicy>, kept: Option<&KeptBreaker>, now: Timestamp) -> Self {
        Self {
            gate: Gate::new(&policy, kept, now),
            policy,
            counts: Arc::default(),
            has_opened: kept.is_some_and(|kept| kept.stage != KeptStage::Closed),
            in_flight: 0,
            started: BTreeMap::new(),
            pace: Pace::Unknown,
            has_order: false,
            closed: false,
            queues: Default::default(),
            ordered_in_flight: Vec::new(),
            known: FxHashSet::default(),
            forwarded: FxHashMap::default(),
        }
    }

    /// Whose turn it takes.
    pub(super) fn party(&self) -> FairShareKey {
        FairShareKey { organization: self.policy.organization, exempt: self.policy.operational }
    }

    /// Goes by this policy from now on, unless it knows a newer one. Says what its breaker did, if it did something.
    pub(super) fn adopt(&mut self, policy: &Arc<LanePolicy>, now: Timestamp) -> Option<Transition> {
        if policy.config_version <= self.policy.config_version {
            return None;
        }
        self.policy = policy.clone();
        self.gate.adopt(policy, now)
    }

    pub(super) fn queue(&mut self, priority: Priority) -> &mut Queue {
        &mut self.queues[priority as usize]
    }

    /// Whether a delivery that was just made durable is kept. It is unless it is known, something older must go first, nothing flows for a while, or
    /// there is no room; then it is found when the backlog is read.
    pub(super) fn accepts(&mut self, priority: Priority, due: &Due, window_max: usize, now: Timestamp) -> bool {
        if self.known.contains(&due.delivery) {
            return false;
        }
        let is_shut = self.closed || matches!(self.gate.flow(now), Flow::Shut(_));
        let queue = &mut self.queues[priority as usize];
        let older_in_store = match queue.backlog {
            Backlog::Empty => false,
            // Older, and read in a moment. What is read later, because it failed, must not hold up everything else.
            Backlog::Unread(rest) | Backlog::Reading { missed: Some(rest), .. } => rest.look_at <= now + HINTS_GATHER,
            Backlog::Reading { missed: None, .. } => false,
        };
        let accepts = !is_shut && !older_in_store && queue.window.len() + queue.arrived.len() < window_max;
        if !accepts {
            queue.backlog.extend(due.due_at);
        }
        accepts
    }

    /// Keeps a delivery that was just made durable: in the window, or until that is filled by the read that is under way.
    pub(super) fn admit(&mut self, priority: Priority, due: Due) {
        if !self.queue(priority).is_read() {
            return self.push(priority, due);
        }
        self.known.insert(due.delivery);
        self.queue(priority).arrived.push(due);
    }

    /// Puts a delivery into the window.
    pub(super) fn push(&mut self, priority: Priority, due: Due) {
        self.known.insert(due.delivery);
        self.has_order |= due.order.is_some();
        self.queue(priority).window.push_back(due);
    }

    /// A queue may start a flight if it has something, the lane has not as many under way as it takes, and the endpoint gets events now.
    pub(super) fn may_start(&self, priority: Priority, slots: &Slots, now: Timestamp) -> bool {
        let first = self.queues[priority as usize].window.front();
        let has_work = !self.closed && first.is_some_and(|due| !due.order.is_some_and(|order| self.is_under_way(order)));
        let max = self.policy.max_concurrency.min(self.in_flight_max(slots, now));
        has_work && self.in_flight < max && self.gate.flow(now) == Flow::Open && self.in_flight < self.gate.concurrency(max)
    }

    /// How quickly it answers. A request that is under way for long says so before it has ended.
    fn pace(&self, now: Timestamp) -> Pace {
        let hangs = self.started.first_key_value().is_some_and(|(at, _)| now.since(*at) > SLOW_FROM);
        if hangs { Pace::Slow } else { self.pace }
    }

    /// How many may be under way at once, as quickly as it answers.
    fn in_flight_max(&self, slots: &Slots, now: Timestamp) -> u32 {
        match (self.pace, self.pace(now)) {
            // Also once its first requests hang: one that never answered gets no more for that.
            (Pace::Unknown, _) => UNKNOWN_LANE_MAX,
            (_, Pace::Quick) => u32::MAX,
            (_, Pace::Slow | Pace::Unknown) => slots.slow_lane_max(),
        }
    }

    /// Why it wants a slot.
    pub(super) fn slot_class(&self, now: Timestamp) -> SlotClass {
        match (self.pace(now), self.in_flight) {
            (Pace::Quick, 0) => SlotClass::FirstOfQuick,
            (Pace::Quick, _) => SlotClass::MoreOfQuick,
            (Pace::Unknown, 0) => SlotClass::FirstOfUnknown,
            (Pace::Slow, 0) => SlotClass::FirstOfSlow,
            (Pace::Unknown | Pace::Slow, _) => SlotClass::MoreOfNotQuick,
        }
    }

    /// Takes the next delivery. It stays known until its outcome is written.
    pub(super) fn take(&mut self, priority: Priority, now: Timestamp) -> Option<(Due, Pass)> {
        let window = &mut self.queues[priority as usize].window;
        let pass = self.gate.begin(window.front()?.event, now)?;
        let due = window.pop_front()?;
        self.in_flight += 1;
        *self.started.entry(now).or_default() += 1;
        if let Some(order) = due.order {
            self.ordered_in_flight.push(OrderedFlight { delivery: due.delivery, order });
        }
        Some((due, pass))
    }

    /// As a rule not: the store frees the next when the outcome of the one before is written. But what was erased, it ends at once.
    fn is_under_way(&self, order: Order) -> bool {
        self.ordered_in_flight.iter().any(|flight| flight.order.excludes(order))
    }

    /// A request ended. Says what its breaker did, if it did something.
    pub(super) fn land(&mut self, landed: Landed, now: Timestamp) -> Option<Transition> {
        self.in_flight -= 1;
        let Start { pass, at, .. } = landed.start;
        if let Entry::Occupied(mut count) = self.started.entry(at) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        let Some(outcome) = landed.outcome else {
            self.gate.unmade(pass, now);
            return None;
        };
        self.pace = if now.since(at) > SLOW_FROM { Pace::Slow } else { Pace::Quick };
        let transition = self.gate.end(pass, outcome, now);
        self.has_opened |= transition.is_some();
        transition
    }

    /// A breaker that is being tried out decides if nothing more is there to try it with.
    pub(super) fn decide(&mut self, now: Timestamp) -> Option<Transition> {
        if self.has_nothing_due(now) { self.gate.nothing_waits(now) } else { None }
    }

    /// A delivery left memory: its outcome is written, or it was handed back. `rest` says what the store still holds of it, if it does. Says whether others may
    /// have waited for it.
    pub(super) fn release(&mut self, priority: Priority, delivery: DeliveryId, rest: Option<UnreadRange>) -> bool {
        let flight = self.ordered_in_flight.iter().position(|flight| flight.delivery == delivery);
        let had_order = flight.map(|index| self.ordered_in_flight.swap_remove(index)).is_some();
        let queue = &mut self.queues[priority as usize];
        if queue.is_read() {
            queue.departed.push(delivery);
        } else {
            self.known.remove(&delivery);
        }
        if let Some(rest) = rest {
            queue.backlog.add(rest);
            // It was brought forward after its outcome was written, and before that was known here.
            if let Some(due_at) = self.forwarded.get(&delivery) {
                queue.backlog.add(UnreadRange::due(*due_at));
            }
        }
        self.forwarded.remove(&delivery);
        had_order
    }

    /// A delivery is due earlier than it was: the store is read from then on. A read that comes before it is known here that the delivery's last outcome is
    /// written passes it over; then it is read once more.
    pub(super) fn bring_forward(&mut self, priority: Priority, delivery: DeliveryId, due_at: Timestamp) {
        if self.known.contains(&delivery) {
            self.forwarded.insert(delivery, due_at);
        }
        self.queue(priority).backlog.add(UnreadRange::due(due_at));
    }

    /// Takes a delivery out of what waits in memory, if it is there. It stays known.
    pub(super) fn withdraw(&mut self, priority: Priority, delivery: DeliveryId) -> Option<Due> {
        let queue = self.queue(priority);
        if let Some(place) = queue.window.iter().position(|due| due.delivery == delivery) {
            return queue.window.remove(place);
        }
        let place = queue.arrived.iter().position(|due| due.delivery == delivery)?;
        Some(queue.arrived.remove(place))
    }

    /// A delivery that was withdrawn has ended, or the store holds it as `rest` says. A read that is under way may still show it as it was.
    pub(super) fn end_withdrawal(&mut self, priority: Priority, delivery: DeliveryId, rest: Option<UnreadRange>) {
        self.known.insert(delivery);
        self.release(priority, delivery, rest);
    }

    /// Whether the backlog should be read now, or could be.
    pub(super) fn look(&self, priority: Priority, now: Timestamp) -> QueueReadRequest {
        let queue = &self.queues[priority as usize];
        let is_due = matches!(queue.backlog, Backlog::Unread(rest) if rest.look_at <= now);
        if !is_due || self.closed || !matches!(self.gate.flow(now), Flow::Open | Flow::Paced(_)) {
            return QueueReadRequest::No;
        }
        match queue.window.len() {
            waiting if waiting <= self.window_low() => QueueReadRequest::Now,
            waiting if waiting <= self.window_low() * WINDOWS_SOON => QueueReadRequest::Soon,
            _ => QueueReadRequest::No,
        }
    }

    /// A window this short is filled again from the store.
    pub(super) fn window_low(&self) -> usize {
        (self.policy.max_concurrency as usize * ROUNDS_LOW).clamp(WINDOW_LOW_MIN, WINDOW_LOW_MAX)
    }

    /// A read is asked for.
    pub(super) fn begin_look(&mut self, priority: Priority, now: Timestamp) {
        let queue = self.queue(priority);
        if let Backlog::Unread(UnreadRange { due_from, .. }) = queue.backlog {
            queue.backlog = Backlog::Reading { due_from, missed: None };
            queue.looked_at = Some(now);
        }
    }

    /// The deliveries that are in memory. A read will find them too.
    pub(super) fn known(&self) -> &FxHashSet<DeliveryId> {
        &self.known
    }

    /// A read ended, and what was new of it went into the window. `rest` is what lies past it. What was made meanwhile follows, unless something that is
    /// older must go first: then it is given back.
    pub(super) fn end_look(&mut self, priority: Priority, rest: Option<UnreadRange>, now: Timestamp) -> Vec<Due> {
        let queue = &mut self.queues[priority as usize];
        let missed = match queue.backlog {
            Backlog::Reading { missed, .. } => missed,
            Backlog::Empty | Backlog::Unread(_) => None,
        };
        queue.backlog = Backlog::Empty;
        for rest in [rest, missed].into_iter().flatten() {
            queue.backlog.add(rest);
        }
        for delivery in queue.departed.drain(..) {
            self.known.remove(&delivery);
        }
        let arrived = std::mem::take(&mut queue.arrived);
        if matches!(queue.backlog, Backlog::Unread(rest) if rest.due_from <= now) {
            return self.forget(priority, arrived);
        }
        arrived.into_iter().for_each(|due| self.push(priority, due));
        Vec::new()
    }

    /// Leaves deliveries that wait in memory to the store.
    fn forget(&mut self, priority: Priority, waiting: Vec<Due>) -> Vec<Due> {
        if let Some(first) = waiting.iter().map(|due| due.due_at).min() {
            self.queue(priority).backlog.extend(first);
        }
        waiting.iter().for_each(|due| _ = self.known.remove(&due.delivery));
        waiting
    }

    /// Nothing flows for a while: what waits in memory is left to the store.
    pub(super) fn give_back(&mut self) -> Vec<Due> {
        let mut given_back = Vec::new();
        for priority in Priority::ALL {
            let queue = self.queue(priority);
            let waiting = queue.window.drain(..).chain(queue.arrived.drain(..)).collect();
            given_back.extend(self.forget(priority, waiting));
        }
        given_back
    }

    /// The endpoint was disabled or deleted: what waits is cancelled in the store.
    pub(super) fn close(&mut self) -> Vec<Due> {
        self.closed = true;
        let given_back = self.give_back();
        for queue in self.queues.iter_mut().filter(|queue| !queue.is_read()) {
            queue.backlog = Backlog::Empty;
        }
        given_back
    }

    /// The endpoint gets events again: what was given back and not cancelled is read again.
    pub(super) fn reopen(&mut self, now: Timestamp) {
        self.closed = false;
        self.queues.iter_mut().for_each(|queue| queue.backlog.add(UnreadRange { due_from: Timestamp::EPOCH, look_at: now }));
    }

    /// Takes the data of these events from the deliveries that wait with it. Each then asks the store at its turn.
    pub(super) fn unload(&mut self, events: &FxHashSet<EventId>) {
        let waiting = self.queues.iter_mut().flat_map(|queue| queue.window.iter_mut().chain(&mut queue.arrived));
        waiting.filter(|due| events.contains(&due.event)).for_each(|due| due.loaded = None);
    }

    /// Whether this delivery is in memory.
    pub(super) fn knows(&self, delivery: DeliveryId) -> bool {
        self.known.contains(&delivery)
    }

    /// Whether nothing of this lane is in memory and nothing of it is known to be in the store.
    pub(super) fn is_idle(&self) -> bool {
        self.known.is_empty() && self.queues.iter().all(|queue| queue.backlog == Backlog::Empty)
    }

    /// Whether nothing is lost if the lane is forgotten. Entries of it that are left with the turns would be made again and again.
    pub(super) fn is_forgettable(&self, now: Timestamp) -> bool {
        self.is_idle() && !self.closed && self.gate.is_pristine(now) && self.queues.iter().all(|queue| queue.entries.is_empty())
    }

    /// Whether what gathered until `began_at` is sent: nothing is due that old, or nothing at all. Of an ordered lane only the latter says so, because what
    /// is held comes due when it is freed; and an outcome that is unwritten may free something.
    pub(super) fn is_drained(&self, began_at: Timestamp, now: Timestamp) -> bool {
        let is_newer = |queue: &Queue| {
            queue.window.front().is_none_or(|due| due.due_at > began_at)
                && match queue.backlog {
                    Backlog::Empty => true,
                    Backlog::Unread(rest) => rest.due_from > began_at,
                    Backlog::Reading { .. } => false,
                }
        };
        let has_nothing_old = !self.has_order && self.queues.iter().all(is_newer);
        has_nothing_old || (self.known.is_empty() && self.has_nothing_due(now))
    }

    /// Whether nothing is under way and nothing is due.
    pub(super) fn has_nothing_due(&self, now: Timestamp) -> bool {
        let has_nothing_due = |queue: &Queue| {
            queue.window.is_empty()
                && match queue.backlog {
                    Backlog::Empty => true,
                    Backlog::Unread(rest) => rest.due_from > now,
                    Backlog::Reading { .. } => false,
                }
        };
        self.in_flight == 0 && self.queues.iter().all(has_nothing_due)
    }

    /// Whether nothing of this lane is in memory, nor on its way there.
    pub(super) fn is_clear(&self) -> bool {
        self.known.is_empty() && !self.queues.iter().any(Queue::is_read)
    }
}

impl Queue {
    /// It wants a slot of this class now. Says whether the turns need an entry for that.
    pub(super) fn list(&mut self, class: SlotClass) -> bool {
        self.listed = Some(class);
        self.entries.insert(class)
    }

    /// Its entry of this class is gone. Says whether that was where it was listed.
    pub(super) fn unlist(&mut self, class: SlotClass) -> bool {
        self.entries.remove(class);
        let was_listed = self.listed == Some(class);
        self.listed = self.listed.filter(|listed| *listed != class);
        was_listed
    }

    /// When to look for what another node made durable: at once, or, if that was just done, at the next of the moments that all queues share. One read
    /// then serves them all, and an event that they share is read once.
    pub(super) fn look_at(&self, now: Timestamp) -> Timestamp {
        let has_just_looked = self.looked_at.is_some_and(|looked_at| now.since(looked_at) < HINTS_GATHER);
        if has_just_looked { now.next_multiple_of(HINTS_GATHER) } else { now }
    }

    fn is_read(&self) -> bool {
        matches!(self.backlog, Backlog::Reading { .. })
    }
}
