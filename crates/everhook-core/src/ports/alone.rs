//! The ports between nodes, for a store that only one process can open: there is nobody to agree with, to hint at or to hear from.

use async_trait::async_trait;

use super::{ChangeCursor, Changed, Changes, Held, Leases, RemoteHints, Renewed, Roles, StoreError, Terms, WaitingQueue, Wish};
use crate::time::Timestamp;

/// Nobody else is there: everything is held for ever, and nothing is ever asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

#[async_trait]
impl Leases for Alone {
    fn terms(&self) -> Terms {
        Terms::Alone
    }

    async fn begin(&self, _roles: Roles) -> Result<(), StoreError> {
        Ok(())
    }

    async fn renew(&self) -> Result<Renewed, StoreError> {
        Ok(Renewed::Held { held: Held::EVERYTHING, workers: 1, store_time: Timestamp::EPOCH })
    }

    async fn take(&self, _wish: Wish) -> Result<Held, StoreError> {
        Ok(Held::NOTHING)
    }

    async fn release(&self, _held: Held) -> Result<(), StoreError> {
        Ok(())
    }

    async fn end(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[async_trait]
impl RemoteHints for Alone {
    fn waiting(&self, _queues: Vec<WaitingQueue>) {}

    async fn next(&self) -> Vec<WaitingQueue> {
        std::future::pending().await
    }
}

#[async_trait]
impl Changes for Alone {
    async fn newest(&self) -> Result<ChangeCursor, StoreError> {
        Ok(ChangeCursor::default())
    }

    async fn changes(&self, after: ChangeCursor) -> Result<Changed, StoreError> {
        Ok(Changed { cursor: after, ..Changed::default() })
    }
}
