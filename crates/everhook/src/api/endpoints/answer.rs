//! An endpoint as clients see it.

use std::collections::BTreeMap;

use everhook_core::{
    manage::{
        endpoints::{Revealed, activity, key_kind},
        schedules::INLINE_NAME,
    },
    model::{Backoff, Endpoint, EndpointActivity, EndpointState, RetrySchedule, Scopes, SigningKey, Strategy},
    policy::{presets, timeout::attempt_timeout},
    time::millis,
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    super::{
        Api,
        error::ApiError,
        schedules::EndpointScheduleOut,
        uids::Uids,
        wire::{as_object, shown_headers},
    },
    flow::{BreakerOut, RateLimitOut},
};
use crate::api::words::{DisabledReason, OrderingWord, PayloadStyleWord, SignatureKeyWord, SignatureStyleWord};

/// A URL that receives events.
#[derive(Serialize, ToSchema)]
pub struct EndpointOut {
    #[schema(format = "uuid")]
    id: String,
    #[schema(format = "uuid")]
    application_id: String,
    #[schema(required = true)]
    application_uid: Option<String>,
    #[schema(required = true)]
    uid: Option<String>,
    #[schema(required = true)]
    name: Option<String>,
    #[schema(required = true)]
    description: Option<String>,
    url: String,
    /// Whether a new URL must return a signed challenge.
    verify_url: bool,
    event_types: Vec<String>,
    /// The labels that an event must have.
    labels: BTreeMap<String, String>,
    /// The condition on an event's data.
    #[schema(value_type = Option<Object>, required = true)]
    filter: Option<Box<RawValue>>,
    /// Shown only at creation; later use `GET …/secret`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Custom headers of every request. Their values, which may be credentials, are shown to keys with the scope `manage`; others see
    /// `***`.
    #[serde(serialize_with = "as_object")]
    #[schema(value_type = BTreeMap<String, String>)]
    headers: Vec<(String, String)>,
    #[schema(value_type = Option<Object>, required = true)]
    metadata: Option<Box<RawValue>>,
    /// The name of its retry schedule, or the schedule of its own; null if it uses `retry_config`.
    #[schema(required = true)]
    retry_schedule: Option<EndpointScheduleOut>,
    /// The id of its retry schedule. Presets have ids, too.
    #[schema(format = "uuid", required = true)]
    retry_schedule_id: Option<String>,
    #[schema(required = true)]
    retry_config: Option<RetryConfigOut>,
    #[schema(required = true)]
    timeout_ms: Option<u64>,
    /// How long the first attempt may take: `timeout_ms`, else the timeout of the retry schedule, else 15,000.
    effective_timeout_ms: u64,
    timeout_growth_factor: f64,
    max_concurrency: u32,
    /// The rate limit; null if none is set.
    #[schema(required = true)]
    rate_limit: Option<RateLimitOut>,
    /// `rate_limit`, else that of the server's `profile`; null if there is none.
    #[schema(required = true)]
    effective_rate_limit: Option<RateLimitOut>,
    circuit_breaker: BreakerOut,
    /// The order of deliveries: `none`, `per_event_type`, `per_key` or `strict`.
    #[schema(value_type = OrderingWord)]
    ordering: &'static str,
    #[schema(value_type = SignatureStyleWord)]
    signature_style: &'static str,
    /// `hmac` or `ed25519`.
    #[schema(value_type = SignatureKeyWord)]
    signature_key: &'static str,
    #[schema(value_type = PayloadStyleWord)]
    payload_style: &'static str,
    enabled: bool,
    /// Why it is disabled: `by_owner`, `gone` after a `410 Gone`, or `failing` after days without a success.
    #[schema(value_type = Option<DisabledReason>, required = true)]
    disabled_reason: Option<&'static str>,
    #[schema(format = DateTime, required = true)]
    disabled_at: Option<String>,
    /// Whether delivery is paused.
    paused: bool,
    #[schema(format = DateTime, required = true)]
    paused_at: Option<String>,
    /// When an attempt last succeeded. Updated once a second.
    #[schema(format = DateTime, required = true)]
    last_success_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// A retry schedule of a single endpoint.
#[derive(Serialize, ToSchema)]
pub struct RetryConfigOut {
    max_attempts: u32,
    base_delay_ms: u64,
    max_delay_ms: u64,
    backoff_multiplier: f64,
    #[schema(required = true)]
    timeout_ms: Option<u64>,
}

/// The secret that signs an endpoint's requests.
#[derive(Serialize, ToSchema)]
pub struct SecretOut {
    /// The current secret.
    secret: String,
    /// The public key for verification, if the secret is an Ed25519 key.
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    /// The previous secret, during the grace period of a rotation.
    #[schema(required = true)]
    previous: Option<PreviousSecretOut>,
}

/// The secret that was replaced.
#[derive(Serialize, ToSchema)]
pub struct PreviousSecretOut {
    secret: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    /// When it stops signing.
    #[schema(format = DateTime)]
    expires_at: String,
}

impl EndpointOut {
    /// Renders an endpoint for a caller with these scopes, without its secret.
    pub async fn new(api: &Api, endpoint: Endpoint, scopes: Scopes) -> Result<Self, ApiError> {
        let activity = activity(&api.line, endpoint.id).await?;
        let uids = Uids::of_applications(api, endpoint.organization, [endpoint.application]).await?;
        let application_uid = uids.application(endpoint.application);
        Ok(Self { application_uid, ..Self::render(api, endpoint, &activity, scopes).await? })
    }

    /// Renders what is set of an endpoint: nothing is read that happens there.
    pub async fn settings(api: &Api, endpoint: Endpoint, scopes: Scopes) -> Result<Self, ApiError> {
        Self::render(api, endpoint, &EndpointActivity::default(), scopes).await
    }

    /// The same for many.
    pub async fn all(api: &Api, endpoints: Vec<Endpoint>, scopes: Scopes) -> Result<Vec<Self>, ApiError> {
        let ids = endpoints.iter().map(|endpoint| endpoint.id.into()).collect();
        let activities = api.line.ports.statistics.activities(ids).await?;
        let Some(organization) = endpoints.first().map(|endpoint| endpoint.organization) else { return Ok(Vec::new()) };
        let uids = Uids::of_applications(api, organization, endpoints.iter().map(|endpoint| endpoint.application)).await?;
        let mut out = Vec::with_capacity(endpoints.len());
        for (endpoint, activity) in endpoints.into_iter().zip(&activities) {
            let application_uid = uids.application(endpoint.application);
            out.push(Self { application_uid, ..Self::render(api, endpoint, activity, scopes).await? });
        }
        Ok(out)
    }

    async fn render(api: &Api, endpoint: Endpoint, activity: &EndpointActivity, scopes: Scopes) -> Result<Self, ApiError> {
        let schedule = api.line.catalog.schedule(endpoint.organization, endpoint.retry_schedule).await?;
        // The name in the version is enough to know: no schedule of an organization can have a preset's.
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
            application_uid: None,
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
            retry_schedule: shown_schedule(schedule_id.is_some(), &schedule),
            retry_schedule_id: schedule_id.map(|id| id.to_string()),
            retry_config: if schedule_id.is_some() || schedule.name.0 == INLINE_NAME { None } else { retry_config(&schedule) },
            timeout_ms: endpoint.timeout.map(millis),
            effective_timeout_ms: millis(attempt_timeout(endpoint.timeout, schedule.timeout, endpoint.timeout_growth_factor, 1)),
            timeout_growth_factor: endpoint.timeout_growth_factor,
            max_concurrency: endpoint.max_concurrency,
            rate_limit: endpoint.rate_limit.map(RateLimitOut::from),
            effective_rate_limit: endpoint.rate_limit.or(api.line.catalog.profile().rate_limit).map(RateLimitOut::from),
            circuit_breaker: endpoint.breaker.into(),
            ordering: endpoint.ordering.mode.as_str(),
            signature_style: endpoint.signature_style.as_str(),
            payload_style: endpoint.payload_style.as_str(),
            enabled: endpoint.state == EndpointState::Enabled,
            disabled_reason,
            disabled_at,
            paused: endpoint.paused_at.is_some(),
            paused_at: endpoint.paused_at.map(|at| at.to_string()),
            last_success_at: activity.last_success_at.map(|at| at.to_string()),
            created_at: endpoint.created_at.to_string(),
            updated_at: endpoint.updated_at.to_string(),
        })
    }
}

/// The configuration of an endpoint, as exported and imported.
#[derive(Serialize, ToSchema)]
pub struct EndpointConfigOut {
    #[schema(required = true)]
    uid: Option<String>,
    #[schema(required = true)]
    name: Option<String>,
    #[schema(required = true)]
    description: Option<String>,
    url: String,
    verify_url: bool,
    event_types: Vec<String>,
    labels: BTreeMap<String, String>,
    #[schema(value_type = Option<Object>, required = true)]
    filter: Option<Box<RawValue>>,
    /// Only with `secrets=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    #[serde(serialize_with = "as_object")]
    #[schema(value_type = BTreeMap<String, String>)]
    headers: Vec<(String, String)>,
    #[schema(value_type = Option<Object>, required = true)]
    metadata: Option<Box<RawValue>>,
    #[schema(required = true)]
    retry_schedule: Option<EndpointScheduleOut>,
    #[schema(required = true)]
    retry_config: Option<RetryConfigOut>,
    #[schema(required = true)]
    timeout_ms: Option<u64>,
    timeout_growth_factor: f64,
    max_concurrency: u32,
    #[schema(required = true)]
    rate_limit: Option<RateLimitOut>,
    circuit_breaker: BreakerOut,
    #[schema(value_type = OrderingWord)]
    ordering: &'static str,
    #[schema(value_type = SignatureStyleWord)]
    signature_style: &'static str,
    #[schema(value_type = SignatureKeyWord)]
    signature_key: &'static str,
    #[schema(value_type = PayloadStyleWord)]
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

fn shown_schedule(is_named: bool, schedule: &RetrySchedule) -> Option<EndpointScheduleOut> {
    match is_named {
        true => Some(EndpointScheduleOut::Name(schedule.name.0.clone())),
        false if schedule.name.0 == INLINE_NAME => Some(EndpointScheduleOut::Inline(schedule.into())),
        false => None,
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
