//! Shadow mode: the app is called, the caller is answered by the fallback, and how the two differ is kept for people to look at.
//!
//! Differences are kept in memory, by the node that made the call: the last few of each capability. How many there were is counted with the statistics.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use rustc_hash::FxHashMap;
use uuid::Uuid;

use super::{
    Calls, OpenCapability,
    answered::CallAnswer,
    call::Call,
    flight::{Ask, Flight, failed},
};
use crate::{
    gates::CapabilityGate,
    ids::LaneId,
    model::AnswerCount,
    policy::calls::{
        answer::{AppFailure, FailureKind},
        shadow,
    },
    time::Timestamp,
};

/// How many differences of a capability are kept.
const KEPT_OF_LANE: usize = 50;
/// Of how many capabilities. Past it, those of the capability go that had none for the longest time.
const LANES_MAX: usize = 200;
/// How much of an answer is kept. A longer one is left out.
const ANSWER_BYTES_MAX: usize = 2 << 10;

/// A call in shadow mode whose answers differed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowDifference {
    /// The call.
    pub request_id: Uuid,
    /// The version of the manifest.
    pub version: i64,
    /// When the app's part ended.
    pub at: Timestamp,
    /// How long the app took.
    pub app_took: Duration,
    /// What the app would have answered, if it is short; or why there is no answer of it.
    pub app: Result<Option<Bytes>, AppFailure>,
    /// What the caller was answered with, if it is short; `None` as well if no step had an answer.
    pub instead: Option<Bytes>,
    /// Where they differ: JSON pointers. Empty if one of them is not there.
    pub places: Vec<String>,
}

/// The differences that this node knows of.
#[derive(Default)]
pub(super) struct Shadows(Mutex<FxHashMap<LaneId, VecDeque<ShadowDifference>>>);

impl Shadows {
    fn keep(&self, lane_id: LaneId, difference: ShadowDifference) {
        let mut lanes = self.lanes();
        if lanes.len() >= LANES_MAX && !lanes.contains_key(&lane_id) {
            let oldest = lanes.iter().min_by_key(|(_, kept)| kept.back().map(|last| last.at)).map(|(lane_id, _)| *lane_id);
            oldest.and_then(|lane_id| lanes.remove(&lane_id));
        }
        let kept = lanes.entry(lane_id).or_default();
        if kept.len() >= KEPT_OF_LANE {
            kept.pop_front();
        }
        kept.push_back(difference);
    }

    fn of(&self, lane_id: LaneId, version: i64) -> Vec<ShadowDifference> {
        let lanes = self.lanes();
        let kept = lanes.get(&lane_id).into_iter().flatten().rev();
        kept.filter(|difference| difference.version == version).cloned().collect()
    }

    fn lanes(&self) -> MutexGuard<'_, FxHashMap<LaneId, VecDeque<ShadowDifference>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call<'_> {
    /// Starts to call the app without waiting for it. Says why its answer is not used.
    pub(super) fn start_shadow(&mut self, gate: &Arc<CapabilityGate>, ask: Ask) -> AppFailure {
        // Its answer is not the one that callers get: it is neither kept nor shared. Nobody waits, so that it has the whole time.
        let ask = Ask { key: None, until: self.deadline, ..ask };
        let (flight, _) = self.calls.fly(self.capability, gate, ask);
        self.shadow = Some(flight);
        failed(FailureKind::Shadow, "the app is called in shadow mode, and its answer is only compared")
    }
}

/// Compares what the app answers with what the caller was answered with, when both are there.
pub(super) fn compare_later(
    calls: &Arc<Calls>,
    capability: &Arc<OpenCapability>,
    flight: Arc<Flight>,
    answer: &CallAnswer,
    until: Timestamp,
) {
    let (calls, capability) = (calls.clone(), capability.clone());
    let (request_id, begun_at) = (answer.request_id, calls.clock.now() - answer.duration);
    let instead = answer.result.as_ref().ok().map(|answer| answer.data.clone());
    tokio::spawn(async move {
        let end = flight.wait(&calls, until + SHADOW_GRACE).await;
        let app = match end {
            Some(end) => end.answer.clone().map(|answer| answer.data),
            None => Err(failed(FailureKind::Timeout, "the app did not answer in time")),
        };
        let now = calls.clock.now();
        let places = match (&app, &instead) {
            (Ok(app), Some(instead)) => shadow::differences(app, instead),
            _ => Vec::new(),
        };
        if app.is_ok() && instead.is_some() && places.is_empty() {
            return calls.records.count_one(capability.lane_id, AnswerCount::ShadowSame, now);
        }
        calls.records.count_one(capability.lane_id, AnswerCount::ShadowDifferent, now);
        let short = |data: Bytes| (data.len() <= ANSWER_BYTES_MAX).then_some(data);
        let difference = ShadowDifference {
            request_id,
            version: capability.version,
            at: now,
            app_took: now.since(begun_at),
            app: app.map(short),
            instead: instead.and_then(short),
            places,
        };
        calls.shadows.keep(capability.lane_id, difference);
    });
}

/// How long after the app's time its flight may take to say so.
const SHADOW_GRACE: Duration = Duration::from_millis(100);

impl Calls {
    /// The last differences of a capability in shadow mode that this node knows of, newest first.
    pub fn shadow_differences(&self, capability: &OpenCapability) -> Vec<ShadowDifference> {
        self.shadows.of(capability.lane_id, capability.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(secs: i64, version: i64) -> ShadowDifference {
        ShadowDifference {
            request_id: Uuid::nil(),
            version,
            at: Timestamp::from_secs(secs),
            app_took: Duration::ZERO,
            app: Ok(None),
            instead: None,
            places: Vec::new(),
        }
    }

    #[test]
    fn the_last_ones_of_each_capability_are_kept_and_few_capabilities() {
        let shadows = Shadows::default();
        let lane = |n: usize| LaneId::from_uuid(Uuid::from_u128(n as u128));
        for second in 0..KEPT_OF_LANE as i64 + 5 {
            shadows.keep(lane(0), difference(second, 1));
        }
        let kept = shadows.of(lane(0), 1);
        assert_eq!((kept.len(), kept[0].at, kept[KEPT_OF_LANE - 1].at), (KEPT_OF_LANE, Timestamp::from_secs(54), Timestamp::from_secs(5)));
        assert!(shadows.of(lane(0), 2).is_empty(), "those of another manifest are not shown");
        for n in 1..=LANES_MAX {
            shadows.keep(lane(n), difference(100, 1));
        }
        assert_eq!(shadows.lanes().len(), LANES_MAX);
        assert!(shadows.of(lane(0), 1).is_empty(), "the oldest goes");
    }
}
