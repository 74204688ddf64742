//! Where it is kept which profile a provider's user is, and what reaches the provider for them.

use async_trait::async_trait;
use aws_lc_rs::digest::{Context, SHA256};
use uuid::Uuid;

use crate::{
    ids::{HealthConnectionId, OrganizationId},
    model::{
        AuditEntry, Page, PageRequest,
        health::{Connection, ExternalUserId, KeptRate, Permissions, ProfileId, Provider, SealedTokens},
    },
    ports::{Alert, Effect, StoreError},
    time::Timestamp,
};

/// Connections. Deleting an organization deletes its connections.
///
/// Every method fails with [`StoreError::Unavailable`] if the store cannot be reached, and then changed nothing.
#[async_trait]
pub trait HealthConnections: Send + Sync {
    /// Makes a connection, or begins anew the one that joins the same user and profile: that keeps its id and `created_at`, and takes everything else from
    /// the new one. A user has at most `profiles_max` profiles.
    async fn connect(&self, connection: Connection, profiles_max: u32, entry: AuditEntry) -> Result<Connected, StoreError>;

    /// Finds a connection of an organization.
    async fn connection(&self, organization: OrganizationId, id: HealthConnectionId) -> Result<Option<Connection>, StoreError>;

    /// Lists an organization's connections, newest first.
    async fn connections(
        &self,
        organization: OrganizationId,
        filter: ConnectionFilter,
        page: PageRequest,
    ) -> Result<Page<Connection>, StoreError>;

    /// All connections of a user, oldest first, those that are not connected any more included.
    async fn connections_of(&self, user: HealthUser) -> Result<Vec<Connection>, StoreError>;

    /// How many connections an organization has, counted up to a number.
    async fn connections_count(&self, organization: OrganizationId, at_most: u32) -> Result<u32, StoreError>;

    /// Deletes a connection of an organization; says whether there was one.
    async fn delete_connection(&self, organization: OrganizationId, id: HealthConnectionId, entry: AuditEntry) -> Result<bool, StoreError>;

    /// Notes that a user withdrew from the provider: connections lose their tokens and are not connected any more. The alert is recorded in the same
    /// write, if there was one that was connected. Returns how many there were.
    async fn deregister(&self, user: HealthUser, at: Timestamp, alert: Alert) -> Result<u32, StoreError>;

    /// Notes what a user lets the provider pass on, with all connections of the user.
    async fn keep_permissions(&self, user: HealthUser, permissions: Permissions, at: Timestamp) -> Result<(), StoreError>;

    /// Takes the right to refresh the tokens of a user until an instant, unless somebody has it: `None` then, or if there is no such user. Returns the
    /// connections as they are now.
    async fn begin_refresh(
        &self,
        user: HealthUser,
        by: Uuid,
        at: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Vec<Connection>>, StoreError>;

    /// Keeps refreshed tokens, or notes that there will be none, and gives the right back, in one write. Says whether tokens were kept: not if others were
    /// stored since `begin_refresh`, or the user withdrew.
    async fn end_refresh(&self, refresh: EndedRefresh) -> Result<bool, StoreError>;

    /// What is known of a provider's limits; `None` until somebody kept something. It is one for all organizations, which ask with one client id.
    async fn provider_rate(&self, provider: Provider) -> Result<Option<KeptRate>, StoreError>;

    /// Keeps what is known of a provider's limits, if that still has the revision (0 if there was none); says whether it was kept. The new one has the next.
    async fn keep_provider_rate(&self, provider: Provider, rate: KeptRate) -> Result<bool, StoreError>;
}

/// A user of a provider, in an organization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HealthUser {
    /// The tenant.
    pub organization: OrganizationId,
    /// The provider.
    pub provider: Provider,
    /// The user, by the provider's name.
    pub external_user: ExternalUserId,
}

impl HealthUser {
    /// Whom the user's tokens are sealed for: several connections of one user have the same.
    pub fn owner_of_tokens(&self) -> Uuid {
        let mut context = Context::new(&SHA256);
        context.update(self.organization.as_uuid().as_bytes());
        context.update(self.provider.as_str().as_bytes());
        context.update(b":");
        context.update(self.external_user.as_str().as_bytes());
        let digest = context.finish();
        let (bytes, _) = digest.as_ref().split_first_chunk().expect("SHA-256 has 32 bytes");
        uuid::Builder::from_custom_bytes(*bytes).into_uuid()
    }
}

/// Which connections are meant. What is absent does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionFilter {
    /// Of this provider.
    pub provider: Option<Provider>,
    /// Of this user.
    pub external_user: Option<ExternalUserId>,
    /// Of this profile.
    pub profile: Option<ProfileId>,
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connected {
    /// It is kept so. Boxed, because the others say nothing more.
    Kept(Box<Connection>),
    /// The user has as many profiles as one may have.
    TooMany,
}

impl Effect for Connected {
    fn took_place(&self) -> bool {
        matches!(self, Self::Kept(_))
    }
}

/// A refresh that has ended.
#[derive(Clone, Debug)]
pub struct EndedRefresh {
    /// Whose tokens.
    pub user: HealthUser,
    /// Who had the right.
    pub by: Uuid,
    /// Its result.
    pub outcome: RefreshOutcome,
    /// When.
    pub at: Timestamp,
}

/// What came of a refresh.
#[derive(Clone, Debug)]
pub enum RefreshOutcome {
    /// New tokens, sealed for each connection.
    Renewed(Vec<(HealthConnectionId, SealedTokens)>),
    /// The provider does not accept the refresh token any more: the user has to connect again.
    Refused,
    /// None, for now.
    NotRenewed,
}
