//! The few requests that a half-open breaker lets through, and what they decide.

use super::CallOutcome;
use crate::{
    ids::EventId,
    model::{BreakerConfig, TripRule},
};

/// How an attempt at recovery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    Succeeded,
    Failed,
}

/// What was let through since the breaker became half-open.
#[derive(Clone, Debug, Default)]
pub(super) struct Probes {
    /// The events of those under way; at most `half_open_max_calls`.
    under_way: Vec<EventId>,
    pub(super) successes: u32,
    failures: u32,
}

impl Probes {
    /// How many were let through and not handed back.
    pub(super) fn begun(&self) -> u32 {
        self.counted() + self.under_way()
    }

    pub(super) fn has_room(&self, config: &BreakerConfig) -> bool {
        let wanted = match config.rule {
            TripRule::Window { .. } => config.half_open_max_calls,
            TripRule::Consecutive { success_threshold, .. } => success_threshold,
        };
        self.under_way() < config.half_open_max_calls.max(1) && self.begun() < wanted.max(1)
    }

    /// Whether a probe of this event is under way. Two of one event would be one witness heard twice.
    pub(super) fn holds(&self, event: EventId) -> bool {
        self.under_way.contains(&event)
    }

    pub(super) fn begin(&mut self, event: EventId) {
        self.under_way.push(event);
    }

    /// What was ignored gives its place back.
    pub(super) fn end(&mut self, event: EventId, outcome: CallOutcome) {
        if let Some(place) = self.under_way.iter().position(|probing| *probing == event) {
            self.under_way.swap_remove(place);
        }
        match outcome {
            CallOutcome::Success => self.successes += 1,
            CallOutcome::Failure => self.failures += 1,
            CallOutcome::Ignored => {}
        }
    }

    /// What the probes decide, as soon as those still to come cannot change it: a probe that hangs should not hold up a recovery.
    pub(super) fn verdict(&self, config: &BreakerConfig) -> Option<Recovery> {
        if !config.enabled {
            // Failures may not open it, so there is nothing to find out: it was forced open, and that is over.
            return (self.counted() > 0).then_some(Recovery::Succeeded);
        }
        match config.rule {
            TripRule::Window { half_open_success_threshold, .. } => {
                let wanted = config.half_open_max_calls.max(1);
                let needed = share_of(wanted, half_open_success_threshold);
                decided(self.successes >= needed, self.failures > wanted - needed)
            }
            TripRule::Consecutive { success_threshold, .. } => decided(self.successes >= success_threshold.max(1), self.failures > 0),
        }
    }

    /// What those that there were decide, once none is under way and no more come.
    ///
    /// Under [`TripRule::Consecutive`] fewer decide nothing: it names a number, not a share.
    pub(super) fn verdict_of_few(&self, config: &BreakerConfig) -> Option<Recovery> {
        match config.rule {
            TripRule::Window { half_open_success_threshold, .. } if self.counted() > 0 && self.under_way.is_empty() => {
                let closes = self.successes >= share_of(self.counted(), half_open_success_threshold);
                Some(if closes { Recovery::Succeeded } else { Recovery::Failed })
            }
            TripRule::Window { .. } | TripRule::Consecutive { .. } => None,
        }
    }

    fn counted(&self) -> u32 {
        self.successes + self.failures
    }

    fn under_way(&self) -> u32 {
        u32::try_from(self.under_way.len()).unwrap_or(u32::MAX)
    }
}

fn decided(succeeded: bool, failed: bool) -> Option<Recovery> {
    if failed { Some(Recovery::Failed) } else { succeeded.then_some(Recovery::Succeeded) }
}

/// The smallest number that is at least this share of `of`, from 1 to all.
fn share_of(of: u32, share: f64) -> u32 {
    // 0.28 × 25 is a little more than 7 in floating point, and 7 is what is meant.
    let needed = (share * f64::from(of) - 1e-6).ceil();
    (needed as u32).clamp(1, of.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_probes_is_rounded_up() {
        #[rustfmt::skip]
        let cases = [(5, 0.6, 3), (4, 0.6, 3), (3, 0.6, 2), (2, 0.6, 2), (1, 0.6, 1), (25, 0.28, 7), (100, 0.01, 1), (5, 1.0, 5), (5, 0.0, 1), (5, f64::NAN, 1)];
        for (of, share, needed) in cases {
            assert_eq!(share_of(of, share), needed, "{share} of {of}");
        }
    }
}
