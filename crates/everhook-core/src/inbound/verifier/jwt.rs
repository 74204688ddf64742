//! JSON web tokens: their signature, their claims, and the body that they may vouch for.

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest, hmac, signature::UnparsedPublicKey};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    Stop, Verifier,
    keys::{Keys, jwt_algorithm},
    signatures,
};
use crate::{
    inbound::{
        FetchedKey, InboundRequest, KeyRequest, Refusal,
        document::Values,
        fetched::{FetchedKeys, KeyAnswer},
        recipe::{JwtAlgorithm, JwtRule, KeySource, Require},
        request::Facts,
    },
    time::Timestamp,
};

/// How long a token in a header may be: headers are bounded anyway, and real ones have one or two kilobytes.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// How far clocks may differ.
const LEEWAY_SECONDS: i64 = 60;

/// Verifies a request by its token. Where the body is the token, its payload is returned.
pub(super) fn verify(
    verifier: &Verifier,
    rule: &JwtRule,
    request: &InboundRequest<'_>,
    now: Timestamp,
    key: Option<&FetchedKey>,
) -> Result<Option<Bytes>, Stop> {
    let require = verifier.recipe.require;
    if matches!(rule.from, KeySource::Configured) && verifier.keys.is_empty() {
        return if require == Require::Always { Err(Refusal::NoSecret.into()) } else { Ok(None) };
    }
    let facts = Facts::new(request, Values::default());
    let token = match &rule.place {
        None => std::str::from_utf8(request.body).map_err(|_| unreadable("the body is no token"))?.trim_ascii().to_owned(),
        Some(sig) => match signatures::signatures(sig, &facts)?.and_then(|tokens| tokens.into_iter().next()) {
            Some(token) if token.len() <= TOKEN_BYTES_MAX => token.into_owned(),
            Some(_) => return Err(unreadable("the token is too long").into()),
            None if require == Require::IfPresent => return Ok(None),
            None => return Err(Refusal::MissingSignature { place: sig.place.describe() }.into()),
        },
    };
    let token = Token::parse(&token).ok_or_else(|| unreadable("the token is not three parts of base64url with JSON in the first two"))?;
    if token.algorithm() != rule.algorithm.name() {
        return Err(unreadable(&format!("the token must be signed with {}", rule.algorithm.name())).into());
    }
    verify_signature(verifier, rule, &token, key)?;
    check_claims(verifier, rule, &token.claims, now)?;
    check_body(rule, &token.claims, request)?;
    Ok(rule.place.is_none().then(|| token.payload.into()))
}

fn unreadable(reason: &str) -> Refusal {
    Refusal::UnreadableSignature { reason: reason.to_owned() }
}

/// A token in its parts.
struct Token<'t> {
    header: Map<String, Value>,
    claims: Map<String, Value>,
    payload: Vec<u8>,
    signed: &'t [u8],
    signature: Vec<u8>,
}

impl<'t> Token<'t> {
    fn parse(text: &'t str) -> Option<Self> {
        let (signed, signature) = text.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
        let header: Map<String, Value> = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        let claims = serde_json::from_slice(&payload).ok()?;
        // What must be understood and is not makes the token unreadable (RFC 7515).
        (!header.contains_key("crit")).then_some(())?;
        Some(Self { header, claims, payload, signed: signed.as_bytes(), signature: BASE64_URL_SAFE_NO_PAD.decode(signature).ok()? })
    }

    fn algorithm(&self) -> &str {
        self.header.get("alg").and_then(Value::as_str).unwrap_or("none")
    }
}

impl JwtAlgorithm {
    const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

fn verify_signature(verifier: &Verifier, rule: &JwtRule, token: &Token<'_>, key: Option<&FetchedKey>) -> Result<(), Stop> {
    let is_right = match (&rule.from, &verifier.keys) {
        (KeySource::Jwks { url }, _) => is_of_set(rule, url, token, key)?,
        (_, Keys::Hmac(keys)) => keys.iter().any(|key| hmac::verify(key, token.signed, &token.signature).is_ok()),
        (_, Keys::JwtPublic(keys)) => keys.iter().any(|key| key.verify_sig(token.signed, &token.signature).is_ok()),
        _ => false,
    };
    if is_right { Ok(()) } else { Err(Refusal::BadSignature.into()) }
}

/// Whether the key of the set that the token names made the signature.
fn is_of_set(rule: &JwtRule, url: &str, token: &Token<'_>, key: Option<&FetchedKey>) -> Result<bool, Stop> {
    let wanted = KeyRequest { url: url.to_owned(), answer: KeyAnswer::KeySet };
    let Some(key) = key.filter(|key| key.request == wanted) else { return Err(Stop::NeedsKey(wanted)) };
    let (FetchedKeys::Set(keys), Some(algorithm)) = (&key.keys, jwt_algorithm(rule.algorithm)) else { return Ok(false) };
    let id = token.header.get("kid").and_then(Value::as_str).ok_or_else(|| unreadable("the token does not name its key (`kid`)"))?;
    let mut named = keys.iter().filter(|key| key.id == id).peekable();
    if named.peek().is_none() {
        return Err(Refusal::UnreadableSignature {
            reason: "the key that the token names (`kid`) is not in the provider's set".to_owned(),
        }
        .into());
    }
    Ok(named.any(|key| UnparsedPublicKey::new(algorithm, &key.bytes).verify(token.signed, &token.signature).is_ok()))
}

fn check_claims(verifier: &Verifier, rule: &JwtRule, claims: &Map<String, Value>, now: Timestamp) -> Result<(), Refusal> {
    let bad = |claim: &str, reason: &str| Err(Refusal::BadClaim { claim: claim.to_owned(), reason: reason.to_owned() });
    let seconds = now.as_secs();
    match claims.get("exp").map(Value::as_i64) {
        Some(Some(exp)) if seconds > exp.saturating_add(LEEWAY_SECONDS) => return bad("exp", "is over"),
        Some(None) => return bad("exp", "is no whole number of seconds"),
        None if rule.must_expire => return bad("exp", "is missing"),
        _ => {}
    }
    match claims.get("nbf").map(Value::as_i64) {
        Some(Some(nbf)) if seconds < nbf.saturating_sub(LEEWAY_SECONDS) => return bad("nbf", "is in the future"),
        Some(None) => return bad("nbf", "is no whole number of seconds"),
        _ => {}
    }
    let text = |claim: &str| claims.get(claim).and_then(Value::as_str);
    if !rule.issuers.is_empty() && !text("iss").is_some_and(|iss| rule.issuers.iter().any(|issuer| issuer == iss)) {
        return bad("iss", "names another issuer");
    }
    let credentials = &verifier.credentials;
    let audience = credentials.audience.as_deref().or(credentials.public_url.as_deref());
    if rule.checks_audience && !audience.is_some_and(|audience| is_for(claims.get("aud"), audience)) {
        return bad("aud", "names another audience");
    }
    if rule.checks_email {
        if text("email").is_none() || text("email") != credentials.app_id.as_deref() {
            return bad("email", "names another account");
        }
        if claims.get("email_verified") != Some(&Value::Bool(true)) {
            return bad("email_verified", "is not true");
        }
    }
    Ok(())
}

/// One audience, or a list of them.
fn is_for(aud: Option<&Value>, audience: &str) -> bool {
    match aud {
        Some(Value::String(one)) => one == audience,
        Some(Value::Array(many)) => many.iter().any(|one| one.as_str() == Some(audience)),
        _ => false,
    }
}

fn check_body(rule: &JwtRule, claims: &Map<String, Value>, request: &InboundRequest<'_>) -> Result<(), Refusal> {
    let Some((claim, encoding)) = &rule.body_hash else { return Ok(()) };
    let bad = |reason: &str| Refusal::BadClaim { claim: claim.clone(), reason: reason.to_owned() };
    let given = claims.get(claim).and_then(Value::as_str).ok_or_else(|| bad("is missing"))?;
    let given = signatures::decode(*encoding, given).ok_or_else(|| bad("cannot be decoded"))?;
    let hash = digest::digest(&digest::SHA256, request.body);
    verify_slices_are_equal(hash.as_ref(), &given).map_err(|_| bad("is not the hash of the body"))
}
