//! What of a breaker is written, and how it goes on from that.

use super::{Breaker, Probes, Ramp, Stage};
use crate::{
    model::{BreakerConfig, KeptBreaker, KeptStage, KeptWindow},
    time::Timestamp,
};

impl Breaker {
    /// Goes on where a process ended.
    ///
    /// Open is open until its time, though never for longer than `sleep_max` from now; half-open begins its probes again. One that closed
    /// less than `sleep_max` ago starts with one request at a time again, as how far it had come is not kept.
    pub fn restore(kept: KeptBreaker, config: BreakerConfig, now: Timestamp) -> Self {
        let just_closed = now.since(kept.since) < config.sleep_max;
        let ramp = if just_closed { Ramp::START } else { Ramp::FULL };
        let stage = match kept.stage {
            KeptStage::ForcedClosed { until } => Stage::ForcedClosed { until, ramp },
            KeptStage::ForcedOpen { until } => Stage::ForcedOpen { until },
            // It was switched off meanwhile, which closes it.
            KeptStage::Open { .. } | KeptStage::HalfOpen if !config.enabled => {
                return Self { stage: Stage::Closed { ramp: Ramp::START }, ..Self::new(config, now) };
            }
            KeptStage::Open { until } => Stage::Open { until: until.min(now + config.sleep_max) },
            KeptStage::HalfOpen => Stage::HalfOpen(Probes::default()),
            KeptStage::Closed => Stage::Closed { ramp },
        };
        Self { stage, since: kept.since.min(now), failed_recoveries: kept.failed_recoveries, ..Self::new(config, now) }
    }

    /// Whether a new one, or one restored from what was kept, would do the same: nothing is lost if it is forgotten.
    pub fn is_pristine(&self, now: Timestamp) -> bool {
        let Stage::Closed { ramp } = self.stage else { return false };
        let is_up = ramp.limit().is_none() || now.since(self.since) >= self.config.sleep_max;
        is_up && self.calls.counts(now).total() == 0
    }

    /// What to write after each [`Transition`](super::Transition).
    pub fn keep(&self) -> KeptBreaker {
        let stage = match self.stage {
            Stage::Closed { .. } => KeptStage::Closed,
            Stage::ForcedClosed { until, .. } => KeptStage::ForcedClosed { until },
            Stage::Open { until } => KeptStage::Open { until },
            Stage::ForcedOpen { until } => KeptStage::ForcedOpen { until },
            Stage::HalfOpen(_) => KeptStage::HalfOpen,
        };
        KeptBreaker { stage, since: self.since, failed_recoveries: self.failed_recoveries }
    }

    /// What the next owner of the lane should go on with: what a closed breaker has counted, if there is a failure among it.
    pub fn window(&self, now: Timestamp) -> Option<KeptWindow> {
        let is_worth_it = matches!(self.stage, Stage::Closed { .. }) && self.calls.counts(now).failures > 0;
        is_worth_it.then(|| self.calls.keep(now))
    }

    /// Goes on with what the lane's former owner has counted, if both count by the same rule. What came before `not_before`, when the breaker last changed,
    /// is left out. It opens nothing by itself: the next call does.
    pub fn resume_window(&mut self, window: &KeptWindow, not_before: Option<Timestamp>) {
        if matches!(self.stage, Stage::Closed { .. }) {
            self.calls.resume_window(window, not_before.unwrap_or(Timestamp::EPOCH));
        }
    }
}
