//! Which key secrets are sealed with, and that it stays the same one.
//!
//! Beside the database lies the id of the key that its secrets are sealed with. A server that is given another key, or whose key file is gone, refuses
//! to start: it would come up, and fail at every secret that it has to open.

use std::{fs, io::ErrorKind, path::Path};

use anyhow::{Context as _, bail};
use everhook_adapters::{
    postgres::PostgresStore,
    vault::{AesVault, write_whole},
};

use crate::config::{Config, SealKey};

/// The file in the data folder that holds the key's id.
const ID_FILE: &str = "seal.id";
/// The file in the data folder that holds the key, unless it is kept elsewhere.
pub const KEY_FILE: &str = "seal.key";

/// Opens the vault of a shared store, which keeps the key's id. All nodes are given the same key; none makes one.
///
/// # Errors
/// Says which key is missing or wrong, and what to do.
pub async fn open_shared_vault(config: &Config, store: &PostgresStore) -> anyhow::Result<AesVault> {
    let vault = given_vault(config)?;
    let id = hex(vault.key_id());
    let known = store.keep_seal_key_id(&id).await.context("the sealing key's id cannot be kept")?;
    if known != id {
        bail!(
            "the secrets in this database are sealed with key {known}, and this is key {id}: copy EVERHOOK_SEAL_KEY or its file from a node \
             that works"
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
            "{} does not exist, and no EVERHOOK_SEAL_KEY is given: all nodes on a database need the same sealing key. Copy it from a node that \
             works; only for a new database make one (`openssl rand -base64 32`). Name its file by EVERHOOK_SEAL_KEY_FILE",
            path.display()
        ),
    }
}

/// Opens the vault, and makes its key at the first start. The data folder must be locked.
///
/// # Errors
/// Says which key is missing or wrong, and what to do.
pub fn open_vault(config: &Config) -> anyhow::Result<AesVault> {
    let id_path = config.data.join(ID_FILE);
    let known = read_id(&id_path)?;
    let vault = match &config.seal_key {
        SealKey::Given(key) => AesVault::from_key(*key.expose()),
        SealKey::File(path) => {
            if let Some(id) = &known
                && !path.exists()
            {
                bail!(
                    "the secrets in {} are sealed with key {id}, and {} is gone: restore it from a backup",
                    config.data.display(),
                    path.display()
                );
            }
            AesVault::load_or_create(path)?
        }
    };
    let id = hex(vault.key_id());
    match known {
        Some(known) if known != id => {
            bail!(
                "the secrets in {} are sealed with key {known}, and this is key {id}: give the key they were sealed with",
                config.data.display()
            )
        }
        Some(_) => {}
        None => write_whole(&id_path, &format!("{id}\n")).with_context(|| format!("{} cannot be written", id_path.display()))?,
    }
    Ok(vault)
}

/// The id of the key that a folder's secrets are sealed with, without making anything; `None` if the folder does not tell.
///
/// # Errors
/// Says which file cannot be read.
pub fn key_id_of(folder: &Path) -> anyhow::Result<Option<String>> {
    if let Some(id) = read_id(&folder.join(ID_FILE))? {
        return Ok(Some(id));
    }
    // A folder that was restored from a backup, and not started since.
    key_id_in_file_of(folder)
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

fn read_id(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

fn hex(id: [u8; 4]) -> String {
    format!("{:08x}", u32::from_be_bytes(id))
}
