//! A spool that does not let go of what was forwarded, as if the process died in between.

use std::sync::{Arc, atomic::Ordering};

use async_trait::async_trait;
use everhook_core::{
    ids::{ApiKeyId, ApplicationId, OrganizationId, Ref},
    model::{ApiKey, ApiKeyHash},
    ports::{IncomingEvent, KnownPublisher, PublisherCache, Spool, SpoolStatus, SpooledEvent, StoreError, Taken},
    time::Timestamp,
};

use super::{Faults, injected};

/// A spool whose removals pass through [`Faults`].
pub struct FaultySpool<S> {
    spool: S,
    faults: Arc<Faults>,
}

impl<S> FaultySpool<S> {
    /// The spool, with faults.
    pub fn new(spool: S, faults: Arc<Faults>) -> Self {
        Self { spool, faults }
    }
}

#[async_trait]
impl<S: Spool> Spool for FaultySpool<S> {
    async fn take(&self, events: Vec<IncomingEvent>) -> Result<Vec<Taken>, StoreError> {
        self.spool.take(events).await
    }

    async fn oldest(&self, of: Vec<ApplicationId>, limit: u32) -> Result<Vec<SpooledEvent>, StoreError> {
        self.spool.oldest(of, limit).await
    }

    async fn forwarded(&self, positions: Vec<i64>) -> Result<(), StoreError> {
        if self.faults.keeps_spooled.load(Ordering::Relaxed) {
            return Err(injected());
        }
        self.spool.forwarded(positions).await
    }

    async fn set_aside(&self, position: i64, reason: String, at: Timestamp) -> Result<(), StoreError> {
        self.spool.set_aside(position, reason, at).await
    }

    async fn reseal(&self, after: i64) -> Result<Option<i64>, StoreError> {
        self.spool.reseal(after).await
    }

    fn status(&self) -> SpoolStatus {
        self.spool.status()
    }

    fn applications(&self) -> Vec<ApplicationId> {
        self.spool.applications()
    }

    fn any_waits(&self, is_meant: &dyn Fn(ApplicationId) -> bool) -> bool {
        self.spool.any_waits(is_meant)
    }
}

#[async_trait]
impl<S: Spool> PublisherCache for FaultySpool<S> {
    async fn remember(&self, publisher: KnownPublisher) -> Result<(), StoreError> {
        self.spool.remember(publisher).await
    }

    async fn forget_key(&self, id: ApiKeyId) -> Result<(), StoreError> {
        self.spool.forget_key(id).await
    }

    async fn forget_keys(&self) -> Result<(), StoreError> {
        self.spool.forget_keys().await
    }

    async fn forget_application(&self, id: ApplicationId) -> Result<(), StoreError> {
        self.spool.forget_application(id).await
    }

    fn api_keys(&self) -> Vec<(ApiKeyHash, ApiKeyId)> {
        self.spool.api_keys()
    }

    fn api_key(&self, hash: &ApiKeyHash) -> Option<ApiKey> {
        self.spool.api_key(hash)
    }

    fn organization(&self, of: &Ref<OrganizationId>) -> Option<OrganizationId> {
        self.spool.organization(of)
    }

    fn application(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Option<ApplicationId> {
        self.spool.application(organization, of)
    }

    fn default_application(&self, organization: OrganizationId) -> Option<ApplicationId> {
        self.spool.default_application(organization)
    }
}
