//! The circuit breaker: whether an endpoint is left alone for a while. One for each lane, asked before each request and notified after it.
//!
//! ```text
//!           too many failures           its sleep is over
//!   closed ───────────────────► open ───────────────────► half-open
//!     ▲                          ▲                         │    │
//!     │                          └─── too few successes ───┘    │
//!     └─────────────────── enough successes ────────────────────┘
//! ```
//!
//! A person can reset it, force it open or force it closed at any time.
//!
//! Pure: time comes in as a fact. Becoming half-open is no [`Transition`]: a breaker that was kept as open and whose time has come is
//! half-open by itself, so there is nothing to write. It must never count a request that began before the last change: those speak of
//! an endpoint as it was then.

use std::time::Duration;

use self::{
    calls::Calls,
    probes::{Probes, Recovery},
    ramp::Ramp,
};
/// What it reports, by the short names that fit here.
pub use crate::model::{BreakerCause as Cause, BreakerFacts, BreakerTransition as Transition};
use crate::{
    ids::EventId,
    model::{BreakerConfig, BreakerState},
    time::Timestamp,
};

mod calls;
mod facts;
mod keeping;
mod probes;
mod ramp;

/// How far back the time may go from one question to the next without the clock having been set: callers read it at different moments.
const CLOCK_JITTER: Duration = Duration::from_secs(1);

/// Whether requests flow, and what decides when that changes.
#[derive(Clone, Debug)]
pub struct Breaker {
    config: BreakerConfig,
    stage: Stage,
    /// When it got there.
    since: Timestamp,
    /// Counts the changes of stage, so that requests begun before one are known. It begins with the time, so that those begun before a
    /// restart are known as well.
    era: i64,
    /// What a closed breaker counts. Afterwards it stays as it was, to show why the breaker opened; closing empties it.
    calls: Calls,
    /// Recoveries that failed since it was last closed.
    failed_recoveries: u32,
}

#[derive(Clone, Debug)]
enum Stage {
    Closed { ramp: Ramp },
    ForcedClosed { until: Option<Timestamp>, ramp: Ramp },
    Open { until: Timestamp },
    ForcedOpen { until: Option<Timestamp> },
    HalfOpen(Probes),
}

/// The answer to whether a request may be made.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Flows(Pass),
    /// It may not, and no attempt is counted.
    Blocked {
        /// From when on it is worth asking again; `None` if only a probe that ends or a person changes it.
        until: Option<Timestamp>,
    },
}

/// The right to make one request. It comes back through [`Breaker::end`] whatever became of the request: a probe's place is else never
/// free again.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a pass comes back through `Breaker::end`"]
pub struct Pass {
    era: i64,
    event: EventId,
    state: BreakerState,
}

impl Pass {
    /// What the breaker was when the request began: closed, or half-open for a probe.
    pub const fn state(&self) -> BreakerState {
        self.state
    }
}

/// What became of a request, as a breaker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The endpoint took it.
    Success,
    /// It did not.
    Failure,
    /// It says nothing about the endpoint: answered 429, handed back, or never made.
    Ignored,
}

impl Breaker {
    /// A closed one, with nothing counted.
    pub fn new(config: BreakerConfig, now: Timestamp) -> Self {
        let calls = Calls::new(&config.rule);
        Self { config, stage: Stage::Closed { ramp: Ramp::FULL }, since: now, era: now.as_micros(), calls, failed_recoveries: 0 }
    }

    /// Asks to make a request now.
    ///
    /// Probes are of different events: while one of an event is under way, a second of the same event (a replay) is refused. Once it has
    /// ended, the same event may probe again, which is how a strict lane probes with its head.
    pub fn begin(&mut self, now: Timestamp, event: EventId) -> Admission {
        self.advance(now);
        match &mut self.stage {
            Stage::Closed { .. } | Stage::ForcedClosed { .. } => {}
            Stage::Open { until } => return Admission::Blocked { until: Some(*until) },
            Stage::ForcedOpen { until } => return Admission::Blocked { until: *until },
            Stage::HalfOpen(probes) if probes.has_room(&self.config) && !probes.holds(event) => probes.begin(event),
            Stage::HalfOpen(_) => return Admission::Blocked { until: None },
        }
        Admission::Flows(Pass { era: self.era, event, state: self.state(now) })
    }

    /// Tells how a request ended. It counts only if nothing changed since it began.
    pub fn end(&mut self, pass: Pass, outcome: CallOutcome, now: Timestamp) -> Option<Transition> {
        self.advance(now);
        if pass.era != self.era {
            return None;
        }
        match &mut self.stage {
            Stage::Closed { ramp } => {
                ramp.count(outcome);
                self.count(outcome, now)
            }
            Stage::ForcedClosed { ramp, .. } => {
                ramp.count(outcome);
                None
            }
            Stage::HalfOpen(probes) => {
                probes.end(pass.event, outcome);
                let recovery = probes.verdict(&self.config)?;
                Some(self.conclude(recovery, now))
            }
            Stage::Open { .. } | Stage::ForcedOpen { .. } => None,
        }
    }

    /// The lane has nothing left to begin: half-open is decided on the probes that there were, if any ended and none is under way.
    ///
    /// Asked after each [`Breaker::end`] that leaves the lane empty.
    pub fn nothing_more_waits(&mut self, now: Timestamp) -> Option<Transition> {
        match &self.stage {
            Stage::HalfOpen(probes) => {
                let recovery = probes.verdict_of_few(&self.config)?;
                Some(self.conclude(recovery, now))
            }
            Stage::Closed { .. } | Stage::ForcedClosed { .. } | Stage::Open { .. } | Stage::ForcedOpen { .. } => None,
        }
    }

    /// Opens it for another cause than the calls that it counts, if it is closed and failures may open it.
    pub fn trip(&mut self, cause: Cause, now: Timestamp) -> Option<Transition> {
        self.advance(now);
        let may_open = self.config.enabled && matches!(self.stage, Stage::Closed { .. });
        may_open.then(|| self.change(Stage::Open { until: now + self.sleep() }, cause, now))
    }

    /// Closes it and forgets everything, whatever it was forced to be.
    pub fn reset(&mut self, now: Timestamp) -> Transition {
        let ramp = self.ramp_when_closing(now);
        self.change(Stage::Closed { ramp }, Cause::Reset, now)
    }

    /// Lets nothing through until then; without an instant, until it is reset. Afterwards it is half-open.
    pub fn force_open(&mut self, until: Option<Timestamp>, now: Timestamp) -> Transition {
        self.change(Stage::ForcedOpen { until }, Cause::ForcedOpen, now)
    }

    /// Closes it, forgets everything, and ignores failures until then; without an instant, until it is reset.
    pub fn force_close(&mut self, until: Option<Timestamp>, now: Timestamp) -> Transition {
        let ramp = self.ramp_when_closing(now);
        self.change(Stage::ForcedClosed { until, ramp }, Cause::ForcedClosed, now)
    }

    /// Applies other numbers. What was counted under another rule is forgotten, probes begin again, and a sleep ends no later than the new
    /// `sleep_max` from now. Switching it off closes it, unless it was forced open.
    pub fn reconfigure(&mut self, config: BreakerConfig, now: Timestamp) -> Option<Transition> {
        if config == self.config {
            return None;
        }
        self.advance(now);
        let is_other_rule = config.rule != self.config.rule;
        self.config = config;
        match &mut self.stage {
            Stage::Open { .. } | Stage::HalfOpen(_) if !self.config.enabled => {
                let ramp = Ramp::START;
                return Some(self.change(Stage::Closed { ramp }, Cause::SwitchedOff, now));
            }
            Stage::Open { until } => *until = (*until).min(now + self.config.sleep_max),
            Stage::HalfOpen(probes) => *probes = Probes::default(),
            Stage::Closed { .. } | Stage::ForcedClosed { .. } | Stage::ForcedOpen { .. } => {}
        }
        self.era += 1;
        if is_other_rule {
            self.calls = Calls::new(&self.config.rule);
        }
        None
    }

    /// Whether requests flow.
    pub fn state(&self, now: Timestamp) -> BreakerState {
        match self.stage {
            Stage::Closed { .. } | Stage::ForcedClosed { .. } => BreakerState::Closed,
            Stage::Open { .. } | Stage::ForcedOpen { .. } if !self.is_over(now) => BreakerState::Open,
            Stage::Open { .. } | Stage::ForcedOpen { .. } | Stage::HalfOpen(_) => BreakerState::HalfOpen,
        }
    }

    /// Whether [`Breaker::begin`] lets some event through now.
    pub fn may_begin(&self, now: Timestamp) -> bool {
        match &self.stage {
            Stage::Closed { .. } | Stage::ForcedClosed { .. } => true,
            Stage::Open { .. } | Stage::ForcedOpen { .. } => self.is_over(now),
            Stage::HalfOpen(probes) => probes.has_room(&self.config),
        }
    }

    /// From when on it lets something through: now, or when its sleep ends. `None` if only a probe that ends or a person changes it.
    pub fn flows_from(&self, now: Timestamp) -> Option<Timestamp> {
        match self.stage {
            _ if self.may_begin(now) => Some(now),
            Stage::Open { until } => Some(until),
            Stage::ForcedOpen { until } => until,
            Stage::Closed { .. } | Stage::ForcedClosed { .. } | Stage::HalfOpen(_) => None,
        }
    }

    /// How many requests may be under way at once since it closed: 1 at first, twice as many after each full round of successes. `None` if
    /// it sets no limit.
    pub fn concurrency_limit(&self) -> Option<u32> {
        self.ramp()?.limit()
    }

    /// Counts a call of a closed breaker, which may open it.
    fn count(&mut self, outcome: CallOutcome, now: Timestamp) -> Option<Transition> {
        if !self.config.enabled || outcome == CallOutcome::Ignored {
            return None;
        }
        self.calls.add(outcome, now);
        let trips = self.calls.trip(&self.config.rule, now);
        trips.then(|| self.change(Stage::Open { until: now + self.sleep() }, Cause::TooManyFailures, now))
    }

    /// What the probes decided comes true.
    fn conclude(&mut self, recovery: Recovery, now: Timestamp) -> Transition {
        match recovery {
            Recovery::Succeeded => self.change(Stage::Closed { ramp: Ramp::START }, Cause::Recovered, now),
            Recovery::Failed => {
                self.failed_recoveries = self.failed_recoveries.saturating_add(1);
                self.change(Stage::Open { until: now + self.sleep() }, Cause::RecoveryFailed, now)
            }
        }
    }

    /// How long it sleeps now: as configured at first and after the first recovery that failed, twice as long after each further one.
    fn sleep(&self) -> Duration {
        let doublings = self.failed_recoveries.saturating_sub(1);
        let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.config.sleep.saturating_mul(factor).min(self.config.sleep_max)
    }

    fn change(&mut self, stage: Stage, cause: Cause, now: Timestamp) -> Transition {
        let from = self.state(now);
        self.enter(stage, now);
        if let Stage::Closed { .. } | Stage::ForcedClosed { .. } = self.stage {
            self.calls = Calls::new(&self.config.rule);
            self.failed_recoveries = 0;
        }
        Transition { from, to: self.state(now), at: now, cause }
    }

    fn enter(&mut self, stage: Stage, at: Timestamp) {
        self.stage = stage;
        self.since = at;
        self.era += 1;
    }

    /// Makes true what has become true by the passing of time.
    fn advance(&mut self, now: Timestamp) {
        if !self.is_over(now) {
            return;
        }
        let since = self.state_since(now);
        match self.stage {
            Stage::Open { .. } | Stage::ForcedOpen { .. } => self.enter(Stage::HalfOpen(Probes::default()), since),
            Stage::ForcedClosed { ramp, .. } => self.enter(Stage::Closed { ramp }, since),
            Stage::Closed { .. } | Stage::HalfOpen(_) => {}
        }
    }

    /// Whether a stage that lasts for a time has lasted it.
    ///
    /// A sleep is over as well if it began in the future: then the clock was set back, and it would last until the clock caught up. What
    /// a person forced ends when that person said.
    fn is_over(&self, now: Timestamp) -> bool {
        match self.stage {
            Stage::Open { until } => until <= now || now + CLOCK_JITTER < self.since,
            Stage::ForcedOpen { until } | Stage::ForcedClosed { until, .. } => until.is_some_and(|until| until <= now),
            Stage::Closed { .. } | Stage::HalfOpen(_) => false,
        }
    }

    /// Since when [`Breaker::state`] is what it is.
    fn state_since(&self, now: Timestamp) -> Timestamp {
        match self.stage {
            Stage::Open { until } | Stage::ForcedOpen { until: Some(until) } if self.is_over(now) => until.min(now),
            _ => self.since,
        }
    }

    fn ramp(&self) -> Option<Ramp> {
        match self.stage {
            Stage::Closed { ramp } | Stage::ForcedClosed { ramp, .. } => Some(ramp),
            Stage::Open { .. } | Stage::ForcedOpen { .. } | Stage::HalfOpen(_) => None,
        }
    }

    /// A breaker that a person closes goes on as it is if it was closed, and grows from one request at a time if it was not.
    fn ramp_when_closing(&self, now: Timestamp) -> Ramp {
        if self.state(now) == BreakerState::Closed { self.ramp().unwrap_or(Ramp::FULL) } else { Ramp::START }
    }
}

#[cfg(test)]
mod tests;
