//! Reads of an organization come a few at a time. Each may hold megabytes of rows before it is an answer, and the store's readers are few: what one
//! organization asks for in vain must not be in front of what others ask for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use everhook_core::ids::OrganizationId;
use rustc_hash::FxHashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many reads of one organization are under way at once; more wait for their turn.
const READS_MAX: usize = 16;

/// Whose turn it is to read.
#[derive(Clone, Default)]
pub struct Reads {
    organizations: Arc<Mutex<FxHashMap<OrganizationId, Arc<Semaphore>>>>,
}

impl Reads {
    /// Waits for a turn of the organization's.
    pub async fn turn(&self, organization: OrganizationId) -> Turn {
        let turns = self.lock().entry(organization).or_insert_with(|| Arc::new(Semaphore::new(READS_MAX))).clone();
        let permit = turns.acquire_owned().await.expect("it is never closed");
        Turn { permit: Some(permit), organization, reads: self.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<OrganizationId, Arc<Semaphore>>> {
        self.organizations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn, until it is dropped.
pub struct Turn {
    permit: Option<OwnedSemaphorePermit>,
    organization: OrganizationId,
    reads: Reads,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut organizations = self.reads.lock();
        drop(self.permit.take());
        // Whoever waits or reads holds it too.
        if organizations.get(&self.organization).is_some_and(|turns| Arc::strong_count(turns) == 1) {
            organizations.remove(&self.organization);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn an_organization_waits_for_itself_and_for_nobody_else() {
        let (reads, organization) = (Reads::default(), |number| OrganizationId::from_uuid(Uuid::from_u128(number)));
        let mut turns = Vec::new();
        for _ in 0..READS_MAX {
            turns.push(reads.turn(organization(1)).await);
        }
        let mut waiting = Box::pin(reads.turn(organization(1)));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(reads.turn(organization(2)).now_or_never().is_some());
        turns.pop();
        assert!(waiting.now_or_never().is_some());
        turns.clear();
        assert!(reads.lock().is_empty(), "nothing is kept of organizations that read nothing");
    }
}
