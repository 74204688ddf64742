//! Reads, imports and exports of an organization come a few at a time. Each may hold megabytes of rows before it is an answer, and the store's readers are few: what one
//! organization asks for in vain must not be in front of what others ask for.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use everhook_core::ids::OrganizationId;
use rustc_hash::FxHashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many reads of one organization are under way at once; more wait for their turn.
const READS_MAX: usize = 16;

/// How many of them search; more wait for their turn. A search holds an event with all of its data, and compares it on one of a few threads.
const SEARCHES_MAX: usize = 2;

/// How long an import or export waits for others: most take less than a second, and clients repeat the request.
const TRANSFER_AWAITED_MAX: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(10) };

/// Whose turn it is to read.
#[derive(Clone)]
pub struct Reads {
    at_once: usize,
    organizations: Arc<Mutex<FxHashMap<OrganizationId, Arc<Semaphore>>>>,
}

impl Default for Reads {
    fn default() -> Self {
        Self::at_once(READS_MAX)
    }
}

impl Reads {
    /// Of searches, each of which is a read that has its turn already.
    pub(super) fn of_searches() -> Self {
        Self::at_once(SEARCHES_MAX)
    }

    fn at_once(at_once: usize) -> Self {
        Self { at_once, organizations: Arc::default() }
    }

    /// Waits for a turn of the organization's.
    pub async fn turn(&self, organization: OrganizationId) -> Turn {
        let turns = self.lock().entry(organization).or_insert_with(|| Arc::new(Semaphore::new(self.at_once))).clone();
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
        // Waiting requests and reads hold it too.
        if organizations.get(&self.organization).is_some_and(|turns| Arc::strong_count(turns) == 1) {
            organizations.remove(&self.organization);
        }
    }
}

/// Whose turn it is to import or export: one organization after the other, and each has one that waits for the others.
pub struct Transfers {
    of_organization: Reads,
    of_all: Arc<Semaphore>,
}

/// A turn to import or export, until it is dropped.
pub struct TransferTurn {
    _of_all: OwnedSemaphorePermit,
    _of_organization: Turn,
}

impl Default for Transfers {
    fn default() -> Self {
        Self { of_organization: Reads::at_once(1), of_all: Arc::new(Semaphore::new(1)) }
    }
}

impl Transfers {
    /// Waits for a turn; `None` if that took too long.
    ///
    /// The organization's own turn comes first, so that however many it asks for, others wait for one of them.
    pub async fn turn(&self, organization: OrganizationId) -> Option<TransferTurn> {
        let turn = async {
            let of_organization = self.of_organization.turn(organization).await;
            let of_all = self.of_all.clone().acquire_owned().await.expect("it is never closed");
            TransferTurn { _of_all: of_all, _of_organization: of_organization }
        };
        tokio::time::timeout(TRANSFER_AWAITED_MAX, turn).await.ok()
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

    #[tokio::test]
    async fn an_organization_with_many_imports_has_one_in_the_queue_of_all_and_nobody_waits_for_ever() {
        let (transfers, organization) = (Transfers::default(), |number| OrganizationId::from_uuid(Uuid::from_u128(number)));
        let first = transfers.turn(organization(1)).await.expect("nobody is before it");
        let mut others: Vec<_> = (0..10).map(|_| Box::pin(transfers.turn(organization(1)))).collect();
        let mut neighbor = Box::pin(transfers.turn(organization(2)));
        assert!(others.iter_mut().all(|other| other.now_or_never().is_none()));
        assert!((&mut neighbor).now_or_never().is_none());
        drop(first);
        let _turn = neighbor.now_or_never().expect("it is next").expect("in time");
        assert!(others.pop().unwrap().await.is_none(), "the wait has an end");
    }
}
