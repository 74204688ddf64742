//! An endpoint as clients see it.

use std::collections::BTreeMap;

use everhook_core::{
    manage::endpoints::{Revealed, key_kind, standing},
    model::{Backoff, Endpoint, EndpointStanding, EndpointState, RetrySchedule, Scopes, SigningKey, Strategy},
    policy::presets,
    time::millis,
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    super::{
        Api,
        error::ApiError,
        wire::{as_object, shown_headers},
    },
    flow::{BreakerOut, RateLimitOut},
};

/// A URL that gets events.
#[derive(Serialize, ToSchema)]
pub struct EndpointOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "uuid")]
    application_id: String,
    uid: Option<String>,
    name: Option<String>,
    description: Option<String>,
    url: String,
    /// Whether a new URL must return a signed challenge.
    verify_url: bool,
    event_types: Vec<String>,
    /// The labels that an event must have for it.
    labels: BTreeMap<String, String>,
    /// What an event's data must say for it.
    #[schema(value_type = Option<Object>)]
    filter: Option<Box<RawValue>>,
    /// Shown at creation; later by `GET …/secret`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Added to every request. Names are shown to all; values, which may be credentials, to keys that may manage, and as `***` to others.
    #[serde(serialize_with = "as_object")]
    #[schema(value_type = BTreeMap<String, String>)]
    headers: Vec<(String, String)>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
    /// The name of its retry schedule; null if it has numbers of its own.
    retry_schedule: Option<String>,
    /// The schedule's id; a preset has one, too.
    #[schema(format = "uuid")]
    retry_schedule_id: Option<String>,
    retry_config: Option<RetryConfigOut>,
    timeout_ms: Option<u64>,
    timeout_growth_factor: f64,
    max_concurrency: u32,
    /// Null if there is no limit.
    rate_limit: Option<RateLimitOut>,
    circuit_breaker: BreakerOut,
    /// Which deliveries go one after the other: `none`, `per_event_type` or `strict`.
    ordering: &'static str,
    signature_style: &'static str,
    /// `hmac` or `ed25519`.
    signature_key: &'static str,
    payload_style: &'static str,
    enabled: bool,
    /// Who disabled it: `by_owner`, or `gone` after a `410 Gone`.
    disabled_reason: Option<&'static str>,
    #[schema(format = DateTime)]
    disabled_at: Option<String>,
    /// Whether nothing is sent to it for now, though its deliveries are made.
    paused: bool,
    #[schema(format = DateTime)]
    paused_at: Option<String>,
    /// When an attempt last succeeded, as far as it was added up: that takes a second.
    #[schema(format = DateTime)]
    last_success_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// A retry schedule with numbers of its own.
#[derive(Serialize, ToSchema)]
pub struct RetryConfigOut {
    max_attempts: u32,
    base_delay_ms: u64,
    max_delay_ms: u64,
    backoff_multiplier: f64,
    timeout_ms: Option<u64>,
}

/// What signs an endpoint's requests.
#[derive(Serialize, ToSchema)]
pub struct SecretOut {
    /// Signs from now on.
    secret: String,
    /// What a receiver needs to verify, if that is not the secret itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    /// Signs beside it while a rotation's grace lasts.
    previous: Option<PreviousSecretOut>,
}

/// The secret that was replaced.
#[derive(Serialize, ToSchema)]
pub struct PreviousSecretOut {
    secret: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    /// When it stops to sign.
    #[schema(format = DateTime)]
    expires_at: String,
}

impl EndpointOut {
    /// Renders an endpoint for a caller with these scopes, without its secret.
    pub async fn new(api: &Api, endpoint: Endpoint, scopes: Scopes) -> Result<Self, ApiError> {
        let standing = standing(&api.line, endpoint.id).await?;
        Self::render(api, endpoint, &standing, scopes).await
    }

    /// The same for many.
    pub async fn all(api: &Api, endpoints: Vec<Endpoint>, scopes: Scopes) -> Result<Vec<Self>, ApiError> {
        let ids = endpoints.iter().map(|endpoint| endpoint.id).collect();
        let standings = api.line.ports.statistics.standings(ids).await?;
        let mut out = Vec::with_capacity(endpoints.len());
        for (endpoint, standing) in endpoints.into_iter().zip(&standings) {
            out.push(Self::render(api, endpoint, standing, scopes).await?);
        }
        Ok(out)
    }

    async fn render(api: &Api, endpoint: Endpoint, standing: &EndpointStanding, scopes: Scopes) -> Result<Self, ApiError> {
        let schedule = api.line.catalog.schedule(endpoint.retry_schedule).await?;
        // The name in the version is enough to tell: no schedule of an organization can have a preset's.
        let schedule_id = endpoint.follows.or_else(|| presets::id(&schedule.name.0));
        let (disabled_at, disabled_reason) = match endpoint.state {
            EndpointState::Enabled => (None, None),
            EndpointState::Disabled { at, reason } => (Some(at.to_string()), Some(reason.as_str())),
            EndpointState::Deleted { at } => (Some(at.to_string()), None),
        };
        Ok(Self {
            signature_key: key_kind(&api.line, &endpoint)?,
            id: endpoint.id.to_string(),
            application_id: endpoint.application.to_string(),
            uid: endpoint.uid.map(|uid| uid.to_string()),
            name: endpoint.name,
            description: endpoint.description,
            url: endpoint.target.written,
            verify_url: endpoint.verify_url,
            event_types: endpoint.event_types.iter().map(ToString::to_string).collect(),
            labels: endpoint.labels,
            filter: endpoint.filter.and_then(|text| RawValue::from_string(text).ok()),
            secret: None,
            headers: shown_headers(endpoint.headers, scopes),
            metadata: endpoint.metadata.and_then(|text| RawValue::from_string(text).ok()),
            retry_schedule: schedule_id.map(|_| schedule.name.0.clone()),
            retry_schedule_id: schedule_id.map(|id| id.to_string()),
            retry_config: if schedule_id.is_some() { None } else { retry_config(&schedule) },
            timeout_ms: endpoint.timeout.map(millis),
            timeout_growth_factor: endpoint.timeout_growth_factor,
            max_concurrency: endpoint.max_concurrency,
            rate_limit: endpoint.rate_limit.map(RateLimitOut::from),
            circuit_breaker: endpoint.breaker.into(),
            ordering: endpoint.ordering.mode.as_str(),
            signature_style: endpoint.signature_style.as_str(),
            payload_style: endpoint.payload_style.as_str(),
            enabled: endpoint.state == EndpointState::Enabled,
            disabled_reason,
            disabled_at,
            paused: endpoint.paused_at.is_some(),
            paused_at: endpoint.paused_at.map(|at| at.to_string()),
            last_success_at: standing.last_success_at.map(|at| at.to_string()),
            created_at: endpoint.created_at.to_string(),
            updated_at: endpoint.updated_at.to_string(),
        })
    }
}

/// An endpoint's configuration: what can be written back, and nothing that belongs to this server or this moment.
#[derive(Serialize, ToSchema)]
pub struct EndpointConfigOut {
    uid: Option<String>,
    name: Option<String>,
    description: Option<String>,
    url: String,
    verify_url: bool,
    event_types: Vec<String>,
    labels: BTreeMap<String, String>,
    #[schema(value_type = Option<Object>)]
    filter: Option<Box<RawValue>>,
    /// Only if secrets are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    #[serde(serialize_with = "as_object")]
    #[schema(value_type = BTreeMap<String, String>)]
    headers: Vec<(String, String)>,
    #[schema(value_type = Option<Object>)]
    metadata: Option<Box<RawValue>>,
    retry_schedule: Option<String>,
    retry_config: Option<RetryConfigOut>,
    timeout_ms: Option<u64>,
    timeout_growth_factor: f64,
    max_concurrency: u32,
    rate_limit: Option<RateLimitOut>,
    circuit_breaker: BreakerOut,
    ordering: &'static str,
    signature_style: &'static str,
    signature_key: &'static str,
    payload_style: &'static str,
    enabled: bool,
}

impl From<EndpointOut> for EndpointConfigOut {
    fn from(out: EndpointOut) -> Self {
        Self {
            uid: out.uid,
            name: out.name,
            description: out.description,
            url: out.url,
            verify_url: out.verify_url,
            event_types: out.event_types,
            labels: out.labels,
            filter: out.filter,
            secret: out.secret,
            headers: out.headers,
            metadata: out.metadata,
            retry_schedule: out.retry_schedule,
            retry_config: out.retry_config,
            timeout_ms: out.timeout_ms,
            timeout_growth_factor: out.timeout_growth_factor,
            max_concurrency: out.max_concurrency,
            rate_limit: out.rate_limit,
            circuit_breaker: out.circuit_breaker,
            ordering: out.ordering,
            signature_style: out.signature_style,
            signature_key: out.signature_key,
            payload_style: out.payload_style,
            enabled: out.enabled,
        }
    }
}

impl From<Revealed> for SecretOut {
    fn from(revealed: Revealed) -> Self {
        let text = |key: &SigningKey| key.text().expose().clone();
        Self {
            secret: text(&revealed.current),
            public_key: revealed.current.public_text(),
            previous: revealed.previous.map(|(key, until)| PreviousSecretOut {
                secret: text(&key),
                public_key: key.public_text(),
                expires_at: until.to_string(),
            }),
        }
    }
}

fn retry_config(schedule: &RetrySchedule) -> Option<RetryConfigOut> {
    match &schedule.strategy {
        Strategy::Exponential(Backoff::Growing { base, multiplier, max }) => Some(RetryConfigOut {
            max_attempts: schedule.max_attempts,
            base_delay_ms: millis(*base),
            max_delay_ms: millis(*max),
            backoff_multiplier: *multiplier,
            timeout_ms: schedule.timeout.map(millis),
        }),
        _ => None,
    }
}
