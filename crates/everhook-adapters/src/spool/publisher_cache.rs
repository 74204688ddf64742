//! What the node remembers of its publishers: all of it in memory, and in the file for the next start.

use everhook_core::{
    ids::{ApiKeyId, ApplicationId, OrganizationId, Ref, Uid},
    model::{ApiKey, ApiKeyHash},
    ports::KnownPublisher,
    time::Timestamp,
};
use rusqlite::{Connection, Row, params};
use rustc_hash::FxHashMap;

use crate::sqlite::{
    fault::Outcome,
    rows::{Columns, Key, api_key_of_row},
    transaction::Tx,
};

const KEYS: &str = include_str!("queries/known_keys.sql");
const KEEP_KEY: &str = include_str!("queries/keep_known_key.sql");
const FORGET_KEY: &str = include_str!("queries/forget_known_key.sql");
const FORGET_KEYS: &str = include_str!("queries/forget_known_keys.sql");
const ORGANIZATIONS: &str = include_str!("queries/known_organizations.sql");
const KEEP_ORGANIZATION: &str = include_str!("queries/keep_known_organization.sql");
const RENAME_ORGANIZATIONS: &str = include_str!("queries/rename_known_organizations.sql");
const FORGET_ORGANIZATIONS: &str = include_str!("queries/forget_known_organizations.sql");
const APPLICATIONS: &str = include_str!("queries/known_applications.sql");
const KEEP_APPLICATION: &str = include_str!("queries/keep_known_application.sql");
const FORGET_APPLICATION: &str = include_str!("queries/forget_known_application.sql");
const RENAME_APPLICATIONS: &str = include_str!("queries/rename_known_applications.sql");
const FORGET_APPLICATIONS: &str = include_str!("queries/forget_known_applications.sql");

/// How many of each kind are remembered. Past it all of that kind are dropped and learned again: rare, and simpler than an order of use.
const KNOWN_MAX: usize = 10_000;

/// Everything that is remembered.
#[derive(Default)]
pub(super) struct Known {
    keys: FxHashMap<ApiKeyHash, ApiKey>,
    organizations: FxHashMap<OrganizationId, Option<Uid>>,
    applications: FxHashMap<ApplicationId, KnownApplication>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownApplication {
    organization: OrganizationId,
    uid: Option<Uid>,
    is_default: bool,
}

/// What must be written to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CacheWrite {
    /// Nothing: it was known.
    Nothing,
    /// This.
    This,
    /// This, and nothing else of its kind is kept.
    OnlyThis,
}

impl Known {
    /// Reads what the file holds.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            keys: read_all(connection, KEYS, key_of_row)?,
            organizations: read_all(connection, ORGANIZATIONS, |row| Ok((row.id("id")?, row.uid_opt("uid")?)))?,
            applications: read_all(connection, APPLICATIONS, |row| {
                let (organization, uid, is_default) = (row.id("organization_id")?, row.uid_opt("uid")?, row.get("is_default")?);
                Ok((row.id("id")?, KnownApplication { organization, uid, is_default }))
            })?,
        })
    }

    /// Remembers something, and says what there is to write.
    pub(super) fn learn(&mut self, publisher: &KnownPublisher) -> CacheWrite {
        match publisher {
            // When it was last used changes all the time, and admits nobody.
            KnownPublisher::Key(hash, key) => put(&mut self.keys, *hash, ApiKey { last_used_at: None, ..key.clone() }),
            KnownPublisher::Organization { id, uid } => {
                let others = self.organizations.iter_mut().filter(|(other, _)| *other != id);
                others.filter(|(_, known)| known.is_some() && *known == uid).for_each(|(_, known)| *known = None);
                put(&mut self.organizations, *id, uid.clone())
            }
            KnownPublisher::Application { id, organization, uid, is_default } => {
                let application = KnownApplication { organization: *organization, uid: uid.clone(), is_default: *is_default };
                let others = self.applications.iter_mut().filter(|(other, known)| *other != id && known.organization == *organization);
                others.filter(|(_, known)| known.uid.is_some() && known.uid == *uid).for_each(|(_, known)| known.uid = None);
                put(&mut self.applications, *id, application)
            }
        }
    }

    /// Says whether it was known.
    pub(super) fn forget_key(&mut self, id: ApiKeyId) -> bool {
        let before = self.keys.len();
        self.keys.retain(|_, key| key.id != id);
        self.keys.len() < before
    }

    /// Says whether it was known.
    pub(super) fn forget_application(&mut self, id: ApplicationId) -> bool {
        self.applications.remove(&id).is_some()
    }

    pub(super) fn forget_keys(&mut self) {
        self.keys.clear();
    }

    pub(super) fn api_keys(&self) -> Vec<(ApiKeyHash, ApiKeyId)> {
        self.keys.iter().map(|(hash, key)| (*hash, key.id)).collect()
    }

    pub(super) fn api_key(&self, hash: &ApiKeyHash) -> Option<ApiKey> {
        self.keys.get(hash).cloned()
    }

    pub(super) fn organization(&self, of: &Ref<OrganizationId>) -> Option<OrganizationId> {
        match of {
            Ref::Id(id) => self.organizations.contains_key(id).then_some(*id),
            Ref::Uid(uid) => self.organizations.iter().find(|(_, known)| known.as_ref() == Some(uid)).map(|(id, _)| *id),
        }
    }

    pub(super) fn application(&self, organization: OrganizationId, of: &Ref<ApplicationId>) -> Option<ApplicationId> {
        match of {
            // Asked for every publish: not by looking through all of them.
            Ref::Id(id) => self.applications.get(id).filter(|known| known.organization == organization).map(|_| *id),
            Ref::Uid(uid) => self.find(organization, |known| known.uid.as_ref() == Some(uid)),
        }
    }

    pub(super) fn default_application(&self, organization: OrganizationId) -> Option<ApplicationId> {
        self.find(organization, |known| known.is_default)
    }

    fn find(&self, organization: OrganizationId, is_meant: impl Fn(&KnownApplication) -> bool) -> Option<ApplicationId> {
        let mut of_organization = self.applications.iter().filter(|(_, known)| known.organization == organization);
        of_organization.find(|(_, known)| is_meant(known)).map(|(id, _)| *id)
    }
}

fn put<K: std::hash::Hash + Eq, V: PartialEq>(map: &mut FxHashMap<K, V>, key: K, value: V) -> CacheWrite {
    if map.get(&key) == Some(&value) {
        return CacheWrite::Nothing;
    }
    let is_full = map.len() >= KNOWN_MAX && !map.contains_key(&key);
    if is_full {
        map.clear();
    }
    map.insert(key, value);
    if is_full { CacheWrite::OnlyThis } else { CacheWrite::This }
}

fn read_all<K: std::hash::Hash + Eq, V>(
    connection: &Connection,
    sql: &str,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<(K, V)>,
) -> rusqlite::Result<FxHashMap<K, V>> {
    connection.prepare(sql)?.query_map([], read)?.collect()
}

fn key_of_row(row: &Row<'_>) -> rusqlite::Result<(ApiKeyHash, ApiKey)> {
    Ok((ApiKeyHash(row.get("hash")?), api_key_of_row(row)?))
}

/// Writes what was learned.
pub(super) fn write(tx: &Tx<'_>, publisher: &KnownPublisher, learned: CacheWrite) -> Outcome<()> {
    let forget_others = |sql: &'static str| match learned {
        CacheWrite::OnlyThis => tx.prepare(sql)?.execute([]).map(drop).map_err(Into::into),
        CacheWrite::This | CacheWrite::Nothing => Outcome::Ok(()),
    };
    match publisher {
        KnownPublisher::Key(hash, key) => {
            forget_others(FORGET_KEYS)?;
            tx.prepare(KEEP_KEY)?.execute(params![
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
        }
        KnownPublisher::Organization { id, uid } => {
            forget_others(FORGET_ORGANIZATIONS)?;
            let uid = uid.as_ref().map(Uid::as_str);
            tx.prepare(RENAME_ORGANIZATIONS)?.execute([uid])?;
            tx.prepare(KEEP_ORGANIZATION)?.execute(params![id.key(), uid])?;
        }
        KnownPublisher::Application { id, organization, uid, is_default } => {
            forget_others(FORGET_APPLICATIONS)?;
            let uid = uid.as_ref().map(Uid::as_str);
            tx.prepare(RENAME_APPLICATIONS)?.execute(params![organization.key(), uid])?;
            tx.prepare(KEEP_APPLICATION)?.execute(params![id.key(), organization.key(), uid, is_default])?;
        }
    }
    Ok(())
}

/// Forgets a key in the file.
pub(super) fn delete_key(tx: &Tx<'_>, id: ApiKeyId) -> Outcome<()> {
    tx.prepare(FORGET_KEY)?.execute([id.key()])?;
    Ok(())
}

/// Forgets an application in the file.
pub(super) fn delete_application(tx: &Tx<'_>, id: ApplicationId) -> Outcome<()> {
    tx.prepare(FORGET_APPLICATION)?.execute([id.key()])?;
    Ok(())
}

/// Forgets all keys in the file.
pub(super) fn delete_keys(tx: &mut Tx<'_>) -> Outcome<()> {
    tx.prepare(FORGET_KEYS)?.execute([])?;
    Ok(())
}

/// Forgets everybody in the file.
pub(super) fn delete_all(tx: &Tx<'_>) -> Outcome<()> {
    for sql in [FORGET_KEYS, FORGET_ORGANIZATIONS, FORGET_APPLICATIONS] {
        tx.prepare(sql)?.execute([])?;
    }
    Ok(())
}
