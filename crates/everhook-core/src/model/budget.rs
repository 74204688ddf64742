//! What nodes that share a store draw from together: how many tokens of an organization's rates, and how many of its slots.
//!
//! `policy::shared_bucket` and `policy::shared_slots` say what a store grants, `policy::allowance` what a node makes of it.

use std::{num::NonZeroU32, time::Duration};

use super::RateLimit;

/// Which rate of an organization is drawn from. All of them count by the minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Budget {
    /// Requests that start: `deliveries_per_minute`.
    Deliveries,
    /// Events that are published: `events_per_minute`.
    Events,
    /// Deliveries that people make again: `manual_retries_per_minute`.
    Retries,
}

impl Budget {
    /// Its name in stores.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deliveries => "deliveries",
            Self::Events => "events",
            Self::Retries => "retries",
        }
    }
}

/// What a node wants of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// The rate, by the minute. A budget that nobody has drawn from is full.
    pub limit: RateLimit,
    /// How many tokens.
    pub take: u32,
    /// How many it was granted before and did not use.
    pub give_back: u32,
    /// What may be granted beyond what there is.
    pub credit: Credit,
}

/// What may be granted beyond what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// As many as there are, and those that the next while will bring: each is good when it would have come.
    Ahead(Duration),
    /// All that are wanted, at once, if there is at least one; the rest is owed. None otherwise.
    Owed,
}

/// What was granted of a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenGrant {
    /// How many tokens.
    pub granted: u32,
    /// In what time the last of them is good. The others come before it, each by the time that one token takes.
    pub good_in: Duration,
    /// In what time asking for one more succeeds, if nobody else asks.
    pub next_in: Duration,
}

/// What a node wants of an organization's `concurrency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRequest {
    /// How many requests may be under way, on all nodes together.
    pub limit: NonZeroU32,
    /// How many this node may have under way until it is answered, whatever the answer is. Never more than it held before.
    pub bound: u32,
    /// How many it would like to have under way.
    pub wanted: u32,
}
