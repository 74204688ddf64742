//! Counters under a prefix of their own, for the conformance suite of `ThrottleStore`.

use std::sync::Arc;

use everhook_adapters::redis::{Redis, RedisSettings};
use everhook_core::ports::ThrottleStore;
use uuid::Uuid;

use crate::redis::server;

/// An installation that nobody else is.
pub struct Counters(RedisSettings);

impl Counters {
    /// One that has counted nothing; `None` if there is no server, which is said.
    pub async fn create() -> Option<Self> {
        Some(Self(RedisSettings { url: server::shared()?, authorities: None, installation: Uuid::now_v7() }))
    }

    /// One more node.
    pub async fn node(&self) -> Arc<dyn ThrottleStore> {
        Arc::new(Redis::start(&self.0).await.unwrap())
    }
}
