//! Handshakes: requests that prove the URL. They are answered at once, also while the store is away, and never stored.
//!
//! A handshake must match exactly, or the request is read as an event. What is repeated is at most 1 KiB of printable ASCII, as text that no browser takes for a
//! page. What is signed with the source's secret is limited to characters that no event can consist of: otherwise anyone could have us sign a forged event.

use std::borrow::Cow;

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest, hmac};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::{Verifier, keys::Keys};
use crate::{
    inbound::{
        Handshake, HandshakeEffect, InboundRequest, Refusal, Reply,
        document::{Plan, Pointer, Values},
        recipe::{Echo, EchoFrom, HandshakeRule, HmacStyle, PingStyle, PostEchoStyle},
        text::hex,
    },
    model::Secret,
};

/// How long a challenge may be.
const CHALLENGE_BYTES_MAX: usize = 1_024;
/// How long the body of a handshake may be: an event that is longer is not looked at.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// How long a secret must be that a handshake brings: a shorter one is nobody's key.
const CAPTURED_BYTES_MIN: usize = 16;
const CAPTURED_BYTES_MAX: usize = 512;

/// Answers a handshake that is not signed. `None`: the request is none.
pub(super) fn unsigned(verifier: &Verifier, request: &InboundRequest<'_>) -> Result<Option<Handshake>, Refusal> {
    for rule in &verifier.recipe.handshakes {
        let answered = match (rule, request.method) {
            (HandshakeRule::GetEcho { echo, from, token }, "GET") => get_echo(verifier, request, echo, from, token.as_deref())?,
            (HandshakeRule::GetHmac(style), "GET") => get_hmac(verifier, request, *style)?,
            (HandshakeRule::GetCompare { parameter }, "GET") => get_compare(verifier, request, parameter.as_deref())?,
            (HandshakeRule::HeadOk, "HEAD") => Some(reply(200)),
            (HandshakeRule::Options, "OPTIONS") => options(request)?,
            (HandshakeRule::PostEcho(style), "POST") => post_echo(request, *style)?,
            (HandshakeRule::PostHmacZoom, "POST") => zoom(verifier, request)?,
            (HandshakeRule::HeaderEcho, "POST") => return header_echo(request),
            (HandshakeRule::Capture { pointer }, "POST") => return capture(request, pointer),
            (HandshakeRule::Ping(PingStyle::Polar), "POST") => is_ping(request, "/event", "PING").then(|| reply(200)),
            (HandshakeRule::Ping(PingStyle::WooCommerce), "POST") => is_woocommerce(request.body).then(|| reply(200)),
            _ => None,
        };
        if let Some(reply) = answered {
            return Ok(Some(Handshake { reply, effect: None }));
        }
    }
    Ok(None)
}

/// Answers a handshake whose signature was right.
pub(super) fn signed(verifier: &Verifier, request: &InboundRequest<'_>, body: &Bytes) -> Result<Option<Handshake>, Refusal> {
    for rule in &verifier.recipe.handshakes {
        let answered = match rule {
            HandshakeRule::PostEcho(PostEchoStyle::Twitch) => twitch(request)?,
            HandshakeRule::PostEcho(PostEchoStyle::EventGrid) => event_grid(request)?,
            HandshakeRule::Ping(PingStyle::Discord) => is_ping(request, "/type", "1").then(|| json(&[("type", Value::from(1))])),
            HandshakeRule::VisitSns => match sns(body)? {
                Some(url) => return Ok(Some(Handshake { reply: reply(200), effect: Some(HandshakeEffect::Visit(url)) })),
                None => None,
            },
            _ => None,
        };
        if let Some(reply) = answered {
            return Ok(Some(Handshake { reply, effect: None }));
        }
    }
    Ok(None)
}

fn bad(reason: impl Into<String>) -> Refusal {
    Refusal::BadHandshake { reason: reason.into() }
}

fn get_echo(
    verifier: &Verifier,
    request: &InboundRequest<'_>,
    echo: &Echo,
    from: &EchoFrom,
    token: Option<&str>,
) -> Result<Option<Reply>, Refusal> {
    let value = match from {
        EchoFrom::Parameter(name) => request.parameter(name),
        EchoFrom::Header(name) => request.header(name).map_err(|fault| bad(fault.describe(name)))?.map(Cow::Borrowed),
    };
    let Some(value) = value else { return Ok(None) };
    if let Some(parameter) = token {
        check_verify_token(verifier, request, parameter)?;
    }
    let value = challenge(&value)?;
    Ok(Some(match echo {
        Echo::Text => text(value),
        Echo::Json { member } => json(&[(member, Value::from(value))]),
    }))
}

/// The request must repeat the source's verify token. A source without one answers nobody.
fn check_verify_token(verifier: &Verifier, request: &InboundRequest<'_>, parameter: &str) -> Result<(), Refusal> {
    let ours = verifier
        .credentials
        .verify_token
        .as_deref()
        .ok_or_else(|| bad("the source has no verify token; set the one that the provider was given"))?;
    let given = request.parameter(parameter).unwrap_or_default();
    if is_same(ours, &given) { Ok(()) } else { Err(bad(format!("`{parameter}` is not the source's verify token"))) }
}

fn is_same(one: &str, other: &str) -> bool {
    let hash = |text: &str| digest::digest(&digest::SHA256, text.as_bytes());
    verify_slices_are_equal(hash(one).as_ref(), hash(other).as_ref()).is_ok()
}

fn challenge(value: &str) -> Result<&str, Refusal> {
    let is_plain = (1..=CHALLENGE_BYTES_MAX).contains(&value.len()) && value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    if is_plain { Ok(value) } else { Err(bad(format!("the challenge is not 1 to {CHALLENGE_BYTES_MAX} bytes of printable ASCII"))) }
}

/// A challenge that is signed with our secret: letters, digits and what a token is made of. No JSON, no form and no `v0:…` can be written with these.
fn signable(value: &str) -> Result<&str, Refusal> {
    /// X's tokens have some 50.
    const LENGTH_MAX: usize = 128;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let unpadded = value.trim_end_matches('=');
    let is_plain = (1..=LENGTH_MAX).contains(&value.len()) && unpadded.bytes().all(|byte| is_token(byte) || matches!(byte, b'+' | b'/'));
    if is_plain && !unpadded.is_empty() {
        Ok(value)
    } else {
        Err(bad(format!("the challenge is not 1 to {LENGTH_MAX} letters, digits and signs of base64")))
    }
}

fn hmac_of(verifier: &Verifier, text: &str) -> Result<hmac::Tag, Refusal> {
    match &verifier.keys {
        Keys::Hmac(keys) => keys.first().map(|key| hmac::sign(key, text.as_bytes())),
        _ => None,
    }
    .ok_or(Refusal::NoSecret)
}

fn get_hmac(verifier: &Verifier, request: &InboundRequest<'_>, style: HmacStyle) -> Result<Option<Reply>, Refusal> {
    let parameter = match style {
        HmacStyle::X => "crc_token",
        HmacStyle::LinkedIn => "challengeCode",
        HmacStyle::Ebay => "challenge_code",
        HmacStyle::Braintree => "bt_challenge",
    };
    let Some(value) = request.parameter(parameter) else { return Ok(None) };
    let value = signable(&value)?;
    Ok(Some(match style {
        HmacStyle::X => json(&[("response_token", format!("sha256={}", BASE64_STANDARD.encode(hmac_of(verifier, value)?)).into())]),
        HmacStyle::LinkedIn => {
            json(&[("challengeCode", value.into()), ("challengeResponse", hex(hmac_of(verifier, value)?.as_ref()).into())])
        }
        HmacStyle::Ebay => {
            let token = verifier.credentials.verify_token.as_deref().ok_or_else(|| bad("the source has no verify token"))?;
            let url = verifier.credentials.public_url.as_deref().ok_or_else(|| bad("the source has no public URL"))?;
            let hash = digest::digest(&digest::SHA256, [value, token, url].concat().as_bytes());
            json(&[("challengeResponse", hex(hash.as_ref()).into())])
        }
        HmacStyle::Braintree => {
            let is_challenge = (20..=32).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_hexdigit());
            let public = verifier.credentials.app_id.as_deref().ok_or_else(|| bad("the source has no app id; set the public key"))?;
            if !is_challenge {
                return Err(bad("`bt_challenge` is not 20 to 32 hexadecimal digits"));
            }
            text(&format!("{public}|{}", hex(hmac_of(verifier, value)?.as_ref())))
        }
    }))
}

fn get_compare(verifier: &Verifier, request: &InboundRequest<'_>, parameter: Option<&str>) -> Result<Option<Reply>, Refusal> {
    let Some(name) = parameter else { return Ok(Some(reply(200))) };
    let Some(given) = request.parameter(name) else { return Ok(None) };
    let is_ours = verifier.credentials.verify_token.as_deref().is_some_and(|ours| is_same(ours, &given));
    Ok(Some(reply(if is_ours { 204 } else { 404 })))
}

/// How many requests a minute a sender may make: what one address may send to a source.
const ALLOWED_RATE: &str = "1000";

fn options(request: &InboundRequest<'_>) -> Result<Option<Reply>, Refusal> {
    const NAME: &str = "webhook-request-origin";
    let Some(origin) = request.header(NAME).map_err(|fault| bad(fault.describe(NAME)))? else { return Ok(None) };
    let headers = [("webhook-allowed-origin", challenge(origin)?), ("webhook-allowed-rate", ALLOWED_RATE), ("allow", "POST")];
    Ok(Some(Reply { headers: headers.map(|(name, value)| (name, value.to_owned())).to_vec(), ..reply(200) }))
}

/// Values of a short JSON body. `None`: the body is too long, or no JSON object.
fn values<'r>(body: &'r Bytes, plan: &Plan) -> Option<Values<'r>> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= BODY_BYTES_MAX && text.trim_ascii_start().starts_with('{'))?;
    Values::read(text, plan).ok()
}

/// The members of a short JSON object.
fn object(body: &Bytes) -> Option<Map<String, Value>> {
    (body.len() <= BODY_BYTES_MAX).then(|| serde_json::from_slice(body).ok()).flatten()
}

fn member<'m>(object: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    object.get(name).and_then(Value::as_str)
}

/// Whether the bytes hold this word: a body without it is not read twice.
fn mentions(body: &Bytes, word: &str) -> bool {
    // A member may have an empty name, and there are no windows of nothing.
    body.len() <= BODY_BYTES_MAX && (word.is_empty() || body.windows(word.len()).any(|window| window == word.as_bytes()))
}

fn post_echo(request: &InboundRequest<'_>, style: PostEchoStyle) -> Result<Option<Reply>, Refusal> {
    Ok(match style {
        PostEchoStyle::Slack if mentions(request.body, "url_verification") => {
            let Some(object) = object(request.body).filter(|object| member(object, "type") == Some("url_verification")) else {
                return Ok(None);
            };
            Some(text(challenge(member(&object, "challenge").unwrap_or(""))?))
        }
        PostEchoStyle::Monday if mentions(request.body, "challenge") => {
            let Some(object) = object(request.body).filter(|object| object.len() == 1) else { return Ok(None) };
            let Some(value) = member(&object, "challenge") else { return Ok(None) };
            Some(json(&[("challenge", challenge(value)?.into())]))
        }
        PostEchoStyle::MsGraph => match request.parameter("validationToken") {
            Some(value) => Some(text(challenge(&value)?)),
            None => None,
        },
        _ => None,
    })
}

/// The token is signed with the secret that signs events, as `v0:time:body`: it must not have a colon.
fn zoom(verifier: &Verifier, request: &InboundRequest<'_>) -> Result<Option<Reply>, Refusal> {
    const EVENT: &str = "endpoint.url_validation";
    if !mentions(request.body, EVENT) {
        return Ok(None);
    }
    let Some(object) = object(request.body).filter(|object| member(object, "event") == Some(EVENT)) else { return Ok(None) };
    let token = object.get("payload").and_then(|payload| payload.get("plainToken")).and_then(Value::as_str);
    let token = signable(token.unwrap_or(""))?;
    Ok(Some(json(&[("encryptedToken", hex(hmac_of(verifier, token)?.as_ref()).into()), ("plainToken", token.into())])))
}

fn twitch(request: &InboundRequest<'_>) -> Result<Option<Reply>, Refusal> {
    if request.header("twitch-eventsub-message-type").ok().flatten() != Some("webhook_callback_verification") {
        return Ok(None);
    }
    let Some(object) = object(request.body) else { return Ok(None) };
    Ok(Some(text(challenge(member(&object, "challenge").unwrap_or(""))?)))
}

fn event_grid(request: &InboundRequest<'_>) -> Result<Option<Reply>, Refusal> {
    if request.header("aeg-event-type").ok().flatten() != Some("SubscriptionValidation") || request.body.len() > BODY_BYTES_MAX {
        return Ok(None);
    }
    let events: Value = serde_json::from_slice(request.body).unwrap_or_default();
    let code = events.pointer("/0/data/validationCode").and_then(Value::as_str);
    Ok(Some(json(&[("validationResponse", challenge(code.unwrap_or(""))?.into())])))
}

/// The header becomes the secret, while a person waits for it.
fn header_echo(request: &InboundRequest<'_>) -> Result<Option<Handshake>, Refusal> {
    const NAME: &str = "x-hook-secret";
    let Some(value) = request.header(NAME).map_err(|fault| bad(fault.describe(NAME)))? else { return Ok(None) };
    let secret = captured(request, value)?;
    let reply = Reply { headers: vec![(NAME, value.to_owned())], ..reply(200) };
    Ok(Some(Handshake { reply, effect: Some(HandshakeEffect::Capture(secret)) }))
}

fn capture(request: &InboundRequest<'_>, pointer: &Pointer) -> Result<Option<Handshake>, Refusal> {
    // An event may have a member of this name beside others.
    if !mentions(request.body, pointer.last()) || object(request.body).is_none_or(|object| object.len() != 1) {
        return Ok(None);
    }
    let mut plan = Plan::default();
    let slot = plan.add(pointer);
    let Some(value) = values(request.body, &plan).and_then(|values| values.text(slot)) else { return Ok(None) };
    let secret = captured(request, &value)?;
    Ok(Some(Handshake { reply: reply(200), effect: Some(HandshakeEffect::Capture(secret)) }))
}

fn captured(request: &InboundRequest<'_>, value: &str) -> Result<Secret<String>, Refusal> {
    if !request.awaiting_handshake {
        return Err(bad(
            "the source does not await a handshake: call `POST …/await-handshake`, and have the provider send its request again",
        ));
    }
    let is_secret = (CAPTURED_BYTES_MIN..=CAPTURED_BYTES_MAX).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_graphic());
    if is_secret {
        Ok(Secret::new(value.to_owned()))
    } else {
        Err(bad(format!("the secret is not {CAPTURED_BYTES_MIN} to {CAPTURED_BYTES_MAX} bytes of printable ASCII")))
    }
}

fn is_ping(request: &InboundRequest<'_>, pointer: &str, wanted: &str) -> bool {
    let Some(pointer) = Pointer::parse(pointer).filter(|pointer| mentions(request.body, pointer.last())) else { return false };
    let mut plan = Plan::default();
    let slot = plan.add(&pointer);
    values(request.body, &plan).and_then(|values| values.text(slot)).as_deref() == Some(wanted)
}

/// `webhook_id=17`, and nothing else.
fn is_woocommerce(body: &Bytes) -> bool {
    let digits = body.strip_prefix(b"webhook_id=").unwrap_or(&[]);
    (1..=20).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit)
}

/// The URL that confirms a subscription. Only SNS itself may be asked.
fn sns(body: &Bytes) -> Result<Option<String>, Refusal> {
    let Some(object) = object(body).filter(|object| member(object, "Type") == Some("SubscriptionConfirmation")) else { return Ok(None) };
    let url = member(&object, "SubscribeURL").unwrap_or("");
    let hosts = SNS_HOSTS.map(str::to_owned);
    crate::inbound::fetched::allowed_url(url, &hosts).map(Some).map_err(|_| bad("`SubscribeURL` is not plain https on a host of SNS"))
}

const SNS_HOSTS: [&str; 2] = ["sns.{region}.amazonaws.com", "sns.{region}.amazonaws.com.cn"];

fn reply(status: u16) -> Reply {
    Reply { status, headers: Vec::new(), body: Vec::new() }
}

fn typed(content_type: &str, body: Vec<u8>) -> Reply {
    let headers = vec![("content-type", content_type.to_owned()), ("x-content-type-options", "nosniff".to_owned())];
    Reply { status: 200, headers, body }
}

fn text(value: &str) -> Reply {
    typed("text/plain; charset=utf-8", value.as_bytes().to_vec())
}

fn json(members: &[(&str, Value)]) -> Reply {
    let object: Map<String, Value> = members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    typed("application/json", Value::Object(object).to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_without_a_name_is_looked_for_without_a_panic() {
        let body = Bytes::from_static(br#"{"":"key"}"#);
        assert!(mentions(&body, "") && mentions(&body, "key") && !mentions(&body, "other"));
    }
}
