//! What happened: the port `History`, one file a resource.

mod attempts;
mod dead_letters;
mod deliveries;
mod events;

use async_trait::async_trait;
use everhook_core::{
    ids::{ApplicationId, DeliveryId, EventId, OrganizationId},
    model::{Attempt, AuditEntry, DeadLetter, Delivery, Event, Page, PageRequest},
    ports::{DeadLetterFilter, DeliveryFilter, Discarded, EventFilter, EventSummary, History, ReceivedFilter, ReceivedSummary, StoreError},
};

pub(super) use self::dead_letters::of_row as dead_letter_of_row;
use super::{PostgresStore, audit_log, transaction::Tx};

#[async_trait]
impl History for PostgresStore {
    async fn events(&self, organization: OrganizationId, filter: EventFilter, page: PageRequest) -> Result<Page<EventSummary>, StoreError> {
        Ok(events::list(&self.reader().await?, organization, &filter, page).await?)
    }

    async fn event_of_key(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        key: String,
    ) -> Result<Option<EventId>, StoreError> {
        Ok(events::of_key(&self.reader().await?, organization, application, &key).await?)
    }

    async fn event(&self, organization: OrganizationId, id: EventId) -> Result<Option<(EventSummary, Option<Event>)>, StoreError> {
        Ok(events::find(&self.reader().await?, organization, id, &self.seals).await?)
    }

    async fn received_events(
        &self,
        organization: OrganizationId,
        filter: ReceivedFilter,
        page: PageRequest,
    ) -> Result<Page<ReceivedSummary>, StoreError> {
        Ok(events::list_received(&self.reader().await?, organization, &filter, page).await?)
    }

    async fn deliveries(
        &self,
        organization: OrganizationId,
        filter: DeliveryFilter,
        page: PageRequest,
    ) -> Result<Page<Delivery>, StoreError> {
        let mut connection = self.connection().await?;
        let snapshot = Tx::snapshot(&mut connection).await?;
        Ok(deliveries::list(&snapshot, organization, &filter, page).await?)
    }

    async fn delivery(&self, organization: OrganizationId, id: DeliveryId) -> Result<Option<(Delivery, Vec<Attempt>)>, StoreError> {
        let mut connection = self.connection().await?;
        let snapshot = Tx::snapshot(&mut connection).await?;
        Ok(deliveries::find(&snapshot, organization, id).await?)
    }

    async fn dead_letters(
        &self,
        organization: OrganizationId,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        Ok(dead_letters::list(&self.reader().await?, organization, &filter, page).await?)
    }

    async fn dead_letter(&self, organization: OrganizationId, id: DeliveryId) -> Result<Option<DeadLetter>, StoreError> {
        Ok(dead_letters::find(&self.reader().await?, organization, id).await?)
    }

    async fn discard(&self, organization: OrganizationId, id: DeliveryId, entry: AuditEntry) -> Result<Discarded, StoreError> {
        let mut connection = self.connection().await?;
        let tx = Tx::begin(&mut connection).await?;
        let discarded = dead_letters::discard(&tx, organization, id).await?;
        Ok(audit_log::conclude(tx, discarded, &entry).await?)
    }
}
