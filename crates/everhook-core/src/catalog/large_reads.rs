//! Whose turn it is to read a large application: one at a time, so that what is being read stays within what the catalog may take, and each
//! organization one at a time, so that whoever has many of them keeps another organization waiting for one read at most.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use tokio::sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::{ids::OrganizationId, ports::StoreError};

/// From how many bytes an application is large. Readers of smaller ones wait for nobody.
pub(super) const LARGE_BYTES: usize = 4 << 20;

/// The turns of those who read large applications.
pub(super) struct LargeReads {
    one: Arc<Semaphore>,
    organizations: Mutex<FxHashMap<OrganizationId, Arc<tokio::sync::Mutex<()>>>>,
}

/// A turn; it ends when it is dropped.
pub(super) struct LargeRead {
    _one: OwnedSemaphorePermit,
    _of_organization: OwnedMutexGuard<()>,
}

impl Default for LargeReads {
    fn default() -> Self {
        Self { one: Arc::new(Semaphore::new(1)), organizations: Mutex::default() }
    }
}

impl LargeReads {
    /// Waits for a turn of this organization.
    ///
    /// # Errors
    /// Never: turns are not closed.
    pub(super) async fn turn(&self, organization: OrganizationId) -> Result<LargeRead, StoreError> {
        let of_organization = self.of(organization).lock_owned().await;
        let one = Arc::clone(&self.one).acquire_owned().await.map_err(StoreError::unavailable)?;
        Ok(LargeRead { _one: one, _of_organization: of_organization })
    }

    fn of(&self, organization: OrganizationId) -> Arc<tokio::sync::Mutex<()>> {
        let mut organizations = self.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        // Those whose turns are over and for which nobody waits.
        organizations.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(organizations.entry(organization).or_default())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn an_organization_with_many_keeps_another_waiting_for_one() {
        let (reads, [many, other]) = (LargeReads::default(), [1, 2].map(|id| OrganizationId::from_uuid(Uuid::from_u128(id))));
        let first = reads.turn(many).await.unwrap();
        let mut waiting: Vec<_> = (0..10).map(|_| Box::pin(reads.turn(many))).collect();
        assert!(waiting.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
        let mut of_other = Box::pin(reads.turn(other));
        assert!(of_other.as_mut().now_or_never().is_none(), "one large application is read at a time");
        drop(first);
        // The next of the first organization asks for the turn now, behind the other one.
        assert!(waiting[0].as_mut().now_or_never().is_none());
        assert!(of_other.as_mut().now_or_never().is_some());
    }
}
