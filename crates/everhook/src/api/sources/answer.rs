//! A source as clients read it.

use std::{collections::BTreeMap, sync::Arc};

use axum::extract::FromRequestParts;
use everhook_core::{
    manage::sources::{self, RevealedSource},
    model::{Dedupe, DedupeBy, KIND_CUSTOM, KIND_HMAC, ProcessorKind, Secret, Source, SourceActivity, SourceResponse},
    sources::{RefusedRequest, tolerance},
    time::Timestamp,
};
use http::{header, request::Parts};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::{Api, error::ApiError, uids::Uids};
use crate::{
    api::words::{DedupeByWord, HandshakeStatus, HmacAlgorithm, HmacEncoding, ProcessorWord, SourcePauseMode},
    config::units::show_duration,
};

/// A source.
#[derive(Serialize, ToSchema)]
pub struct SourceOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "uuid")]
    application_id: String,
    #[schema(required = true)]
    application_uid: Option<String>,
    name: String,
    /// One of `GET /v1/source-kinds`.
    kind: String,
    /// The URL to enter at the provider.
    url: String,
    /// The same by name; null except in the organization `default`.
    #[schema(required = true)]
    named_url: Option<String>,
    /// The fields of the recipe; null unless the kind is `custom`.
    #[schema(required = true)]
    recipe: Option<BTreeMap<String, String>>,
    /// The header of the signature; null unless the kind is `hmac`.
    #[schema(required = true)]
    header: Option<String>,
    /// Null unless the kind is `hmac`.
    #[schema(required = true, value_type = Option<HmacAlgorithm>)]
    algorithm: Option<String>,
    /// Null unless the kind is `hmac`.
    #[schema(required = true, value_type = Option<HmacEncoding>)]
    encoding: Option<String>,
    /// Null unless the kind is `hmac`.
    #[schema(required = true)]
    prefix: Option<String>,
    /// The number of secrets. `GET /v1/sources/{id}/secrets` shows them.
    secret_count: usize,
    /// Whether a verify token is set.
    has_verify_token: bool,
    #[schema(required = true)]
    subscription_id: Option<String>,
    #[schema(required = true)]
    app_id: Option<String>,
    #[schema(required = true)]
    audience: Option<String>,
    #[schema(required = true)]
    public_url: Option<String>,
    #[schema(required = true)]
    tolerance: Option<String>,
    /// The tolerance that applies: the one above, else that of the kind or recipe; null where the age of a request is not judged.
    #[schema(required = true)]
    effective_tolerance: Option<String>,
    ip_allowlist: Vec<String>,
    rate_limit: SourceRateLimitOut,
    #[schema(required = true)]
    dedupe: Option<DedupeOut>,
    forward: bool,
    /// The built-in code that handles its events; null if there is none.
    #[schema(value_type = Option<ProcessorWord>, required = true)]
    processor: Option<&'static str>,
    forward_headers: Vec<String>,
    keep_headers: Vec<String>,
    #[schema(required = true)]
    response: Option<SourceResponseOut>,
    paused: bool,
    /// Null unless it is paused.
    #[schema(required = true, value_type = Option<SourcePauseMode>)]
    paused_mode: Option<&'static str>,
    /// Null unless it is paused.
    #[schema(format = DateTime, required = true)]
    paused_at: Option<String>,
    handshake: HandshakeOut,
    /// When a request was last accepted, to the second.
    #[schema(format = DateTime, required = true)]
    last_accepted_at: Option<String>,
    /// When a request was last refused, to the second.
    #[schema(format = DateTime, required = true)]
    last_refused_at: Option<String>,
    /// Why, as a word such as `bad_signature`.
    #[schema(required = true)]
    last_refusal: Option<String>,
    /// The last requests that this node refused since it started, newest first, at most 10.
    recent_refusals: Vec<RefusedRequestOut>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// A request that was refused.
#[derive(Serialize, ToSchema)]
pub struct RefusedRequestOut {
    #[schema(format = DateTime)]
    at: String,
    /// Why, as a word such as `bad_signature`.
    reason: String,
    /// The network that it came from: the /24 of an IPv4 address, the /48 of an IPv6 address.
    #[schema(example = "192.0.2.0/24")]
    network: String,
    /// The length of its body, as its sender said; null if it did not.
    #[schema(required = true)]
    body_bytes: Option<u64>,
    /// The number of its headers.
    headers: u32,
    /// The length of their names and values.
    header_bytes: u64,
}

impl From<RefusedRequest> for RefusedRequestOut {
    fn from(RefusedRequest { at, reason, network, body_bytes, headers, header_bytes }: RefusedRequest) -> Self {
        Self { at: at.to_string(), reason, network: network.to_string(), body_bytes, headers, header_bytes }
    }
}

/// How many requests a source accepts in a minute.
#[derive(Serialize, ToSchema)]
pub struct SourceRateLimitOut {
    per_ip_per_minute: u32,
    #[schema(required = true)]
    per_user_per_minute: Option<u32>,
}

/// When an event is a duplicate.
#[derive(Serialize, ToSchema)]
pub struct DedupeOut {
    #[schema(value_type = DedupeByWord)]
    by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    /// For how long, with a unit: `1d`.
    window: String,
}

/// What is answered to an accepted request.
#[derive(Serialize, ToSchema)]
pub struct SourceResponseOut {
    status: u16,
    #[schema(required = true)]
    content_type: Option<String>,
    body: String,
}

/// The state of the handshake with the provider.
#[derive(Serialize, ToSchema)]
pub struct HandshakeOut {
    /// `awaiting` while the provider's key is accepted, `answered` once a handshake was answered, else `none`.
    #[schema(value_type = HandshakeStatus)]
    status: &'static str,
    /// Until when the provider's key is accepted; null unless it is awaited.
    #[schema(format = DateTime, required = true)]
    awaiting_until: Option<String>,
    #[schema(format = DateTime, required = true)]
    last_answered_at: Option<String>,
}

impl SourceOut {
    /// A source, with its latest activity.
    pub async fn read(api: &Api, base: &UrlBase, source: Source) -> Result<Self, ApiError> {
        let activity = sources::activity(&api.line, &[source.id]).await?.pop().unwrap_or_default();
        let uids = Uids::of_applications(api, source.organization, [source.application]).await?;
        let application_uid = uids.application(source.application);
        Ok(Self::new(api, base, source, activity, api.line.ports.clock.now()).of(application_uid))
    }

    /// The same with the uid of its application.
    pub fn of(self, application_uid: Option<String>) -> Self {
        Self { application_uid, ..self }
    }

    /// The same, where that is known, without the uid of its application.
    pub fn new(api: &Api, base: &UrlBase, source: Source, activity: SourceActivity, now: Timestamp) -> Self {
        let is_named = source.organization == api.default_organization;
        let handshake = HandshakeOut::new(&source, &activity, now);
        let effective_tolerance = tolerance(&source);
        let (mut fields, is_hmac) = (source.recipe, source.kind == KIND_HMAC);
        let mut hmac = |name: &str| if is_hmac { fields.remove(name) } else { None };
        let (header, algorithm, encoding, prefix) = (hmac("header"), hmac("algorithm"), hmac("encoding"), hmac("prefix"));
        Self {
            id: source.id.to_string(),
            application_id: source.application.to_string(),
            application_uid: None,
            url: format!("{}/in/{}", base.0, source.id),
            named_url: is_named.then(|| format!("{}/in/{}", base.0, source.name)),
            name: source.name.to_string(),
            recipe: (source.kind == KIND_CUSTOM).then_some(fields),
            kind: source.kind,
            header,
            algorithm,
            encoding,
            prefix,
            secret_count: source.secrets.len(),
            has_verify_token: source.verify_token.is_some(),
            subscription_id: source.subscription_id,
            app_id: source.app_id,
            audience: source.audience,
            public_url: source.public_url,
            tolerance: source.tolerance.map(show_duration),
            effective_tolerance: effective_tolerance.map(show_duration),
            ip_allowlist: source.ip_allowlist.iter().map(ToString::to_string).collect(),
            rate_limit: SourceRateLimitOut {
                per_ip_per_minute: source.rate_limit.per_ip_per_minute,
                per_user_per_minute: source.rate_limit.per_user_per_minute,
            },
            dedupe: source.dedupe.map(DedupeOut::from),
            forward: source.forward,
            processor: source.processor.map(ProcessorKind::as_str),
            forward_headers: source.forward_headers,
            keep_headers: source.keep_headers,
            response: source.response.map(|SourceResponse { status, content_type, body }| SourceResponseOut { status, content_type, body }),
            paused: source.paused.is_some(),
            paused_mode: source.paused.map(|pause| pause.mode.as_str()),
            paused_at: source.paused.map(|pause| pause.at.to_string()),
            handshake,
            last_accepted_at: activity.accepted_at.map(|at| at.to_string()),
            last_refused_at: activity.refused.as_ref().map(|(at, _)| at.to_string()),
            last_refusal: activity.refused.map(|(_, why)| why),
            recent_refusals: api.line.sources.refusals.of(source.id).into_iter().map(RefusedRequestOut::from).collect(),
            created_at: source.created_at.to_string(),
            updated_at: source.updated_at.to_string(),
        }
    }
}

/// The configuration of a source, as exported and imported.
#[derive(Serialize, ToSchema)]
pub struct SourceConfigOut {
    name: String,
    kind: String,
    #[schema(required = true)]
    recipe: Option<BTreeMap<String, String>>,
    #[schema(required = true)]
    header: Option<String>,
    #[schema(required = true, value_type = Option<HmacAlgorithm>)]
    algorithm: Option<String>,
    #[schema(required = true, value_type = Option<HmacEncoding>)]
    encoding: Option<String>,
    #[schema(required = true)]
    prefix: Option<String>,
    /// Only with `secrets=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    secrets: Option<Vec<String>>,
    /// Only with `secrets=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    verify_token: Option<String>,
    #[schema(required = true)]
    subscription_id: Option<String>,
    #[schema(required = true)]
    app_id: Option<String>,
    #[schema(required = true)]
    audience: Option<String>,
    #[schema(required = true)]
    public_url: Option<String>,
    #[schema(required = true)]
    tolerance: Option<String>,
    ip_allowlist: Vec<String>,
    rate_limit: SourceRateLimitOut,
    #[schema(required = true)]
    dedupe: Option<DedupeOut>,
    forward: bool,
    #[schema(value_type = Option<ProcessorWord>, required = true)]
    processor: Option<&'static str>,
    forward_headers: Vec<String>,
    keep_headers: Vec<String>,
    #[schema(required = true)]
    response: Option<SourceResponseOut>,
}

impl SourceConfigOut {
    /// A source, with its secrets if they are to be exported.
    pub fn new(api: &Api, source: Source, revealed: Option<RevealedSource>) -> Self {
        let exposed = |secret: &Secret<String>| secret.expose().clone();
        let (secrets, verify_token) = match &revealed {
            Some(revealed) => (Some(revealed.secrets.iter().map(exposed).collect()), revealed.verify_token.as_ref().map(exposed)),
            None => (None, None),
        };
        let out = SourceOut::new(api, &UrlBase(String::new()), source, SourceActivity::default(), Timestamp::EPOCH);
        Self {
            name: out.name,
            kind: out.kind,
            recipe: out.recipe,
            header: out.header,
            algorithm: out.algorithm,
            encoding: out.encoding,
            prefix: out.prefix,
            secrets,
            verify_token,
            subscription_id: out.subscription_id,
            app_id: out.app_id,
            audience: out.audience,
            public_url: out.public_url,
            tolerance: out.tolerance,
            ip_allowlist: out.ip_allowlist,
            rate_limit: out.rate_limit,
            dedupe: out.dedupe,
            forward: out.forward,
            processor: out.processor,
            forward_headers: out.forward_headers,
            keep_headers: out.keep_headers,
            response: out.response,
        }
    }
}

impl HandshakeOut {
    fn new(source: &Source, activity: &SourceActivity, now: Timestamp) -> Self {
        let awaiting = source.awaiting_handshake_until.filter(|_| source.is_awaiting_handshake(now));
        let status = match (awaiting, activity.handshake_at) {
            (Some(_), _) => "awaiting",
            (None, Some(_)) => "answered",
            (None, None) => "none",
        };
        let text = |at: Timestamp| at.to_string();
        Self { status, awaiting_until: awaiting.map(text), last_answered_at: activity.handshake_at.map(text) }
    }
}

impl From<Dedupe> for DedupeOut {
    fn from(dedupe: Dedupe) -> Self {
        let by = dedupe.by.as_str();
        let (header, pointer) = match dedupe.by {
            DedupeBy::Header(name) => (Some(name), None),
            DedupeBy::Pointer(pointer) => (None, Some(pointer)),
            DedupeBy::Id | DedupeBy::Body => (None, None),
        };
        Self { by, header, pointer, window: show_duration(dedupe.window) }
    }
}

/// What the URLs of sources begin with: the server's public URL, or else what the client itself called it by.
pub struct UrlBase(String);

impl FromRequestParts<Arc<Api>> for UrlBase {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, ApiError> {
        if let Some(url) = &api.public_url {
            return Ok(Self(url.clone()));
        }
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok()).filter(|host| is_host(host));
        Ok(Self(host.map_or_else(String::new, |host| format!("http://{host}"))))
    }
}

/// Whether it can be part of a URL. What a client sends about itself is returned to that client alone, and is still not trusted.
fn is_host(text: &str) -> bool {
    !text.is_empty() && text.len() <= 255 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::is_host;

    #[test]
    fn what_is_no_host_is_not_repeated() {
        for good in ["hooks.example.com", "localhost:8080", "[::1]:8080", "127.0.0.1"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["", "a/b", "a b", "user@host", "a?b", "a\"b", &"x".repeat(256)] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
