//! When slow answers open a breaker that counts failures only: an app that hangs costs a few waits, not one for each caller. Pure.

use std::collections::VecDeque;

use crate::model::SlowCallRule;

/// How many calls are remembered: the share is that of these.
const CALLS_MAX: usize = 100;

/// The last calls, each slow or not.
#[derive(Clone, Debug, Default)]
pub struct SlowCalls {
    last: VecDeque<bool>,
    slow: u32,
}

impl SlowCalls {
    /// A call was slow or was not, answered or not. At least `calls_min` are remembered.
    pub fn add(&mut self, is_slow: bool, calls_min: u32) {
        self.last.push_back(is_slow);
        self.slow += u32::from(is_slow);
        if self.last.len() > CALLS_MAX.max(calls_min as usize) {
            self.slow -= u32::from(self.last.pop_front() == Some(true));
        }
    }

    /// Whether these open the breaker; then counting begins again.
    pub fn trips(&mut self, rule: &SlowCallRule) -> bool {
        let calls = self.last.len() as u64;
        let trips = calls >= u64::from(rule.calls_min) && u64::from(self.slow) * 100 > calls * u64::from(rule.percentage);
        if trips {
            *self = Self::default();
        }
        trips
    }

    /// How many calls are remembered.
    pub fn calls(&self) -> u32 {
        u32::try_from(self.last.len()).unwrap_or(u32::MAX)
    }

    /// How many in a hundred of the last calls were slow, in whole numbers; 0 if there was none.
    pub fn percentage(&self) -> u32 {
        self.slow * 100 / u32::try_from(self.last.len()).unwrap_or(u32::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A call took so long; says whether that opens the breaker.
    fn add(calls: &mut SlowCalls, took: Duration, rule: &SlowCallRule) -> bool {
        calls.add(took > rule.slower_than, rule.calls_min);
        calls.trips(rule)
    }

    const RULE: SlowCallRule = SlowCallRule { slower_than: Duration::from_millis(800), percentage: 50, calls_min: 20 };

    #[test]
    fn a_hanging_app_costs_twenty_waits() {
        let mut calls = SlowCalls::default();
        assert_eq!((1..).find(|_| add(&mut calls, Duration::from_secs(1), &RULE)), Some(20));
        assert_eq!(calls.percentage(), 0, "counting begins again");
    }

    #[test]
    fn half_of_them_is_not_more_than_half() {
        let mut calls = SlowCalls::default();
        for n in 0..1_000 {
            assert!(!add(&mut calls, Duration::from_millis(if n % 2 == 0 { 10 } else { 900 }), &RULE), "call {n}");
        }
        assert_eq!(calls.percentage(), 50);
        assert!(calls.last.len() <= CALLS_MAX);
        assert!((0..10).any(|_| add(&mut calls, Duration::from_millis(900), &RULE)));
    }
}
