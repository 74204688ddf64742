//! The gate of one capability: whether a request may start, and what its end says about the app.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::slots::{CallSlot, CallSlots};
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

/// What a gate goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateSettings {
    /// When the app is left alone.
    pub breaker: BreakerConfig,
    /// Also because it is slow.
    pub slow_calls: Option<SlowCallRule>,
    /// How many requests may be under way.
    pub max_concurrency: u32,
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
    slow_calls: SlowCalls,
    limit: ConcurrencyLimit,
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
    slot: Option<CallSlot>,
}

/// How a gate stands, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct GateFacts {
    /// The breaker.
    pub breaker: BreakerFacts,
    /// How many requests are under way.
    pub in_flight: u32,
    /// How many may be.
    pub concurrency_limit: u32,
    /// How long half of the last answers took at most, and 95 and 99 in a hundred.
    pub percentiles: [Option<Duration>; 3],
}

impl CapabilityGate {
    pub(super) fn new(settings: &GateSettings, kept: Option<&BreakerRow>, now: Timestamp) -> Self {
        let breaker = match kept {
            Some(row) => Breaker::restore(row.kept, settings.breaker, now),
            None => Breaker::new(settings.breaker, now),
        };
        Self(Mutex::new(State {
            settings: *settings,
            breaker,
            revision: kept.map_or(0, |row| row.revision),
            slow_calls: SlowCalls::default(),
            limit: ConcurrencyLimit::new(settings.max_concurrency),
            retries: RetryTokens::default(),
            hedges: HedgeTokens::default(),
            latency: Latency::new(now),
            canary: Trial::default(),
            answered_at: None,
            failures: LastFailures::default(),
            is_called: false,
        }))
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
        if !state.limit.begin(state.breaker.concurrency_limit()) {
            return Err(Standstill::AtCapacity);
        }
        match state.breaker.begin(now, call) {
            Admission::Flows(pass) => {
                let breaker_state = pass.state();
                Ok(CallPass { gate: self.clone(), pass: Some(pass), begun_at: now, state: breaker_state, slot: Some(slot) })
            }
            Admission::Blocked { until } => {
                state.limit.ended();
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
        let is_well = state.breaker.state(now) == BreakerState::Closed && state.slow_calls.percentage() <= SLOW_PERCENTAGE_MAX_FOR_HEDGING;
        is_well && state.hedges.take()
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
            concurrency_limit: state.limit.limit(),
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

    fn end(&self, pass: Pass, outcome: Option<RequestOutcome>, now: Timestamp) -> Option<Transition> {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut by_slowness = None;
        let counted = match outcome {
            None => {
                state.limit.ended();
                CallOutcome::Ignored
            }
            Some(RequestOutcome::Answered(took)) => {
                state.limit.answered(took, now);
                state.latency.add(took, now);
                state.retries.succeeded();
                state.answered_at = Some(now);
                by_slowness = state.count_slow(took, now);
                CallOutcome::Success
            }
            Some(RequestOutcome::Failed(kind, took)) => {
                if kind == FailureKind::Timeout {
                    state.limit.timed_out()
                } else {
                    state.limit.ended()
                }
                // What this machine lacked is no failure of the app.
                if kind != FailureKind::OutOfResources {
                    state.retries.failed();
                }
                if kind.counts_for_breaker() {
                    state.failures.note(kind);
                    by_slowness = state.count_slow(took, now);
                    CallOutcome::Failure
                } else {
                    CallOutcome::Ignored
                }
            }
        };
        let by_count = state.breaker.end(pass, counted, now);
        by_count.or(by_slowness)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts how long a call took. Opens the breaker if too many were slow.
    fn count_slow(&mut self, took: Duration, now: Timestamp) -> Option<Transition> {
        let rule = self.settings.slow_calls?;
        if self.slow_calls.add(took, &rule) { self.breaker.trip(Cause::TooManySlowCalls, now) } else { None }
    }
}

impl CallPass {
    /// The place that the request has. Whoever lets the request go on after its pass has ended keeps it until then.
    pub fn take_slot(&mut self) -> Option<CallSlot> {
        self.slot.take()
    }

    /// The request ended. Says what the breaker did, if it did something.
    pub fn end(mut self, outcome: RequestOutcome, now: Timestamp) -> Option<Transition> {
        let pass = self.pass.take()?;
        self.gate.end(pass, Some(outcome), now)
    }
}

impl Drop for CallPass {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            // When it ended makes no difference to what is ignored.
            self.gate.end(pass, None, self.begun_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::policy::calls::manifest::ManifestDefaults;

    const MS: Duration = Duration::from_millis(1);

    fn settings() -> GateSettings {
        GateSettings {
            breaker: ManifestDefaults::default().breaker,
            slow_calls: None,
            max_concurrency: 100,
            hedge: None,
            canary_version: None,
        }
    }

    struct Given {
        gate: Arc<CapabilityGate>,
        slots: Arc<CallSlots>,
    }

    impl Given {
        fn new(settings: &GateSettings) -> Self {
            Self { gate: Arc::new(CapabilityGate::new(settings, None, Timestamp::EPOCH)), slots: CallSlots::new(512) }
        }

        fn begin(&self, call: u128, secs: i64) -> Result<CallPass, Standstill> {
            let organization = OrganizationId::from_uuid(Uuid::nil());
            self.gate.begin(EventId::from_uuid(Uuid::from_u128(call)), organization, &self.slots, Timestamp::from_secs(secs))
        }

        fn fail(&self, call: u128, secs: i64) -> Option<Transition> {
            self.begin(call, secs).ok().unwrap().end(RequestOutcome::Failed(FailureKind::Status, MS), Timestamp::from_secs(secs))
        }
    }

    #[test]
    fn five_failures_open_it_one_call_probes_and_three_successes_close_it() {
        let given = Given::new(&settings());
        let opened: Vec<bool> = (0..5).map(|call| given.fail(call, 1).is_some()).collect();
        assert_eq!(opened, [false, false, false, false, true]);
        assert!(matches!(given.begin(9, 2), Err(Standstill::CircuitOpen { until: Some(until) }) if until == Timestamp::from_secs(61)));
        for round in 0..3 {
            let probe = given.begin(10 + round, 62).ok().unwrap();
            assert_eq!(probe.state, BreakerState::HalfOpen);
            assert!(matches!(given.begin(20 + round, 62), Err(Standstill::CircuitOpen { .. })), "one probes, the others have a fallback");
            probe.end(RequestOutcome::Answered(MS), Timestamp::from_secs(62));
        }
        assert_eq!(given.gate.breaker_state(Timestamp::from_secs(62)), BreakerState::Closed);
        let first = given.begin(30, 63).ok().unwrap();
        assert!(matches!(given.begin(31, 63), Err(Standstill::AtCapacity)), "it is given one at a time at first");
        drop(first);
    }

    #[test]
    fn what_is_cancelled_gives_its_place_back_and_counts_for_nothing() {
        let given = Given::new(&GateSettings { max_concurrency: 1, ..settings() });
        for call in 0..100 {
            let pass = given.begin(call, 1).ok().unwrap();
            assert!(matches!(given.begin(1_000 + call, 1), Err(Standstill::AtCapacity)));
            drop(pass);
        }
        assert_eq!(given.gate.facts(Timestamp::from_secs(1)).breaker.failure_count_in_window, 0);
    }

    #[test]
    fn an_app_that_says_itself_that_it_cannot_is_well() {
        let given = Given::new(&settings());
        for call in 0..100 {
            let pass = given.begin(call, 1).ok().unwrap();
            assert_eq!(pass.end(RequestOutcome::Failed(FailureKind::AppError, MS), Timestamp::from_secs(1)), None);
        }
    }

    #[test]
    fn it_opens_as_it_is_open_elsewhere_unless_it_knows_better() {
        let at = Timestamp::from_secs;
        let row = |revision, until| BreakerRow {
            lane_id: crate::ids::LaneId::from_uuid(Uuid::nil()),
            revision,
            kept: KeptBreaker { stage: KeptStage::Open { until: at(until) }, since: at(10), failed_recoveries: 0 },
        };
        let given = Given::new(&settings());
        assert!(given.gate.may_open_for(&row(1, 70), at(20)));
        assert!(!given.gate.may_open_for(&row(1, 20), at(20)), "its sleep is over");
        assert!(!given.gate.may_open_for(&row(0, 70), at(20)), "it is not newer than what is known here");
        given.gate.open_for(&row(1, 70), at(20));
        assert!(given.begin(1, 69).is_err() && given.begin(1, 70).is_ok(), "after the sleep a call of this node probes");
        assert!(!given.gate.may_open_for(&row(2, 90), at(71)), "a probe is under way");
        let switched_off = BreakerConfig { enabled: false, ..settings().breaker };
        assert!(!Given::new(&GateSettings { breaker: switched_off, ..settings() }).gate.may_open_for(&row(1, 70), at(20)));
    }

    #[test]
    fn failed_health_checks_open_it_unless_calls_are_answered_and_a_probe_closes_it() {
        let at = Timestamp::from_secs;
        let answering = Given::new(&settings());
        answering.begin(1, 10).ok().unwrap().end(RequestOutcome::Answered(MS), at(10));
        assert_eq!(answering.gate.app_is_away(at(10), at(20)), None);
        assert!(answering.gate.app_is_away(at(11), at(20)).is_some(), "it was before the checks failed");
        let unused = Given::new(&settings());
        let opened = unused.gate.app_is_away(at(10), at(20)).expect("nobody knows better");
        assert_eq!((opened.opens(), opened.cause.as_str()), (true, "failed_health_checks"));
        assert_eq!(unused.gate.app_is_away(at(10), at(21)), None, "it is open already");
        assert!(unused.begin(1, 79).is_err() && unused.begin(1, 80).is_ok(), "after its sleep a call probes");
        let switched_off = BreakerConfig { enabled: false, ..settings().breaker };
        assert_eq!(Given::new(&GateSettings { breaker: switched_off, ..settings() }).gate.app_is_away(at(10), at(20)), None);
    }

    #[test]
    fn slow_answers_open_it_where_the_manifest_asks_for_that() {
        let rule = SlowCallRule { slower_than: 10 * MS, percentage: 50, calls_min: 20 };
        let given = Given::new(&GateSettings { slow_calls: Some(rule), ..settings() });
        let now = Timestamp::from_secs(1);
        let transitions = (0..20).filter_map(|call| given.begin(call, 1).ok().unwrap().end(RequestOutcome::Answered(11 * MS), now));
        assert_eq!(transitions.map(|transition| transition.cause.as_str()).collect::<Vec<_>>(), ["too_many_slow_calls"]);
        assert!(given.begin(99, 1).is_err());
    }
}
