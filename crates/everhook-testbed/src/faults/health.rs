//! Health data that cannot be read or written on demand.

use async_trait::async_trait;
use everhook_core::{
    ids::{HealthConnectionId, OrganizationId},
    model::{
        AuditEntry, Page, PageRequest,
        health::{Connection, KeptRate, Metric, Permissions, ProfileId, Provider},
    },
    ports::{
        Alert, Connected, ConnectionFilter, EndedRefresh, HealthConnections, HealthMetrics, HealthUser, MetricFilter, MetricWrite,
        MetricsWritten, ProfileErased, RecordOf, StoreError,
    },
    time::Timestamp,
};
use uuid::Uuid;

use super::{Faulty, Kind, injected};

#[async_trait]
impl<S: HealthConnections> HealthConnections for Faulty<S> {
    async fn provider_rate(&self, provider: Provider) -> Result<Option<KeptRate>, StoreError> {
        through!(self, self.store.provider_rate(provider))
    }

    async fn keep_provider_rate(&self, provider: Provider, rate: KeptRate) -> Result<bool, StoreError> {
        through!(self, self.store.keep_provider_rate(provider, rate))
    }

    async fn connect(&self, connection: Connection, profiles_max: u32, entry: AuditEntry) -> Result<Connected, StoreError> {
        through!(self, self.store.connect(connection, profiles_max, entry))
    }

    async fn connection(&self, organization: OrganizationId, id: HealthConnectionId) -> Result<Option<Connection>, StoreError> {
        through!(self, self.store.connection(organization, id))
    }

    async fn connections(
        &self,
        organization: OrganizationId,
        filter: ConnectionFilter,
        page: PageRequest,
    ) -> Result<Page<Connection>, StoreError> {
        through!(self, self.store.connections(organization, filter, page))
    }

    async fn connections_of(&self, user: HealthUser) -> Result<Vec<Connection>, StoreError> {
        through!(self, self.store.connections_of(user))
    }

    async fn connections_count(&self, organization: OrganizationId, at_most: u32) -> Result<u32, StoreError> {
        through!(self, self.store.connections_count(organization, at_most))
    }

    async fn delete_connection(&self, organization: OrganizationId, id: HealthConnectionId, entry: AuditEntry) -> Result<bool, StoreError> {
        through!(self, self.store.delete_connection(organization, id, entry))
    }

    async fn deregister(&self, user: HealthUser, at: Timestamp, alert: Alert) -> Result<u32, StoreError> {
        through!(self, self.store.deregister(user, at, alert))
    }

    async fn keep_permissions(&self, user: HealthUser, permissions: Permissions, at: Timestamp) -> Result<(), StoreError> {
        through!(self, self.store.keep_permissions(user, permissions, at))
    }

    async fn begin_refresh(
        &self,
        user: HealthUser,
        by: Uuid,
        at: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Vec<Connection>>, StoreError> {
        through!(self, self.store.begin_refresh(user, by, at, until))
    }

    async fn end_refresh(&self, refresh: EndedRefresh) -> Result<bool, StoreError> {
        through!(self, self.store.end_refresh(refresh))
    }
}

#[async_trait]
impl<S: HealthMetrics> HealthMetrics for Faulty<S> {
    async fn write_metrics(&self, write: MetricWrite) -> Result<Option<MetricsWritten>, StoreError> {
        through!(self, self.store.write_metrics(write))
    }

    async fn delete_record(&self, of: RecordOf) -> Result<u32, StoreError> {
        through!(self, self.store.delete_record(of))
    }

    async fn metrics(&self, organization: OrganizationId, filter: MetricFilter, page: PageRequest) -> Result<Page<Metric>, StoreError> {
        through!(self, self.store.metrics(organization, filter, page))
    }

    async fn erase_metrics(&self, organization: OrganizationId, profile: ProfileId, limit: u32) -> Result<u32, StoreError> {
        through!(self, self.store.erase_metrics(organization, profile, limit))
    }

    async fn erase_connections(
        &self,
        organization: OrganizationId,
        profile: ProfileId,
        entry: AuditEntry,
    ) -> Result<ProfileErased, StoreError> {
        through!(self, self.store.erase_connections(organization, profile, entry))
    }
}
