//! API keys, kept by the hash of their text.

use everhook_core::{
    ids::{ApiKeyId, ApplicationId, OrganizationId, Ref},
    model::{ApiKey, ApiKeyHash, Page, PageRequest},
    ports::Created,
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{
    super::{
        fault::Outcome,
        page::{Between, List, list, rows_wanted},
        rows::{Columns, Key, api_key_of_row},
        transaction::Tx,
    },
    applications,
};

const INSERT: &str = include_str!("../queries/insert_api_key.sql");
const COUNT: &str = include_str!("../queries/count_api_keys.sql");
const BY_HASH: &str = include_str!("../queries/api_key_by_hash.sql");
const BY_ID: &str = include_str!("../queries/api_key_by_id.sql");
const LIST: List = list!("../queries/api_keys_page.sql");
const NOTE_USE: &str = include_str!("../queries/note_api_key_use.sql");
const FORGET_USE: &str = include_str!("../queries/forget_api_key_use.sql");
const DELETE: &str = include_str!("../queries/delete_api_key.sql");

pub(super) fn create(tx: &Tx<'_>, key: &ApiKey, hash: &ApiKeyHash, count_max: u32) -> Outcome<Created> {
    let count: u32 = tx.prepare(COUNT)?.query_row([key.organization.key()], |row| row.get(0))?;
    if count >= count_max {
        return Ok(Created::TooMany);
    }
    if let Some(application) = key.application
        && applications::find(tx.connection(), key.organization, &Ref::Id(application))?.is_none()
    {
        return Ok(Created::NoSuchApplication);
    }
    let inserted = tx.prepare(INSERT)?.execute(params![
        hash.0,
        key.id.key(),
        key.organization.key(),
        key.application.as_ref().map(ApplicationId::key),
        key.name,
        key.prefix,
        key.scopes.bits(),
        key.created_at.as_micros(),
        key.expires_at.map(Timestamp::as_micros)
    ])?;
    Ok(if inserted == 0 { Created::UidTaken } else { Created::Created })
}

pub(super) fn find(connection: &Connection, hash: &ApiKeyHash) -> Outcome<Option<ApiKey>> {
    Ok(connection.prepare_cached(BY_HASH)?.query_row([hash.0], of_row).optional()?)
}

pub(super) fn find_by_id(connection: &Connection, organization: OrganizationId, id: ApiKeyId) -> Outcome<Option<ApiKey>> {
    Ok(connection.prepare_cached(BY_ID)?.query_row(params![organization.key(), id.key()], of_row).optional()?)
}

pub(super) fn list(connection: &Connection, organization: OrganizationId, page: PageRequest) -> Outcome<Page<ApiKey>> {
    let between = Between::of(page);
    let parameters = params![organization.key(), between.after, between.before, rows_wanted(page)];
    let rows = LIST.read(connection, page, parameters, of_row)?;
    Ok(Page::from_read(rows, page, |key| *key.id.as_uuid()))
}

pub(super) fn revoke(tx: &Tx<'_>, organization: OrganizationId, id: ApiKeyId) -> Outcome<bool> {
    let is_revoked = tx.prepare(DELETE)?.execute(params![organization.key(), id.key()])? > 0;
    if is_revoked {
        tx.prepare(FORGET_USE)?.execute([id.key()])?;
    }
    Ok(is_revoked)
}

pub(super) fn note_uses(tx: &Tx<'_>, uses: &[(ApiKeyId, Timestamp)]) -> Outcome<()> {
    let mut note = tx.prepare(NOTE_USE)?;
    for (id, at) in uses {
        note.execute(params![id.key(), at.as_micros()])?;
    }
    Ok(())
}

fn of_row(row: &Row<'_>) -> rusqlite::Result<ApiKey> {
    Ok(ApiKey { last_used_at: row.instant_opt("last_used_at")?, ..api_key_of_row(row)? })
}
