//! Signatures: how a receiver knows that a request is ours and untouched.
//!
//! The attempt flow signs each request just before it goes out, tens of thousands a second, so that nothing is copied or allocated here that
//! need not be. [`verify`] and [`VerifyingKey`] are the receiver's side, for the command that helps people debug theirs.
//! Nothing here may log or return a key.

mod verifying;

use std::io::Write as _;

use aws_lc_rs::hmac;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use uuid::fmt::Hyphenated;

pub use verifying::{VerifyingKey, verify};

use crate::{
    ids::EventId,
    model::{SignatureStyle, SigningKey},
    time::Timestamp,
};

/// An endpoint's keys, opened: one, or two while a rotation's grace lasts.
#[derive(Debug)]
pub struct Keys {
    /// Signs from now on.
    pub current: SigningKey,
    /// Signs beside it until the instant given.
    pub previous: Option<(SigningKey, Timestamp)>,
}

/// What is signed.
#[derive(Clone, Copy, Debug)]
pub struct Signable<'a> {
    /// The event, whose id is the `webhook-id`.
    pub event: EventId,
    /// When it is signed: decides which keys sign, and is signed itself, in whole seconds.
    pub at: Timestamp,
    /// The request's body.
    pub body: &'a [u8],
    /// How `X-Webhook-Signature` is written.
    pub style: SignatureStyle,
}

/// The values of the signature headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signatures {
    /// `webhook-signature`, as Standard Webhooks has it.
    pub webhook_signature: String,
    /// `X-Webhook-Signature`, in the endpoint's style.
    pub x_webhook_signature: String,
    /// `X-Webhook-Signature-Next`: during a rotation, where the style holds one signature only.
    pub x_webhook_signature_next: Option<String>,
}

/// Signs a request with every key that is in force at `what.at`.
pub fn sign(keys: &Keys, what: &Signable<'_>) -> Signatures {
    let mut id_buffer = [0; Hyphenated::LENGTH];
    let id = what.event.as_uuid().hyphenated().encode_lower(&mut id_buffer);
    let mut seconds_buffer = [0; SECONDS_BYTES_MAX];
    let seconds = write_seconds(what.at.as_secs(), &mut seconds_buffer);
    let previous = keys.previous.as_ref().filter(|(_, until)| what.at < *until).map(|(key, _)| key);

    let (x_webhook_signature, x_webhook_signature_next) = match (what.style, previous) {
        (SignatureStyle::Timestamped, _) => (timestamped(&keys.current, previous, seconds, what.body), None),
        (style, None) => (plain(&keys.current, style, seconds, what.body), None),
        (style, Some(old)) => (plain(old, style, seconds, what.body), Some(plain(&keys.current, style, seconds, what.body))),
    };
    let webhook_signature = standard(&keys.current, previous, &[id.as_bytes(), b".", seconds, b".", what.body]);
    Signatures { webhook_signature, x_webhook_signature, x_webhook_signature_next }
}

/// Whether a style can be written with this key: `sha256` and `hex` are HMACs by name, which an Ed25519 key does not make.
pub const fn style_fits(style: SignatureStyle, key: &SigningKey) -> bool {
    matches!((style, key), (SignatureStyle::Timestamped, _) | (_, SigningKey::Hmac { .. }))
}

/// The longest text of an `i64`: a sign and 19 digits.
const SECONDS_BYTES_MAX: usize = 20;

/// The longest value with two HMACs; an Ed25519 signature grows past it, which its own cost hides.
const STANDARD_BYTES: usize = 2 * "v1,".len() + 2 * 44 + 1;
const TIMESTAMPED_BYTES: usize = "t=".len() + SECONDS_BYTES_MAX + 2 * (",v1=".len() + 64);

fn write_seconds(seconds: i64, buffer: &mut [u8; SECONDS_BYTES_MAX]) -> &[u8] {
    let mut free = buffer.as_mut_slice();
    write!(free, "{seconds}").expect("20 bytes hold every i64");
    let written = SECONDS_BYTES_MAX - free.len();
    &buffer[..written]
}

/// `v1,<base64>` for each key, the newest first.
fn standard(current: &SigningKey, previous: Option<&SigningKey>, content: &[&[u8]]) -> String {
    let mut out = String::with_capacity(STANDARD_BYTES);
    for key in [Some(current), previous].into_iter().flatten() {
        if !out.is_empty() {
            out.push(' ');
        }
        match key {
            SigningKey::Hmac { key, .. } => {
                out.push_str("v1,");
                BASE64_STANDARD.encode_string(hmac_of(key, content), &mut out);
            }
            SigningKey::Ed25519 { pair, .. } => {
                out.push_str("v1a,");
                BASE64_STANDARD.encode_string(pair.sign(&content.concat()), &mut out);
            }
        }
    }
    out
}

/// `t=<unix>,v1=<hex>` with a `v1` for each key, the newest first; an Ed25519 key writes `v1a=<base64>`.
fn timestamped(current: &SigningKey, previous: Option<&SigningKey>, seconds: &[u8], body: &[u8]) -> String {
    let mut out = String::with_capacity(TIMESTAMPED_BYTES);
    out.push_str("t=");
    out.extend(seconds.iter().copied().map(char::from));
    for key in [Some(current), previous].into_iter().flatten() {
        match key {
            SigningKey::Hmac { key, .. } => {
                out.push_str(",v1=");
                push_hex(hmac_of(key, &[seconds, b".", body]).as_ref(), &mut out);
            }
            SigningKey::Ed25519 { pair, .. } => {
                out.push_str(",v1a=");
                BASE64_STANDARD.encode_string(pair.sign(&[seconds, b".", body].concat()), &mut out);
            }
        }
    }
    out
}

/// One HMAC of the body alone. An Ed25519 key, which [`style_fits`] keeps away, signs as if `timestamped`: its seed is no HMAC key that the
/// receiver holds.
fn plain(key: &SigningKey, style: SignatureStyle, seconds: &[u8], body: &[u8]) -> String {
    let SigningKey::Hmac { key: hmac_key, .. } = key else { return timestamped(key, None, seconds, body) };
    let prefix = if style == SignatureStyle::Sha256 { SHA256_PREFIX } else { "" };
    let mut out = String::with_capacity(prefix.len() + 64);
    out.push_str(prefix);
    push_hex(hmac_of(hmac_key, &[body]).as_ref(), &mut out);
    out
}

const SHA256_PREFIX: &str = "sha256=";

/// Signs the parts as if they were one text, without joining them.
fn hmac_of(key: &hmac::Key, content: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    for part in content {
        context.update(part);
    }
    context.sign()
}

fn push_hex(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 0xf)]));
    }
}

#[cfg(test)]
mod tests;
