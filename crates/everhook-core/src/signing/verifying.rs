//! The receiver's side: whether a signature header is right for a body. Comparisons take the same time whatever is wrong.
//!
//! A signed instant is returned, not judged: how old a request may be is the caller's to decide.

use aws_lc_rs::{
    constant_time::verify_slices_are_equal,
    hmac,
    signature::{ED25519, ED25519_PUBLIC_KEY_LEN, KeyPair as _, UnparsedPublicKey},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{SHA256_PREFIX, hmac_of};
use crate::{
    model::{InvalidSecret, SigningKey},
    time::Timestamp,
};

/// How many signatures of one header are looked at. A rotation has two; a stranger's header may have thousands, each of which costs a hash.
const SIGNATURES_MAX: usize = 8;

const PUBLIC_PREFIX: &str = "whpk_";

/// What a receiver needs to verify: a shared HMAC secret, or the public half of an Ed25519 key.
#[derive(Clone, Debug)]
pub struct VerifyingKey(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Hmac(hmac::Key),
    Ed25519([u8; ED25519_PUBLIC_KEY_LEN]),
}

/// Whether a `webhook-signature` header holds a right signature by this key. See [`VerifyingKey::verify`].
pub fn verify(key: &SigningKey, id: &str, timestamp: i64, body: &[u8], header: &str) -> bool {
    VerifyingKey::from(key).verify(id, timestamp, body, header)
}

impl VerifyingKey {
    /// Reads a key in any spelling: `whsec_…`, a secret that is its own bytes, `whsk_…`, or the public `whpk_…`.
    ///
    /// # Errors
    /// [`InvalidSecret`] says what would be right.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        const WRONG: InvalidSecret = InvalidSecret("what follows `whpk_` must be base64 of the 32 bytes of an Ed25519 public key");
        let Some(encoded) = text.strip_prefix(PUBLIC_PREFIX) else { return SigningKey::parse(text).map(|key| Self::from(&key)) };
        let bytes = BASE64_STANDARD.decode(encoded).map_err(|_| WRONG)?;
        bytes.try_into().map(|public| Self(Kind::Ed25519(public))).map_err(|_| WRONG)
    }

    /// Whether a `webhook-signature` header (`v1,… v1a,…`) holds a right signature of `{id}.{timestamp}.{body}` by this key.
    pub fn verify(&self, id: &str, timestamp: i64, body: &[u8], header: &str) -> bool {
        let seconds = timestamp.to_string();
        let content = [id.as_bytes(), b".", seconds.as_bytes(), b".", body];
        let signatures = header.split_ascii_whitespace().filter_map(|signature| signature.split_once(','));
        self.signed_any(signatures, decode_base64, &content)
    }

    /// The instant that an `X-Webhook-Signature` of style `timestamped` (`t=…,v1=…`) was signed at; `None` if no signature in it is right.
    pub fn verify_timestamped(&self, body: &[u8], header: &str) -> Option<Timestamp> {
        let mut fields = header.split(',').filter_map(|field| field.trim().split_once('='));
        let (_, seconds) = fields.next().filter(|(name, _)| *name == "t")?;
        let at = Timestamp::from_secs(seconds.parse().ok()?);
        self.signed_any(fields, decode_hex, &[seconds.as_bytes(), b".", body]).then_some(at)
    }

    /// Whether an `X-Webhook-Signature` of style `sha256` (`sha256=<hex>`) or `hex` is right. No Ed25519 key writes these.
    pub fn verify_plain(&self, body: &[u8], header: &str) -> bool {
        let header = header.trim();
        let hex = header.strip_prefix(SHA256_PREFIX).unwrap_or(header);
        self.signed_any([("v1", hex)].into_iter(), decode_hex, &[body])
    }

    /// Whether one of the signatures, each with its version, is this key's. Those of the other kind of key are passed over.
    fn signed_any<'a>(
        &self,
        signatures: impl Iterator<Item = (&'a str, &'a str)>,
        decode_hmac: fn(&str) -> Option<Vec<u8>>,
        content: &[&[u8]],
    ) -> bool {
        signatures.take(SIGNATURES_MAX).any(|(version, signature)| match (&self.0, version) {
            (Kind::Hmac(key), "v1") => {
                decode_hmac(signature).is_some_and(|given| verify_slices_are_equal(hmac_of(key, content).as_ref(), &given).is_ok())
            }
            (Kind::Ed25519(public), "v1a") => decode_base64(signature)
                .is_some_and(|given| UnparsedPublicKey::new(&ED25519, public).verify(&content.concat(), &given).is_ok()),
            _ => false,
        })
    }
}

impl From<&SigningKey> for VerifyingKey {
    fn from(key: &SigningKey) -> Self {
        match key {
            SigningKey::Hmac { key, .. } => Self(Kind::Hmac(key.clone())),
            SigningKey::Ed25519 { pair, .. } => {
                let public = pair.public_key().as_ref().try_into().expect("an Ed25519 public key has 32 bytes");
                Self(Kind::Ed25519(public))
            }
        }
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(text).ok()
}

fn decode_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
