//! How the tokens of a provider's user are sealed and opened. They open for the user and for no other: several connections of one user have the same.

use crate::{
    model::{
        SealedSecret, Secret,
        health::{SealedTokens, Tokens},
    },
    ports::{HealthUser, StoreError, Vault},
};

/// Seals tokens of a user.
pub fn seal(vault: &dyn Vault, user: &HealthUser, tokens: &Tokens) -> SealedTokens {
    let owner = user.owner_of_tokens();
    let seal = |token: &Secret<String>| vault.seal(&owner, token.expose().as_bytes());
    SealedTokens { access: seal(&tokens.access), refresh: tokens.refresh.as_ref().map(seal), expires_at: tokens.expires_at }
}

/// Opens them.
///
/// # Errors
/// [`StoreError::Corrupt`] if they were sealed with another key or for another user.
pub fn open(vault: &dyn Vault, user: &HealthUser, sealed: &SealedTokens) -> Result<Tokens, StoreError> {
    let owner = user.owner_of_tokens();
    let open = |sealed: &SealedSecret| {
        let plain = vault.open(&owner, sealed).map_err(StoreError::corrupt)?;
        String::from_utf8(plain).map(Secret::new).map_err(StoreError::corrupt)
    };
    Ok(Tokens { access: open(&sealed.access)?, refresh: sealed.refresh.as_ref().map(open).transpose()?, expires_at: sealed.expires_at })
}
