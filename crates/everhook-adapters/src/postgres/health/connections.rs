//! Which profile a provider's user is: the port `HealthConnections`.

use async_trait::async_trait;
use everhook_core::{
    ids::{HealthConnectionId, OrganizationId},
    model::{
        AuditEntry, Page, PageRequest, SealedSecret,
        health::{Connection, ExternalUserId, KeptRate, Permissions, ProfileId, Provider, ProviderRate, RateWindow, SealedTokens},
    },
    ports::{Alert, Connected, ConnectionFilter, EndedRefresh, HealthConnections, HealthUser, RefreshOutcome, StoreError},
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::{
    PostgresStore,
    audit_log::conclude,
    collisions::retry_on_conflict,
    fault::Outcome,
    outbox::{AlertColumns, INSERT_ALERTS},
    page::{Between, List, list, rows_wanted},
    rows::{Columns, Key},
    transaction::Tx,
};
use crate::encoding::health::{permissions_json, read_permissions};

const COUNT: &str = include_str!("../queries/count_health_connections.sql");
const BY_ID: &str = include_str!("../queries/health_connection_by_id.sql");
const OF_USER: &str = include_str!("../queries/health_connections_of_user.sql");
const LIST: List = list!("../queries/health_connections_page.sql");
const INSERT: &str = include_str!("../queries/insert_health_connection.sql");
const RENEW: &str = include_str!("../queries/renew_health_connection.sql");
const END_REFRESHES: &str = include_str!("../queries/end_refreshes_of_health_user.sql");
const DELETE: &str = include_str!("../queries/delete_health_connection.sql");
const DEREGISTER: &str = include_str!("../queries/deregister_health_user.sql");
const KEEP_PERMISSIONS: &str = include_str!("../queries/keep_health_permissions.sql");
const BEGIN_REFRESH: &str = include_str!("../queries/begin_health_refresh.sql");
const RATE: &str = include_str!("../queries/provider_rate.sql");
const KEEP_RATE: &str = include_str!("../queries/keep_provider_rate.sql");
const END_REFRESH: &str = include_str!("../queries/end_health_refresh.sql");
const NOTE_REFUSED: &str = include_str!("../queries/note_refused_health_tokens.sql");
const KEEP_TOKENS: &str = include_str!("../queries/keep_health_tokens.sql");

#[async_trait]
impl HealthConnections for PostgresStore {
    async fn connect(&self, connection: Connection, profiles_max: u32, entry: AuditEntry) -> Result<Connected, StoreError> {
        let made = retry_on_conflict(|| async {
            let mut database = self.connection().await?;
            let tx = Tx::begin(&mut database).await?;
            // Nobody else makes a connection of the organization meanwhile.
            tx.lock_organization(connection.organization).await?;
            let connected = connect(&tx, &connection, profiles_max).await?;
            conclude(tx, connected, &entry).await
        });
        Ok(made.await?)
    }

    async fn connection(&self, organization: OrganizationId, id: HealthConnectionId) -> Result<Option<Connection>, StoreError> {
        let found = self.reader().await?.query_opt(BY_ID, &[&id.key()]).await?;
        Ok(found.as_ref().map(of_row).transpose()?.filter(|connection| connection.organization == organization))
    }

    async fn connections(
        &self,
        organization: OrganizationId,
        filter: ConnectionFilter,
        page: PageRequest,
    ) -> Result<Page<Connection>, StoreError> {
        let (between, organization, wanted) = (Between::of(page), organization.key(), rows_wanted(page));
        let provider = filter.provider.map(Provider::as_str);
        let (user, profile) = (filter.external_user.as_ref().map(ExternalUserId::as_str), filter.profile.as_ref().map(ProfileId::as_str));
        let reader = self.reader().await?;
        let rows = LIST
            .read(&reader, page, &[&organization, &between.after, &between.before, &wanted, &provider, &user, &profile], of_row)
            .await?;
        Ok(Page::from_read(rows, page, |connection| *connection.id.as_uuid()))
    }

    async fn connections_of(&self, user: HealthUser) -> Result<Vec<Connection>, StoreError> {
        let of: UserKey<'_> = (&user).into();
        let rows = self.line_reader().await?.query(OF_USER, &[&of.organization, &of.provider, &of.user]).await?;
        Ok(rows.iter().map(of_row).collect::<Outcome<_>>()?)
    }

    async fn connections_count(&self, organization: OrganizationId, at_most: u32) -> Result<u32, StoreError> {
        let row = self.reader().await?.query_one(COUNT, &[&organization.key(), &i64::from(at_most)]).await?;
        let count: i64 = row.value("connections")?;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    async fn delete_connection(&self, organization: OrganizationId, id: HealthConnectionId, entry: AuditEntry) -> Result<bool, StoreError> {
        let deleted = retry_on_conflict(|| async {
            let mut database = self.connection().await?;
            let tx = Tx::begin(&mut database).await?;
            tx.lock_organization(organization).await?;
            let is_deleted = tx.execute(DELETE, &[&organization.key(), &id.key()]).await? > 0;
            conclude(tx, is_deleted, &entry).await
        });
        Ok(deleted.await?)
    }

    async fn deregister(&self, user: HealthUser, at: Timestamp, alert: Alert) -> Result<u32, StoreError> {
        let ended = retry_on_conflict(|| async {
            let mut database = self.connection().await?;
            let tx = Tx::begin(&mut database).await?;
            let of: UserKey<'_> = (&user).into();
            let ended = tx.execute(DEREGISTER, &[&of.organization, &of.provider, &of.user, &at.as_micros()]).await?;
            if ended > 0 {
                tx.execute(INSERT_ALERTS, &AlertColumns::new(&[&alert]).parameters()).await?;
            }
            tx.commit().await?;
            Ok(u32::try_from(ended).unwrap_or(u32::MAX))
        });
        Ok(ended.await?)
    }

    async fn keep_permissions(&self, user: HealthUser, permissions: Permissions, at: Timestamp) -> Result<(), StoreError> {
        let (of, permissions): (UserKey<'_>, _) = ((&user).into(), permissions_json(&permissions));
        let parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&of.organization, &of.provider, &of.user, &permissions, &at.as_micros()];
        self.line_reader().await?.execute(KEEP_PERMISSIONS, parameters).await?;
        Ok(())
    }

    async fn begin_refresh(
        &self,
        user: HealthUser,
        by: Uuid,
        at: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Vec<Connection>>, StoreError> {
        let begun = retry_on_conflict(|| async {
            let mut database = self.connection().await?;
            let tx = Tx::begin(&mut database).await?;
            let of: UserKey<'_> = (&user).into();
            let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                [&of.organization, &of.provider, &of.user, &by, &at.as_micros(), &until.as_micros()];
            if tx.execute(BEGIN_REFRESH, &parameters).await? == 0 {
                return Ok(None);
            }
            let connections = of_user(&tx, &user).await?;
            tx.commit().await?;
            Ok(Some(connections))
        });
        Ok(begun.await?)
    }

    async fn end_refresh(&self, refresh: EndedRefresh) -> Result<bool, StoreError> {
        let ended = retry_on_conflict(|| async {
            let mut database = self.connection().await?;
            let tx = Tx::begin(&mut database).await?;
            let is_kept = end_refresh(&tx, &refresh).await?;
            tx.commit().await?;
            Ok(is_kept)
        });
        Ok(ended.await?)
    }

    async fn provider_rate(&self, provider: Provider) -> Result<Option<KeptRate>, StoreError> {
        let row = self.line_reader().await?.query_opt(RATE, &[&provider.as_str()]).await?;
        Ok(row.as_ref().map(rate_of_row).transpose()?)
    }

    async fn keep_provider_rate(&self, provider: Provider, KeptRate { rate, revision }: KeptRate) -> Result<bool, StoreError> {
        let ProviderRate { quarter, day } = rate;
        let counts = [quarter.used, quarter.limit, day.used, day.limit].map(i64::from);
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
            [&provider.as_str(), &revision, &quarter.number, &counts[0], &counts[1], &day.number, &counts[2], &counts[3]];
        Ok(self.line_reader().await?.execute(KEEP_RATE, &parameters).await? > 0)
    }
}

fn rate_of_row(row: &Row) -> Outcome<KeptRate> {
    let window = |number, used, limit| -> Outcome<RateWindow> {
        Ok(RateWindow { number: row.value(number)?, used: row.number(used)?, limit: row.number(limit)? })
    };
    let quarter = window("quarter_number", "quarter_used", "quarter_limit")?;
    let day = window("day_number", "day_used", "day_limit")?;
    Ok(KeptRate { rate: ProviderRate { quarter, day }, revision: row.value("revision")? })
}

/// A user as parameters name them.
struct UserKey<'a> {
    organization: Uuid,
    provider: &'static str,
    user: &'a str,
}

impl<'a> From<&'a HealthUser> for UserKey<'a> {
    fn from(user: &'a HealthUser) -> Self {
        Self { organization: user.organization.key(), provider: user.provider.as_str(), user: user.external_user.as_str() }
    }
}

async fn connect(tx: &Tx<'_>, connection: &Connection, profiles_max: u32) -> Outcome<Connected> {
    let user = HealthUser {
        organization: connection.organization,
        provider: connection.provider,
        external_user: connection.external_user.clone(),
    };
    let known = of_user(tx, &user).await?;
    let (access, refresh, expires_at) = tokens(connection.tokens.as_ref());
    let permissions = connection.permissions.as_ref().map(permissions_json);
    let updated_at = connection.updated_at.as_micros();
    if let Some(before) = known.iter().find(|known| known.profile == connection.profile) {
        tx.execute(RENEW, &[&before.id.key(), &access, &refresh, &expires_at, &permissions, &connection.is_connected, &updated_at]).await?;
        let of: UserKey<'_> = (&user).into();
        tx.execute(END_REFRESHES, &[&of.organization, &of.provider, &of.user]).await?;
        return Ok(Connected::Kept(Box::new(Connection { id: before.id, created_at: before.created_at, ..connection.clone() })));
    }
    if known.len() >= profiles_max as usize {
        return Ok(Connected::TooMany);
    }
    tx.execute(
        INSERT,
        &[
            &connection.id.key(),
            &connection.organization.key(),
            &connection.provider.as_str(),
            &connection.external_user.as_str(),
            &connection.profile.as_str(),
            &access,
            &refresh,
            &expires_at,
            &permissions,
            &connection.is_connected,
            &connection.created_at.as_micros(),
            &updated_at,
        ],
    )
    .await?;
    Ok(Connected::Kept(Box::new(connection.clone())))
}

async fn end_refresh(tx: &Tx<'_>, refresh: &EndedRefresh) -> Outcome<bool> {
    let of: UserKey<'_> = (&refresh.user).into();
    if tx.execute(END_REFRESH, &[&of.organization, &of.provider, &of.user, &refresh.by]).await? == 0 {
        return Ok(false);
    }
    let at = refresh.at.as_micros();
    match &refresh.outcome {
        RefreshOutcome::Renewed(renewed) => {
            for (id, kept) in renewed {
                let (access, refresh_token, expires_at) = tokens(Some(kept));
                tx.execute(KEEP_TOKENS, &[&id.key(), &access, &refresh_token, &expires_at, &at]).await?;
            }
            Ok(!renewed.is_empty())
        }
        RefreshOutcome::Refused => {
            tx.execute(NOTE_REFUSED, &[&of.organization, &of.provider, &of.user, &at]).await?;
            Ok(false)
        }
        RefreshOutcome::NotRenewed => Ok(false),
    }
}

/// Tokens as columns hold them.
fn tokens(of: Option<&SealedTokens>) -> (Option<&[u8]>, Option<&[u8]>, Option<i64>) {
    let Some(tokens) = of else { return (None, None, None) };
    (Some(&tokens.access.0), tokens.refresh.as_ref().map(|token| &token.0[..]), tokens.expires_at.map(Timestamp::as_micros))
}

async fn of_user(tx: &Tx<'_>, user: &HealthUser) -> Outcome<Vec<Connection>> {
    let of: UserKey<'_> = user.into();
    tx.query(OF_USER, &[&of.organization, &of.provider, &of.user]).await?.iter().map(of_row).collect()
}

fn of_row(row: &Row) -> Outcome<Connection> {
    let access: Option<Vec<u8>> = row.value("access_token")?;
    let refresh = row.value::<Option<Vec<u8>>>("refresh_token")?.map(SealedSecret);
    let expires_at = row.instant_opt("token_expires_at")?;
    Ok(Connection {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        provider: row.spelled("provider", |name: &str| Provider::parse(name))?,
        external_user: row.spelled("external_user_id", |name: &str| ExternalUserId::parse(name))?,
        profile: row.spelled("profile_id", |name: &str| ProfileId::parse(name))?,
        tokens: access.map(|access| SealedTokens { access: SealedSecret(access), refresh, expires_at }),
        permissions: row.spelled_opt("permissions", |json: &str| read_permissions(json))?,
        reauthorization_needed_since: row.instant_opt("reauthorization_needed_since")?,
        is_connected: row.value("is_connected")?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}
