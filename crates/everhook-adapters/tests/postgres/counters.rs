//! Counters in a database of its own, for the conformance suite of `ThrottleStore`.

use std::sync::Arc;

use everhook_core::ports::ThrottleStore;

use crate::given::Given;

/// A database that several nodes count in.
pub struct Counters(Given);

impl Counters {
    /// An empty one.
    pub async fn create() -> Option<Self> {
        Some(Self(Given::new().await))
    }

    /// One more node.
    pub async fn node(&self) -> Arc<dyn ThrottleStore> {
        Arc::new(self.0.backing.node().await)
    }
}
