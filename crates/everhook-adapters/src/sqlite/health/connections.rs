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
use rusqlite::{Connection as Database, OptionalExtension, Row, params};
use uuid::Uuid;

use super::super::{
    SqliteStore,
    fault::Outcome,
    outbox,
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
const END_REFRESH: &str = include_str!("../queries/end_health_refresh.sql");
const RATE: &str = include_str!("../queries/provider_rate.sql");
const KEEP_RATE: &str = include_str!("../queries/keep_provider_rate.sql");
const NOTE_REFUSED: &str = include_str!("../queries/note_refused_health_tokens.sql");
const KEEP_TOKENS: &str = include_str!("../queries/keep_health_tokens.sql");

#[async_trait]
impl HealthConnections for SqliteStore {
    async fn connect(&self, connection: Connection, profiles_max: u32, entry: AuditEntry) -> Result<Connected, StoreError> {
        self.change(1, entry, move |tx| connect(tx, &connection, profiles_max)).await
    }

    async fn connection(&self, organization: OrganizationId, id: HealthConnectionId) -> Result<Option<Connection>, StoreError> {
        let read = move |database: &Database| Ok(database.prepare_cached(BY_ID)?.query_row([id.key()], of_row).optional()?);
        Ok(self.read(read).await?.filter(|connection| connection.organization == organization))
    }

    async fn connections(
        &self,
        organization: OrganizationId,
        filter: ConnectionFilter,
        page: PageRequest,
    ) -> Result<Page<Connection>, StoreError> {
        self.read_history(move |database| {
            let between = Between::of(page);
            let parameters = params![
                organization.key(),
                between.after,
                between.before,
                rows_wanted(page),
                filter.provider.map(Provider::as_str),
                filter.external_user.as_ref().map(ExternalUserId::as_str),
                filter.profile.as_ref().map(ProfileId::as_str)
            ];
            let rows = LIST.read(database, page, parameters, of_row)?;
            Ok(Page::from_read(rows, page, |connection| *connection.id.as_uuid()))
        })
        .await
    }

    async fn connections_of(&self, user: HealthUser) -> Result<Vec<Connection>, StoreError> {
        self.read(move |database| of_user(database, &user)).await
    }

    async fn connections_count(&self, organization: OrganizationId, at_most: u32) -> Result<u32, StoreError> {
        self.read_history(move |database| {
            Ok(database.prepare_cached(COUNT)?.query_row(params![organization.key(), at_most], |row| row.get("connections"))?)
        })
        .await
    }

    async fn delete_connection(&self, organization: OrganizationId, id: HealthConnectionId, entry: AuditEntry) -> Result<bool, StoreError> {
        self.change(1, entry, move |tx| Ok(tx.prepare(DELETE)?.execute(params![organization.key(), id.key()])? > 0)).await
    }

    async fn deregister(&self, user: HealthUser, at: Timestamp, alert: Alert) -> Result<u32, StoreError> {
        self.write(2, move |tx| {
            let of = params![user.organization.key(), user.provider.as_str(), user.external_user.as_str(), at.as_micros()];
            let ended = tx.prepare(DEREGISTER)?.execute(of)?;
            if ended > 0 {
                outbox::keep(tx, &alert)?;
            }
            Ok(u32::try_from(ended).unwrap_or(u32::MAX))
        })
        .await
    }

    async fn keep_permissions(&self, user: HealthUser, permissions: Permissions, at: Timestamp) -> Result<(), StoreError> {
        self.write(1, move |tx| {
            tx.prepare(KEEP_PERMISSIONS)?.execute(params![
                user.organization.key(),
                user.provider.as_str(),
                user.external_user.as_str(),
                permissions_json(&permissions),
                at.as_micros()
            ])?;
            Ok(())
        })
        .await
    }

    async fn begin_refresh(
        &self,
        user: HealthUser,
        by: Uuid,
        at: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Vec<Connection>>, StoreError> {
        self.write(1, move |tx| {
            let begun = tx.prepare(BEGIN_REFRESH)?.execute(params![
                user.organization.key(),
                user.provider.as_str(),
                user.external_user.as_str(),
                by.key(),
                at.as_micros(),
                until.as_micros()
            ])?;
            if begun == 0 { Ok(None) } else { of_user(tx.connection(), &user).map(Some) }
        })
        .await
    }

    async fn end_refresh(&self, refresh: EndedRefresh) -> Result<bool, StoreError> {
        self.write(1, move |tx| end_refresh(tx, &refresh)).await
    }

    async fn provider_rate(&self, provider: Provider) -> Result<Option<KeptRate>, StoreError> {
        self.read(move |database| Ok(database.prepare_cached(RATE)?.query_row([provider.as_str()], rate_of_row).optional()?)).await
    }

    async fn keep_provider_rate(&self, provider: Provider, KeptRate { rate, revision }: KeptRate) -> Result<bool, StoreError> {
        self.write(1, move |tx| {
            let ProviderRate { quarter, day } = rate;
            let kept = tx.prepare(KEEP_RATE)?.execute(params![
                provider.as_str(),
                revision,
                quarter.number,
                quarter.used,
                quarter.limit,
                day.number,
                day.used,
                day.limit
            ])?;
            Ok(kept > 0)
        })
        .await
    }
}

fn connect(tx: &Tx<'_>, connection: &Connection, profiles_max: u32) -> Outcome<Connected> {
    let user = HealthUser {
        organization: connection.organization,
        provider: connection.provider,
        external_user: connection.external_user.clone(),
    };
    let known = of_user(tx.connection(), &user)?;
    let (access, refresh, expires_at) = tokens(connection.tokens.as_ref());
    let permissions = connection.permissions.as_ref().map(permissions_json);
    if let Some(before) = known.iter().find(|known| known.profile == connection.profile) {
        let (is_connected, updated_at) = (connection.is_connected, connection.updated_at.as_micros());
        tx.prepare(RENEW)?.execute(params![before.id.key(), access, refresh, expires_at, permissions, is_connected, updated_at])?;
        tx.prepare(END_REFRESHES)?.execute(params![user.organization.key(), user.provider.as_str(), user.external_user.as_str()])?;
        return Ok(Connected::Kept(Box::new(Connection { id: before.id, created_at: before.created_at, ..connection.clone() })));
    }
    if known.len() >= profiles_max as usize {
        return Ok(Connected::TooMany);
    }
    tx.prepare(INSERT)?.execute(params![
        connection.id.key(),
        connection.organization.key(),
        connection.provider.as_str(),
        connection.external_user.as_str(),
        connection.profile.as_str(),
        access,
        refresh,
        expires_at,
        permissions,
        connection.is_connected,
        connection.created_at.as_micros(),
        connection.updated_at.as_micros()
    ])?;
    Ok(Connected::Kept(Box::new(connection.clone())))
}

fn end_refresh(tx: &Tx<'_>, refresh: &EndedRefresh) -> Outcome<bool> {
    let user = &refresh.user;
    let of = params![user.organization.key(), user.provider.as_str(), user.external_user.as_str(), refresh.by.key()];
    if tx.prepare(END_REFRESH)?.execute(of)? == 0 {
        return Ok(false);
    }
    let at = refresh.at.as_micros();
    match &refresh.outcome {
        RefreshOutcome::Renewed(renewed) => {
            for (id, kept) in renewed {
                let (access, refresh_token, expires_at) = tokens(Some(kept));
                tx.prepare(KEEP_TOKENS)?.execute(params![id.key(), access, refresh_token, expires_at, at])?;
            }
            Ok(!renewed.is_empty())
        }
        RefreshOutcome::Refused => {
            let of = params![user.organization.key(), user.provider.as_str(), user.external_user.as_str(), at];
            tx.prepare(NOTE_REFUSED)?.execute(of)?;
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

fn of_user(database: &Database, user: &HealthUser) -> Outcome<Vec<Connection>> {
    let mut statement = database.prepare_cached(OF_USER)?;
    let of = params![user.organization.key(), user.provider.as_str(), user.external_user.as_str()];
    let connections = statement.query_map(of, of_row)?.collect::<Result<_, _>>()?;
    Ok(connections)
}

fn rate_of_row(row: &Row<'_>) -> rusqlite::Result<KeptRate> {
    let quarter = RateWindow { number: row.get("quarter_number")?, used: row.get("quarter_used")?, limit: row.get("quarter_limit")? };
    let day = RateWindow { number: row.get("day_number")?, used: row.get("day_used")?, limit: row.get("day_limit")? };
    Ok(KeptRate { rate: ProviderRate { quarter, day }, revision: row.get("revision")? })
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<Connection> {
    let access: Option<Vec<u8>> = row.get("access_token")?;
    let refresh = row.get::<_, Option<Vec<u8>>>("refresh_token")?.map(SealedSecret);
    let expires_at = row.instant_opt("token_expires_at")?;
    Ok(Connection {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        provider: row.spelled("provider", |name: String| Provider::parse(&name))?,
        external_user: row.spelled("external_user_id", |name: String| ExternalUserId::parse(&name))?,
        profile: row.spelled("profile_id", |name: String| ProfileId::parse(&name))?,
        tokens: access.map(|access| SealedTokens { access: SealedSecret(access), refresh, expires_at }),
        permissions: row.spelled_opt("permissions", |json: String| read_permissions(&json))?,
        reauthorization_needed_since: row.instant_opt("reauthorization_needed_since")?,
        is_connected: row.get("is_connected")?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}
