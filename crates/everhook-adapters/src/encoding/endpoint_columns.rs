//! The parts of an endpoint that take several columns, or JSON in one.

use std::collections::BTreeMap;

use everhook_core::{
    model::{DisabledReason, EndpointState, EventTypePattern, Target},
    time::Timestamp,
};
use url::Url;

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
