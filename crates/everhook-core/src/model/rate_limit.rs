//! How many requests may start in a time. `policy::bucket` holds to it.

use std::num::NonZeroU32;

/// So many requests a period, and how many of them may come at once.
///
/// In any period (`[t, t + period)`) at most `requests + burst - 1` start. With a burst of 1 that is exactly `requests`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// How many a period, in the long run.
    pub requests: NonZeroU32,
    /// The period.
    pub per: Period,
    /// How many may start at once after a quiet time.
    pub burst: NonZeroU32,
}

/// What a rate counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// `requests_per_second`.
    Second,
    /// `requests_per_minute`.
    Minute,
}

impl Period {
    /// Its length in microseconds.
    pub const fn as_micros(self) -> u64 {
        match self {
            Self::Second => 1_000_000,
            Self::Minute => 60_000_000,
        }
    }
}

impl RateLimit {
    /// So many a minute. Without a burst, see [`RateLimit::burst_for`].
    pub fn per_minute(requests: NonZeroU32, burst: Option<NonZeroU32>) -> Self {
        Self { requests, per: Period::Minute, burst: burst.unwrap_or(Self::burst_for(requests)) }
    }

    /// So many a second. Without a burst, see [`RateLimit::burst_for`].
    pub fn per_second(requests: NonZeroU32, burst: Option<NonZeroU32>) -> Self {
        Self { requests, per: Period::Second, burst: burst.unwrap_or(Self::burst_for(requests)) }
    }

    /// The burst where none is given: one in a hundred of the requests, at least 1. Every period then holds the limit within 1 %, and a
    /// fast limit does not lose what a late timer missed.
    pub fn burst_for(requests: NonZeroU32) -> NonZeroU32 {
        NonZeroU32::new(requests.get() / 100).unwrap_or(NonZeroU32::MIN)
    }
}
