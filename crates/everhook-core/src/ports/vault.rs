//! How secrets are kept: encrypted, and bound to the row that owns them.

use uuid::Uuid;

use crate::model::{SealKeyId, SealedSecret};

/// Seals what must not be readable in the store's files.
pub trait Vault: Send + Sync {
    /// Encrypts `plain` so that it opens only for the same `owner`.
    fn seal(&self, owner: &Uuid, plain: &[u8]) -> SealedSecret;

    /// Decrypts what [`Vault::seal`] made for the same `owner`.
    ///
    /// # Errors
    /// [`VaultError`] if it was sealed with another key, for another owner, or was damaged.
    fn open(&self, owner: &Uuid, sealed: &SealedSecret) -> Result<Vec<u8>, VaultError>;

    /// The same value sealed with the key in use; `None` if it is already.
    ///
    /// # Errors
    /// [`VaultError`] as for [`Vault::open`].
    fn reseal(&self, owner: &Uuid, sealed: &SealedSecret) -> Result<Option<SealedSecret>, VaultError>;

    /// Which keys there are.
    fn keys(&self) -> VaultKeys;

    /// Seals with this key from now on. Says whether it has it.
    fn seal_with_key(&self, key: SealKeyId) -> bool;
}

/// The keys of a vault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VaultKeys {
    /// The one that the operator wants to be used.
    pub wanted: SealKeyId,
    /// The one that seals.
    pub in_use: SealKeyId,
    /// Whether there are others, to open with.
    pub has_others: bool,
}

/// A sealed value that does not open. It never says more, because more would help an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decrypt a secret: it was encrypted with another key, or is damaged")]
pub struct VaultError;
