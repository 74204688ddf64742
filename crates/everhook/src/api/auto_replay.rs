//! Automatic replay of dead letters, as a field of an organization.

use std::time::Duration;

use everhook_core::{
    manage::{Change, Fault, auto_replay::AutoReplayChange},
    model::AutoReplay,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    error::ApiError,
    wire::{Field, Object},
};
use crate::config::units::parse_duration;

/// Automatic replay of dead letters.
#[derive(Serialize, ToSchema)]
pub struct AutoReplayOut {
    enabled: bool,
    /// The delay after the first failure; it doubles after each further one.
    #[schema(example = "1h")]
    after: String,
    /// The number of replays per second.
    requests_per_second: u32,
    /// The number of failures after which a dead letter is no longer replayed automatically.
    max_tries: u32,
}

impl From<AutoReplay> for AutoReplayOut {
    fn from(settings: AutoReplay) -> Self {
        Self {
            enabled: settings.enabled,
            after: write_duration(settings.after),
            requests_per_second: settings.requests_per_second.get(),
            max_tries: settings.max_tries,
        }
    }
}

/// Automatic replay of dead letters. An update needs only the changed fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AutoReplayIn {
    #[serde(default)]
    #[schema(value_type = Option<bool>)]
    enabled: Field<bool>,
    /// From 1m to 7d.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "1h")]
    after: Field<String>,
    /// 1 to 1,000.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    requests_per_second: Field<u32>,
    /// 1 to 20.
    #[serde(default)]
    #[schema(value_type = Option<u32>)]
    max_tries: Field<u32>,
}

/// Reads the field: absent keeps, null switches it off.
pub fn read(field: Field<Object<AutoReplayIn>>) -> Result<Change<AutoReplayChange>, ApiError> {
    let asked = match field.0 {
        Change::Keep => return Ok(Change::Keep),
        Change::Clear => return Ok(Change::Clear),
        Change::Set(Object(asked)) => asked,
    };
    let after = match asked.after.0 {
        Change::Keep => Change::Keep,
        Change::Clear => Change::Clear,
        Change::Set(text) => {
            let fault = |reason| ApiError::invalid(vec![Fault::new("dlq_auto_replay.after", reason)]);
            Change::Set(parse_duration(&text).map_err(fault)?)
        }
    };
    Ok(Change::Set(AutoReplayChange {
        enabled: asked.enabled.0,
        after,
        requests_per_second: asked.requests_per_second.0,
        max_tries: asked.max_tries.0,
    }))
}

/// In the largest unit that expresses it exactly.
pub(super) fn write_duration(length: Duration) -> String {
    const UNITS: [(u128, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let millis = length.as_millis();
    let whole = UNITS.into_iter().find(|(unit, _)| millis.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{millis}ms"), |(unit, name)| format!("{}{name}", millis / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_is_written_as_it_can_be_read() {
        for text in ["1h", "90m", "2d", "61s", "1500ms"] {
            assert_eq!(write_duration(parse_duration(text).unwrap()), text);
        }
    }
}
