//! Whether a request, or one item of it, is signed by the source's keys: MACs, public keys and tokens.

use std::{borrow::Cow, time::Duration};

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest, hmac, signature::UnparsedPublicKey};
use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{
    Stop, Verifier, items,
    keys::{Keys, verification},
    signatures,
    signed_text::{Part, Signed, urls},
};
use crate::{
    inbound::{
        FetchedKey, KeyRequest, Refusal,
        fetched::{FetchedKeys, KeyAnswer, allowed_certificate},
        recipe::{Encoding, KeyAlgorithm, KeyRule, KeySource, Mechanism, Place, Require, SignaturePlace, Template, TokenPlace},
        request::Facts,
    },
    time::Timestamp,
};

/// Verifies a request, or one item, by everything but a token that is signed itself.
pub(super) fn verify(verifier: &Verifier, facts: &Facts<'_>, now: Timestamp, key: Option<&FetchedKey>) -> Result<(), Stop> {
    let recipe = &verifier.recipe;
    if recipe.uses_secrets() && verifier.keys.is_empty() {
        return if recipe.require == Require::Always { Err(Refusal::NoSecret.into()) } else { Ok(()) };
    }
    match &recipe.mechanism {
        Mechanism::None => Ok(()),
        // Verified as a whole, before anything of the body is read.
        Mechanism::Jwt(_) => Err(Refusal::BadSignature.into()),
        Mechanism::Token(place) => Ok(verify_token(verifier, place, facts)?),
        Mechanism::Mac(rule) => {
            let proof = Proof { sig: &rule.signature, encoding: rule.encoding, over: &rule.over };
            proof.verify(verifier, facts, now, |parts, given| mac_is_right(&verifier.keys, parts, given))
        }
        Mechanism::Key(rule) => {
            let proof = Proof { sig: &rule.signature, encoding: rule.encoding, over: &rule.over };
            let fetched = fetched_key(rule, facts, now, key)?;
            proof.verify(verifier, facts, now, |parts, given| key_is_right(verifier, rule, fetched, parts, given))
        }
    }
}

/// Whether a place is empty that may be: only then is an unsigned request taken.
fn may_be_absent(verifier: &Verifier) -> bool {
    verifier.recipe.require == Require::IfPresent
}

/// What is signed, and where the signature stands.
struct Proof<'v> {
    sig: &'v SignaturePlace,
    encoding: Encoding,
    over: &'v Template,
}

impl Proof<'_> {
    /// Whether one of the signatures is right for one way to write the signed text.
    fn verify(
        &self,
        verifier: &Verifier,
        facts: &Facts<'_>,
        now: Timestamp,
        is_right: impl Fn(&[Part<'_>], &[Vec<u8>]) -> bool,
    ) -> Result<(), Stop> {
        let Some(given) = signatures::signatures(self.sig, facts)? else {
            return if may_be_absent(verifier) { Ok(()) } else { Err(missing(&self.sig.place).into()) };
        };
        let decoded: Vec<Vec<u8>> = given.iter().filter_map(|text| signatures::decode(self.encoding, text)).collect();
        if decoded.is_empty() {
            return Err(Refusal::UnreadableSignature {
                reason: format!("the {} is not {}", self.sig.place.describe(), self.encoding.describe()),
            }
            .into());
        }
        let timestamp = match &verifier.recipe.timestamp {
            Some(rule) => Some(signatures::timestamp(rule, self.sig, facts)?),
            None => None,
        };
        let id = items::header_pick(&verifier.recipe.id, facts)?;
        let signed = Signed {
            facts,
            timestamp: timestamp.as_ref().map(|(text, _)| text.as_ref()),
            id: id.as_deref(),
            app_id: verifier.credentials.app_id.as_deref().unwrap_or(""),
            url_rule: &verifier.recipe.url,
        };
        let urls: Vec<Cow<'_, str>> = urls(&verifier.recipe.url, facts.request.url);
        for pieces in &self.over.alternatives {
            for url in &urls {
                if is_right(&signed.parts(pieces, url)?, &decoded) {
                    return timestamp.map_or(Ok(()), |(_, at)| Ok(in_time(verifier, at, now)?));
                }
            }
        }
        Err(Refusal::BadSignature.into())
    }
}

fn missing(place: &Place) -> Refusal {
    Refusal::MissingSignature { place: place.describe() }
}

/// Judged after the signature, so that the age that is told is the provider's word and not a stranger's.
fn in_time(verifier: &Verifier, at: Timestamp, now: Timestamp) -> Result<(), Refusal> {
    let Some(tolerance) = verifier.tolerance else { return Ok(()) };
    let (age, ahead): (Duration, Duration) = (now.since(at), at.since(now));
    if age > tolerance {
        return Err(Refusal::TimestampTooOld { age, tolerance });
    }
    if ahead > tolerance {
        return Err(Refusal::TimestampTooNew { ahead, tolerance });
    }
    Ok(())
}

fn mac_is_right(keys: &Keys, parts: &[Part<'_>], given: &[Vec<u8>]) -> bool {
    match keys {
        Keys::Hmac(keys) => keys.iter().any(|key| {
            let mut context = hmac::Context::with_key(key);
            feed(parts, &[], &mut |bytes| context.update(bytes));
            is_one_of(context.sign().as_ref(), given)
        }),
        Keys::Plain(secrets) => secrets.iter().any(|secret| is_one_of(hash(&digest::SHA256, parts, secret).as_ref(), given)),
        _ => false,
    }
}

fn is_one_of(right: &[u8], given: &[Vec<u8>]) -> bool {
    given.iter().any(|signature| verify_slices_are_equal(right, signature).is_ok())
}

fn feed(parts: &[Part<'_>], secret: &[u8], sink: &mut impl FnMut(&[u8])) {
    for part in parts {
        match part {
            Part::Bytes(bytes) => sink(bytes),
            Part::Secret => sink(secret),
        }
    }
}

fn hash(algorithm: &'static digest::Algorithm, parts: &[Part<'_>], secret: &[u8]) -> digest::Digest {
    let mut context = digest::Context::new(algorithm);
    feed(parts, secret, &mut |bytes| context.update(bytes));
    context.finish()
}

/// Whether a public key made one of the signatures.
fn key_is_right(verifier: &Verifier, rule: &KeyRule, fetched: Option<&[u8]>, parts: &[Part<'_>], given: &[Vec<u8>]) -> bool {
    match (&verifier.keys, fetched) {
        (_, Some(public)) => rule.algorithms.iter().any(|algorithm| {
            let message = Message::of(*algorithm, parts);
            let key = UnparsedPublicKey::new(verification(*algorithm), public);
            given.iter().any(|signature| match &message {
                Message::Whole(text) => key.verify(text, signature).is_ok(),
                Message::Hash(hash) => key.verify_digest(hash, signature).is_ok(),
            })
        }),
        (Keys::Public(keys), None) => keys.iter().any(|(algorithm, key)| {
            let message = Message::of(*algorithm, parts);
            given.iter().any(|signature| match &message {
                Message::Whole(text) => key.verify_sig(text, signature).is_ok(),
                Message::Hash(hash) => key.verify_digest_sig(hash, signature).is_ok(),
            })
        }),
        _ => false,
    }
}

/// What a public key verifies: Ed25519 needs the text in one piece, the others its hash.
enum Message {
    Whole(Vec<u8>),
    Hash(digest::Digest),
}

impl Message {
    fn of(algorithm: KeyAlgorithm, parts: &[Part<'_>]) -> Self {
        match algorithm {
            KeyAlgorithm::Ed25519 => {
                let mut text = Vec::new();
                feed(parts, &[], &mut |bytes| text.extend_from_slice(bytes));
                Self::Whole(text)
            }
            KeyAlgorithm::EcdsaP256 | KeyAlgorithm::RsaSha256 => Self::Hash(hash(&digest::SHA256, parts, &[])),
            KeyAlgorithm::RsaSha1 => Self::Hash(hash(&digest::SHA1_FOR_LEGACY_USE_ONLY, parts, &[])),
        }
    }
}

/// The key that was fetched for this very request, or what to fetch. `None`: the source's own keys verify.
fn fetched_key<'k>(rule: &KeyRule, facts: &Facts<'_>, now: Timestamp, key: Option<&'k FetchedKey>) -> Result<Option<&'k [u8]>, Stop> {
    let KeySource::Certificate { place, hosts } = &rule.from else { return Ok(None) };
    if signatures::texts(&rule.signature.place, facts)?.is_empty() {
        return Err(missing(&rule.signature.place).into());
    }
    let url = signatures::text(place, facts)?.ok_or_else(|| missing(place))?;
    let wanted = KeyRequest { url: allowed_certificate(&url, hosts)?, answer: KeyAnswer::Certificate };
    let Some(key) = key.filter(|key| key.request == wanted) else { return Err(Stop::NeedsKey(wanted)) };
    let FetchedKeys::Certificate(certificate) = &key.keys else { return Err(Stop::NeedsKey(wanted)) };
    if now < certificate.not_before || certificate.not_after < now {
        return Err(Refusal::UnreadableSignature { reason: "the certificate of the signature is not valid at this time".to_owned() }.into());
    }
    Ok(Some(&certificate.public_key))
}

fn verify_token(verifier: &Verifier, place: &TokenPlace, facts: &Facts<'_>) -> Result<(), Refusal> {
    let request = facts.request;
    let (given, described) = match place {
        TokenPlace::Place { place, prefix } => {
            let text = signatures::text(place, facts)?;
            let token = text.as_ref().map(|text| text.strip_prefix(prefix.as_str()).unwrap_or("").as_bytes().to_vec());
            (token, place.describe())
        }
        TokenPlace::Basic => (basic(facts)?, "header `authorization` with user and password".to_owned()),
        TokenPlace::Path => (request.path_type.map(|path| path.as_bytes().to_vec()), "token behind the source in the path".to_owned()),
    };
    let Some(given) = given else {
        return if may_be_absent(verifier) { Ok(()) } else { Err(Refusal::MissingSignature { place: described }) };
    };
    let Keys::Tokens(tokens) = &verifier.keys else { return Err(Refusal::NoSecret) };
    let hash = digest::digest(&digest::SHA256, &given);
    let is_ours = tokens.iter().any(|token| verify_slices_are_equal(token.as_ref(), hash.as_ref()).is_ok());
    if is_ours { Ok(()) } else { Err(Refusal::BadToken) }
}

/// `user:password` of basic authentication.
fn basic(facts: &Facts<'_>) -> Result<Option<Vec<u8>>, Refusal> {
    const NAME: &str = "authorization";
    let header = facts.request.header(NAME).map_err(|fault| Refusal::UnreadableSignature { reason: fault.describe(NAME) })?;
    let Some((scheme, encoded)) = header.and_then(|value| value.split_once(' ')) else { return Ok(None) };
    if !scheme.eq_ignore_ascii_case("basic") {
        return Ok(None);
    }
    Ok(Some(BASE64_STANDARD.decode(encoded.trim()).unwrap_or_default()))
}

impl Encoding {
    const fn describe(self) -> &'static str {
        match self {
            Self::Hex => "hexadecimal",
            Self::Base64 => "base64",
            Self::Base64Url => "base64url",
        }
    }
}
