//! The gate of one capability: whether a request may start, and what its end says about the app.

mod late;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use self::late::LatePass;
use super::{
    app_limit::{AppKey, AppLimit, Membership},
    slots::{CallSlot, CallSlots},
};
use crate::{
    ids::{EventId, OrganizationId},
    model::{BreakerConfig, BreakerState, Hedge, HedgeDelay, KeptBreaker, KeptStage, SlowCallRule},
    policy::{
        breaker::{Admission, Breaker, BreakerFacts, CallOutcome, Cause, Pass, Transition},
        calls::{
            answer::FailureKind,
            canary::{Side, Trial, Withdrawal},
            concurrency::ConcurrencyLimit,
            latency::Latency,
            pace::Pace,
            quorum::{LastFailures, TripClass},
            slow_calls::SlowCalls,
            tokens::{HedgeTokens, RetryTokens},
        },
    },
    ports::BreakerRow,
    time::Timestamp,
};

/// More slow calls in a hundred than this, and nothing is hedged: the app has too much to do already.
const SLOW_PERCENTAGE_MAX_FOR_HEDGING: u32 = 10;
/// Of fewer calls, a percentage says nothing.
const CALLS_MIN_FOR_HEDGING: u32 = 20;

/// What a gate goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateSettings {
    /// When the app is left alone.
    pub breaker: BreakerConfig,
    /// Also because it is slow.
    pub slow_calls: Option<SlowCallRule>,
    /// What counts as slow, whatever the manifest says: 80 % of the time that the app has.
    pub slow_after: Duration,
    /// How many requests may be under way.
    pub max_concurrency: u32,
    /// The app, whose capabilities share a limit,
    pub app: AppKey,
    /// which is never more than this.
    pub app_concurrency_max: u32,
    /// When a second request is made.
    pub hedge: Option<Hedge>,
    /// The version of the manifest whose canary is on trial, if there is one.
    pub canary_version: Option<i64>,
}

/// Why no request may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standstill {
    /// The breaker is open, or another call probes.
    CircuitOpen {
        /// From when on it is worth asking again, if that is known.
        until: Option<Timestamp>,
    },
    /// As many requests are under way as the app takes.
    AtCapacity,
    /// As many requests of the organization are under way as this node has room for.
    NoSlot,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The app answered well, after this long.
    Answered(Duration),
    /// It did not, after this long.
    Failed(FailureKind, Duration),
}

/// A gate, shared by all calls of a capability on this node.
pub struct CapabilityGate(Mutex<State>);

struct State {
    settings: GateSettings,
    breaker: Breaker,
    /// The revision of the breaker that the store has, as far as is known.
    revision: i64,
    /// By the manifest's rule.
    slow_calls: SlowCalls,
    /// By the time that the app has.
    slow_for_hedging: SlowCalls,
    pace: Pace,
    limit: ConcurrencyLimit,
    app: Membership,
    /// How many requests keep their places after their deadline.
    late: u32,
    retries: RetryTokens,
    hedges: HedgeTokens,
    latency: Latency,
    canary: Trial,
    /// When a call was last answered well.
    answered_at: Option<Timestamp>,
    /// What the last failures were.
    failures: LastFailures,
    /// Whether it was called since that was last asked.
    is_called: bool,
}

/// The right to make one request. If it is dropped, the request was cancelled, and says nothing about the app.
pub struct CallPass {
    gate: Arc<CapabilityGate>,
    pass: Option<Pass>,
    /// When it was given.
    pub begun_at: Timestamp,
    /// How the breaker stood.
    pub state: BreakerState,
    app: Arc<AppLimit>,
    slot: Option<CallSlot>,
}

/// How a gate stands, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct GateFacts {
    /// The breaker.
    pub breaker: BreakerFacts,
    /// How many requests are under way.
    pub in_flight: u32,
    /// How many may be: of this capability, and of its app.
    pub concurrency_limit: u32,
    /// How long half of the last answers took at most, and 95 and 99 in a hundred.
    pub percentiles: [Option<Duration>; 3],
}

impl CapabilityGate {
    pub(super) fn new(settings: &GateSettings, app: Arc<AppLimit>, kept: Option<&BreakerRow>, now: Timestamp) -> Self {
        let breaker = match kept {
            Some(row) => Breaker::restore(row.kept, settings.breaker, now),
            None => Breaker::new(settings.breaker, now),
        };
        Self(Mutex::new(State {
            settings: *settings,
            breaker,
            revision: kept.map_or(0, |row| row.revision),
            slow_calls: SlowCalls::default(),
            slow_for_hedging: SlowCalls::default(),
            pace: Pace::default(),
            limit: ConcurrencyLimit::new(settings.max_concurrency),
            app: Membership::of(app),
            late: 0,
            retries: RetryTokens::default(),
            hedges: HedgeTokens::default(),
            latency: Latency::new(now),
            canary: Trial::default(),
            answered_at: None,
            failures: LastFailures::default(),
            is_called: false,
        }))
    }

    /// Whether it goes by the limit of another app than these settings say.
    pub(super) fn is_of_other_app(&self, settings: &GateSettings) -> bool {
        self.state().settings.app != settings.app
    }

    /// Goes by the limit of another app. Requests that are under way give their places back to the one that they have them of.
    pub(super) fn join(&self, key: AppKey, app: Arc<AppLimit>) {
        let mut state = self.state();
        state.settings.app = key;
        state.app = Membership::of(app);
    }

    /// Goes by the settings of another manifest.
    pub(super) fn adopt(&self, settings: &GateSettings, now: Timestamp) {
        let mut state = self.state();
        if state.settings.canary_version != settings.canary_version {
            state.canary = Trial::default();
        }
        if state.settings != *settings {
            state.settings = *settings;
            state.breaker.reconfigure(settings.breaker, now);
            state.limit.change_max(settings.max_concurrency);
            state.app.app().change_max(settings.app_concurrency_max);
        }
    }

    /// Asks to make a request now. `call` names the call: two probes of one are one witness heard twice.
    ///
    /// # Errors
    /// [`Standstill`] says why not.
    pub fn begin(
        self: &Arc<Self>,
        call: EventId,
        organization: OrganizationId,
        slots: &Arc<CallSlots>,
        now: Timestamp,
    ) -> Result<CallPass, Standstill> {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(slot) = slots.take(organization) else { return Err(Standstill::NoSlot) };
        if !state.breaker.may_begin(now) {
            return Err(Standstill::CircuitOpen { until: state.breaker.flows_from(now) });
        }
        let app = state.app.app().clone();
        // Of a breaker that has just closed, requests that are late began before it did.
        let since_closed = state.breaker.concurrency_limit().map(|limit| limit.saturating_add(state.late));
        if !state.limit.may_begin(since_closed) || !app.begin(state.limit.in_flight()) {
            return Err(Standstill::AtCapacity);
        }
        match state.breaker.begin(now, call) {
            Admission::Flows(pass) => {
                state.limit.begin();
                let breaker_state = pass.state();
                Ok(CallPass { gate: self.clone(), pass: Some(pass), begun_at: now, state: breaker_state, app, slot: Some(slot) })
            }
            Admission::Blocked { until } => {
                app.ended();
                Err(Standstill::CircuitOpen { until })
            }
        }
    }

    /// A call begins: a share of a hedge is earned.
    pub fn called(&self) {
        let mut state = self.state();
        state.is_called = true;
        if let Some(hedge) = state.settings.hedge {
            state.hedges.called(hedge.budget_percent);
        }
    }

    /// After which time a second request would be made, if one would.
    pub fn hedge_delay(&self, now: Timestamp) -> Option<Duration> {
        let mut state = self.state();
        match state.settings.hedge?.after {
            HedgeDelay::Fixed(after) => Some(after),
            HedgeDelay::P95 => state.latency.quantile(0.95, now),
        }
    }

    /// Takes what a second request costs, if it may be made: the breaker is closed, few answers are slow, and the budget has room.
    pub fn take_hedge(&self, now: Timestamp) -> bool {
        let mut state = self.state();
        let is_slow = state.slow_for_hedging.calls() >= CALLS_MIN_FOR_HEDGING
            && state.slow_for_hedging.percentage() > SLOW_PERCENTAGE_MAX_FOR_HEDGING;
        state.breaker.state(now) == BreakerState::Closed && !is_slow && state.hedges.take()
    }

    /// Whether calls may go to the canary.
    pub fn may_try_canary(&self) -> bool {
        let state = self.state();
        state.settings.canary_version.is_some() && state.canary.is_running()
    }

    /// Counts how a request went, beside the other version of the app. Says why, if the canary is to be withdrawn now.
    pub fn count_trial(&self, side: Side, failure: Option<FailureKind>) -> Option<Withdrawal> {
        let mut state = self.state();
        state.settings.canary_version?;
        // What this machine lacked, and what the app refused to do, is said about neither version.
        let is_said = failure.is_none_or(|kind| kind.counts_for_breaker() || kind == FailureKind::AppError);
        if !is_said {
            return None;
        }
        state.canary.count(side, failure.is_some_and(FailureKind::counts_for_breaker))
    }

    /// Whether a failed request may be repeated.
    pub fn may_retry(&self) -> bool {
        self.state().retries.allow()
    }

    /// The length that this share of the last answers are at most as long as.
    pub fn quantile(&self, share: f64, now: Timestamp) -> Option<Duration> {
        self.state().latency.quantile(share, now)
    }

    /// Whether the breaker lets requests through.
    pub fn breaker_state(&self, now: Timestamp) -> BreakerState {
        self.state().breaker.state(now)
    }

    /// How it stands.
    pub fn facts(&self, now: Timestamp) -> GateFacts {
        let mut state = self.state();
        GateFacts {
            breaker: state.breaker.facts(now),
            in_flight: state.limit.in_flight(),
            concurrency_limit: state.limit.limit().min(state.app.app().limit()),
            percentiles: [0.5, 0.95, 0.99].map(|share| state.latency.quantile(share, now)),
        }
    }

    /// The app fails its health checks since an instant. Opens the breaker, unless calls were answered since then: these know better than a page about health.
    pub fn app_is_away(&self, since: Timestamp, now: Timestamp) -> Option<Transition> {
        let mut state = self.state();
        let is_answering = state.answered_at.is_some_and(|at| at >= since);
        if is_answering { None } else { state.breaker.trip(Cause::FailedHealthChecks, now) }
    }

    /// Whether it was called since this was last asked.
    pub(super) fn take_called(&self) -> bool {
        std::mem::take(&mut self.state().is_called)
    }

    /// What the failures were that opened the breaker; `None` if there were none.
    pub fn trip_class(&self) -> Option<TripClass> {
        self.state().failures.class()
    }

    /// Whether the breaker could open because it is open elsewhere.
    pub fn may_open_for(&self, row: &BreakerRow, now: Timestamp) -> bool {
        let state = self.state();
        let is_open = matches!(row.kept.stage, KeptStage::Open { until } if until > now);
        is_open && row.revision > state.revision && state.settings.breaker.enabled && state.breaker.state(now) == BreakerState::Closed
    }

    /// Opens the breaker as it is open elsewhere, because enough nodes agree. Nothing is to be written: it is kept already.
    pub fn open_for(&self, row: &BreakerRow, now: Timestamp) {
        if self.may_open_for(row, now) {
            let mut state = self.state();
            state.breaker = Breaker::restore(row.kept, state.settings.breaker, now);
            state.revision = row.revision;
        }
    }

    /// How the breaker is to be kept, and under which revision.
    pub fn to_keep(&self) -> (KeptBreaker, i64) {
        let state = self.state();
        (state.breaker.keep(), state.revision + 1)
    }

    /// The store has this revision.
    pub fn kept(&self, revision: i64) {
        let mut state = self.state();
        state.revision = state.revision.max(revision);
    }

    /// Applies what a person did on another node: forced it, or closed it. What one other node has found out itself stays its own: an app that it cannot reach may
    /// be there for this one.
    pub fn apply_kept_breaker(&self, row: &BreakerRow, now: Timestamp) {
        let mut state = self.state();
        let by_person = matches!(row.kept.stage, KeptStage::ForcedOpen { .. } | KeptStage::ForcedClosed { .. } | KeptStage::Closed);
        if row.revision > state.revision && by_person {
            state.breaker = Breaker::restore(row.kept, state.settings.breaker, now);
            state.revision = row.revision;
        }
    }

    fn end(&self, pass: Pass, app: &AppLimit, outcome: Option<RequestOutcome>, now: Timestamp) -> Option<Transition> {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(outcome) = outcome else {
            state.give_back(app);
            return state.breaker.end(pass, CallOutcome::Ignored, now);
        };
        let by_slowness = match outcome {
            RequestOutcome::Answered(took) => {
                state.answered(app, took, now);
                state.retries.succeeded();
                state.count_slow(took, now)
            }
            RequestOutcome::Failed(kind, took) => {
                state.give_back(app);
                if kind == FailureKind::Timeout {
                    state.limit.timed_out();
                }
                state.failed(kind, took, now)
            }
        };
        let counted = match outcome {
            RequestOutcome::Answered(_) => CallOutcome::Success,
            RequestOutcome::Failed(kind, _) if kind.counts_for_breaker() => CallOutcome::Failure,
            RequestOutcome::Failed(..) => CallOutcome::Ignored,
        };
        let by_count = state.breaker.end(pass, counted, now);
        by_count.or(by_slowness)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A request is at the app no more, and says nothing about how quick it is.
    fn give_back(&mut self, app: &AppLimit) {
        self.limit.ended();
        app.ended();
    }

    fn answered(&mut self, app: &AppLimit, took: Duration, now: Timestamp) {
        let reading = self.pace.answered(took, now);
        self.limit.answered(reading);
        app.answered(reading);
        self.latency.add(took, now);
        self.answered_at = Some(now);
    }

    /// Counts a failure, but not for the breaker. What this machine lacked is none of the app.
    fn failed(&mut self, kind: FailureKind, took: Duration, now: Timestamp) -> Option<Transition> {
        if kind != FailureKind::OutOfResources {
            self.retries.failed();
        }
        if !kind.counts_for_breaker() {
            return None;
        }
        self.failures.note(kind);
        self.count_slow(took, now)
    }

    /// Counts how long a call took. Opens the breaker if too many were slow.
    fn count_slow(&mut self, took: Duration, now: Timestamp) -> Option<Transition> {
        self.slow_for_hedging.add(took > self.settings.slow_after, CALLS_MIN_FOR_HEDGING);
        let rule = self.settings.slow_calls?;
        self.slow_calls.add(took > rule.slower_than, rule.calls_min);
        if self.slow_calls.trips(&rule) { self.breaker.trip(Cause::TooManySlowCalls, now) } else { None }
    }
}

impl CallPass {
    /// The request ended. Says what the breaker did, if it did something.
    pub fn end(mut self, outcome: RequestOutcome, now: Timestamp) -> Option<Transition> {
        let pass = self.pass.take()?;
        self.gate.end(pass, &self.app, Some(outcome), now)
    }
}

impl Drop for CallPass {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            // When it ended makes no difference to what is ignored.
            self.gate.end(pass, &self.app, None, self.begun_at);
        }
    }
}

#[cfg(test)]
mod tests;
