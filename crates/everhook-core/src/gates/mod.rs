//! What a request handler asks before it calls an app: may a request start now? One gate for each capability, shared by all calls of this node.
//!
//! A gate holds the breaker, the adaptive limit of concurrency, the budgets of retries and hedges, and how long answers take. The map is asked when a
//! call begins. Nobody holds a lock across an `await`. Decision 0057 says what is shared with the owner of the lanes and what is not.

mod app_limit;
mod capability;
mod slots;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustc_hash::FxHashMap;

use self::app_limit::AppLimit;
pub use self::{
    app_limit::AppKey,
    capability::{CallPass, CapabilityGate, GateFacts, GateSettings, LatePass, RequestOutcome, Standstill},
    slots::{CALLS_IN_FLIGHT_MAX, CallSlot, CallSlots},
};
use crate::{ids::LaneId, ports::BreakerRow, time::Timestamp};

/// How many gates are kept: some kilobytes each.
const GATES_MAX: usize = 10_000;
/// How many fewer there are after those that nobody uses were forgotten, so that not every new one has to look through all.
const ROOM_MADE: usize = GATES_MAX / 10;

/// The gates of this node.
pub struct Gates {
    kept: Mutex<Kept>,
    /// How many requests are under way, by organization.
    pub slots: Arc<CallSlots>,
}

#[derive(Default)]
struct Kept {
    gates: FxHashMap<LaneId, Entry>,
    /// The limits of apps whose capabilities have gates.
    apps: FxHashMap<AppKey, Weak<AppLimit>>,
    /// Counts uses, so that the longest unused is known.
    uses: u64,
    /// How many there may be until they are looked through again: more than the bound only while more are in use.
    look_through_at: usize,
}

struct Entry {
    gate: Arc<CapabilityGate>,
    used: u64,
}

impl Gates {
    /// None yet, with so many requests under way at most.
    pub fn new(calls_in_flight_max: u32) -> Self {
        Self { kept: Mutex::default(), slots: CallSlots::new(calls_in_flight_max) }
    }

    /// The gate of a lane, if it is there. It goes by the settings given from now on.
    pub fn get(&self, lane_id: LaneId, settings: &GateSettings, now: Timestamp) -> Option<Arc<CapabilityGate>> {
        let gate = self.lock().use_one(lane_id)?;
        // Before the gate is locked: whoever asks all gates locks the map first.
        if gate.is_of_other_app(settings) {
            let app = self.lock().app(settings);
            gate.join(settings.app, app);
        }
        gate.adopt(settings, now);
        Some(gate)
    }

    /// The gate of a lane that was not there a moment ago, with its breaker as the store keeps it. Whoever was faster made it.
    pub fn make(&self, lane_id: LaneId, settings: &GateSettings, kept: Option<&BreakerRow>, now: Timestamp) -> Arc<CapabilityGate> {
        let mut all = self.lock();
        if let Some(gate) = all.use_one(lane_id) {
            return gate;
        }
        all.forget_unused();
        let app = all.app(settings);
        let (gate, used) = (Arc::new(CapabilityGate::new(settings, app, kept, now)), all.uses);
        all.gates.insert(lane_id, Entry { gate: gate.clone(), used });
        gate
    }

    /// The gate of a lane, if it is there, as it is.
    pub fn find(&self, lane_id: LaneId) -> Option<Arc<CapabilityGate>> {
        self.lock().gates.get(&lane_id).map(|entry| entry.gate.clone())
    }

    /// The capabilities that were called since this was last asked.
    pub fn take_called(&self) -> Vec<LaneId> {
        let kept = self.lock();
        let called = kept.gates.iter().filter(|(_, entry)| entry.gate.take_called());
        let mut called: Vec<LaneId> = called.map(|(lane_id, _)| *lane_id).collect();
        called.sort_unstable();
        called
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn use_one(&mut self, lane_id: LaneId) -> Option<Arc<CapabilityGate>> {
        self.uses += 1;
        let entry = self.gates.get_mut(&lane_id)?;
        entry.used = self.uses;
        Some(entry.gate.clone())
    }

    /// The limit of an app, shared with its other capabilities.
    fn app(&mut self, settings: &GateSettings) -> Arc<AppLimit> {
        if let Some(app) = self.apps.get(&settings.app).and_then(Weak::upgrade) {
            return app;
        }
        // There are hardly more of them than gates.
        if self.apps.len() >= GATES_MAX {
            self.apps.retain(|_, app| app.strong_count() > 0);
        }
        let app = AppLimit::new(settings.app_concurrency_max);
        self.apps.insert(settings.app, Arc::downgrade(&app));
        app
    }

    /// Makes room. The breaker of what is forgotten is read from the store again; whoever is under way has a copy, and its gate stays.
    fn forget_unused(&mut self) {
        if self.gates.len() < self.look_through_at.max(GATES_MAX) {
            return;
        }
        let is_unused = |entry: &Entry| Arc::strong_count(&entry.gate) == 1;
        let mut unused: Vec<(u64, LaneId)> =
            self.gates.iter().filter(|(_, entry)| is_unused(entry)).map(|(lane_id, entry)| (entry.used, *lane_id)).collect();
        let too_many = self.gates.len() - (GATES_MAX - ROOM_MADE);
        if unused.len() > too_many {
            unused.select_nth_unstable_by_key(too_many, |(used, _)| *used);
            unused.truncate(too_many);
        }
        for (_, lane_id) in unused {
            self.gates.remove(&lane_id);
        }
        self.look_through_at = self.gates.len() + ROOM_MADE;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::{
        ids::{EventId, OrganizationId},
        policy::calls::{answer::FailureKind, manifest::ManifestDefaults},
    };

    const NOW: Timestamp = Timestamp::from_secs(1);

    fn settings() -> GateSettings {
        GateSettings {
            breaker: ManifestDefaults::default().breaker,
            slow_calls: None,
            slow_after: Duration::from_secs(1),
            max_concurrency: 100,
            app: AppKey { application: crate::ids::ApplicationId::from_uuid(Uuid::nil()), base_url: 0 },
            app_concurrency_max: 100,
            hedge: None,
            canary_version: None,
        }
    }

    fn lane(n: usize) -> LaneId {
        LaneId::from_uuid(Uuid::from_u128(n as u128))
    }

    /// A gate that is not as new: a request failed.
    fn fail(gates: &Gates, n: usize) {
        let gate = gates.make(lane(n), &settings(), None, NOW);
        let organization = OrganizationId::from_uuid(Uuid::nil());
        let pass = gate.begin(EventId::from_uuid(Uuid::from_u128(n as u128)), organization, &gates.slots, NOW).ok().unwrap();
        pass.end(RequestOutcome::Failed(FailureKind::Status, Duration::from_millis(1)), NOW);
    }

    #[test]
    fn however_many_capabilities_fail_the_gates_are_bounded_and_those_in_use_stay() {
        let gates = Gates::new(CALLS_IN_FLIGHT_MAX);
        let under_way = gates.make(lane(0), &settings(), None, NOW);
        fail(&gates, 1);
        for n in 2..GATES_MAX * 3 {
            fail(&gates, n);
            assert!(gates.get(lane(1), &settings(), NOW).is_some(), "it is used all the time");
        }
        assert!(gates.lock().gates.len() <= GATES_MAX, "{}", gates.lock().gates.len());
        assert!(gates.find(lane(2)).is_none(), "the longest unused is forgotten");
        assert!(gates.find(lane(0)).is_some_and(|gate| Arc::ptr_eq(&gate, &under_way)), "whoever is under way shares it with others");
    }

    #[test]
    fn gates_that_are_all_in_use_are_not_looked_through_for_each_new_one() {
        let gates = Gates::new(CALLS_IN_FLIGHT_MAX);
        let held: Vec<_> = (0..GATES_MAX + 10).map(|n| gates.make(lane(n), &settings(), None, NOW)).collect();
        assert_eq!(gates.lock().look_through_at, GATES_MAX + ROOM_MADE);
        drop(held);
        (0..ROOM_MADE * 2).for_each(|n| drop(gates.make(lane(GATES_MAX * 2 + n), &settings(), None, NOW)));
        assert!(gates.lock().gates.len() <= GATES_MAX, "those that were in use went when there was need");
    }
}
