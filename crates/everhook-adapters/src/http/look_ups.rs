//! Bounds how many names are being resolved at once, for each organization and in all. Asked by `connect` before each look-up that the resolver
//! cannot answer from memory.
//!
//! A name whose servers never answer occupies a look-up until the connect timeout, and each look-up holds sockets. Those of one organization
//! wait for each other; others go past them.

use std::sync::{Arc, Mutex, PoisonError};

use everhook_core::ids::OrganizationId;
use rustc_hash::FxHashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// How many names of one organization are resolved at once: at 20 ms each, 1,600 a second.
pub(super) const PER_ORGANIZATION_MAX: usize = 32;

/// How many are resolved at once in all: each has two or more sockets open.
const TOTAL_MAX: usize = 256;

/// How many organizations are known here before those that resolve nothing are forgotten.
const FORGET_FROM: usize = 1_024;

/// Who is resolving how much.
pub(super) struct LookUps {
    total: Semaphore,
    organizations: Mutex<FxHashMap<OrganizationId, Arc<Semaphore>>>,
}

/// Permission for one look-up, until it is dropped.
pub(super) struct Permit<'a> {
    _total: Option<SemaphorePermit<'a>>,
    _organization: Option<OwnedSemaphorePermit>,
}

impl Default for LookUps {
    fn default() -> Self {
        Self { total: Semaphore::new(TOTAL_MAX), organizations: Mutex::default() }
    }
}

impl LookUps {
    /// Waits until a name may be resolved for this organization; the operator's own names need no permission of an organization.
    ///
    /// The organization's turn comes first, so that whoever waits for it occupies nothing of what all share.
    pub(super) async fn begin(&self, organization: Option<OrganizationId>) -> Permit<'_> {
        let of_organization = match organization {
            Some(organization) => self.of(organization).acquire_owned().await.ok(),
            None => None,
        };
        // Neither semaphore is ever closed, which is the only error there is.
        Permit { _total: self.total.acquire().await.ok(), _organization: of_organization }
    }

    fn of(&self, organization: OrganizationId) -> Arc<Semaphore> {
        let mut organizations = self.organizations.lock().unwrap_or_else(PoisonError::into_inner);
        if organizations.len() >= FORGET_FROM {
            // Whoever waits or resolves holds a second reference.
            organizations.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        organizations.entry(organization).or_insert_with(|| Arc::new(Semaphore::new(PER_ORGANIZATION_MAX))).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::{FutureExt as _, future::join_all};
    use uuid::Uuid;

    use super::*;

    fn organization(number: u128) -> Option<OrganizationId> {
        Some(OrganizationId::from_uuid(Uuid::from_u128(number)))
    }

    #[tokio::test]
    async fn an_organization_waits_for_its_own_look_ups_and_nobody_elses() {
        let look_ups = LookUps::default();
        let mut held = join_all((0..PER_ORGANIZATION_MAX).map(|_| look_ups.begin(organization(1)))).await;
        let mut next = pin!(look_ups.begin(organization(1)));
        assert!(next.as_mut().now_or_never().is_none());
        assert!(look_ups.begin(organization(2)).now_or_never().is_some());
        assert!(look_ups.begin(None).now_or_never().is_some());
        held.pop();
        next.await;
    }

    #[tokio::test]
    async fn all_look_ups_together_are_bounded_and_idle_organizations_are_forgotten() {
        let look_ups = LookUps::default();
        let held = join_all((0..TOTAL_MAX as u128).map(|n| look_ups.begin(organization(n)))).await;
        assert!(look_ups.begin(organization(1_000)).now_or_never().is_none());
        drop(held);
        for number in 0..3 * FORGET_FROM as u128 {
            look_ups.begin(organization(number)).await;
        }
        assert!(look_ups.organizations.lock().unwrap().len() <= FORGET_FROM);
    }
}
