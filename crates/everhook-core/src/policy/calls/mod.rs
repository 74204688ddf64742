//! Decisions about calls: what a manifest says, how a deadline is shared out, when a request is repeated, and what an answer means. Pure.

pub mod answer;
pub mod approval;
pub mod cache_age;
pub mod canary;
pub mod concurrency;
pub mod contract;
pub mod deadline;
pub mod draw;
pub mod health;
pub mod job;
pub mod job_report;
pub mod kept_answers;
pub mod latency;
pub mod manifest;
pub mod pace;
pub mod pick;
pub mod quorum;
pub mod shadow;
pub mod slow_calls;
pub mod timeouts;
pub mod tokens;
