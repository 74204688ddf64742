//! Budgets that keep extra requests few: retries when an app is down, hedges when it is slow. Pure.

/// What a retry budget begins with and never exceeds.
const RETRY_TOKENS_MAX: f64 = 10.0;
/// What a success gives back: in the long run a retry for ten successes.
const RETRY_TOKENS_A_SUCCESS: f64 = 0.1;

/// How many hedges may have gathered: a moment in which many answers are slow should not double the load.
const HEDGE_TOKENS_MAX: f64 = 10.0;

/// Whether failed requests may be repeated: every failure takes a token, every success gives a tenth of one back, and at half or fewer nothing is
/// repeated. In an outage a handful of calls are retried, and then none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryTokens(f64);

impl Default for RetryTokens {
    fn default() -> Self {
        Self(RETRY_TOKENS_MAX)
    }
}

impl RetryTokens {
    /// A request succeeded.
    pub fn succeeded(&mut self) {
        self.0 = (self.0 + RETRY_TOKENS_A_SUCCESS).min(RETRY_TOKENS_MAX);
    }

    /// A request failed.
    pub fn failed(&mut self) {
        self.0 = (self.0 - 1.0).max(0.0);
    }

    /// Whether a request may be repeated.
    pub fn allow(&self) -> bool {
        self.0 > RETRY_TOKENS_MAX / 2.0
    }
}

/// How many second requests may be made: each call adds its share, each hedge takes a whole one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HedgeTokens(f64);

impl HedgeTokens {
    /// A call began.
    pub fn called(&mut self, budget_percent: u32) {
        self.0 = (self.0 + f64::from(budget_percent) / 100.0).min(HEDGE_TOKENS_MAX);
    }

    /// Takes what a hedge costs, if there is as much.
    pub fn take(&mut self) -> bool {
        let has_one = self.0 >= 1.0;
        if has_one {
            self.0 -= 1.0;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_an_outage_five_requests_are_repeated_and_then_none() {
        let mut tokens = RetryTokens::default();
        let mut retries = 0;
        for _ in 0..1_000 {
            tokens.failed();
            if tokens.allow() {
                retries += 1;
                tokens.failed();
            }
        }
        assert!(retries <= 5, "{retries} retries");
    }

    /// How many of 1,000 calls are retried, of which one in so many fails at first; retries succeed.
    fn retries(one_in: u32) -> u32 {
        let mut tokens = RetryTokens::default();
        let mut retries = 0;
        for call in 1..=1_000 {
            if call % one_in != 0 {
                tokens.succeeded();
                continue;
            }
            tokens.failed();
            if tokens.allow() {
                retries += 1;
                tokens.succeeded();
            }
        }
        retries
    }

    #[test]
    fn what_fails_now_and_then_is_retried_each_time_and_what_fails_often_is_not() {
        assert_eq!([retries(100), retries(20)], [10, 50]);
        assert!(retries(3) <= 10, "{}", retries(3));
    }

    #[test]
    fn hedges_never_exceed_their_share() {
        let mut tokens = HedgeTokens::default();
        let hedges = (0..10_000).filter(|_| {
            tokens.called(5);
            tokens.take()
        });
        assert!((499..=500).contains(&hedges.count()));
        let mut rested = HedgeTokens::default();
        (0..1_000_000).for_each(|_| rested.called(5));
        assert_eq!((0..100).filter(|_| rested.take()).count(), 10, "no more gather than a moment may use");
    }
}
