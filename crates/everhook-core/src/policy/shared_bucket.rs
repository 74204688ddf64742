//! What a store of counters grants of a rate that several nodes draw from. Pure: time comes in as a fact. The stores call it, or say the same in
//! their own language.
//!
//! The numbers are those of `bucket`: a token has as many parts as its period has microseconds, and a microsecond brings as many parts as the period
//! brings tokens. Here the parts may be owed: tokens are granted a little ahead of their time, so that a node that asks ten times a second loses none
//! of a slow rate.

use std::time::Duration;

use super::bucket::{self, CLOCK_JITTER};
use crate::{
    model::{Credit, RateLimit, TokenGrant, TokenRequest},
    time::Timestamp,
};

/// A bucket that several nodes draw from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedBucket {
    /// What is in it, in parts of a token; less than nothing if tokens were granted ahead.
    pub parts: i64,
    /// When that was true.
    pub as_of: Timestamp,
}

impl SharedBucket {
    /// A full one.
    pub fn new(limit: RateLimit, now: Timestamp) -> Self {
        Self { parts: i64::from(limit.burst.get()).saturating_mul(token(limit)), as_of: now }
    }

    /// Takes back what was not used, and grants what there is.
    pub fn draw(&mut self, draw: &TokenRequest, now: Timestamp) -> TokenGrant {
        let TokenRequest { limit, take, give_back, credit } = *draw;
        let token = token(limit);
        self.fill(limit, now);
        self.parts = self.parts.saturating_add(i64::from(give_back).saturating_mul(token)).min(capacity(limit));
        let lowest = match credit {
            Credit::Ahead(ahead) => -gained(limit, ahead),
            Credit::Owed => 0,
        };
        let there = u32::try_from((self.parts - lowest).max(0) / token).unwrap_or(u32::MAX);
        let granted = if credit == Credit::Owed && there > 0 { take } else { take.min(there) };
        self.parts = self.parts.saturating_sub(i64::from(granted).saturating_mul(token));
        TokenGrant {
            granted,
            good_in: if granted > 0 && credit != Credit::Owed { time_for(limit, -self.parts) } else { Duration::ZERO },
            next_in: time_for(limit, token + lowest - self.parts),
        }
    }

    fn fill(&mut self, limit: RateLimit, now: Timestamp) {
        if now + CLOCK_JITTER >= self.as_of {
            self.parts = self.parts.saturating_add(gained(limit, now.since(self.as_of))).min(capacity(limit));
            self.as_of = self.as_of.max(now);
        } else {
            self.as_of = now;
        }
    }
}

/// How many parts a token has.
fn token(limit: RateLimit) -> i64 {
    bucket::token(limit).cast_signed()
}

/// How many parts fit in. There are fewer than 2⁵⁹ of them.
fn capacity(limit: RateLimit) -> i64 {
    bucket::capacity(limit).cast_signed()
}

/// How many parts a time brings.
fn gained(limit: RateLimit, time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX).saturating_mul(i64::from(limit.requests.get()))
}

/// How long it takes until so many parts have come.
fn time_for(limit: RateLimit, parts: i64) -> Duration {
    Duration::from_micros(parts.max(0).cast_unsigned().div_ceil(u64::from(limit.requests.get())))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    const NOW: Timestamp = Timestamp::from_secs(1_000_000);
    const AHEAD: Credit = Credit::Ahead(Duration::from_millis(250));
    const NOTHING_AHEAD: Credit = Credit::Ahead(Duration::ZERO);

    fn per_minute(requests: u32) -> RateLimit {
        RateLimit::per_minute(NonZeroU32::new(requests).unwrap(), None)
    }

    fn draw(limit: RateLimit, take: u32, credit: Credit) -> TokenRequest {
        TokenRequest { limit, take, give_back: 0, credit }
    }

    fn drawn(granted: u32, good_ms: u64, next_ms: u64) -> TokenGrant {
        TokenGrant { granted, good_in: Duration::from_millis(good_ms), next_in: Duration::from_millis(next_ms) }
    }

    #[test]
    fn what_is_granted_by_how_much_there_is() {
        // 600 a minute: one in 100 ms, and six at once.
        let table = [
            ("what there is", 4, NOTHING_AHEAD, drawn(4, 0, 0)),
            ("no more than there is", 9, NOTHING_AHEAD, drawn(6, 0, 100)),
            ("and what the next while brings", 9, AHEAD, drawn(8, 200, 50)),
            ("all, if there is one", 9, Credit::Owed, drawn(9, 0, 400)),
        ];
        for (case, take, credit, expected) in table {
            let mut bucket = SharedBucket::new(per_minute(600), NOW);
            assert_eq!(bucket.draw(&draw(per_minute(600), take, credit), NOW), expected, "{case}");
        }
    }

    #[test]
    fn a_slow_rate_loses_nothing_to_a_node_that_asks_ten_times_a_second() {
        let limit = per_minute(60);
        let mut bucket = SharedBucket::new(limit, NOW);
        let granted = |bucket: &mut SharedBucket, ms| bucket.draw(&draw(limit, 1, AHEAD), NOW + Duration::from_millis(ms)).granted;
        let all: u32 = (0..600).map(|tenth| granted(&mut bucket, tenth * 100 + 37)).sum();
        assert_eq!(all, 1 + 60, "the burst, and one each second");
    }

    #[test]
    fn what_is_owed_is_paid_before_the_next_is_granted() {
        let limit = RateLimit::per_minute(NonZeroU32::new(60).unwrap(), NonZeroU32::new(60));
        let mut bucket = SharedBucket::new(limit, NOW);
        assert_eq!(bucket.draw(&draw(limit, 1_000, Credit::Owed), NOW).granted, 1_000);
        assert_eq!(bucket.draw(&draw(limit, 1, Credit::Owed), NOW), drawn(0, 0, 941_000));
        assert_eq!(bucket.draw(&draw(limit, 1, Credit::Owed), NOW + Duration::from_secs(941)).granted, 1);
    }

    #[test]
    fn what_is_given_back_is_there_for_others_and_never_more_than_the_burst() {
        let limit = per_minute(600);
        let mut bucket = SharedBucket::new(limit, NOW);
        bucket.draw(&draw(limit, 6, NOTHING_AHEAD), NOW);
        assert_eq!(bucket.draw(&TokenRequest { give_back: 2, ..draw(limit, 5, NOTHING_AHEAD) }, NOW).granted, 2);
        assert_eq!(bucket.draw(&TokenRequest { give_back: 50, ..draw(limit, 50, NOTHING_AHEAD) }, NOW).granted, 6);
    }

    #[test]
    fn a_clock_that_is_set_back_brings_nothing_and_costs_no_waiting() {
        let limit = per_minute(60);
        let mut bucket = SharedBucket::new(limit, NOW);
        bucket.draw(&draw(limit, 1, NOTHING_AHEAD), NOW);
        let earlier = NOW - Duration::from_secs(3_600);
        assert_eq!(bucket.draw(&draw(limit, 1, NOTHING_AHEAD), earlier), drawn(0, 0, 1_000));
        assert_eq!(bucket.draw(&draw(limit, 1, NOTHING_AHEAD), earlier + Duration::from_secs(1)).granted, 1);
    }
}
