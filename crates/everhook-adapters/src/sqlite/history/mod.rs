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
use super::SqliteStore;

#[async_trait]
impl History for SqliteStore {
    async fn events(&self, organization: OrganizationId, filter: EventFilter, page: PageRequest) -> Result<Page<EventSummary>, StoreError> {
        self.read_history(move |connection| events::list(connection, organization, &filter, page)).await
    }

    async fn event_of_key(
        &self,
        organization: OrganizationId,
        application: Option<ApplicationId>,
        key: String,
    ) -> Result<Option<EventId>, StoreError> {
        self.read_history(move |connection| events::of_key(connection, organization, application, &key)).await
    }

    async fn event(&self, organization: OrganizationId, id: EventId) -> Result<Option<(EventSummary, Option<Event>)>, StoreError> {
        let seals = self.seals.clone();
        self.read_history(move |connection| events::find(connection, organization, id, &seals)).await
    }

    async fn received_events(
        &self,
        organization: OrganizationId,
        filter: ReceivedFilter,
        page: PageRequest,
    ) -> Result<Page<ReceivedSummary>, StoreError> {
        self.read_history(move |connection| events::list_received(connection, organization, &filter, page)).await
    }

    async fn deliveries(
        &self,
        organization: OrganizationId,
        filter: DeliveryFilter,
        page: PageRequest,
    ) -> Result<Page<Delivery>, StoreError> {
        self.read_history(move |connection| deliveries::list(connection, organization, &filter, page)).await
    }

    async fn delivery(&self, organization: OrganizationId, id: DeliveryId) -> Result<Option<(Delivery, Vec<Attempt>)>, StoreError> {
        self.read_history(move |connection| deliveries::find(connection, organization, id)).await
    }

    async fn dead_letters(
        &self,
        organization: OrganizationId,
        filter: DeadLetterFilter,
        page: PageRequest,
    ) -> Result<Page<DeadLetter>, StoreError> {
        self.read_history(move |connection| dead_letters::list(connection, organization, &filter, page)).await
    }

    async fn dead_letter(&self, organization: OrganizationId, id: DeliveryId) -> Result<Option<DeadLetter>, StoreError> {
        self.read_history(move |connection| dead_letters::find(connection, organization, id)).await
    }

    async fn discard(&self, organization: OrganizationId, id: DeliveryId, entry: AuditEntry) -> Result<Discarded, StoreError> {
        self.change(1, entry, move |tx| dead_letters::discard(tx, organization, id)).await
    }
}
