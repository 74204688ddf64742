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
    gates::{CallSlots, CapabilityGate},
    ids::{LaneId, OrganizationId},
    limits::evaluations::EVALUATION_TIMEOUT,
    model::AnswerCount,
    policy::{
        calls::{
            answer::{AppFailure, FailureKind},
            shadow,
        },
        work::INLINE_BYTES_MAX,
    },
    time::Timestamp,
};

/// How many differences of a capability are kept.
const KEPT_OF_LANE: usize = 50;
/// Of how many capabilities. Past it, those of the capability go that had none for the longest time.
const LANES_MAX: usize = 200;
/// How much of an answer is kept. A longer one is left out.
const ANSWER_BYTES_MAX: usize = 2 << 10;
/// How many bytes of differences are kept in all, whoever they are of: 2,000 of the largest. Past it, those of the capability go that had none for the
/// longest time.
const BYTES_MAX: usize = 16 << 20;
/// How many large answers are being compared or wait for that. What is beyond is neither compared nor counted: each holds half a MiB.
const COMPARED_AT_ONCE: u32 = 32;
/// What a difference takes beside its texts.
const DIFFERENCE_BYTES: usize = 256;

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

impl ShadowDifference {
    /// About what it takes in memory.
    fn bytes(&self) -> usize {
        let app = match &self.app {
            Ok(answer) => answer.as_ref().map_or(0, Bytes::len),
            Err(failure) => failure.reason.len(),
        };
        let places: usize = self.places.iter().map(|place| place.len() + size_of::<String>()).sum();
        DIFFERENCE_BYTES + app + self.instead.as_ref().map_or(0, Bytes::len) + places
    }
}

/// The differences that this node knows of.
pub(super) struct Shadows {
    state: Mutex<State>,
    /// Comparisons under way, by organization.
    comparisons: Arc<CallSlots>,
}

impl Default for Shadows {
    fn default() -> Self {
        Self { state: Mutex::default(), comparisons: CallSlots::new(COMPARED_AT_ONCE) }
    }
}

#[derive(Default)]
struct State {
    lanes: FxHashMap<LaneId, VecDeque<ShadowDifference>>,
    bytes: usize,
}

impl Shadows {
    fn keep(&self, lane_id: LaneId, difference: ShadowDifference) {
        let mut state = self.state();
        if state.lanes.len() >= LANES_MAX && !state.lanes.contains_key(&lane_id) {
            state.forget_oldest(lane_id);
        }
        state.bytes += difference.bytes();
        let kept = state.lanes.entry(lane_id).or_default();
        kept.push_back(difference);
        if kept.len() > KEPT_OF_LANE {
            let bytes = kept.pop_front().map_or(0, |first| first.bytes());
            state.bytes -= bytes;
        }
        while state.bytes > BYTES_MAX && state.forget_oldest(lane_id) {}
    }

    fn of(&self, lane_id: LaneId, version: i64) -> Vec<ShadowDifference> {
        let state = self.state();
        let kept = state.lanes.get(&lane_id).into_iter().flatten().rev();
        kept.filter(|difference| difference.version == version).cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Forgets those of the capability that had none for the longest time, but for this one. Says whether there was one.
    fn forget_oldest(&mut self, but: LaneId) -> bool {
        let others = self.lanes.iter().filter(|(lane_id, _)| **lane_id != but);
        let oldest = others.min_by_key(|(_, kept)| kept.back().map(|last| last.at)).map(|(lane_id, _)| *lane_id);
        let Some(forgotten) = oldest.and_then(|lane_id| self.lanes.remove(&lane_id)) else { return false };
        self.bytes -= forgotten.iter().map(ShadowDifference::bytes).sum::<usize>();
        true
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
        let app_took = calls.clock.now().since(begun_at);
        let app = match end {
            Some(end) => end.answer.clone().map(|answer| answer.data),
            None => Err(failed(FailureKind::Timeout, "the app did not answer in time")),
        };
        let places = match (&app, &instead) {
            (Ok(app), Some(instead)) => match calls.differences(capability.organization, app, instead).await {
                Some(places) => places,
                // Nobody knows whether they differ: that is not counted.
                None => return,
            },
            _ => Vec::new(),
        };
        let now = calls.clock.now();
        if app.is_ok() && instead.is_some() && places.is_empty() {
            return calls.records.count_one(capability.lane_id, AnswerCount::ShadowSame, now);
        }
        calls.records.count_one(capability.lane_id, AnswerCount::ShadowDifferent, now);
        // A copy: as a part of what the app sent it would keep all of that.
        let short = |data: Bytes| (data.len() <= ANSWER_BYTES_MAX).then(|| Bytes::copy_from_slice(&data));
        let difference = ShadowDifference {
            request_id,
            version: capability.version,
            at: now,
            app_took,
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
    /// Compares two answers: large ones off the threads that serve requests, and only while few wait for that; else `None`.
    async fn differences(&self, organization: OrganizationId, app: &Bytes, instead: &Bytes) -> Option<Vec<String>> {
        if app.len() + instead.len() <= INLINE_BYTES_MAX {
            return Some(shadow::differences(app, instead));
        }
        let _place = self.shadows.comparisons.take(organization)?;
        let (app, instead) = (app.clone(), instead.clone());
        self.evaluations.run(organization, EVALUATION_TIMEOUT, move || shadow::differences(&app, &instead)).await.ok()
    }

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
        assert_eq!(shadows.state().lanes.len(), LANES_MAX);
        assert!(shadows.of(lane(0), 1).is_empty(), "the oldest goes");
    }

    #[test]
    fn all_together_are_bounded_in_bytes_and_the_newest_stays() {
        let shadows = Shadows::default();
        let lane = |n: usize| LaneId::from_uuid(Uuid::from_u128(n as u128));
        let text = || Bytes::from(vec![b'x'; ANSWER_BYTES_MAX]);
        for n in 0..LANES_MAX * KEPT_OF_LANE {
            let places = vec!["x".repeat(256); 8];
            let large = ShadowDifference { app: Ok(Some(text())), instead: Some(text()), places, ..difference(n as i64, 1) };
            shadows.keep(lane(n / KEPT_OF_LANE), large);
        }
        let state = shadows.state();
        let bytes: usize = state.lanes.values().flatten().map(ShadowDifference::bytes).sum();
        assert_eq!(state.bytes, bytes);
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX / 2, "{bytes}");
        assert!(state.lanes.contains_key(&lane(LANES_MAX - 1)));
    }
}
