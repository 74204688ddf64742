//! Which key secrets are sealed with, and that it stays the same one.
//!
//! The store holds the id of the key that its secrets are sealed with, so that every backup of it does. A server that is given another key, or whose key
//! file is gone, refuses to start: it would come up, and fail at every secret that it has to open.

use std::path::Path;

use anyhow::{Context as _, bail};
use everhook_adapters::{
    postgres::PostgresStore,
    sqlite::{SqliteStore, seal_key_id_at_rest},
    vault::AesVault,
};

use crate::config::{Config, SealKey};

pub use everhook_adapters::vault::KEY_FILE;

/// Opens the vault of a shared store, which keeps the key's id. All nodes are given the same key; none makes one.
///
/// # Errors
/// Says which key is missing or wrong, and what to do.
pub async fn open_shared_vault(config: &Config, store: &PostgresStore) -> anyhow::Result<AesVault> {
    let vault = given_vault(config)?;
    let id = hex(vault.key_id());
    let known = store.keep_seal_key_id(&id).await.context("cannot store the id of the sealing key")?;
    if known != id {
        bail!(
            "the secrets in this database are encrypted with the sealing key {known}, but this is the key {id}: copy EVERHOOK_SEAL_KEY or its file from a working node"
        );
    }
    Ok(vault)
}

/// The vault of the key that all nodes are given. Whether it is the right one, the store knows.
///
/// # Errors
/// Says which key is missing, and what to do.
pub fn given_vault(config: &Config) -> anyhow::Result<AesVault> {
    match &config.seal_key {
        SealKey::Given(key) => Ok(AesVault::from_key(*key.expose())),
        SealKey::File(path) if path.exists() => Ok(AesVault::load_or_create(path)?),
        SealKey::File(path) => bail!(
            "{} does not exist, and EVERHOOK_SEAL_KEY is not set: all nodes on a database need the same sealing key. Copy it from a working node; create one only for a new database (`openssl rand -base64 32`). Name its file with EVERHOOK_SEAL_KEY_FILE",
            path.display()
        ),
    }
}

/// Opens the vault of an embedded store, which keeps the key's id, and makes the key at the first start.
///
/// # Errors
/// Says which key is missing or wrong, where it is looked for, and how to bring it.
pub async fn open_vault(config: &Config, store: &SqliteStore) -> anyhow::Result<AesVault> {
    let known = store.seal_key_id().await.context("cannot read which sealing key the secrets are encrypted with")?;
    let data = config.data.display();
    let (vault, place) = match &config.seal_key {
        SealKey::Given(key) => (AesVault::from_key(*key.expose()), "EVERHOOK_SEAL_KEY".to_owned()),
        SealKey::File(path) => {
            let place = path.display().to_string();
            if let Some(known) = known.as_ref().filter(|_| !path.exists()) {
                bail!(
                    "the secrets in {data} are encrypted with the sealing key {known}, but {place} does not exist: {}",
                    how_to_bring(path)
                );
            }
            (AesVault::load_or_create(path)?, place)
        }
    };
    let id = hex(vault.key_id());
    let known = store.keep_seal_key_id(&id).await.context("cannot store the id of the sealing key")?;
    if known != id {
        let own_file = config.data.join(KEY_FILE);
        bail!("the secrets in {data} are encrypted with the sealing key {known}, but {place} is the key {id}: {}", how_to_bring(&own_file));
    }
    Ok(vault)
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
/// Says which file cannot be read.
pub fn key_id_of(folder: &Path) -> anyhow::Result<Option<String>> {
    // Whatever is wrong with the folder, whoever opens it next says it.
    match seal_key_id_at_rest(folder).ok().flatten() {
        Some(id) => Ok(Some(id)),
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
    Ok(Some(hex(AesVault::load_or_create(&path)?.key_id())))
}

fn hex(id: [u8; 4]) -> String {
    format!("{:08x}", u32::from_be_bytes(id))
}
