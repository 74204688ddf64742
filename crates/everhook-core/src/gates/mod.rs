//! What a request handler asks before it calls an app: may a request start now? One gate for each capability, shared by all calls of this node.
//!
//! A gate holds the breaker, the adaptive limit of concurrency, the budgets of retries and hedges, and how long answers take. The map is asked when a
//! call begins. Nobody holds a lock across an `await`. Decision 0057 says what is shared with the owner of the lanes and what is not.

mod capability;
mod slots;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

pub use self::{
    capability::{CallPass, CapabilityGate, GateFacts, GateSettings, RequestOutcome, Standstill},
    slots::{CALLS_IN_FLIGHT_MAX, CallSlots},
};
use crate::{ids::LaneId, ports::BreakerRow, time::Timestamp};

/// How many gates are kept without looking which are needed: some kilobytes each.
const GATES_MAX: usize = 10_000;

/// The gates of this node.
#[derive(Default)]
pub struct Gates {
    gates: Mutex<FxHashMap<LaneId, Arc<CapabilityGate>>>,
    /// How many requests are under way, by organization.
    pub slots: Arc<CallSlots>,
}

impl Gates {
    /// The gate of a lane, if it is there. It goes by the settings given from now on.
    pub fn get(&self, lane_id: LaneId, settings: &GateSettings, now: Timestamp) -> Option<Arc<CapabilityGate>> {
        let gate = self.lock().get(&lane_id).cloned()?;
        gate.adopt(settings, now);
        Some(gate)
    }

    /// The gate of a lane that was not there a moment ago, with its breaker as the store keeps it. Whoever was faster made it.
    pub fn make(&self, lane_id: LaneId, settings: &GateSettings, kept: Option<&BreakerRow>, now: Timestamp) -> Arc<CapabilityGate> {
        let mut gates = self.lock();
        if gates.len() >= GATES_MAX {
            // What is forgotten is read from the store again; whoever is under way has a copy.
            gates.retain(|_, gate| Arc::strong_count(gate) > 1 || !gate.is_pristine(now));
        }
        gates.entry(lane_id).or_insert_with(|| Arc::new(CapabilityGate::new(settings, kept, now))).clone()
    }

    /// The gate of a lane, if it is there, as it is.
    pub fn find(&self, lane_id: LaneId) -> Option<Arc<CapabilityGate>> {
        self.lock().get(&lane_id).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<LaneId, Arc<CapabilityGate>>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
