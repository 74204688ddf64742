//! Which keys secrets are sealed with and opened with, and that they are the store's.
//!
//! The store holds the id of the key that its secrets are sealed with, so that every backup of it does; and of the one before, while they are being sealed
//! with another. A server that does not have these keys, or whose key file is gone, refuses to start: it would come up, and fail at every secret that it has
//! to open.

use std::path::Path;

use anyhow::{Context as _, bail};
use everhook_adapters::{
    postgres::PostgresStore,
    spool::SqliteSpool,
    sqlite::{SqliteStore, sealing_at_rest},
    vault::{self, AesVault, KEY_BYTES},
};
use everhook_core::{
    model::{SealKeyId, Sealing},
    ports::{SealingStore as _, Vault as _},
};

use crate::config::{Config, SealKey};

pub use everhook_adapters::vault::KEY_FILE;

/// The file in the data folder with the key that was used before. It is there for the time of a rotation.
pub const OLD_KEY_FILE: &str = "seal.key.old";

/// Opens the vault of a shared store, which keeps the key's id. All nodes are given the same key; none makes one.
///
/// # Errors
/// Says which key is missing or wrong, and what to do.
pub async fn open_shared_vault(config: &Config, store: &PostgresStore) -> anyhow::Result<AesVault> {
    let vault = given_vault(config)?;
    let id = vault.key_id().to_string();
    store.keep_seal_key_id(&id).await.context("cannot store the id of the sealing key")?;
    let sealing = store.sealing().await.context("cannot read which sealing key the secrets are encrypted with")?;
    let sealing = sealing.context("the database has forgotten which sealing key its secrets are encrypted with")?;
    match missing(&vault, &sealing) {
        Some(missing) if sealing.rotation.is_some() => bail!("{}", half_rotated("this database", &sealing, missing)),
        Some(known) => bail!(
            "the secrets in this database are encrypted with the sealing key {known}, but this is the key {id}: copy EVERHOOK_SEAL_KEY or its file from a working node"
        ),
        None => Ok(in_use(vault, &sealing)),
    }
}

/// The vault of the keys that all nodes are given. Whether they are the right ones, the store knows.
///
/// # Errors
/// Says which key is missing, and what to do.
pub fn given_vault(config: &Config) -> anyhow::Result<AesVault> {
    let vault = match &config.seal_key {
        SealKey::Given(key) => AesVault::from_key(*key.expose()),
        SealKey::File(path) if path.exists() => AesVault::load_or_create(path)?,
        SealKey::File(path) => bail!(
            "{} does not exist, and EVERHOOK_SEAL_KEY is not set: all nodes on a database need the same sealing key. Copy it from a working node; create one only for a new database (`openssl rand -base64 32`). Name its file with EVERHOOK_SEAL_KEY_FILE",
            path.display()
        ),
    };
    with_old_key(config, vault)
}

/// Fails if the spool holds events that this node could not read.
///
/// # Errors
/// Says which key is missing.
pub async fn check_spool(spool: &SqliteSpool, vault: &AesVault) -> anyhow::Result<()> {
    let keys = spool.seal_keys().await.context("cannot read which sealing key the spooled events are encrypted with")?;
    match keys.into_iter().find(|key| !vault.has(*key)) {
        Some(key) => bail!(
            "the spool holds events that are encrypted with the sealing key {key}: supply that key as EVERHOOK_SEAL_KEY_OLD or EVERHOOK_SEAL_KEY_OLD_FILE until they are forwarded"
        ),
        None => Ok(()),
    }
}

/// Opens the vault of an embedded store, which keeps the key's id, and makes the key at the first start, and to rotate to if the old one is there.
///
/// # Errors
/// Says which key is missing or wrong, where it is looked for, and how to bring it.
pub async fn open_vault(config: &Config, store: &SqliteStore) -> anyhow::Result<AesVault> {
    let known = store.sealing().await.context("cannot read which sealing key the secrets are encrypted with")?;
    let data = config.data.display();
    let old = old_key(config)?;
    let old_id = old.map(|key| AesVault::from_key(key).key_id());
    let (vault, place) = match &config.seal_key {
        SealKey::Given(key) => (AesVault::from_key(*key.expose()), "EVERHOOK_SEAL_KEY".to_owned()),
        SealKey::File(path) => {
            let place = path.display().to_string();
            // A new key is made only where nothing is lost without the one that is not there.
            let needed = known.as_ref().filter(|known| old_id != Some(known.key) || known.rotation.is_some());
            if let Some(known) = needed.filter(|_| !path.exists()) {
                bail!(
                    "the secrets in {data} are encrypted with the sealing key {}, but {place} does not exist: {}",
                    known.key,
                    how_to_bring(path)
                );
            }
            (AesVault::load_or_create(path)?, place)
        }
    };
    let id = vault.key_id();
    let vault = with_key(vault, old);
    store.keep_seal_key_id(&id.to_string()).await.context("cannot store the id of the sealing key")?;
    let sealing = store.sealing().await.context("cannot read which sealing key the secrets are encrypted with")?;
    let sealing = sealing.with_context(|| format!("{data} has forgotten which sealing key its secrets are encrypted with"))?;
    match missing(&vault, &sealing) {
        Some(missing) if sealing.rotation.is_some() => bail!("{}", half_rotated(&data.to_string(), &sealing, missing)),
        Some(known) => bail!(
            "the secrets in {data} are encrypted with the sealing key {known}, but {place} is the key {id}: {}",
            how_to_bring(&config.data.join(KEY_FILE))
        ),
        None => Ok(in_use(vault, &sealing)),
    }
}

/// The first key that the store needs and the vault does not have.
fn missing(vault: &AesVault, sealing: &Sealing) -> Option<SealKeyId> {
    let from = sealing.rotation.as_ref().map(|rotation| rotation.from);
    [Some(sealing.key), from].into_iter().flatten().find(|key| !vault.has(*key))
}

fn half_rotated(store: &str, sealing: &Sealing, missing: SealKeyId) -> String {
    let from = sealing.rotation.as_ref().map_or(sealing.key, |rotation| rotation.from);
    format!(
        "the secrets in {store} are being encrypted again with the sealing key {} instead of {from}, and both are needed until that has finished: the key {missing} is missing. Supply the new one as EVERHOOK_SEAL_KEY or EVERHOOK_SEAL_KEY_FILE and the old one as EVERHOOK_SEAL_KEY_OLD or EVERHOOK_SEAL_KEY_OLD_FILE",
        sealing.key
    )
}

/// Sealing goes on with the key that the store says, until a rotation begins.
fn in_use(vault: AesVault, sealing: &Sealing) -> AesVault {
    vault.seal_with_key(sealing.key);
    vault
}

fn with_old_key(config: &Config, vault: AesVault) -> anyhow::Result<AesVault> {
    Ok(with_key(vault, old_key(config)?))
}

fn with_key(vault: AesVault, old: Option<[u8; KEY_BYTES]>) -> AesVault {
    match old {
        Some(key) => vault.with_old_key(key),
        None => vault,
    }
}

fn old_key(config: &Config) -> anyhow::Result<Option<[u8; KEY_BYTES]>> {
    Ok(match &config.old_seal_key {
        None => None,
        Some(SealKey::Given(key)) => Some(*key.expose()),
        Some(SealKey::File(path)) => Some(vault::read_key(path)?),
    })
}

fn how_to_bring(path: &Path) -> String {
    format!(
        "supply the key that belongs to this store, as {}, by naming its file in EVERHOOK_SEAL_KEY_FILE, or as EVERHOOK_SEAL_KEY, and start again",
        path.display()
    )
}

/// The id of the key that a folder's secrets are sealed with, without making anything; `None` if the folder does not tell.
///
/// # Errors
/// Says which file cannot be read, or that a rotation has not finished.
pub fn key_id_of(folder: &Path) -> anyhow::Result<Option<String>> {
    // Whatever is wrong with the folder, whoever opens it next says it.
    match sealing_at_rest(folder).ok().flatten() {
        Some(sealing) if sealing.rotation.is_some() => bail!(
            "the secrets in {} are being encrypted again with another sealing key: start its server with both keys, and migrate when that has finished",
            folder.display()
        ),
        Some(sealing) => Ok(Some(sealing.key.to_string())),
        None => key_id_in_file_of(folder),
    }
}

/// The id of the key in a folder's own key file, which need not be the one that its secrets are sealed with; `None` if there is no such file.
///
/// # Errors
/// Says why the file cannot be read.
pub fn key_id_in_file_of(folder: &Path) -> anyhow::Result<Option<String>> {
    let path = folder.join(KEY_FILE);
    if !path.exists() {
        return Ok(None);
    }
    Ok(Some(AesVault::load_or_create(&path)?.key_id().to_string()))
}
