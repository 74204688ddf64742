//! One event as a publisher writes it: read without copying, checked, and made ready for the line.

use std::borrow::Cow;

use bytes::Bytes;
use everhook_core::{
    ids::{ApplicationId, OrganizationId, Ref},
    line::{publish::Publication, request::trace_and_flags},
    manage::Fault,
    model::{ContentType, EventType, ORDERING_KEY_BYTES_MAX, OrderingKey, Priority},
    policy::{
        headers::check_custom_headers,
        labels::{self, Labels},
    },
    time::Timestamp,
};
use http::HeaderMap;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::super::{Api, access::Caller, body::check_depth, error::ApiError, wire::Texts};
use super::BESIDE_DATA_BYTES;
use crate::api::words::PriorityWord;

/// The longest idempotency key and source, in characters.
const KEY_CHARS_MAX: usize = 256;
const SOURCE_CHARS_MAX: usize = 256;

/// An event to publish.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"type": "order.paid", "data": {"order": 4711, "amount": 129.5}, "idempotency_key": "order-4711-paid", "labels": {"region": "eu"}}))]
pub struct NewEvent<'a> {
    /// The event type: 1 to 128 of A-Z a-z 0-9 _ . : - (alias: `event_type`).
    #[serde(borrow, default, rename = "type", alias = "event_type")]
    #[schema(value_type = String, required = true, example = "order.paid")]
    event_type: Option<Text<'a>>,
    /// Any JSON value, stored byte for byte.
    #[serde(borrow, default, deserialize_with = "present")]
    #[schema(value_type = serde_json::Value, required = true)]
    data: Option<&'a RawValue>,
    /// The application, by id or uid; if absent, the one that the key is limited to, or the organization's `default`. Alias: `owner_id`.
    #[serde(borrow, default, alias = "owner_id")]
    #[schema(value_type = Option<String>)]
    application_id: Option<Text<'a>>,
    /// The organization, by id or uid: the key's own, or any with an admin key. Same as the header `X-Organization`.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    tenant_id: Option<Text<'a>>,
    /// Publishing twice with the same key creates one event: 1 to 256 printable ASCII characters.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    idempotency_key: Option<Text<'a>>,
    /// The part of your platform that published it.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>)]
    source: Option<Text<'a>>,
    /// `high`, `normal` or `low`.
    #[serde(borrow, default)]
    #[schema(value_type = Option<PriorityWord>, example = "normal")]
    priority: Option<Text<'a>>,
    /// What it is about: endpoints with `ordering: per_key` get events with the same key in order. 1 to 256 bytes, no control characters. Events
    /// without one have no order there.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>, example = "customer-4711")]
    ordering_key: Option<Text<'a>>,
    /// When it happened, in RFC 3339; now if absent.
    #[serde(borrow, default)]
    #[schema(value_type = Option<String>, format = DateTime)]
    timestamp: Option<Text<'a>>,
    /// Labels that endpoints can select by: at most 16 strings.
    #[serde(default)]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>, example = json!({"region": "eu"}))]
    labels: Option<Texts>,
    /// Headers of every request for this event. The endpoint's own headers take precedence.
    #[serde(default)]
    #[schema(value_type = Option<std::collections::BTreeMap<String, String>>)]
    headers: Option<Texts>,
}

/// Text that is borrowed from the body where it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Null is a value here, not an absence.
pub(in crate::api) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What holds for every event of a request.
pub(super) struct Context<'a> {
    api: &'a Api,
    publisher: Publisher,
    /// The `Idempotency-Key` header, as it came.
    pub(super) key: Option<String>,
    traceparent: Option<String>,
}

/// On whose behalf events are published.
#[cfg_attr(not(feature = "amqp"), expect(dead_code, reason = "only a queue publishes without a key"))]
pub(super) enum Publisher {
    /// Somebody who showed a key.
    Caller(Caller),
    /// A queue that the operator set up: one organization's, with an application for events that name none.
    Queue {
        /// The organization.
        organization: OrganizationId,
        /// The application; the organization's default one if absent.
        application: Option<ApplicationId>,
    },
}

impl<'a> Context<'a> {
    /// What holds for one message of a queue.
    #[cfg(feature = "amqp")]
    pub(super) fn of_message(api: &'a Api, publisher: Publisher, key: Option<String>, traceparent: Option<String>) -> Self {
        Self { api, publisher, key, traceparent: traceparent.filter(|text| trace_and_flags(text).is_some()) }
    }

    /// Reads the headers that are about all of them.
    pub(super) fn new(api: &'a Api, caller: Caller, headers: &HeaderMap) -> Result<Self, ApiError> {
        let key = match headers.get("idempotency-key").map(|value| value.to_str()) {
            None => None,
            Some(Ok(key)) => Some(key.to_owned()),
            Some(Err(_)) => return Err(ApiError::bad_request("the header Idempotency-Key must be printable ASCII")),
        };
        // A traceparent that is none starts a new trace, as the W3C asks.
        let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok()).filter(|text| trace_and_flags(text).is_some());
        Ok(Self { api, publisher: Publisher::Caller(caller), key, traceparent: traceparent.map(str::to_owned) })
    }

    /// The largest event that is read, including its fields beside `data`.
    pub(super) fn event_bytes_max(&self) -> usize {
        self.api.payload_bytes_max + BESIDE_DATA_BYTES
    }

    /// Checks an event; every fault is found, not only the first.
    pub(super) async fn read(&self, event: NewEvent<'_>) -> Result<Publication, ApiError> {
        let mut faults = Vec::new();
        let event_type = check_type(event.event_type, &mut faults);
        let data = self.check_data(event.data, &mut faults)?;
        let key = event.idempotency_key.map(|text| text.0.into_owned()).or_else(|| self.key.clone());
        let idempotency_key = check(key, "idempotency_key", &mut faults, check_key);
        let source = check(event.source, "source", &mut faults, check_source);
        let priority = check(event.priority, "priority", &mut faults, check_priority);
        let ordering_key = check(event.ordering_key, "ordering_key", &mut faults, check_ordering_key);
        let timestamp = check(event.timestamp, "timestamp", &mut faults, check_timestamp);
        let labels = check_labels(event.labels, &mut faults)?;
        let headers = check_headers(event.headers, &mut faults);
        let organization = self.find_organization(event.tenant_id).await?;
        let application = self.find_application(organization, event.application_id, &mut faults).await?;
        match (event_type, data, application) {
            (Some(event_type), Some(data), Some(application)) if faults.is_empty() => Ok(Publication {
                organization,
                application,
                event_type,
                data,
                content_type: ContentType::JSON,
                idempotency_key,
                idempotency_window: None,
                source,
                priority: priority.unwrap_or_default(),
                ordering_key,
                timestamp,
                traceparent: self.traceparent.clone(),
                labels,
                headers,
                only: None,
                received: None,
                sealed: false,
                parked: None,
            }),
            // A program may create the application and publish again, so that this alone has a type of its own.
            _ if faults.iter().all(|fault| fault.field == "application_id") => Err(ApiError::unknown_application()),
            _ => Err(ApiError::invalid(faults)),
        }
    }

    async fn find_organization(&self, named: Option<Text<'_>>) -> Result<OrganizationId, ApiError> {
        match (&self.publisher, named) {
            (Publisher::Caller(caller), None) => Ok(caller.organization),
            (Publisher::Caller(caller), Some(Text(name))) => Ok(caller.clone().within(self.api, Some(&name)).await?.organization),
            (Publisher::Queue { organization, .. }, None) => Ok(*organization),
            (Publisher::Queue { organization, .. }, Some(Text(name))) => {
                let found = self.api.organization_named(&name).await?;
                found.filter(|found| found == organization).ok_or_else(|| ApiError::not_found("organization"))
            }
        }
    }

    /// The data is copied out of the body, so that what waits for its turn holds its own bytes and not a connection's buffer.
    fn check_data(&self, data: Option<&RawValue>, faults: &mut Vec<Fault>) -> Result<Option<Bytes>, ApiError> {
        let Some(data) = data.map(RawValue::get) else {
            faults.push(Fault::new("data", "is required"));
            return Ok(None);
        };
        let max = self.api.payload_bytes_max;
        if data.len() > max {
            return Err(ApiError::too_large(format!("`data` may have at most {max} bytes, and has {}", data.len())));
        }
        check_depth(data)?;
        Ok(Some(Bytes::copy_from_slice(data.as_bytes())))
    }

    async fn find_application(
        &self,
        organization: OrganizationId,
        named: Option<Text<'_>>,
        faults: &mut Vec<Fault>,
    ) -> Result<Option<ApplicationId>, ApiError> {
        let Some(Text(name)) = named else {
            return match &self.publisher {
                Publisher::Queue { application: Some(application), .. }
                | Publisher::Caller(Caller { application: Some(application), .. }) => Ok(Some(*application)),
                _ => self.api.default_application(organization).await,
            };
        };
        let found = match name.parse() {
            // Whether it is this organization's is checked where the event is matched.
            Ok(id) => Some(id),
            Err(_) => self.application_named(organization, &name).await?,
        };
        let found = found.filter(|id| match &self.publisher {
            Publisher::Caller(caller) => caller.reaches(*id),
            Publisher::Queue { .. } => true,
        });
        if found.is_none() {
            faults.push(Fault::new("application_id", "is not an application of this organization"));
        }
        Ok(found)
    }
}

impl Context<'_> {
    async fn application_named(&self, organization: OrganizationId, name: &str) -> Result<Option<ApplicationId>, ApiError> {
        let Some(of) = Ref::parse(name) else { return Ok(None) };
        let found = self.api.line.publishers.application(organization, &of).await;
        found.map_err(|error| ApiError::of_look_up("application", error))
    }
}

impl From<Text<'_>> for String {
    fn from(text: Text<'_>) -> Self {
        text.0.into_owned()
    }
}

fn check<T>(
    given: Option<impl Into<String>>,
    field: &str,
    faults: &mut Vec<Fault>,
    read: impl FnOnce(String) -> Result<T, String>,
) -> Option<T> {
    match read(given?.into()) {
        Ok(value) => Some(value),
        Err(reason) => {
            faults.push(Fault::new(field, reason));
            None
        }
    }
}

fn check_type(given: Option<Text<'_>>, faults: &mut Vec<Fault>) -> Option<EventType> {
    let parsed = given.as_ref().map(|text| EventType::parse(&text.0));
    match parsed {
        Some(Some(event_type)) => return Some(event_type),
        Some(None) => faults.push(Fault::new("type", "must be 1 to 128 of the characters A-Z a-z 0-9 _ . : -")),
        None => faults.push(Fault::new("type", "is required")),
    }
    None
}

fn check_labels(given: Option<Texts>, faults: &mut Vec<Fault>) -> Result<Labels, ApiError> {
    let labels = given.map_or(Ok(Labels::new()), Texts::into_labels)?;
    if let Err(reason) = labels::check(&labels) {
        faults.push(Fault::new("labels", reason));
    }
    Ok(labels)
}

fn check_headers(given: Option<Texts>, faults: &mut Vec<Fault>) -> Vec<(String, String)> {
    let headers = given.map_or(Vec::new(), |texts| texts.0);
    if let Err(wrong) = check_custom_headers(&headers) {
        faults.push(Fault::new("headers", wrong.to_string()));
    }
    headers
}

fn check_key(key: String) -> Result<String, String> {
    let printable = key.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if printable && (1..=KEY_CHARS_MAX).contains(&key.len()) {
        Ok(key)
    } else {
        Err(format!("must be 1 to {KEY_CHARS_MAX} printable ASCII characters"))
    }
}

fn check_source(source: String) -> Result<String, String> {
    if source.chars().count() > SOURCE_CHARS_MAX || source.chars().any(char::is_control) {
        return Err(format!("must be at most {SOURCE_CHARS_MAX} characters, none of them a control character"));
    }
    Ok(source)
}

fn check_priority(name: String) -> Result<Priority, String> {
    Priority::parse(&name).ok_or_else(|| "must be `high`, `normal` or `low`".to_owned())
}

fn check_ordering_key(key: String) -> Result<OrderingKey, String> {
    OrderingKey::parse(&key).ok_or_else(|| format!("must be 1 to {ORDERING_KEY_BYTES_MAX} bytes, none of them of a control character"))
}

fn check_timestamp(text: String) -> Result<Timestamp, String> {
    Timestamp::parse_rfc3339(&text).ok_or_else(|| "must be RFC 3339, as in 2026-01-31T12:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{super::super::body::parse_object, *};

    fn data(json: &str) -> Option<String> {
        parse_object::<NewEvent<'_>>(json.as_bytes()).ok()?.data.map(|data| data.get().to_owned())
    }

    #[test]
    fn data_is_kept_byte_for_byte() {
        for kept in [r#"{"a":1,"a":2}"#, "1e999", "0.10", "123456789012345678901234567890", r#""\u00e9\u0000""#, "null", "[ 1 , 2 ]"] {
            assert_eq!(data(&format!(r#"{{"type":"t","data": {kept} }}"#)).as_deref(), Some(kept));
        }
    }

    #[test]
    fn a_field_is_known_and_given_once() {
        for bad in
            [r#"{"type":"t","data":1,"label":{}}"#, r#"{"type":"t","event_type":"t","data":1}"#, r#"{"data":1,"data":2}"#, r#"{"type":1}"#]
        {
            assert!(parse_object::<NewEvent<'_>>(bad.as_bytes()).is_err(), "{bad}");
        }
        let aliased: NewEvent<'_> = parse_object(br#"{"event_type":"a.b","data":1}"#).unwrap();
        assert_eq!(aliased.event_type.unwrap().0, "a.b");
    }

    #[test]
    fn an_idempotency_key_is_1_to_256_printable_ascii_characters() {
        for good in ["a", "order 42/é".trim_end_matches('é'), &"k".repeat(256)] {
            assert!(check_key(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", "é", "a\nb", "nul\0", &"k".repeat(257)] {
            assert!(check_key(bad.to_owned()).is_err(), "{bad:?}");
        }
    }
}
