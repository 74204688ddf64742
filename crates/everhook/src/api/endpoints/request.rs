//! An endpoint as clients write it. The spellings of other platforms are understood; ours are used in answers.

use std::time::Duration;

use everhook_core::{
    manage::{
        Change, Fault,
        endpoints::{EndpointChange, NewEndpoint, Rotation},
    },
    model::Secret,
    policy::{labels::Labels, presets::RetryConfig},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{
    super::{
        body::check_depth,
        creation::{Creates, New},
        error::ApiError,
        schedules::{EndpointScheduleIn, EndpointScheduleOut},
        wire::{Field, Object, Texts},
    },
    flow::{BreakerIn, RateLimitIn},
};
use crate::api::words::{OrderingWord, PayloadStyleWord, SignatureKeyWord, SignatureStyleWord};

/// How long the old secret signs beside the new one by default: a day.
const GRACE_SECONDS_DEFAULT: i64 = 86_400;

/// An endpoint. An update needs only the changed fields; null resets a field to its default.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"url": "https://shop.example/webhooks", "event_types": ["order.*"], "uid": "shop", "name": "Shop", "retry_schedule": "standard"}))]
pub struct EndpointIn {
    /// The URL that receives events. Required at creation.
    #[serde(default)]
    #[schema(value_type = String, required = false, example = "https://shop.example/webhooks")]
    url: Field<String>,
    /// Whether the URL must return a challenge before it is accepted, at creation and at every change of the URL.
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    verify_url: Field<bool>,
    /// The events it receives: types, prefixes (`order.*`) or `*`. Required at creation. Alias: `events`.
    #[serde(default, alias = "events")]
    #[schema(value_type = Vec<String>, required = false, example = json!(["order.*"]))]
    event_types: Field<Vec<String>>,
    /// The labels that an event must have, all of them: at most 16.
    #[serde(default)]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>, example = json!({"region": "eu"}))]
    labels: Field<Texts>,
    /// With `label_value`: a single label.
    #[serde(default)]
    label_key: Option<String>,
    /// With `label_key`: a single label.
    #[serde(default)]
    label_value: Option<String>,
    /// A condition on an event's data, in the language of docs/filters.md.
    #[serde(default)]
    #[schema(value_type = Option<Object>, example = json!({"data.amount": {"gte": 100}}))]
    filter: Field<Box<RawValue>>,
    /// A name for people.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    name: Field<String>,
    /// Can replace the id in paths.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    uid: Field<String>,
    /// A description for people: at most 4,096 characters.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    description: Field<String>,
    /// The application whose events it receives, by id or uid; `default` if absent. Only at creation. Alias: `owner_id`.
    #[serde(default, alias = "owner_id")]
    application_id: Option<String>,
    /// The organization that it belongs to, by id or uid: the key's own, or any with an admin key. Same as the header `X-Organization`.
    #[serde(default)]
    pub tenant_id: Option<String>,
    /// The key that signs its requests; generated if absent. Only at creation: later it is rotated.
    #[serde(default)]
    secret: Option<String>,
    /// The kind of secret to generate: `hmac` (default) or `ed25519`. Only at creation.
    #[serde(default)]
    #[schema(value_type = Option<SignatureKeyWord>)]
    signature_key: Option<String>,
    /// Custom headers of every request.
    #[serde(default)]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    headers: Field<Texts>,
    /// Your own data about it: an object, stored byte for byte.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    metadata: Field<Box<RawValue>>,
    /// The name of its retry schedule, your own or a preset, or a schedule for this endpoint only:
    /// `{intervals, strategy?, max_attempts?, jitter?, give_up_on?, timeout_ms?}`.
    #[serde(default)]
    #[schema(value_type = Option<EndpointScheduleOut>, example = "standard")]
    retry_schedule: Field<EndpointScheduleIn>,
    /// The id of its retry schedule.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = "uuid")]
    retry_schedule_id: Field<String>,
    /// Instead of a retry schedule: the preset `backoff` with your own values.
    #[serde(default)]
    #[schema(value_type = Option<RetryConfigIn>)]
    retry_config: Field<Object<RetryConfigIn>>,
    /// How long one attempt may take: 100 to 60,000; 15,000 if neither the endpoint nor its schedule sets it.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 100, maximum = 60_000)]
    timeout_ms: Field<i64>,
    /// The factor by which the timeout grows with each further attempt: 1 to 10.
    #[serde(default)]
    #[schema(value_type = Option<f64>, minimum = 1, maximum = 10)]
    timeout_growth_factor: Field<f64>,
    /// The maximum number of requests in progress: 1 to 1,000; 5 if absent.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1_000)]
    max_concurrency: Field<i64>,
    /// The rate limit of requests; further deliveries wait. No limit if absent.
    #[serde(default)]
    #[schema(value_type = Option<RateLimitIn>)]
    rate_limit: Field<Object<RateLimitIn>>,
    /// Settings of the circuit breaker. Absent members are not changed. Alias: `circuit_breaker_config`.
    #[serde(default, alias = "circuit_breaker_config")]
    #[schema(value_type = Option<BreakerIn>)]
    circuit_breaker: Field<Object<BreakerIn>>,
    /// The order of deliveries: `none` (default), `per_event_type`, `per_key` (events with the same `ordering_key`) or `strict`. Alias: `ordering_guarantee`.
    #[serde(default, alias = "ordering_guarantee")]
    #[schema(value_type = Option<OrderingWord>)]
    ordering: Field<String>,
    /// The format of `X-Webhook-Signature`: `timestamped` (default), `sha256` or `hex`.
    #[serde(default)]
    #[schema(value_type = Option<SignatureStyleWord>)]
    signature_style: Field<String>,
    /// The format of the body: `envelope` (default) or `raw`.
    #[serde(default)]
    #[schema(value_type = Option<PayloadStyleWord>)]
    payload_style: Field<String>,
    /// Whether it receives events. Aliases: `active`, `is_enabled`.
    #[serde(default, alias = "active", alias = "is_enabled")]
    #[schema(value_type = bool, required = false)]
    enabled: Field<bool>,
}

/// The same, where it creates one.
pub type NewEndpointIn = New<EndpointIn>;

impl Creates for EndpointIn {
    const REQUIRED: &'static [&'static str] = &["url", "event_types"];
}

/// The preset `backoff` with your own values.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryConfigIn {
    /// 1 to 100, including the first.
    max_attempts: Option<i64>,
    /// The first delay: 1 s to 1 week.
    base_delay_ms: Option<i64>,
    /// The longest delay: 1 s to 1 week.
    max_delay_ms: Option<i64>,
    /// The factor from one delay to the next: 1 to 10.
    backoff_multiplier: Option<f64>,
    /// How long one attempt may take, if the endpoint does not set it: 100 to 60,000.
    timeout_ms: Option<i64>,
    /// Same as the field of the endpoint, which takes precedence.
    timeout_growth_factor: Option<f64>,
}

/// The rotation of an endpoint's secret.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"grace_seconds": 3600}))]
pub struct RotationIn {
    /// The grace period, in which the old secret also signs: 0 to 2,592,000; 86,400 if absent.
    #[serde(default)]
    #[schema(value_type = Option<u32>, minimum = 0, maximum = 2_592_000)]
    grace_seconds: Option<i64>,
    /// The new secret; generated if absent.
    #[serde(default)]
    secret: Option<String>,
}

impl EndpointIn {
    /// As the input for a new endpoint.
    pub fn into_new(mut self) -> Result<NewEndpoint, ApiError> {
        let application = self.application_id.take();
        let secret = self.secret.take().map(Secret::new);
        let signature_key = self.signature_key.take();
        Ok(NewEndpoint { application, secret, signature_key, settings: self.into_settings()? })
    }

    /// The fields that name its application.
    pub fn named_places(&self) -> Vec<&'static str> {
        let places = [("application_id", self.application_id.is_some()), ("tenant_id", self.tenant_id.is_some())];
        places.into_iter().filter(|(_, is_given)| *is_given).map(|(field, _)| field).collect()
    }

    /// As the input of a change. Fields that only creation takes are refused, not ignored.
    pub fn into_change(self) -> Result<EndpointChange, ApiError> {
        let fixed = [
            ("application_id", self.application_id.is_some(), "cannot be changed"),
            ("secret", self.secret.is_some(), "cannot be changed here; use `POST …/secret/rotate`"),
            ("signature_key", self.signature_key.is_some(), "cannot be changed here; rotate to a secret of the other kind"),
        ];
        let faults: Vec<Fault> =
            fixed.into_iter().filter(|(_, given, _)| *given).map(|(field, _, reason)| Fault::new(field, reason)).collect();
        if faults.is_empty() { self.into_settings() } else { Err(ApiError::invalid(faults)) }
    }

    fn into_settings(mut self) -> Result<EndpointChange, ApiError> {
        for json in [&self.metadata.0, &self.filter.0] {
            if let Change::Set(json) = json {
                check_depth(json.get())?;
            }
        }
        let labels = self.read_labels()?;
        let nested_growth = match &self.retry_config.0 {
            Change::Set(Object(config)) => config.timeout_growth_factor.map_or(Change::Keep, Change::Set),
            _ => Change::Keep,
        };
        let (retry_schedule, inline_schedule) = match self.retry_schedule.0 {
            Change::Set(EndpointScheduleIn::Name(name)) => (Change::Set(name), Change::Keep),
            Change::Set(EndpointScheduleIn::Inline(schedule)) => (Change::Keep, Change::Set((*schedule).into())),
            Change::Clear => (Change::Clear, Change::Keep),
            Change::Keep => (Change::Keep, Change::Keep),
        };
        Ok(EndpointChange {
            inline_schedule,
            url: self.url.0,
            verify_url: self.verify_url.0,
            event_types: self.event_types.0,
            labels,
            filter: self.filter.map(|filter| filter.get().to_owned()),
            name: self.name.0,
            uid: self.uid.0,
            description: self.description.0,
            headers: self.headers.map(|headers| headers.0),
            metadata: self.metadata.map(|metadata| metadata.get().to_owned()),
            retry_schedule,
            retry_schedule_id: self.retry_schedule_id.0,
            retry_config: self.retry_config.map(|Object(config)| config.into()),
            timeout: self.timeout_ms.map(millis),
            timeout_growth_factor: match self.timeout_growth_factor.0 {
                Change::Keep => nested_growth,
                own => own,
            },
            max_concurrency: self.max_concurrency.map(|n| u64::try_from(n).unwrap_or(0)),
            rate_limit: self.rate_limit.map(|Object(limit)| limit.into()),
            circuit_breaker: self.circuit_breaker.map(|Object(breaker)| breaker.into()),
            ordering: self.ordering.0,
            signature_style: self.signature_style.0,
            payload_style: self.payload_style.0,
            enabled: self.enabled.0,
        })
    }
}

impl EndpointIn {
    fn read_labels(&mut self) -> Result<Change<Labels>, ApiError> {
        let labels = std::mem::take(&mut self.labels);
        let fault = |field, reason| Err(ApiError::invalid(vec![Fault::new(field, reason)]));
        match (self.label_key.take(), self.label_value.take(), labels.0) {
            (None, None, Change::Set(texts)) => texts.into_labels().map(Change::Set),
            (None, None, Change::Clear) => Ok(Change::Clear),
            (None, None, Change::Keep) => Ok(Change::Keep),
            (Some(key), Some(value), Change::Keep) => Ok(Change::Set(Labels::from([(key, value)]))),
            (Some(_), Some(_), _) => fault("label_key", "cannot be combined with `labels`"),
            (Some(_), None, _) => fault("label_value", "is required with `label_key`"),
            (None, Some(_), _) => fault("label_key", "is required with `label_value`"),
        }
    }
}

impl From<RetryConfigIn> for RetryConfig {
    fn from(config: RetryConfigIn) -> Self {
        Self {
            max_attempts: config.max_attempts.map(|n| u32::try_from(n.max(0)).unwrap_or(u32::MAX)),
            base_delay: config.base_delay_ms.map(millis),
            max_delay: config.max_delay_ms.map(millis),
            backoff_multiplier: config.backoff_multiplier,
            timeout: config.timeout_ms.map(millis),
        }
    }
}

impl RotationIn {
    /// As the use case takes it.
    pub fn into_rotation(self) -> Result<Rotation, ApiError> {
        let Ok(seconds) = u64::try_from(self.grace_seconds.unwrap_or(GRACE_SECONDS_DEFAULT)) else {
            return Err(ApiError::invalid(vec![Fault::new("grace_seconds", "must not be negative")]));
        };
        Ok(Rotation { grace: Duration::from_secs(seconds), secret: self.secret.map(Secret::new) })
    }
}

/// A negative number becomes none at all, which every rule about a length of time refuses.
pub(super) fn millis(n: i64) -> Duration {
    Duration::from_millis(u64::try_from(n).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{super::super::body::parse_object, *};

    fn settings(json: &str) -> EndpointChange {
        parse_object::<EndpointIn>(json.as_bytes()).ok().unwrap().into_new().ok().unwrap().settings
    }

    #[test]
    fn the_spellings_of_other_platforms_are_understood() {
        let asked = settings(r#"{"events":["a"],"is_enabled":false,"retry_config":{"max_attempts":3,"timeout_growth_factor":2.0}}"#);
        assert_eq!(asked.event_types, Change::Set(vec!["a".to_owned()]));
        assert_eq!(asked.enabled, Change::Set(false));
        assert_eq!(asked.timeout_growth_factor, Change::Set(2.0));
        assert_eq!(settings(r#"{"active":true}"#).enabled, Change::Set(true));
        assert_eq!(settings(r#"{"ordering_guarantee":"strict"}"#).ordering, Change::Set("strict".to_owned()));
        let Change::Set(breaker) = settings(r#"{"circuit_breaker_config":{"enabled":false}}"#).circuit_breaker else {
            panic!("it is given")
        };
        assert_eq!(breaker.enabled, Some(false));
    }

    #[test]
    fn absent_is_not_null() {
        assert_eq!(settings("{}").name, Change::Keep);
        assert_eq!(settings(r#"{"name":null}"#).name, Change::Clear);
        assert_eq!(settings(r#"{"metadata":null}"#).metadata, Change::Clear);
        assert_eq!(settings(r#"{"metadata":{"a": 1.0}}"#).metadata, Change::Set(r#"{"a": 1.0}"#.to_owned()));
    }

    #[test]
    fn what_is_not_known_or_has_the_wrong_type_is_refused() {
        for bad in [
            r#"{"label":{}}"#,
            r#"{"labels":{"a":1}}"#,
            r#"{"url":1}"#,
            r#"{"events":[],"event_types":[]}"#,
            r#"{"retry_config":[1]}"#,
            r#"{"retry_config":{"retries":1}}"#,
            r#"{"headers":[["a","b"]]}"#,
            r#"{"headers":{"a":1}}"#,
            r#"{"rate_limit":60}"#,
            r#"{"rate_limit":{"requests_per_second":1}}"#,
            r#"{"circuit_breaker":{"threshold":1}}"#,
            r#"{"circuit_breaker":{},"circuit_breaker_config":{}}"#,
            r#"{"paused":true}"#,
            r#"{"max_concurrency":1.5}"#,
            r#"{"enabled":"yes"}"#,
        ] {
            assert!(parse_object::<EndpointIn>(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_belongs_to_creation_is_not_changed() {
        for fixed in [r#"{"secret":"s"}"#, r#"{"application_id":"a"}"#, r#"{"signature_key":"hmac"}"#] {
            assert!(parse_object::<EndpointIn>(fixed.as_bytes()).ok().unwrap().into_change().is_err(), "{fixed}");
        }
    }
}
