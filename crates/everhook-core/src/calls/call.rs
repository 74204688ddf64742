//! One call, from its arrival to its answer. Called by the API. It answers within the call's timeout, whatever the app does.

use std::{any::Any, sync::Arc, time::Duration};

use bytes::Bytes;
use uuid::Uuid;

pub use super::cache::CACHE_KEY_BYTES_MAX;
use super::{
    Calls, OpenCapability,
    answered::{Answer, AnswerSource, CallAnswer, Handover, Step},
    cache::{self, Kept},
    flight::{Ask, Flight, FlightEnd, failed},
    shadow, spans,
};
use crate::{
    gates::CapabilityGate,
    model::{CacheKey, CallMode, TraceParent},
    policy::calls::{
        answer::{AppFailure, FailureKind},
        cache_age::{Use, serves_errors, use_of},
        deadline::call_timeout,
    },
    time::Timestamp,
};

/// How long after the app's time a call waits for its flight to say so: less than what is kept back for the fallback.
const FLIGHT_GRACE: Duration = Duration::from_millis(10);

/// What counts the memory of a call's payload: kept for as long as the payload is, which may be longer than the caller waits.
pub type PayloadCharge = Arc<dyn Any + Send + Sync>;

/// A call, as it came.
#[derive(Clone, Debug)]
pub struct CallRequest {
    /// What the app is asked: a JSON text, passed on as it is.
    pub payload: Bytes,
    /// What counts its memory, if something does.
    pub charge: Option<PayloadCharge>,
    /// What the caller calls this question: answers are kept under it, and calls with the same are made once.
    pub cache_key: Option<String>,
    /// How long the caller waits, if less than the manifest says.
    pub timeout: Option<Duration>,
    /// The caller's trace.
    pub trace: Option<TraceParent>,
    /// Where the caller is told how it ended, if it becomes a job. Checked.
    pub callback_url: Option<String>,
    /// When the call came: its time is counted from here.
    pub arrived_at: Timestamp,
}

/// A call under way.
pub(super) struct Call<'a> {
    pub(super) calls: &'a Arc<Calls>,
    pub(super) capability: &'a Arc<OpenCapability>,
    pub(super) request: CallRequest,
    pub(super) request_id: Uuid,
    /// When it must have its answer.
    pub(super) deadline: Timestamp,
    pub(super) kept: Option<Kept>,
    /// The request to an app whose answer is only compared.
    pub(super) shadow: Option<Arc<Flight>>,
    pub(super) steps: Vec<Step>,
    pub(super) handed_over: Option<Handover>,
}

/// Answers a call.
pub async fn call(calls: &Arc<Calls>, capability: &Arc<OpenCapability>, request: CallRequest) -> CallAnswer {
    let timeout = call_timeout(capability.spec.timeout, request.timeout);
    let (arrived_at, request_id) = (request.arrived_at, calls.entropy.uuid(calls.clock.now()));
    let deadline = arrived_at + timeout;
    let steps = Vec::with_capacity(4);
    let mut call = Call { calls, capability, request, request_id, deadline, kept: None, shadow: None, steps, handed_over: None };
    let gate = calls.gate(capability).await;
    let (result, failure) = match call.ask(&gate, timeout).await {
        Ok(answer) => (Ok(answer), None),
        Err(failure) => {
            let answer = call.fall_back(&failure).await;
            (answer, Some(failure))
        }
    };
    let (now, shadow, trace) = (calls.clock.now(), call.shadow.take(), call.request.trace.take());
    let (circuit, duration) = (gate.breaker_state(now), now.since(arrived_at));
    let answer = CallAnswer { request_id, result, failure, circuit, duration, steps: call.steps, handed_over: call.handed_over };
    calls.records.count_answer(capability.lane_id, &answer, now);
    spans::answered(calls, capability, trace.as_ref(), arrived_at, &answer);
    if let Some(flight) = shadow {
        shadow::compare_later(calls, capability, flight, &answer, deadline);
    }
    answer
}

impl Call<'_> {
    /// Answers from the cache if that is fresh, else asks the app.
    async fn ask(&mut self, gate: &Arc<CapabilityGate>, timeout: Duration) -> Result<Answer, AppFailure> {
        let key = self.request.cache_key.as_deref().map(|text| cache::key_of(self.capability, text));
        let ask = Ask {
            request_id: self.request_id,
            payload: self.request.payload.clone(),
            _charge: self.request.charge.clone(),
            trace: self.request.trace.clone(),
            key,
            begun_at: self.now(),
            until: self.deadline - self.capability.reserve(timeout),
            timeout,
        };
        if self.capability.spec.mode == CallMode::Shadow {
            let failure = self.start_shadow(gate, ask);
            return Err(self.note("app", "shadowed", self.now(), failure));
        }
        if let Some(key) = key.filter(|_| self.capability.keeps_answers()) {
            match self.look_up(&key).await {
                Some((Use::Fresh, answer)) => return Ok(answer),
                Some((Use::WhileRevalidating, answer)) if self.capability.spec.mode == CallMode::Live => {
                    // Nobody waits for it: its answer is kept.
                    drop(self.calls.fly(self.capability, gate, ask));
                    return Ok(answer);
                }
                _ => {}
            }
        }
        if self.capability.spec.mode == CallMode::Off {
            return Err(self.note(
                "app",
                "skipped",
                self.now(),
                failed(FailureKind::Off, "calls of this capability are switched off (`mode: off`)"),
            ));
        }
        self.ask_app(gate, ask).await
    }

    async fn look_up(&mut self, key: &CacheKey) -> Option<(Use, Answer)> {
        let begun_at = self.now();
        self.kept = self.calls.cached(self.capability.organization, key).await;
        let now = self.now();
        let of_kept = self.kept.as_ref().map(|kept| (use_of(&self.capability.spec.cache, now.since(kept.stored_at)), kept.clone()));
        let (outcome, found) = match of_kept {
            Some((age @ (Use::Fresh | Use::WhileRevalidating), kept)) => ("hit", Some((age, from_cache(&kept, now)))),
            Some((Use::IfError | Use::Expired, _)) => ("stale", None),
            None => ("miss", None),
        };
        self.steps.push(Step { step: "cache", outcome, took: now.since(begun_at), reason: None });
        found
    }

    /// Waits for the app as long as its share of the time lasts.
    async fn ask_app(&mut self, gate: &Arc<CapabilityGate>, ask: Ask) -> Result<Answer, AppFailure> {
        let begun_at = self.now();
        let until = ask.until;
        let (flight, is_joined) = self.calls.fly(self.capability, gate, ask);
        // The flight of the last who waits ends at the same instant, and must count the timeout before nobody waits for it any more.
        let Some(end) = flight.wait(self.calls, until + FLIGHT_GRACE).await else {
            return Err(self.note("app", "failed", begun_at, failed(FailureKind::Timeout, "the app did not answer in time")));
        };
        let FlightEnd { answer, requests } = &*end;
        match answer {
            Ok(answer) => {
                let reason = match (is_joined, requests) {
                    (true, _) => Some("joined a call with the same `cache_key`".to_owned()),
                    (false, 2..) => Some(format!("{requests} requests")),
                    (false, _) => None,
                };
                self.steps.push(Step { step: "app", outcome: "answered", took: self.now().since(begun_at), reason });
                Ok(Answer { source: AnswerSource::App, data: answer.data.clone(), age: None, warning: answer.warning.clone() })
            }
            Err(failure) => {
                let outcome = if matches!(failure.kind, FailureKind::CircuitOpen | FailureKind::AtCapacity) { "skipped" } else { "failed" };
                Err(self.note("app", outcome, begun_at, failure.clone()))
            }
        }
    }

    /// The answer that is kept, if its age allows it to stand in for the app's.
    pub(super) async fn kept_for_errors(&mut self) -> Option<Answer> {
        let key = cache::key_of(self.capability, self.request.cache_key.as_deref()?);
        // It may have come while the app was asked: from a flight that this call did not wait for to the end.
        let kept = self.calls.cached(self.capability.organization, &key).await.or(self.kept.take())?;
        let now = self.now();
        serves_errors(&self.capability.spec.cache, now.since(kept.stored_at)).then(|| from_cache(&kept, now))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.calls.clock.now()
    }

    fn note(&mut self, step: &'static str, outcome: &'static str, begun_at: Timestamp, failure: AppFailure) -> AppFailure {
        let reason = Some(format!("{}: {}", failure.kind.as_str(), failure.reason));
        self.steps.push(Step { step, outcome, took: self.now().since(begun_at), reason });
        failure
    }
}

fn from_cache(kept: &Kept, now: Timestamp) -> Answer {
    Answer { source: AnswerSource::Cache, data: kept.data.clone(), age: Some(now.since(kept.stored_at)), warning: None }
}
