//! Where nodes that share a store draw from what an organization may do, on all of them together.
//!
//! Called by the engine's exchange for all organizations that want something, ten times a second at most, and for retries by hand. No delivery waits
//! for it. Counters are no promises: a store that lost them begins with full budgets, and while it cannot be asked, each node counts for itself.

use async_trait::async_trait;

use crate::{
    ids::OrganizationId,
    model::{Budget, SlotRequest, TokenGrant, TokenRequest},
    ports::StoreError,
};

/// How many asks one exchange holds at most. What is more waits for the next.
pub const ASKS_MAX: usize = 1_000;

/// Grants tokens and slots to the nodes that share a store, by its own clock.
#[async_trait]
pub trait ThrottleStore: Send + Sync {
    /// Answers each ask, in order. Each is atomic: what all nodes were granted never exceeds what the organization may do.
    ///
    /// Tokens go by `policy::shared_bucket`, slots by `policy::shared_slots`; slots are held by the adapter's process, and come free five seconds
    /// after it last asked for them. At most [`ASKS_MAX`] asks, no two for the same budget.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: nothing was granted, as far as is known. What was granted all the same is lost: that is never too much.
    async fn exchange(&self, asks: Vec<Ask>) -> Result<Vec<Grant>, StoreError>;
}

/// What a node wants for an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Whose budget.
    pub organization: OrganizationId,
    /// What of it.
    pub what: Wanted,
}

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Tokens of a rate.
    Tokens(Budget, TokenRequest),
    /// Slots.
    Slots(SlotRequest),
}

/// What is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Tokens of a rate.
    Tokens(TokenGrant),
    /// How many requests the node may have under way from now on.
    Slots(u32),
}
