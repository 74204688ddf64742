//! The store's queue as one node reaches it: outcomes of a boot that is dead, or of lanes that another holds, are refused.

use std::sync::Arc;

use async_trait::async_trait;
use everhook_core::{
    model::ShardSet,
    ports::{
        Alert, AlertId, CancelWaiting, DeliveryQueue, DueRead, DueRequest, FreedHeads, LaneHead, Outbox, Replay, Replayed, Settled,
        Settlement, StoreError,
    },
    time::Timestamp,
};

use super::registry::Member;

/// A queue behind one node's end of the registry.
pub struct Fenced {
    queue: Arc<dyn DeliveryQueue>,
    member: Arc<Member>,
}

impl Fenced {
    /// The queue, as this node reaches it.
    pub fn new(queue: Arc<dyn DeliveryQueue>, member: Arc<Member>) -> Self {
        Self { queue, member }
    }
}

#[async_trait]
impl DeliveryQueue for Fenced {
    async fn lanes(&self, shards: ShardSet) -> Result<Vec<LaneHead>, StoreError> {
        self.member.reach().await;
        // The lanes of a world are those of one organization, and so of one pool.
        if self.member.assignment().is_here { self.queue.lanes(shards).await } else { Ok(Vec::new()) }
    }

    async fn due(&self, request: DueRequest) -> Result<Vec<DueRead>, StoreError> {
        self.member.reach().await;
        self.queue.due(request).await
    }

    async fn settle(&self, settlements: Arc<Vec<Settlement>>) -> Result<Vec<Settled>, StoreError> {
        self.member.reach().await;
        if !self.member.may_settle(settlements.iter().map(|settlement| settlement.lane_id)) {
            return Err(StoreError::Conflict);
        }
        self.queue.settle(settlements).await
    }

    async fn free_heads(&self, at: Timestamp) -> Result<FreedHeads, StoreError> {
        self.member.reach().await;
        self.queue.free_heads(at).await
    }

    async fn cancel_waiting(&self, request: CancelWaiting) -> Result<u32, StoreError> {
        self.member.reach().await;
        self.queue.cancel_waiting(request).await
    }

    async fn replay(&self, replay: Replay) -> Result<Replayed, StoreError> {
        self.member.reach().await;
        self.queue.replay(replay).await
    }
}

/// The outbox behind one node's end of the registry.
pub struct ReachedOutbox {
    outbox: Arc<dyn Outbox>,
    member: Arc<Member>,
}

impl ReachedOutbox {
    /// The outbox, as this node reaches it.
    pub fn new(outbox: Arc<dyn Outbox>, member: Arc<Member>) -> Self {
        Self { outbox, member }
    }
}

#[async_trait]
impl Outbox for ReachedOutbox {
    async fn pending(&self, limit: u32) -> Result<Vec<Alert>, StoreError> {
        self.member.reach().await;
        self.outbox.pending(limit).await
    }

    async fn done(&self, ids: Vec<AlertId>) -> Result<(), StoreError> {
        self.member.reach().await;
        self.outbox.done(ids).await
    }
}
