//! The token bucket that holds a lane to its rate limit. Asked by the lane before each request. Pure: time comes in as a fact.
//!
//! Whole numbers only, so that nothing drifts: the bucket is filled in parts of a token, so small that each microsecond brings a whole
//! number of them.

use std::time::Duration;

use crate::{model::RateLimit, time::Timestamp};

/// How far back the time may go from one question to the next without the clock having been set: callers read it at different moments.
pub(super) const CLOCK_JITTER: Duration = Duration::from_secs(1);

/// Holds up to `burst` tokens and gains `requests` a period. Each request takes one when it starts.
#[derive(Clone, Debug)]
pub struct Bucket {
    limit: RateLimit,
    /// What is in it, in parts of a token. A token has as many parts as its period has microseconds, and a microsecond brings
    /// `limit.requests` of them.
    parts: u64,
    /// When `parts` was true.
    as_of: Timestamp,
}

impl Bucket {
    /// A full one.
    pub fn new(limit: RateLimit, now: Timestamp) -> Self {
        Self { limit, parts: u64::from(limit.burst.get()) * token(limit), as_of: now }
    }

    /// Takes a token for a request that starts now.
    ///
    /// # Errors
    /// The instant of the next token, if there is none; nothing was taken.
    pub fn try_take(&mut self, now: Timestamp) -> Result<(), Timestamp> {
        self.fill(now);
        match self.parts.checked_sub(token(self.limit)) {
            Some(left) => {
                self.parts = left;
                Ok(())
            }
            None => Err(self.flows_from(now)),
        }
    }

    /// Takes so many tokens at once, or none. As many as fit in are enough, so that it succeeds in the end, however many are asked for.
    ///
    /// # Errors
    /// The instant at which there are as many, if nobody else takes any; nothing was taken.
    pub fn try_take_many(&mut self, tokens: u32, now: Timestamp) -> Result<(), Timestamp> {
        self.fill(now);
        let needed = u64::from(tokens.min(self.limit.burst.get())) * token(self.limit);
        match self.parts.checked_sub(needed) {
            Some(left) => {
                self.parts = left;
                Ok(())
            }
            None => Err(self.holds_from(needed, now)),
        }
    }

    /// The first instant, from now on, at which [`Bucket::try_take`] succeeds.
    pub fn flows_from(&self, now: Timestamp) -> Timestamp {
        self.holds_from(token(self.limit), now)
    }

    /// The first instant, from now on, at which there are so many parts in it.
    fn holds_from(&self, needed: u64, now: Timestamp) -> Timestamp {
        let (parts, as_of) = self.at(now);
        let missing = needed.saturating_sub(parts);
        let wait = missing.div_ceil(u64::from(self.limit.requests.get()));
        if wait == 0 { now } else { as_of + Duration::from_micros(wait) }
    }

    /// Puts a token back: the request was not made.
    pub fn give_back(&mut self) {
        self.parts = (self.parts + token(self.limit)).min(capacity(self.limit));
    }

    /// Goes on under another limit, with the tokens there are, as far as the new burst has room for them.
    pub fn change(&mut self, limit: RateLimit, now: Timestamp) {
        self.fill(now);
        let parts = u128::from(self.parts) * u128::from(token(limit)) / u128::from(token(self.limit));
        self.parts = u64::try_from(parts).unwrap_or(u64::MAX).min(capacity(limit));
        self.limit = limit;
    }

    /// The limit that it holds to.
    pub const fn limit(&self) -> RateLimit {
        self.limit
    }

    /// Whether nothing was taken lately: a new bucket would do the same.
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.at(now).0 >= capacity(self.limit)
    }

    /// The first instant, from now on, at which [`Bucket::is_full`]: the later, the more was taken.
    pub fn full_from(&self, now: Timestamp) -> Timestamp {
        self.holds_from(capacity(self.limit), now)
    }

    fn fill(&mut self, now: Timestamp) {
        (self.parts, self.as_of) = self.at(now);
    }

    /// What is in it at this instant, and since when that is known. A clock that was set back brings nothing and costs no waiting.
    fn at(&self, now: Timestamp) -> (u64, Timestamp) {
        if now + CLOCK_JITTER < self.as_of {
            return (self.parts, now);
        }
        let micros = u64::try_from(now.since(self.as_of).as_micros()).unwrap_or(u64::MAX);
        let gained = micros.saturating_mul(u64::from(self.limit.requests.get()));
        (self.parts.saturating_add(gained).min(capacity(self.limit)), self.as_of.max(now))
    }
}

/// How many parts a token has.
pub(super) const fn token(limit: RateLimit) -> u64 {
    limit.per.as_micros()
}

/// How many parts fit in: the burst, and what the last microsecond brought beyond a whole token. Without that, each token that is awaited
/// would cost up to a microsecond more than its share. Fewer than 2⁵⁹ in all, as a burst has 32 bits and a minute 26.
pub(super) fn capacity(limit: RateLimit) -> u64 {
    let beyond = u64::from(limit.requests.get() - 1).min(token(limit) - 1);
    u64::from(limit.burst.get()) * token(limit) + beyond
}

#[cfg(test)]
mod tests;
