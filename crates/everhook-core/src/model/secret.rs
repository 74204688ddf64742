//! The secrets that sign requests, open and sealed.

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::{Engine as _, prelude::BASE64_STANDARD};

use crate::time::Timestamp;

/// Text that must never be shown: logs and debug output print `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Shows it, to the one who signs, seals or answers the owner.
    pub const fn expose(&self) -> &T {
        &self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A secret as the store keeps it: encrypted by the vault, bound to its owner.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedSecret(pub Vec<u8>);

impl fmt::Debug for SealedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sealed")
    }
}

/// An endpoint's secrets: one, or two while a rotation's grace lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedSecrets {
    /// Signs from now on.
    pub current: SealedSecret,
    /// Signs beside it until the instant given.
    pub previous: Option<(SealedSecret, Timestamp)>,
}

/// What a request is signed with: an HMAC key, or an Ed25519 key pair.
pub enum SigningKey {
    /// Shared with the receiver. `whsec_` + base64, or the bytes of a text that the user chose.
    Hmac {
        /// As the owner sees it.
        text: Secret<String>,
        /// What signs.
        key: aws_lc_rs::hmac::Key,
    },
    /// The receiver holds only the public half (`whpk_`).
    Ed25519 {
        /// As the owner sees it: `whsk_` + base64 of the 32-byte seed.
        text: Secret<String>,
        /// What signs.
        pair: Ed25519KeyPair,
    },
}

/// Why a secret was refused, in words for its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSecret(pub &'static str);

/// The prefixes by which Standard Webhooks distinguishes keys.
const HMAC_PREFIX: &str = "whsec_";
const ED25519_PREFIX: &str = "whsk_";
const PUBLIC_PREFIX: &str = "whpk_";

impl SigningKey {
    /// Makes an HMAC secret from 32 random bytes.
    pub fn hmac_from_random(random: [u8; 32]) -> Self {
        let text = format!("{HMAC_PREFIX}{}", BASE64_STANDARD.encode(random));
        Self::hmac(text, &random)
    }

    /// Makes an Ed25519 key from 32 random bytes.
    pub fn ed25519_from_random(seed: [u8; 32]) -> Self {
        let text = format!("{ED25519_PREFIX}{}", BASE64_STANDARD.encode(seed));
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).expect("every 32 bytes are an Ed25519 seed");
        Self::Ed25519 { text: Secret::new(text), pair }
    }

    /// Reads a secret as its owner wrote it.
    ///
    /// # Errors
    /// [`InvalidSecret`] says what would be right.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        if let Some(encoded) = text.strip_prefix(ED25519_PREFIX) {
            return parse_ed25519(encoded);
        }
        if text.starts_with(PUBLIC_PREFIX) {
            return Err(InvalidSecret("a public key (`whpk_`) verifies but cannot sign: give the `whsk_` key"));
        }
        if let Some(encoded) = text.strip_prefix(HMAC_PREFIX) {
            let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| InvalidSecret("what follows `whsec_` must be base64"))?;
            return match bytes.len() {
                24..=64 => Ok(Self::hmac(text.to_owned(), &bytes)),
                _ => Err(InvalidSecret("what follows `whsec_` must be base64 of 24 to 64 bytes")),
            };
        }
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !(16..=128).contains(&text.len()) || !printable || text.trim() != text {
            return Err(InvalidSecret(
                "must be `whsec_` + base64 of 24 to 64 bytes, or 16 to 128 printable ASCII characters with no blank at either end",
            ));
        }
        Ok(Self::hmac(text.to_owned(), text.as_bytes()))
    }

    /// The secret as its owner sees it, and as it is sealed.
    pub const fn text(&self) -> &Secret<String> {
        match self {
            Self::Hmac { text, .. } | Self::Ed25519 { text, .. } => text,
        }
    }

    /// The half that a receiver needs to verify: `whpk_…`. An HMAC secret has none: it is shared whole.
    pub fn public_text(&self) -> Option<String> {
        match self {
            Self::Hmac { .. } => None,
            Self::Ed25519 { pair, .. } => Some(format!("{PUBLIC_PREFIX}{}", BASE64_STANDARD.encode(pair.public_key().as_ref()))),
        }
    }

    fn hmac(text: String, bytes: &[u8]) -> Self {
        Self::Hmac { text: Secret::new(text), key: aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, bytes) }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Both the 32-byte seed and the 64-byte form (seed and public key) are in use.
fn parse_ed25519(encoded: &str) -> Result<SigningKey, InvalidSecret> {
    const WRONG: InvalidSecret =
        InvalidSecret("what follows `whsk_` must be base64 of an Ed25519 key: 32 bytes, or 64 with the public half");
    let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| WRONG)?;
    let seed: [u8; 32] = match bytes.len() {
        32 | 64 => bytes[..32].try_into().map_err(|_| WRONG)?,
        _ => return Err(WRONG),
    };
    let key = SigningKey::ed25519_from_random(seed);
    match &key {
        SigningKey::Ed25519 { pair, .. } if bytes.len() == 64 && pair.public_key().as_ref() != &bytes[32..] => Err(WRONG),
        _ => Ok(key),
    }
}
