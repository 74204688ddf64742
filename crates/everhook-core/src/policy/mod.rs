//! Decisions, each a pure function of facts: no clock, no randomness, no I/O.

pub mod address;
pub mod allowance;
pub mod audit;
pub mod auto_replay;
pub mod blocked;
pub mod breaker;
pub mod broker;
pub mod bucket;
pub mod filter;
pub mod headers;
pub mod labels;
pub mod matching;
pub mod outage;
pub mod presets;
pub mod retention;
pub mod retry;
pub mod retry_after;
pub mod schema;
pub mod selection;
pub mod shared_bucket;
pub mod shared_slots;
pub mod target;
pub mod timeout;
pub mod verdict;
pub mod why;
pub mod work;
