//! A flight: the requests to an app that one call makes, or several equal ones share. Retries one after the other, at most one hedge beside.
//!
//! It runs in a task of its own, so that each caller waits for it by its own deadline, and it goes on as long as the last of them waits. If nobody waits any
//! more it is cancelled, unless its answer can be kept. An answer that comes after the deadline, but within the same time again, is kept as well, and
//! counted: it shows that the app is back.

use std::{
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use rustc_hash::FxHashMap;
use tokio::{sync::watch, task::AbortHandle};
use uuid::Uuid;

use super::{Calls, OpenCapability, call::PayloadCharge, checking::NOT_CHECKED, request::Outgoing, spans::Asking, until::Until};
use crate::{
    gates::{CallPass, CapabilityGate, LatePass, RequestOutcome, Standstill},
    ids::EventId,
    limits::evaluations::Busy,
    model::{AnswerCount, BreakerState, CacheKey, Report, Target, TraceParent},
    policy::{
        breaker::Transition,
        calls::{
            answer::{self, AppAnswer, AppFailure, FailureKind},
            canary::{self, Side},
            deadline,
        },
    },
    time::Timestamp,
};

/// The flights that others may join, by what they ask.
#[derive(Default)]
pub(super) struct Flights(Mutex<FxHashMap<CacheKey, Weak<Flight>>>);

/// A flight that somebody waits for.
pub(super) struct Flight {
    end: watch::Receiver<Option<Arc<FlightEnd>>>,
    /// None where the server has ended.
    task: Option<AbortHandle>,
    until: Arc<Until>,
    /// Until when others may join: a request that hangs must not be handed on from one caller to the next for ever.
    joined_until: Timestamp,
    /// Whether its answer is of use even if nobody waits: it is kept, or comes late and says how the app is.
    runs_on: Arc<AtomicBool>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.runs_on.load(Ordering::Acquire) {
            self.task.iter().for_each(AbortHandle::abort);
        }
    }
}

/// What came of a flight.
#[derive(Clone, Debug)]
pub(super) struct FlightEnd {
    pub(super) answer: Result<AppData, AppFailure>,
    /// How many requests were made.
    pub(super) requests: u32,
}

/// What an app answered.
#[derive(Clone, Debug)]
pub(super) struct AppData {
    pub(super) data: Bytes,
    pub(super) warning: Option<String>,
}

/// What is asked.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) request_id: Uuid,
    pub(super) payload: Bytes,
    /// What counts the payload's memory: the flight may outlive its caller.
    pub(super) _charge: Option<PayloadCharge>,
    pub(super) trace: Option<TraceParent>,
    /// Under which key the answer is kept, and equal calls join.
    pub(super) key: Option<CacheKey>,
    /// When the first request is made.
    pub(super) begun_at: Timestamp,
    /// When the app's time is over.
    pub(super) until: Timestamp,
    /// How long the whole call may take.
    pub(super) timeout: Duration,
}

impl Flight {
    /// Somebody with the same question waits until then. Says whether they have their answer of this flight.
    fn join(&self, until: Timestamp, now: Timestamp) -> bool {
        self.end.borrow().is_none() && now <= self.joined_until && self.until.extend(until)
    }

    /// Waits for the end, at most until an instant; `None` if that came first.
    pub(super) async fn wait(&self, calls: &Calls, until: Timestamp) -> Option<Arc<FlightEnd>> {
        let mut end = self.end.clone();
        tokio::select! {
            biased;
            ended = end.wait_for(Option::is_some) => Some(match ended {
                Ok(ended) => (*ended).clone().expect("it was waited for"),
                // The task is gone without a word: it panicked.
                Err(_) => Arc::new(FlightEnd { answer: Err(failed(FailureKind::BadAnswer, "Everhook failed; see the server log")), requests: 0 }),
            }),
            () = calls.clock.sleep_until(until) => None,
        }
    }
}

impl Calls {
    /// Joins the flight that asks the same, or starts one. Says whether it was joined.
    pub(super) fn fly(self: &Arc<Self>, capability: &Arc<OpenCapability>, gate: &Arc<CapabilityGate>, ask: Ask) -> (Arc<Flight>, bool) {
        let Some(key) = ask.key else { return (Arc::new(self.start(capability, gate, ask, None)), false) };
        let mut flights = self.flights.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        if let Some(flight) = flights.get(&key).and_then(Weak::upgrade).filter(|flight| flight.join(ask.until, now)) {
            return (flight, true);
        }
        let flight = Arc::new(self.start(capability, gate, ask, Some(key)));
        flights.insert(key, Arc::downgrade(&flight));
        (flight, false)
    }

    fn start(self: &Arc<Self>, capability: &Arc<OpenCapability>, gate: &Arc<CapabilityGate>, ask: Ask, key: Option<CacheKey>) -> Flight {
        let (tell, end) = watch::channel(None);
        let is_kept = key.is_some() && capability.keeps_answers();
        let landing = Landing { calls: Arc::downgrade(self), key };
        let (until, runs_on) = (Arc::new(Until::new(ask.until)), Arc::new(AtomicBool::new(is_kept)));
        let joined_until = ask.begun_at + capability.spec.timeout;
        let race = Race {
            calls: self.clone(),
            capability: capability.clone(),
            gate: gate.clone(),
            ask,
            until: until.clone(),
            runs_on: runs_on.clone(),
            is_kept,
        };
        let requests = async move {
            let _landing = landing;
            race.run(&tell).await;
        };
        // Without its owner the server has ended: nobody waits for an answer any more.
        let task = self.tasks.upgrade().map(|tasks| tasks.spawn(requests));
        Flight { end, task, until, joined_until, runs_on }
    }
}

/// Removes a flight from those that can be joined when its task ends, however it ends.
struct Landing {
    calls: Weak<Calls>,
    key: Option<CacheKey>,
}

impl Drop for Landing {
    fn drop(&mut self) {
        let (Some(calls), Some(key)) = (self.calls.upgrade(), self.key) else { return };
        let mut flights = calls.flights.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another one may have taken its place meanwhile.
        let is_over = flights.get(&key).is_some_and(|flight| flight.upgrade().is_none_or(|flight| flight.end.borrow().is_some()));
        if is_over {
            flights.remove(&key);
        }
    }
}

/// The requests of one flight.
struct Race {
    calls: Arc<Calls>,
    capability: Arc<OpenCapability>,
    gate: Arc<CapabilityGate>,
    ask: Ask,
    /// When the app's time is over: later than the call said that began it, if others wait for longer.
    until: Arc<Until>,
    runs_on: Arc<AtomicBool>,
    is_kept: bool,
}

/// What was begun and has not ended.
struct UnderWay {
    attempt: u32,
    pass: CallPass,
    side: Side,
}

/// What a flight has under way.
#[derive(Default)]
struct InFlight {
    requests: Vec<UnderWay>,
    /// What requests have that go on after their time is over: a connection, memory and a place at the app as before.
    late: Vec<LateRequest>,
}

/// A request that goes on after its time is over.
struct LateRequest {
    attempt: u32,
    pass: LatePass,
}

type Pending<'a> = FuturesUnordered<futures_util::future::BoxFuture<'a, (u32, Report)>>;

impl Race {
    async fn run(self, tell: &watch::Sender<Option<Arc<FlightEnd>>>) {
        let mut pending = Pending::new();
        let mut under_way = InFlight::default();
        let mut requests = 0;
        let answer = self.race(&mut pending, &mut under_way, &mut requests).await;
        self.note(&answer);
        if !under_way.late.is_empty() {
            // Whoever waited goes away now, and takes the flight along that nobody needs.
            self.runs_on.store(true, Ordering::Release);
        }
        let _ = tell.send(Some(Arc::new(FlightEnd { answer, requests })));
        if !under_way.late.is_empty() {
            self.await_late(&mut pending, under_way.late).await;
        }
    }

    /// Makes requests until one is answered well, none may be made any more, or the time is over.
    async fn race<'a>(&'a self, pending: &mut Pending<'a>, under_way: &mut InFlight, requests: &mut u32) -> Result<AppData, AppFailure> {
        self.gate.called();
        self.begin(pending, under_way, requests)?;
        let clock = &*self.calls.clock;
        let mut hedge_at = self.gate.hedge_delay(clock.now()).map(|delay| clock.now() + delay);
        let mut over = pin!(self.until.over(clock));
        loop {
            let hedging = async {
                match hedge_at {
                    Some(at) => clock.sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let failure = tokio::select! {
                biased;
                Some((attempt, report)) = pending.next() => match self.end(under_way, attempt, &report).await {
                    Ok(data) => return Ok(data),
                    Err(failure) => failure,
                },
                () = &mut over => return Err(self.time_out(under_way)),
                () = hedging => {
                    hedge_at = None;
                    if pending.len() == 1 && self.gate.take_hedge(clock.now()) {
                        // If it may not be made, the first one goes on alone.
                        let _ = self.begin(pending, under_way, requests);
                    }
                    continue;
                }
            };
            // Another one that is under way may still be answered well.
            if pending.is_empty() {
                self.wait_to_retry(&failure, *requests).await.ok_or(failure)?;
                self.begin(pending, under_way, requests)?;
            }
        }
    }

    /// Starts a request, if the gate lets it through.
    fn begin<'a>(&'a self, pending: &mut Pending<'a>, under_way: &mut InFlight, requests: &mut u32) -> Result<(), AppFailure> {
        let now = self.calls.clock.now();
        let call = EventId::from_uuid(self.ask.request_id);
        let pass = self
            .gate
            .begin(call, self.capability.organization, &self.calls.gates.slots, now)
            .map_err(|standstill| app_failure(standstill, now))?;
        *requests += 1;
        let attempt = *requests;
        let left = self.until.get().since(now);
        // A late answer is waited for as long again, and others who join may wait for longer.
        let joined = self.ask.key.map_or(now, |_| self.ask.begun_at + 2 * self.capability.spec.timeout);
        let timeout = (left + self.ask.timeout).max(joined.since(now));
        let (side, target) = self.version_for(attempt, &pass);
        let request = self.calls.build(&Outgoing {
            capability: &self.capability,
            target,
            request_id: self.ask.request_id,
            payload: self.ask.payload.clone(),
            trace: self.ask.trace.as_ref(),
            attempt,
            left,
            timeout,
            at: now,
        });
        under_way.requests.push(UnderWay { attempt, pass, side });
        let asking = Asking::of(&self.calls, &self.capability, (self.ask.request_id, self.ask.trace.as_ref()), &request);
        pending.push(Box::pin(async move {
            let report = self.calls.transport.send(request).await;
            if let Some(asking) = asking {
                asking.end(&self.calls, &report);
            }
            (attempt, report)
        }));
        Ok(())
    }

    /// Which version of the app a request goes to. A canary gets first requests only, while its app works: what is repeated goes to the stable one.
    fn version_for(&self, attempt: u32, pass: &CallPass) -> (Side, Arc<Target>) {
        let stable = || (Side::Stable, self.capability.target.clone().expect("only what has a URL is called"));
        let Some((target, percent)) = &self.capability.canary else { return stable() };
        let number = match self.ask.key {
            Some(key) => u64::from_le_bytes(key.hash[..8].try_into().expect("a hash has 32 bytes")),
            None => self.ask.request_id.as_u64_pair().1,
        };
        let is_tried = attempt == 1 && pass.state == BreakerState::Closed && self.gate.may_try_canary();
        match canary::side(*percent, number) {
            Side::Canary if is_tried => (Side::Canary, target.clone()),
            _ => stable(),
        }
    }

    /// A request ended.
    async fn end(&self, under_way: &mut InFlight, attempt: u32, report: &Report) -> Result<AppData, AppFailure> {
        let read = self.read(report).await;
        if let Some(place) = under_way.requests.iter().position(|one| one.attempt == attempt) {
            let UnderWay { pass, side, .. } = under_way.requests.swap_remove(place);
            let now = self.calls.clock.now();
            let took = now.since(pass.begun_at);
            let outcome = match &read {
                Ok(_) => RequestOutcome::Answered(took),
                Err(failure) => RequestOutcome::Failed(failure.kind, took),
            };
            self.tell_gate(pass, side, outcome, now);
        }
        read
    }

    /// The time is over: what is under way has failed, and may be waited for still.
    fn time_out(&self, under_way: &mut InFlight) -> AppFailure {
        let now = self.calls.clock.now();
        for UnderWay { attempt, pass, side } in under_way.requests.drain(..) {
            self.count_trial(side, Some(FailureKind::Timeout));
            if side == Side::Canary {
                // Whether the stable app is well, a canary does not say.
                continue;
            }
            let (late, transition) = pass.time_out(self.is_kept, now);
            self.apply_transition(transition);
            under_way.late.extend(late.map(|pass| LateRequest { attempt, pass }));
        }
        failed(FailureKind::Timeout, "the app did not answer in time")
    }

    fn tell_gate(&self, pass: CallPass, side: Side, outcome: RequestOutcome, now: Timestamp) {
        let failure = match outcome {
            RequestOutcome::Answered(_) => None,
            RequestOutcome::Failed(kind, _) => Some(kind),
        };
        self.count_trial(side, failure);
        if side == Side::Canary {
            // Whether the stable app is well, a canary does not say.
            return drop(pass);
        }
        self.apply_transition(pass.end(outcome, now));
    }

    fn count_trial(&self, side: Side, failure: Option<FailureKind>) {
        if let Some(withdrawal) = self.gate.count_trial(side, failure) {
            self.calls.records.note_withdrawal(&self.capability, withdrawal);
        }
    }

    /// Keeps what the breaker did.
    fn apply_transition(&self, transition: Option<Transition>) {
        if let Some(transition) = transition {
            self.calls.keep_breaker(&self.capability, &self.gate, transition);
        }
    }

    /// Waits as long as the manifest says before a failed request is repeated; `None` if it is not.
    async fn wait_to_retry(&self, failure: &AppFailure, requests: u32) -> Option<()> {
        let clock = &*self.calls.clock;
        if !failure.retryable || requests >= self.capability.spec.attempts_max || !self.gate.may_retry() {
            return None;
        }
        let delay = deadline::retry_delay(self.capability.spec.backoff, requests, self.calls.entropy.unit());
        let now = clock.now();
        if !deadline::may_retry(self.until.get().since(now), delay, self.gate.quantile(0.5, now)) {
            return None;
        }
        clock.sleep_until(now + delay).await;
        Some(())
    }

    /// Reads an answer, and checks it against the manifest's schema.
    async fn read(&self, report: &Report) -> Result<AppData, AppFailure> {
        let (data, warning) = match answer::read(report) {
            AppAnswer::Success { data, warning } => (data, warning),
            AppAnswer::Failure(failure) => return Err(failure),
        };
        match self.calls.misfit(&self.capability, &data).await {
            Ok(None) => Ok(AppData { data, warning }),
            Ok(Some(reason)) => Err(failed(FailureKind::BadAnswer, reason)),
            // That is our shortage, and says nothing about the app.
            Err(Busy) => Err(failed(FailureKind::OutOfResources, NOT_CHECKED)),
        }
    }

    /// Counts how the flight ended, and keeps its answer.
    fn note(&self, answer: &Result<AppData, AppFailure>) {
        let now = self.calls.clock.now();
        if let (Ok(answer), Some(key)) = (answer, self.ask.key.filter(|_| self.is_kept)) {
            self.calls.keep_answer(&self.capability, key, &answer.data, now);
        }
        self.calls.records.count(
            self.capability.lane_id,
            answer.as_ref().err().map(|failure| failure.kind),
            now.since(self.ask.begun_at),
            now,
        );
    }

    /// Waits for an answer after the deadline, as long again as the call might take. It is counted, and kept where answers are.
    async fn await_late(&self, pending: &mut Pending<'_>, mut late: Vec<LateRequest>) {
        let clock = &*self.calls.clock;
        let mut over = pin!(clock.sleep_until(clock.now() + self.ask.timeout));
        loop {
            let (attempt, report) = tokio::select! {
                biased;
                ended = pending.next() => match ended {
                    Some(ended) => ended,
                    None => return,
                },
                () = &mut over => break,
            };
            let Some(place) = late.iter().position(|one| one.attempt == attempt) else { continue };
            let pass = late.swap_remove(place).pass;
            let read = self.read(&report).await;
            let now = clock.now();
            self.apply_transition(pass.end(read.is_ok(), now));
            let Ok(answer) = read else { continue };
            self.calls.records.count_one(self.capability.lane_id, AnswerCount::Late, now);
            tracing::debug!(lane.id = %self.capability.lane_id, "an app answered after its deadline");
            if let Some(key) = self.ask.key.filter(|_| self.is_kept) {
                self.calls.keep_answer(&self.capability, key, &answer.data, now);
            }
            return;
        }
        for LateRequest { pass, .. } in late {
            self.apply_transition(pass.end(false, clock.now()));
        }
    }
}

/// What is said where an organization has no place for one more request.
pub(super) const NO_SLOT: &str = "the organization has as many requests to apps under way as it may have on this server now";

/// Why no request could be made.
pub(super) fn app_failure(standstill: Standstill, now: Timestamp) -> AppFailure {
    match standstill {
        Standstill::CircuitOpen { until: Some(until) } if until > now => {
            failed(FailureKind::CircuitOpen, format!("the circuit breaker is open until {until}"))
        }
        Standstill::CircuitOpen { .. } => failed(FailureKind::CircuitOpen, "the circuit breaker is open; another call probes the app"),
        Standstill::AtCapacity => failed(FailureKind::AtCapacity, "the concurrency limit of the app is reached"),
        Standstill::NoSlot => failed(FailureKind::AtCapacity, NO_SLOT),
    }
}

pub(super) fn failed(kind: FailureKind, reason: impl Into<String>) -> AppFailure {
    AppFailure { kind, reason: reason.into(), retryable: false }
}
