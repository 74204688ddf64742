//! Keys that stand on a provider's server: what to fetch, and what was fetched.
//!
//! The door fetches (through the guard of addresses), caches by [`KeyRequest`], and answers 503 where it cannot. Who may say what the key is follows
//! from the host, which the recipe allows, and from the TLS connection to it; a certificate's own issuer is not verified.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

use super::{
    Refusal,
    der::{self, Certificate},
    fields::shown,
};

/// How many bytes of an answer are read: Google's set of keys has 2 KB, a certificate less.
pub const FETCHED_BYTES_MAX: usize = 64 * 1024;
/// How many keys a set may have.
const KEYS_MAX: usize = 100;
/// How long a URL of a key may be.
const URL_BYTES_MAX: usize = 1_024;

/// What must be fetched before a request can be verified.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRequest {
    /// Where: always `https`, on a host that the recipe allows. Keys are cached by it.
    pub url: String,
    /// What stands there.
    pub answer: KeyAnswer,
}

/// What stands at the URL of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyAnswer {
    /// An X.509 certificate as PEM.
    Certificate,
    /// A JSON web key set.
    KeySet,
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedKey {
    pub(super) request: KeyRequest,
    pub(super) keys: FetchedKeys,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FetchedKeys {
    Certificate(Certificate),
    Set(Vec<SetKey>),
}

/// A key of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SetKey {
    pub(super) id: String,
    /// The key as aws-lc reads it: an RSA key as DER, a point of P-256 uncompressed.
    pub(super) bytes: Vec<u8>,
}

impl FetchedKey {
    /// Reads what the URL answered.
    ///
    /// # Errors
    /// What is wrong with it, for the log.
    pub fn parse(request: &KeyRequest, answer: &[u8]) -> Result<Self, String> {
        if answer.len() > FETCHED_BYTES_MAX {
            return Err(format!("the answer has more than {FETCHED_BYTES_MAX} bytes"));
        }
        let keys = match request.answer {
            KeyAnswer::Certificate => {
                FetchedKeys::Certificate(Certificate::parse_pem(answer).ok_or("the answer is no certificate as PEM")?)
            }
            KeyAnswer::KeySet => FetchedKeys::Set(key_set(answer).ok_or("the answer is no JSON web key set")?),
        };
        Ok(Self { request: request.clone(), keys })
    }

    /// Whether a set has the key of this id.
    #[cfg(test)]
    pub(super) fn has_key(&self, id: &str) -> bool {
        match &self.keys {
            FetchedKeys::Certificate(_) => false,
            FetchedKeys::Set(keys) => keys.iter().any(|key| key.id == id),
        }
    }
}

/// RSA and P-256 keys of a set; others are passed over.
fn key_set(answer: &[u8]) -> Option<Vec<SetKey>> {
    let set: Value = serde_json::from_slice(answer).ok()?;
    let keys = set.get("keys")?.as_array()?.iter().take(KEYS_MAX);
    Some(keys.filter_map(set_key).collect())
}

fn set_key(key: &Value) -> Option<SetKey> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(text(name)?).ok();
    let id = text("kid")?.to_owned();
    let bytes = match (text("kty")?, text("crv")) {
        ("RSA", _) => der::rsa_public_key(&bytes("n")?, &bytes("e")?),
        ("EC", Some("P-256")) => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == 32 && y.len() == 32).then(|| [&[4], x.as_slice(), &y].concat())?
        }
        _ => return None,
    };
    Some(SetKey { id, bytes })
}

/// The URL of a certificate, if the recipe allows it: as [`allowed_url`], and without a query, because what stands behind one may be what its caller chose.
pub(super) fn allowed_certificate(text: &str, hosts: &[String]) -> Result<String, Refusal> {
    let url = allowed_url(text, hosts)?;
    if url.contains(['?', '#']) {
        return Err(Refusal::ForbiddenKeyUrl {
            reason: format!("the URL of the certificate, `{}`, has a query or a fragment", shown(text)),
        });
    }
    Ok(url)
}

/// A URL that the recipe allows: `https`, a listed host, no user and no other port.
pub(super) fn allowed_url(text: &str, hosts: &[String]) -> Result<String, Refusal> {
    let forbidden = |reason: &str| Refusal::ForbiddenKeyUrl { reason: format!("the URL of the certificate, `{}`, {reason}", shown(text)) };
    if text.len() > URL_BYTES_MAX {
        return Err(forbidden("is too long"));
    }
    let url = url::Url::parse(text).map_err(|_| forbidden("is no URL"))?;
    if url.scheme() != "https" || url.port().is_some() || !url.username().is_empty() || url.password().is_some() {
        return Err(forbidden("is not plain https"));
    }
    let host = url.host_str().unwrap_or("");
    if !hosts.iter().any(|pattern| host_matches(pattern, host)) {
        return Err(forbidden("is on a host that the recipe does not allow"));
    }
    Ok(url.into())
}

/// `*` is one label, `{region}` one that is the name of an AWS region: a bucket's host (`sns.s3-us-west-2.amazonaws.com`) must not be taken for a service's.
fn host_matches(pattern: &str, host: &str) -> bool {
    let (mut wanted, mut given) = (pattern.split('.'), host.split('.'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some("*"), Some(label)) if !label.is_empty() => {}
            (Some("{region}"), Some(label)) if is_region(label) => {}
            (Some(part), Some(label)) if part == label => {}
            _ => return false,
        }
    }
}

/// `us-east-1`, `us-gov-west-1`: words of letters, then one digit.
fn is_region(label: &str) -> bool {
    let parts: Vec<&str> = label.split('-').collect();
    let is_word = |part: &&str| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_lowercase());
    let Some((last, words)) = parts.split_last() else { return false };
    words.len() >= 2 && words.iter().all(is_word) && last.len() == 1 && last.bytes().all(|byte| byte.is_ascii_digit())
}
