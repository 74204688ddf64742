//! Sources that cannot be read or written on demand.

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, OrganizationId, Ref, SourceId},
    model::{AuditEntry, Page, PageRequest, Source, SourceActivity},
    ports::{Created, SourceStore, StoreError, Updated},
    time::Timestamp,
};

use super::{Faulty, Kind, injected};

#[async_trait]
impl<S: SourceStore> SourceStore for Faulty<S> {
    async fn create_source(&self, source: Source, count_max: u32, entry: AuditEntry) -> Result<Created, StoreError> {
        through!(self, self.store.create_source(source, count_max, entry))
    }

    async fn source(&self, organization: OrganizationId, of: &Ref<SourceId>) -> Result<Option<Source>, StoreError> {
        through!(self, self.store.source(organization, of))
    }

    async fn source_by_id(&self, id: SourceId) -> Result<Option<Source>, StoreError> {
        let answer: Result<_, StoreError> = async { through!(self, self.store.source_by_id(id)) }.await;
        if self.faults.holds_source_reads.load(Ordering::Relaxed) {
            self.faults.source_reads.notified().await;
        }
        answer
    }

    async fn sources(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        page: PageRequest,
    ) -> Result<Page<Source>, StoreError> {
        through!(self, self.store.sources(organization, application, page))
    }

    async fn update_source(&self, source: Source, read_at: Timestamp, entry: AuditEntry) -> Result<Updated, StoreError> {
        through!(self, self.store.update_source(source, read_at, entry))
    }

    async fn delete_source(&self, organization: OrganizationId, id: SourceId, entry: AuditEntry) -> Result<bool, StoreError> {
        through!(self, self.store.delete_source(organization, id, entry))
    }

    async fn note_source_activity(&self, news: Vec<(SourceId, SourceActivity)>) -> Result<(), StoreError> {
        through!(self, self.store.note_source_activity(news))
    }

    async fn source_activity(&self, of: Vec<SourceId>) -> Result<Vec<(SourceId, SourceActivity)>, StoreError> {
        through!(self, self.store.source_activity(of))
    }
}
