//! How secrets are kept: encrypted, and bound to the row that owns them.

use uuid::Uuid;

use crate::model::SealedSecret;

/// Seals what must not be readable in the store's files.
pub trait Vault: Send + Sync {
    /// Encrypts `plain` so that it opens only for the same `owner`.
    fn seal(&self, owner: &Uuid, plain: &[u8]) -> SealedSecret;

    /// Decrypts what [`Vault::seal`] made for the same `owner`.
    ///
    /// # Errors
    /// [`VaultError`] if it was sealed with another key, for another owner, or was damaged.
    fn open(&self, owner: &Uuid, sealed: &SealedSecret) -> Result<Vec<u8>, VaultError>;
}

/// A sealed value that does not open. It never says more, because more would help an attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot decrypt a secret: it was encrypted with another key, or is damaged")]
pub struct VaultError;
