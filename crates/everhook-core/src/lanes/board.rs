//! All lanes: what waits in memory, whose turn it is, and what must be read from the store. Pure: it is handed the time and does nothing itself.

mod leaving;
mod looking;
mod withdrawing;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    ids::{ApplicationId, DeliveryId, LaneId, OrganizationId},
    lanes::{
        breakers::Breakers,
        event_cache::EventCache,
        fair_queue::FairQueue,
        gate::Flow,
        lane::{Backlog, Lane, QueueReadRequest, UnreadRange, WINDOW_MAX, WINDOW_MAX_WHEN_CROWDED},
        organizations::{FairShareKey, Organizations},
        paces::Paces,
        slots::{Pool, SlotClass, Slots},
        turns::{Opening, Turns},
    },
    metrics::{LaneCounts, Metrics},
    model::{FailureCategory, InFlight, LanePolicy, Priority},
    policy::breaker::{CallOutcome, Pass},
    ports::{Committed, LaneReport, LaneWindow},
    time::Timestamp,
};

/// How many deliveries the windows of all lanes may keep before each may keep only few. A delivery takes about a hundred bytes.
const WAITING_CROWD: usize = 200_000;

/// How many alarms ring before others are heard: less than a millisecond of work. The rest rings at once afterwards.
const RING_MAX: usize = 1_000;

/// How late a hint may come after its delivery is in the store. A publisher sends it as soon as it hears of the commit.
const HINT_DELAY_MAX: Duration = Duration::from_secs(10);

/// Names one queue of one lane.
pub(super) type QueueKey = (LaneId, Priority);

/// The lanes of this owner.
pub(super) struct Board {
    lanes: FxHashMap<LaneId, Lane>,
    turns: Turns,
    organizations: Organizations,
    /// What is kept of breakers, of lanes in memory and of others.
    pub(super) breakers: Breakers,
    /// When a backlog's first delivery comes due, or a gate opens. Entries may be stale: the lane is asked again when one rings.
    alarms: BTreeSet<(Timestamp, LaneId, Priority)>,
    /// When an organization may start something again.
    organization_alarms: BTreeSet<(Timestamp, FairShareKey)>,
    /// Endpoints that have sent what gathered during a pause.
    drained: Vec<(ApplicationId, LaneId)>,
    /// Queues whose backlog should be read, in the order in which they asked. Organizations take turns.
    looks: FairQueue<OrganizationId, QueueKey>,
    /// Queues whose backlog could be read as well: they come along where a read has room. Entries may be stale: the lane is asked again.
    postponed: VecDeque<QueueKey>,
    /// New deliveries that a read found before their hint came, with the instant of their making. The hint is then no news, even if the
    /// delivery has come and gone meanwhile.
    unannounced: FxHashMap<DeliveryId, Timestamp>,
    /// Deliveries that a survey found and no lane knew of. Those that a read then finds too were stranded; the others had just been settled.
    suspects: FxHashSet<DeliveryId>,
    /// Deliveries that are being cancelled: nothing that is read or hinted brings them into a lane.
    withdrawn: FxHashSet<DeliveryId>,
    /// The events that come with what waits in the windows.
    event_cache: EventCache,
    /// Whether everything that waits in the store was seen. Before that, a lane that seems to have nothing left may have a backlog.
    knows_what_waits: bool,
    /// How many deliveries wait in the windows.
    waiting: usize,
    slots: Slots,
    /// How quickly those answered whose lanes are forgotten.
    paces: Paces,
    /// Queues whose turn came in a class that is no longer theirs.
    misplaced: Vec<QueueKey>,
    /// Where it is counted what happens in lanes.
    metrics: Arc<Metrics>,
}

impl Board {
    /// An empty board that lets `slots` requests be under way at once, of organizations that have nothing under way.
    pub(super) fn with(organizations: Organizations, slots: usize, metrics: Arc<Metrics>) -> Self {
        Self {
            lanes: FxHashMap::default(),
            turns: Turns::default(),
            organizations,
            breakers: Breakers::default(),
            alarms: BTreeSet::new(),
            organization_alarms: BTreeSet::new(),
            drained: Vec::new(),
            looks: FairQueue::default(),
            postponed: VecDeque::new(),
            unannounced: FxHashMap::default(),
            suspects: FxHashSet::default(),
            withdrawn: FxHashSet::default(),
            event_cache: EventCache::default(),
            knows_what_waits: false,
            waiting: 0,
            slots: Slots::new(slots),
            paces: Paces::default(),
            misplaced: Vec::new(),
            metrics,
        }
    }

    /// How many requests are under way.
    pub(super) fn in_flight(&self) -> usize {
        self.slots.in_flight()
    }

    /// When something comes due or may flow next.
    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        let lanes = self.alarms.first().map(|(at, ..)| *at);
        let organizations = self.organization_alarms.first().map(|(at, _)| *at);
        lanes.into_iter().chain(organizations).min()
    }

    /// The next endpoint that has sent what gathered during a pause: its rate is no longer held down.
    pub(super) fn next_drained(&mut self) -> Option<(ApplicationId, LaneId)> {
        self.drained.pop()
    }

    /// How a lane stands; `None` if nothing of it is in memory.
    pub(super) fn report(&self, lane_id: LaneId, now: Timestamp) -> Option<LaneReport> {
        let lane = self.lanes.get(&lane_id)?;
        Some(LaneReport { breaker: lane.gate.breaker().facts(now), in_flight: lane.in_flight, held_until: lane.gate.held_until(now) })
    }

    /// A lane, to be looked at.
    pub(super) fn lane(&self, lane_id: LaneId) -> Option<&Lane> {
        self.lanes.get(&lane_id)
    }

    /// A delivery was made durable: it takes its place in its lane.
    pub(super) fn offer(&mut self, committed: Committed, now: Timestamp) {
        let Committed { lane: policy, priority, mut due } = committed;
        let lane_id = policy.lane_id;
        if self.unannounced.remove(&due.delivery).is_some() || self.withdrawn.contains(&due.delivery) {
            return;
        }
        let is_late = now.since(due.due_at) >= HINT_DELAY_MAX;
        let window_max = if self.waiting < WAITING_CROWD { WINDOW_MAX } else { WINDOW_MAX_WHEN_CROWDED };
        if self.lanes.get(&lane_id).is_some_and(|lane| lane.policy.config_version < policy.config_version) {
            self.adjust(&policy, now);
        }
        let lane = open(&mut self.lanes, &mut self.organizations, &mut self.breakers, &mut self.paces, &self.metrics, &policy, now);
        if is_late {
            // It may have been found, sent and forgotten by now: only the store knows.
            lane.queue(priority).backlog.extend(due.due_at);
        } else if lane.accepts(priority, &due, window_max, now) {
            self.event_cache.put(policy.organization, &mut due);
            self.waiting += 1;
            lane.admit(priority, due);
        }
        self.review((lane_id, priority), now);
    }

    /// Takes the next delivery whose turn it is, if there is a slot for it.
    pub(super) fn next(&mut self, now: Timestamp) -> Option<(InFlight, Start)> {
        while !self.slots.are_taken() {
            let Some((class, queue)) = self.next_turn(now) else {
                if !self.turns.readmit(|class, held| self.slots.may_start(class, held)) {
                    return None;
                }
                continue;
            };
            if let Some(started) = self.start(class, queue, now) {
                return Some(started);
            }
        }
        None
    }

    /// Whose turn it is, of those that may start, and to which slots.
    fn next_turn(&mut self, now: Timestamp) -> Option<(SlotClass, QueueKey)> {
        loop {
            let turn = self.take_turn(now);
            let mut misplaced = std::mem::take(&mut self.misplaced);
            let is_over = turn.is_some() || misplaced.is_empty();
            misplaced.drain(..).for_each(|queue| self.review(queue, now));
            // The buffer is used again.
            self.misplaced = misplaced;
            if is_over {
                return turn.map(|(class, lane_id, priority)| (class, (lane_id, priority)));
            }
        }
    }

    fn take_turn(&mut self, now: Timestamp) -> Option<(SlotClass, LaneId, Priority)> {
        let (lanes, slots, misplaced) = (&mut self.lanes, &self.slots, &mut self.misplaced);
        let (organizations, organization_alarms) = (&mut self.organizations, &mut self.organization_alarms);
        let opening = |party: FairShareKey, class| {
            let held = slots.held(party.organization, class);
            if !slots.may_start(class, held) {
                return Opening::WithoutSlot(held);
            }
            if organizations.may_start(party, now) {
                return Opening::Open;
            }
            if let Some(from) = organizations.flows_from(party, now) {
                organization_alarms.insert((from, party));
            }
            Opening::Limited
        };
        self.turns.next(opening, |class, lane_id, priority| {
            let Some(lane) = lanes.get_mut(&lane_id) else { return false };
            let may_start = lane.may_start(priority, slots, now);
            if may_start && lane.queue(priority).listed == Some(class) && lane.slot_class(now) == class {
                return true;
            }
            if lane.queue(priority).unlist(class) && may_start {
                misplaced.push((lane_id, priority));
            }
            false
        })
    }

    /// Takes the next delivery of a queue. `None` if the breaker wants another event than its first as a probe.
    fn start(&mut self, class: SlotClass, (lane_id, priority): QueueKey, now: Timestamp) -> Option<(InFlight, Start)> {
        let lane = self.lanes.get_mut(&lane_id)?;
        lane.queue(priority).unlist(class);
        let (due, pass) = lane.take(priority, now)?;
        if lane.was_held_up_by_breaker(&due) {
            lane.counts.circuit_blocked.add(1);
        }
        let (party, application) = (lane.party(), lane.policy.application);
        self.organizations.start(party, now);
        self.slots.start(party.organization, class.pool());
        self.waiting -= 1;
        self.event_cache.take(&due);
        self.review((lane_id, priority), now);
        let flight = InFlight { due, lane_id, priority, application, picked_at: now, breaker: pass.state() };
        Some((flight, Start { pass, party, pool: class.pool(), at: now }))
    }

    /// A request ended: its slot is free. Its delivery stays known until [`Board::release`].
    pub(super) fn landed(&mut self, lane_id: LaneId, landed: Landed, now: Timestamp) {
        let Start { party, pool, .. } = landed.start;
        self.slots.land(party.organization, pool);
        self.organizations.land(party, now);
        if landed.outcome.is_none() {
            self.organizations.unmade(party, now);
        }
        // Both count for what it holds.
        [false, true].into_iter().for_each(|exempt| self.turns.resume(FairShareKey { exempt, ..party }));
        let Some(lane) = self.lanes.get_mut(&lane_id) else { return };
        if landed.outcome.is_some() {
            self.breakers.count(lane_id);
        }
        let transition = lane.land(landed, now).or_else(|| lane.decide(now));
        if let Some(transition) = transition {
            self.metrics.transitions.count(&transition);
            lane.note_breaker();
            self.breakers.changed(lane.policy.application, lane_id, lane.gate.breaker().keep(), transition);
        }
        self.review_lane(lane_id, now);
    }

    /// An attempt in a lane failed.
    pub(super) fn count_failure(&self, lane_id: LaneId, category: FailureCategory) {
        let Some(lane) = self.lanes.get(&lane_id) else { return };
        lane.counts.failures.add(1);
        if category == FailureCategory::RateLimit {
            lane.counts.rate_limit_hits.add(1);
        }
    }

    /// The endpoint asked for a pause until the instant given, or answered well, which ends one.
    pub(super) fn hold(&mut self, lane_id: LaneId, until: Option<Timestamp>, now: Timestamp) {
        if self.lanes.get_mut(&lane_id).is_some_and(|lane| lane.gate.hold(until)) {
            self.review_lane(lane_id, now);
        }
    }

    /// A request to the endpoint could not be made for want of something on our side: its lane waits until the instant.
    pub(super) fn back_off(&mut self, lane_id: LaneId, until: Timestamp, now: Timestamp) {
        if let Some(lane) = self.lanes.get_mut(&lane_id) {
            lane.gate.back_off(until);
            self.review_lane(lane_id, now);
        }
    }

    /// A delivery's outcome is written, or it was handed back without one. `rest` says what the store still holds of it, if it does.
    pub(super) fn release(&mut self, key: QueueKey, delivery: DeliveryId, rest: Option<UnreadRange>, now: Timestamp) {
        let others_waited = self.lanes.get_mut(&key.0).is_some_and(|lane| lane.release(key.1, delivery, rest));
        if others_waited { self.review_lane(key.0, now) } else { self.review(key, now) }
    }

    /// The endpoint was changed, or it gets events again.
    pub(super) fn adjust(&mut self, policy: &Arc<LanePolicy>, now: Timestamp) {
        let lane_id = policy.lane_id;
        self.organizations.adopt(policy.organization, &policy.limits, now);
        if let Some(lane) = self.lanes.get_mut(&lane_id) {
            // What a person decided comes first: the new numbers are applied to that.
            if let Some(kept) = self.breakers.take_news(lane_id) {
                lane.gate.restore(&kept, &lane.policy.clone(), now);
                lane.note_breaker();
            }
            if let Some(transition) = lane.adopt(policy, now) {
                self.metrics.transitions.count(&transition);
                lane.note_breaker();
                self.breakers.changed(policy.application, lane_id, lane.gate.breaker().keep(), transition);
            }
            if lane.closed {
                lane.reopen(now);
            }
            self.turns.resume(lane.party());
        }
        self.review_lane(lane_id, now);
    }

    /// Everything that waited in the store was seen: a lane that has nothing left has sent it all.
    pub(super) fn know_what_waits(&mut self, now: Timestamp) {
        if !std::mem::replace(&mut self.knows_what_waits, true) {
            let lanes: Vec<LaneId> = self.lanes.keys().copied().collect();
            lanes.into_iter().for_each(|lane_id| self.review_lane(lane_id, now));
        }
    }

    /// Lanes were gained of which nothing is known yet.
    pub(super) fn gain(&mut self) {
        self.knows_what_waits = false;
    }

    /// Forgets which deliveries were found before their hint came, once none can come any more, who was suspected, and lanes that have nothing left
    /// to remember. Called before a survey.
    pub(super) fn prune(&mut self, now: Timestamp) {
        self.suspects.clear();
        self.unannounced.retain(|_, made_at| now.since(*made_at) < HINT_DELAY_MAX);
        let paces = &mut self.paces;
        self.lanes.retain(|lane_id, lane| {
            let is_forgettable = lane.is_forgettable(now);
            if is_forgettable {
                paces.remember(*lane_id, lane.pace);
            }
            !is_forgettable
        });
        let lanes = &self.lanes;
        self.postponed.retain(|(lane_id, _)| lanes.contains_key(lane_id));
        self.organizations.prune(now, || lanes.values().map(|lane| lane.policy.organization).collect());
    }

    /// Rings the alarms that are due, up to [`RING_MAX`] of lanes.
    pub(super) fn ring(&mut self, now: Timestamp) {
        for _ in 0..RING_MAX {
            if self.alarms.first().is_none_or(|(at, ..)| *at > now) {
                break;
            }
            let Some((_, lane_id, _)) = self.alarms.pop_first() else { break };
            // All its queues: what they share, like a rate, may have been what they waited for.
            self.review_lane(lane_id, now);
        }
        while let Some(&(at, party)) = self.organization_alarms.first() {
            if at > now {
                break;
            }
            self.organization_alarms.pop_first();
            self.turns.resume(party);
        }
    }

    /// What breakers have counted since the last time.
    pub(super) fn take_windows(&mut self, now: Timestamp) -> Vec<LaneWindow> {
        let (counted, mut windows) = self.breakers.take_counted();
        let window = |lane_id| Some(LaneWindow { lane_id, window: self.lanes.get(&lane_id)?.gate.breaker().window(now)? });
        windows.extend(counted.into_iter().filter_map(window));
        windows
    }

    /// More may be done of what organizations may do on all nodes together.
    pub(super) fn resume_refused(&mut self) {
        self.organizations.take_refused().into_iter().for_each(|party| self.turns.resume(party));
    }

    fn review_lane(&mut self, lane_id: LaneId, now: Timestamp) {
        for priority in Priority::ALL {
            self.review((lane_id, priority), now);
        }
    }

    /// After anything happened to a queue: lists it if it may start, asks for a read if it needs one, or sets an alarm for when it will.
    fn review(&mut self, (lane_id, priority): QueueKey, now: Timestamp) {
        let Some(lane) = self.lanes.get_mut(&lane_id) else { return };
        if self.knows_what_waits && lane.gate.drains_since().is_some_and(|began_at| lane.is_drained(began_at, now)) {
            lane.gate.end_drain();
            self.drained.push((lane.policy.application, lane_id));
        }
        if lane.may_start(priority, &self.slots, now) {
            let class = lane.slot_class(now);
            if lane.queue(priority).list(class) {
                self.turns.list(lane.party(), class, lane_id, priority);
            }
        }
        match lane.gate.flow(now) {
            Flow::Open | Flow::Full => {}
            Flow::Paced(from) => {
                let is_new = self.alarms.insert((from, lane_id, priority));
                if is_new && !lane.queue(priority).window.is_empty() {
                    lane.counts.rate_limit_hits.add(1);
                }
            }
            Flow::Shut(until) => {
                if let Some(until) = until {
                    self.alarms.insert((until, lane_id, priority));
                }
                for due in lane.give_back() {
                    self.waiting -= 1;
                    self.event_cache.take(&due);
                }
            }
        }
        match lane.look(priority, now) {
            QueueReadRequest::Now => {
                lane.begin_look(priority, now);
                self.looks.push(lane.policy.organization, (lane_id, priority));
            }
            QueueReadRequest::Soon if !std::mem::replace(&mut lane.queue(priority).postponed, true) => {
                self.postponed.push_back((lane_id, priority))
            }
            QueueReadRequest::Soon | QueueReadRequest::No => {}
        }
        if let Backlog::Unread(UnreadRange { look_at, .. }) = lane.queue(priority).backlog
            && look_at > now
        {
            self.alarms.insert((look_at, lane_id, priority));
        }
        if lane.is_forgettable(now) {
            self.paces.remember(lane_id, lane.pace);
            self.lanes.remove(&lane_id);
        }
    }
}

/// The lane of an endpoint, made if it is not there. One that is there learns of a newer policy by [`Board::adjust`].
fn open<'a>(
    lanes: &'a mut FxHashMap<LaneId, Lane>,
    organizations: &mut Organizations,
    breakers: &mut Breakers,
    paces: &mut Paces,
    metrics: &Metrics,
    policy: &Arc<LanePolicy>,
    now: Timestamp,
) -> &'a mut Lane {
    lanes.entry(policy.lane_id).or_insert_with(|| {
        organizations.adopt(policy.organization, &policy.limits, now);
        let mut lane = Lane::new(policy.clone(), breakers.kept(policy.lane_id), now);
        lane.counts = metrics.lanes.get_to_keep(&policy.lane_id, LaneCounts::default);
        lane.note_breaker();
        lane.pace = paces.take(policy.lane_id);
        if let Some(window) = breakers.take_window(policy.lane_id) {
            let changed_at = breakers.kept(policy.lane_id).map(|kept| kept.since);
            lane.gate.resume_window(&window, changed_at);
        }
        lane
    })
}

/// What a request that starts has to give back when it has ended.
#[derive(Debug)]
pub(super) struct Start {
    /// What its breaker let it start with.
    pub(super) pass: Pass,
    /// Who holds the slot.
    party: FairShareKey,
    /// Of which pool it is.
    pool: Pool,
    /// When it started.
    pub(super) at: Timestamp,
}

/// How a request ended, as far as its lane must know.
pub(super) struct Landed {
    /// What it started with.
    pub(super) start: Start,
    /// What it says about the endpoint; `None` if no request was made.
    pub(super) outcome: Option<CallOutcome>,
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "board_look_tests.rs"]
mod look_tests;

#[cfg(test)]
#[path = "board_flow_tests.rs"]
mod flow_tests;

#[cfg(test)]
#[path = "board_slot_tests.rs"]
mod slot_tests;
