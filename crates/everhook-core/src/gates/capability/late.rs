//! Requests that go on after their deadline: what they answer is no use to their callers, but it shows how the app is.

use std::{sync::Arc, time::Duration};

use super::{AppLimit, CallPass, CapabilityGate, State};
use crate::{
    gates::CallSlot,
    model::BreakerState,
    policy::{
        breaker::{CallOutcome, Pass, Transition},
        calls::answer::FailureKind,
    },
    time::Timestamp,
};

/// How many requests of a capability may be waited for after their deadline, so that what they answer is known. They are still at the app and keep their
/// places, so that they are never more than half of its limit either.
const LATE_MAX: u32 = 16;

/// What a request keeps that goes on after its deadline: its place in memory and, if it is one of few, that at the app. If it is dropped, nothing more is
/// known of it.
pub struct LatePass {
    gate: Arc<CapabilityGate>,
    /// That of a probe, which is decided only now.
    probe: Option<Pass>,
    begun_at: Timestamp,
    app: Arc<AppLimit>,
    has_place: bool,
    _slot: Option<CallSlot>,
}

/// What of a request goes on after its deadline.
struct Late {
    probe: Option<Pass>,
    has_place: bool,
}

impl CapabilityGate {
    /// The time of a request is over. Says what it keeps if it goes on, which it does if its answer `is_kept`, if it is a probe, or if few do.
    fn time_out(&self, pass: Pass, app: &AppLimit, is_kept: bool, took: Duration, now: Timestamp) -> (Option<Late>, Option<Transition>) {
        let mut guard = self.state();
        let state = &mut *guard;
        let is_probe = pass.state() == BreakerState::HalfOpen;
        let has_place = is_probe || (state.late + 1) * 2 <= state.limit.limit().min(2 * LATE_MAX);
        state.limit.timed_out();
        if has_place {
            state.late += 1;
        } else {
            state.give_back(app);
        }
        // What a probe answers late shows that the app is back: only then is it decided.
        if is_probe {
            return (Some(Late { probe: Some(pass), has_place }), None);
        }
        let by_slowness = state.failed(FailureKind::Timeout, took, now);
        let transition = state.breaker.end(pass, CallOutcome::Failure, now).or(by_slowness);
        ((has_place || is_kept).then_some(Late { probe: None, has_place }), transition)
    }

    /// A request ended after its deadline; it was answered well after so long, or it was not, or nobody knows.
    fn end_late(&self, late: &mut LatePass, answered: Option<Option<Duration>>, now: Timestamp) -> Option<Transition> {
        let mut guard = self.state();
        let state = &mut *guard;
        if let Some(Some(took)) = answered {
            state.answered_late(&late.app, late.has_place, took, now);
        } else if late.has_place {
            state.give_back(&late.app);
        }
        state.late -= u32::from(late.has_place);
        let probe = late.probe.take()?;
        let took = now.since(late.begun_at);
        let (counted, by_slowness) = match answered {
            None => (CallOutcome::Ignored, None),
            Some(Some(_)) => (CallOutcome::Success, state.count_slow(took, now)),
            Some(None) => (CallOutcome::Failure, state.failed(FailureKind::Timeout, took, now)),
        };
        state.breaker.end(probe, counted, now).or(by_slowness)
    }
}

impl State {
    /// The deadline was missed, which was counted then. How long the app really took is known now.
    fn answered_late(&mut self, app: &AppLimit, has_place: bool, took: Duration, now: Timestamp) {
        if has_place {
            self.answered(app, took, now);
        } else {
            self.latency.add(took, now);
            self.answered_at = Some(now);
        }
    }
}

impl CallPass {
    /// The time of the request is over, and it was not answered. Says what it keeps if it is to be waited for still, and what the breaker did.
    pub fn time_out(mut self, is_kept: bool, now: Timestamp) -> (Option<LatePass>, Option<Transition>) {
        let Some(pass) = self.pass.take() else { return (None, None) };
        let (late, transition) = self.gate.time_out(pass, &self.app, is_kept, now.since(self.begun_at), now);
        let late = late.map(|Late { probe, has_place }| LatePass {
            gate: self.gate.clone(),
            probe,
            begun_at: self.begun_at,
            app: self.app.clone(),
            has_place,
            _slot: self.slot.take(),
        });
        (late, transition)
    }
}

impl LatePass {
    /// The request was answered after its deadline: well, or not. Says what the breaker did.
    pub fn end(mut self, is_good: bool, now: Timestamp) -> Option<Transition> {
        let gate = self.gate.clone();
        let took = now.since(self.begun_at);
        let transition = gate.end_late(&mut self, Some(is_good.then_some(took)), now);
        self.has_place = false;
        transition
    }
}

impl Drop for LatePass {
    fn drop(&mut self) {
        let gate = self.gate.clone();
        if self.has_place || self.probe.is_some() {
            gate.end_late(self, None, self.begun_at);
        }
    }
}
