//! Time, so that five days can pass in milliseconds.

use std::time::Duration;

use async_trait::async_trait;

use crate::time::Timestamp;

/// What time it is, and waiting until it is later.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The present instant. Never goes backwards within one process.
    fn now(&self) -> Timestamp;

    /// How long this process has been there, whatever anybody does to the machine's calendar: what a lease is measured by.
    fn uptime(&self) -> Duration;

    /// Returns once `at` has come; at once if it has passed.
    async fn sleep_until(&self, at: Timestamp);
}
