//! API keys, kept by the hash of their text.

use everhook_core::{
    ids::{ApiKeyId, ApplicationId, OrganizationId},
    model::{ApiKey, ApiKeyHash, Page, PageRequest, Scopes},
    ports::Created,
    time::Timestamp,
};
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    super::{
        fault::Outcome,
        page::{Between, List, list, rows_wanted},
        reader::Reader,
        rows::{Columns, Int, Key},
        transaction::Tx,
    },
    applications,
};

const INSERT: &str = include_str!("../queries/insert_api_key.sql");
const COUNT: &str = include_str!("../queries/count_api_keys.sql");
const BY_HASH: &str = include_str!("../queries/api_key_by_hash.sql");
const BY_ID: &str = include_str!("../queries/api_key_by_id.sql");
const LIST: List = list!("../queries/api_keys_page.sql");
const NOTE_USES: &str = include_str!("../queries/note_api_key_uses.sql");
const FORGET_USE: &str = include_str!("../queries/forget_api_key_use.sql");
const DELETE: &str = include_str!("../queries/delete_api_key.sql");

pub(super) async fn create(tx: &Tx<'_>, key: &ApiKey, hash: &ApiKeyHash, count_max: u32) -> Outcome<Created> {
    let count: i64 = tx.query_one(COUNT, &[&key.organization.key()]).await?.value("count")?;
    if count >= i64::from(count_max) {
        return Ok(Created::TooMany);
    }
    if let Some(application) = key.application
        && !applications::exists(tx, key.organization, application).await?
    {
        return Ok(Created::NoSuchApplication);
    }
    let inserted = tx
        .execute(
            INSERT,
            &[
                &hash.0.as_slice(),
                &key.id.key(),
                &key.organization.key(),
                &key.application.as_ref().map(ApplicationId::key),
                &key.name,
                &key.prefix,
                &Int(key.scopes.bits().into()),
                &key.created_at.as_micros(),
                &key.expires_at.map(Timestamp::as_micros),
            ],
        )
        .await?;
    Ok(if inserted == 0 { Created::UidTaken } else { Created::Created })
}

pub(super) async fn find(reader: &Reader, hash: &ApiKeyHash) -> Outcome<Option<ApiKey>> {
    reader.query_opt(BY_HASH, &[&hash.0.as_slice()]).await?.as_ref().map(of_row).transpose()
}

pub(super) async fn find_by_id(reader: &Reader, organization: OrganizationId, id: ApiKeyId) -> Outcome<Option<ApiKey>> {
    reader.query_opt(BY_ID, &[&organization.key(), &id.key()]).await?.as_ref().map(of_row).transpose()
}

pub(super) async fn list(reader: &Reader, organization: OrganizationId, page: PageRequest) -> Outcome<Page<ApiKey>> {
    let between = Between::of(page);
    let (organization, wanted) = (organization.key(), rows_wanted(page));
    let rows = LIST.read(reader, page, &[&organization, &between.after, &between.before, &wanted], of_row).await?;
    Ok(Page::from_read(rows, page, |key| *key.id.as_uuid()))
}

pub(super) async fn revoke(tx: &Tx<'_>, organization: OrganizationId, id: ApiKeyId) -> Outcome<bool> {
    let is_revoked = tx.execute(DELETE, &[&organization.key(), &id.key()]).await? > 0;
    if is_revoked {
        tx.execute(FORGET_USE, &[&id.key()]).await?;
    }
    Ok(is_revoked)
}

pub(super) async fn note_uses(reader: &Reader, uses: &[(ApiKeyId, Timestamp)]) -> Outcome<()> {
    let (keys, instants): (Vec<Uuid>, Vec<i64>) = uses.iter().map(|(id, at)| (id.key(), at.as_micros())).unzip();
    reader.execute(NOTE_USES, &[&keys, &instants]).await?;
    Ok(())
}

fn of_row(row: &Row) -> Outcome<ApiKey> {
    Ok(ApiKey {
        id: row.id("id")?,
        organization: row.id("organization_id")?,
        application: row.id_opt("application_id")?,
        name: row.value("name")?,
        prefix: row.value("prefix")?,
        scopes: Scopes::from_bits(row.number("scopes")?),
        created_at: row.instant("created_at")?,
        expires_at: row.instant_opt("expires_at")?,
        last_used_at: row.instant_opt("last_used_at")?,
    })
}
