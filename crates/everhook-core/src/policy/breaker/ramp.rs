//! How concurrency grows after a breaker closed, so that a backlog does not fell an endpoint that has just got up.

use super::CallOutcome;

/// From here on a limit is of no use: no endpoint may be given more requests at once.
const LIMIT_FULL: u32 = 1_024;

/// One request at a time at first; after as many successes as the limit, twice as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ramp {
    limit: u32,
    /// Successes since the limit last grew.
    successes: u32,
}

impl Ramp {
    /// No limit.
    pub(super) const FULL: Self = Self { limit: LIMIT_FULL, successes: 0 };
    /// One at a time.
    pub(super) const START: Self = Self { limit: 1, successes: 0 };

    /// Failures neither count nor take back: an endpoint that fails one call in five would else be kept slow for ever, and one that fails
    /// more opens the breaker again.
    pub(super) fn count(&mut self, outcome: CallOutcome) {
        if outcome != CallOutcome::Success || self.limit >= LIMIT_FULL {
            return;
        }
        self.successes += 1;
        if self.successes >= self.limit {
            *self = Self { limit: self.limit * 2, successes: 0 };
        }
    }

    pub(super) fn limit(self) -> Option<u32> {
        (self.limit < LIMIT_FULL).then_some(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_of_successes_doubles_the_limit_until_it_is_of_no_use() {
        let mut ramp = Ramp::START;
        let mut limits = vec![ramp.limit()];
        for _ in 0..1_023 {
            ramp.count(CallOutcome::Failure);
            ramp.count(CallOutcome::Ignored);
            ramp.count(CallOutcome::Success);
            limits.push(ramp.limit());
        }
        assert_eq!(limits[..8], [1, 2, 2, 4, 4, 4, 4, 8].map(Some));
        assert_eq!(limits[1_022..], [Some(512), None]);
    }
}
