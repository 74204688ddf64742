//! How the engine runs, and what it reports. The supervisor is given the one and passes the other on.

use crate::ports::Roles;

/// How the engine runs.
#[derive(Clone, Copy, Debug)]
pub struct EngineSettings {
    /// How many requests may be under way at once, over all endpoints.
    pub concurrency: usize,
    /// What this node is there for, where several share a store.
    pub roles: Roles,
}

/// What the engine is doing, for readiness and for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// Requests under way.
    pub in_flight: usize,
    /// Outcomes that are not yet written.
    pub unwritten: usize,
    /// How often the engine panicked and was restarted.
    pub restarts: u64,
}
