//! The ports between nodes, for a store that only one process can open: there is nobody to agree with, to hint at or to hear from.

use async_trait::async_trait;
use uuid::Uuid;

use super::{
    Ask, BreakerVote, BreakerVotes, BreakerWindows, ChangeCursor, Changed, Changes, Departure, Grant, Heartbeat, Held, LaneWindow,
    LeaseRequest, Leases, RemoteHints, Renewed, Roles, StoreError, Terms, ThrottleStore, WaitingQueue,
};
use crate::{
    ids::{ApplicationId, LaneId},
    model::{PoolName, ShardSet, VoteCount},
    time::Timestamp,
};

/// Nobody else is there: everything is held for ever, and nothing is ever asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleNode;

#[async_trait]
impl Leases for SingleNode {
    fn terms(&self) -> Terms {
        Terms::SingleNode
    }

    async fn begin(&self, _roles: Roles) -> Result<(), StoreError> {
        Ok(())
    }

    async fn renew(&self) -> Result<Renewed, StoreError> {
        Ok(Renewed::Held { held: Held::EVERYTHING, departures: Vec::new(), workers: 1, others: Vec::new(), store_time: Timestamp::EPOCH })
    }

    async fn take(&self, _request: LeaseRequest, _overdue: Vec<Heartbeat>) -> Result<Held, StoreError> {
        Ok(Held::NOTHING)
    }

    async fn release(&self, _held: Held) -> Result<(), StoreError> {
        Ok(())
    }

    async fn depart(&self, _departures: Vec<Departure>) -> Result<(), StoreError> {
        Ok(())
    }

    async fn end(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl RemoteHints for SingleNode {
    fn waiting(&self, _pool: &PoolName, _queues: Vec<WaitingQueue>) {}

    async fn next(&self) -> Vec<WaitingQueue> {
        std::future::pending().await
    }
}

#[async_trait]
impl Changes for SingleNode {
    async fn newest(&self) -> Result<ChangeCursor, StoreError> {
        Ok(ChangeCursor::default())
    }

    async fn changes(&self, after: ChangeCursor) -> Result<Changed, StoreError> {
        Ok(Changed { cursor: after, ..Changed::default() })
    }
}

#[async_trait]
impl ThrottleStore for SingleNode {
    async fn exchange(&self, _asks: Vec<Ask>) -> Result<Vec<Grant>, StoreError> {
        Err(StoreError::unavailable("this store is not shared with other nodes"))
    }
}

#[async_trait]
impl BreakerWindows for SingleNode {
    fn are_kept(&self) -> bool {
        false
    }

    fn are_away(&self) -> bool {
        false
    }

    fn keep(&self, _windows: Vec<LaneWindow>) {}

    async fn windows(&self, _shards: ShardSet) -> Vec<LaneWindow> {
        Vec::new()
    }
}

#[async_trait]
impl BreakerVotes for SingleNode {
    async fn note_callers(&self, _node: Uuid, _lanes: Vec<LaneId>, _at: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }

    async fn vote(&self, _vote: BreakerVote) -> Result<(), StoreError> {
        Ok(())
    }

    async fn votes(&self, _lane_id: LaneId, _callers_since: Timestamp, _now: Timestamp) -> Result<VoteCount, StoreError> {
        Ok(VoteCount::default())
    }

    async fn report_breaker(&self, _application: ApplicationId, _lane_id: LaneId) -> Result<(), StoreError> {
        Ok(())
    }

    async fn forget_votes(&self, _before: Timestamp, _limit: u32) -> Result<u32, StoreError> {
        Ok(0)
    }
}
