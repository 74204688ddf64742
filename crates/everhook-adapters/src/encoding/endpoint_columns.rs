//! The parts of an endpoint that take several columns, or JSON in one.

use std::collections::BTreeMap;

use everhook_core::{
    model::{DisabledReason, Endpoint, EndpointState, EventTypePattern, Target},
    ports::{APPLICATION_CONFIG_BYTES_MAX, CONFIG_ENDPOINT_BYTES},
    time::Timestamp,
};
use url::Url;

/// What each event type, label and header counts beside its text, in bytes: about what it takes in memory.
const PART_BYTES: usize = 64;

/// Whether an endpoint gets events, as the columns that hold it.
pub(crate) struct StateColumns {
    pub(crate) state: &'static str,
    pub(crate) disabled_at: Option<i64>,
    pub(crate) disabled_reason: Option<&'static str>,
    pub(crate) deleted_at: Option<i64>,
}

/// Spells a state.
pub(crate) fn state_columns(state: EndpointState) -> StateColumns {
    let enabled = StateColumns { state: "enabled", disabled_at: None, disabled_reason: None, deleted_at: None };
    match state {
        EndpointState::Enabled => enabled,
        EndpointState::Disabled { at, reason } => {
            StateColumns { state: "disabled", disabled_at: Some(at.as_micros()), disabled_reason: Some(reason.as_str()), ..enabled }
        }
        EndpointState::Deleted { at } => StateColumns { state: "deleted", deleted_at: Some(at.as_micros()), ..enabled },
    }
}

/// A state as it is read back.
pub(crate) struct StateRead {
    pub(crate) state: String,
    pub(crate) disabled_at: Option<Timestamp>,
    pub(crate) disabled_reason: Option<String>,
    pub(crate) deleted_at: Option<Timestamp>,
}

/// Reads a state; `None` if its columns do not fit together.
pub(crate) fn read_state(read: &StateRead) -> Option<EndpointState> {
    match read.state.as_str() {
        "enabled" => Some(EndpointState::Enabled),
        "disabled" => {
            Some(EndpointState::Disabled { at: read.disabled_at?, reason: DisabledReason::parse(read.disabled_reason.as_deref()?)? })
        }
        "deleted" => Some(EndpointState::Deleted { at: read.deleted_at? }),
        _ => None,
    }
}

/// How many bytes of configuration an endpoint has, as both stores count them: its texts, and what every endpoint counts.
pub(crate) fn config_bytes(endpoint: &Endpoint) -> i64 {
    let Endpoint { name, description, target, event_types, labels, filter, secrets, headers, metadata, .. } = endpoint;
    let optional = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let pattern = |pattern: &EventTypePattern| match pattern {
        EventTypePattern::Any => 1,
        EventTypePattern::Family(prefix) => prefix.len(),
        EventTypePattern::Exact(event_type) => event_type.as_str().len(),
    };
    let texts = [name, description, filter, metadata].into_iter().map(optional).sum::<usize>()
        + target.written.len()
        + event_types.iter().map(|one| PART_BYTES + pattern(one)).sum::<usize>()
        + labels.iter().map(|(name, value)| PART_BYTES + name.len() + value.len()).sum::<usize>()
        + headers.iter().map(|(name, value)| PART_BYTES + name.len() + value.len()).sum::<usize>()
        + secrets.current.0.len()
        + secrets.previous.as_ref().map_or(0, |(secret, _)| secret.0.len());
    CONFIG_ENDPOINT_BYTES + i64::try_from(texts).unwrap_or(i64::MAX / 2)
}

/// How many bytes an application's endpoints have, and how many of them are those of one that is about to be made or changed.
pub(crate) struct ConfigSize {
    pub(crate) of_application: i64,
    pub(crate) of_endpoint: i64,
}

impl ConfigSize {
    /// By how much the application grows with the endpoint as it is going to be; `None` if it would become too large. What does not grow always fits.
    pub(crate) fn growth(&self, endpoint: &Endpoint) -> Option<i64> {
        let after = match endpoint.state {
            EndpointState::Deleted { .. } => 0,
            EndpointState::Enabled | EndpointState::Disabled { .. } => config_bytes(endpoint),
        };
        let growth = after - self.of_endpoint;
        (growth <= 0 || self.of_application + growth <= APPLICATION_CONFIG_BYTES_MAX).then_some(growth)
    }
}

/// Reads where an endpoint is; it is kept as it was written.
pub(crate) fn read_target(written: String) -> Option<Target> {
    let url = Url::parse(&written).ok()?;
    Some(Target { written, url })
}

/// Writes the patterns of the events that an endpoint gets: a JSON array of texts.
pub(crate) fn write_event_types(patterns: &[EventTypePattern]) -> String {
    let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
    serde_json::to_string(&patterns).expect("a list of strings is JSON")
}

/// Reads what [`write_event_types`] wrote.
pub(crate) fn read_event_types(json: String) -> Option<Vec<EventTypePattern>> {
    let patterns: Vec<String> = serde_json::from_str(&json).ok()?;
    patterns.iter().map(|pattern| EventTypePattern::parse(pattern)).collect()
}

/// Writes labels: a JSON object of texts.
pub(crate) fn write_labels(labels: &BTreeMap<String, String>) -> String {
    serde_json::to_string(labels).expect("an object of strings is JSON")
}

/// Reads what [`write_labels`] wrote.
pub(crate) fn read_labels(json: String) -> Option<BTreeMap<String, String>> {
    serde_json::from_str(&json).ok()
}

/// Writes headers: a JSON array of `[name, value]`.
pub(crate) fn write_headers(headers: &[(String, String)]) -> String {
    serde_json::to_string(headers).expect("a list of pairs of strings is JSON")
}

/// Reads what [`write_headers`] wrote.
pub(crate) fn read_headers(json: String) -> Option<Vec<(String, String)>> {
    serde_json::from_str(&json).ok()
}
