//! The secrets of a source, decoded and prepared once.

use std::fmt;

use aws_lc_rs::{
    digest, hmac,
    signature::{
        ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
        RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
    },
};
use base64::{
    Engine as _,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_STANDARD,
};

use crate::inbound::{
    Credentials, Recipe, RecipeFault, SECRET_BYTES_MAX, SECRETS_MAX,
    recipe::{JwtAlgorithm, JwtRule, KeyAlgorithm, KeyFormat, KeySource, MacAlgorithm, Mechanism},
    text::decode_hex,
};

/// What requests of a source are verified with.
pub(super) enum Keys {
    /// Nothing: requests are unsigned, or keys are fetched.
    None,
    Hmac(Vec<hmac::Key>),
    /// Secrets as they enter a plain hash.
    Plain(Vec<Vec<u8>>),
    /// Hashes of tokens, so that comparing takes the same time whatever is wrong.
    Tokens(Vec<digest::Digest>),
    Public(Vec<(KeyAlgorithm, ParsedPublicKey)>),
    JwtPublic(Vec<ParsedPublicKey>),
}

impl Keys {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Hmac(keys) => keys.is_empty(),
            Self::Plain(keys) => keys.is_empty(),
            Self::Tokens(keys) => keys.is_empty(),
            Self::Public(keys) => keys.is_empty(),
            Self::JwtPublic(keys) => keys.is_empty(),
        }
    }
}

/// Says how many, never what.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "no keys" } else { "keys" })
    }
}

/// Decodes the secrets of a source for its recipe.
pub(super) fn prepare(recipe: &Recipe, credentials: &Credentials, faults: &mut Vec<RecipeFault>) -> Keys {
    let secrets = &credentials.secrets;
    if !recipe.uses_secrets() {
        if !secrets.is_empty() {
            faults.push(RecipeFault::new("secrets", "mean nothing here: the recipe verifies with none; leave them out"));
        }
        return Keys::None;
    }
    if secrets.is_empty() && recipe.requires_secret() {
        faults.push(RecipeFault::new("secrets", "is empty; give the secret or key that the provider shows"));
    }
    if secrets.len() > SECRETS_MAX {
        faults.push(RecipeFault::new("secrets", format!("has {}; at most {SECRETS_MAX} are possible", secrets.len())));
        return Keys::None;
    }
    let mut decoded = Vec::with_capacity(secrets.len());
    for (index, secret) in secrets.iter().enumerate() {
        match decode(recipe.key_format, secret) {
            Ok(bytes) => decoded.push((index, bytes)),
            Err(reason) => faults.push(fault(index, reason)),
        }
    }
    keys_of(recipe, decoded, faults)
}

fn fault(index: usize, reason: &str) -> RecipeFault {
    RecipeFault::new("secrets", format!("number {} {reason}", index + 1))
}

/// The bytes of a secret. Fails closed: what is empty, blank or nothing but zeros, also after decoding, is no secret.
fn decode(format: KeyFormat, secret: &str) -> Result<Vec<u8>, &'static str> {
    if secret.len() > SECRET_BYTES_MAX {
        return Err("is longer than 4,096 bytes");
    }
    if is_blank(secret.as_bytes()) {
        return Err("is empty or blank; give the secret that the provider shows");
    }
    let decoded = match format {
        KeyFormat::Raw | KeyFormat::Captured => secret.as_bytes().to_vec(),
        KeyFormat::RawAmpersand => [secret.as_bytes(), b"&"].concat(),
        KeyFormat::Sha1 => digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes()).as_ref().to_vec(),
        KeyFormat::Hex => decode_hex(secret).ok_or("is not hexadecimal")?,
        KeyFormat::Base64 => decode_base64(secret).ok_or("is not base64")?,
        KeyFormat::Whsec => {
            let encoded = secret.strip_prefix("v1,").unwrap_or(secret);
            decode_base64(encoded.strip_prefix("whsec_").unwrap_or(encoded)).ok_or("is not whsec_ and base64")?
        }
        KeyFormat::Spki => pem_or_base64(secret).ok_or("is neither PEM nor base64 of a public key")?,
    };
    if is_blank(&decoded) {
        return Err("is empty, blank or nothing but zeros once it is decoded");
    }
    Ok(decoded)
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0 || byte.is_ascii_whitespace())
}

/// Base64 with or without padding, as people paste it.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const LENIENT: GeneralPurpose = GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    LENIENT.decode(text).ok()
}

/// The DER of a public key, or of a certificate's, from PEM or base64.
pub(super) fn pem_or_base64(text: &str) -> Option<Vec<u8>> {
    let body: String = text.lines().map(str::trim).filter(|line| !line.starts_with("-----")).collect();
    BASE64_STANDARD.decode(body).ok()
}

fn keys_of(recipe: &Recipe, decoded: Vec<(usize, Vec<u8>)>, faults: &mut Vec<RecipeFault>) -> Keys {
    let secrets = decoded.iter().map(|(_, bytes)| bytes.as_slice());
    match &recipe.mechanism {
        Mechanism::None => Keys::None,
        Mechanism::Token(_) => Keys::Tokens(secrets.map(|bytes| digest::digest(&digest::SHA256, bytes)).collect()),
        Mechanism::Mac(rule) => match hmac_algorithm(rule.algorithm) {
            Some(algorithm) => Keys::Hmac(secrets.map(|bytes| hmac::Key::new(algorithm, bytes)).collect()),
            None => Keys::Plain(decoded.into_iter().map(|(_, bytes)| bytes).collect()),
        },
        Mechanism::Jwt(JwtRule { algorithm: JwtAlgorithm::Hs256, .. }) => {
            Keys::Hmac(secrets.map(|bytes| hmac::Key::new(hmac::HMAC_SHA256, bytes)).collect())
        }
        Mechanism::Jwt(rule) => {
            Keys::JwtPublic(decoded.iter().filter_map(|(index, der)| public(*index, jwt_algorithm(rule.algorithm)?, der, faults)).collect())
        }
        Mechanism::Key(rule) if !matches!(rule.from, KeySource::Configured) => Keys::None,
        Mechanism::Key(rule) => {
            let pairs = decoded.iter().flat_map(|secret| rule.algorithms.iter().map(move |algorithm| (secret, *algorithm)));
            Keys::Public(
                pairs
                    .filter_map(|((index, der), algorithm)| Some((algorithm, public(*index, verification(algorithm), der, faults)?)))
                    .collect(),
            )
        }
    }
}

fn public(
    index: usize,
    algorithm: &'static dyn VerificationAlgorithm,
    der: &[u8],
    faults: &mut Vec<RecipeFault>,
) -> Option<ParsedPublicKey> {
    ParsedPublicKey::new(algorithm, der).map_err(|_| faults.push(fault(index, "is no public key of the recipe's algorithm"))).ok()
}

fn hmac_algorithm(algorithm: MacAlgorithm) -> Option<hmac::Algorithm> {
    match algorithm {
        MacAlgorithm::HmacSha1 => Some(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        MacAlgorithm::HmacSha256 => Some(hmac::HMAC_SHA256),
        MacAlgorithm::HmacSha512 => Some(hmac::HMAC_SHA512),
        MacAlgorithm::PlainSha256 => None,
    }
}

/// How a signature by a public key is verified.
pub(super) fn verification(algorithm: KeyAlgorithm) -> &'static dyn VerificationAlgorithm {
    match algorithm {
        KeyAlgorithm::Ed25519 => &ED25519,
        KeyAlgorithm::EcdsaP256 => &ECDSA_P256_SHA256_ASN1,
        KeyAlgorithm::RsaSha256 => &RSA_PKCS1_2048_8192_SHA256,
        KeyAlgorithm::RsaSha1 => &RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
    }
}

/// How a token signed by a public key is verified. `None`: by a shared secret.
pub(super) fn jwt_algorithm(algorithm: JwtAlgorithm) -> Option<&'static dyn VerificationAlgorithm> {
    match algorithm {
        JwtAlgorithm::Hs256 => None,
        JwtAlgorithm::Rs256 => Some(&RSA_PKCS1_2048_8192_SHA256),
        JwtAlgorithm::Es256 => Some(&ECDSA_P256_SHA256_FIXED),
    }
}
