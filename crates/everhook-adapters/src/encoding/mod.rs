//! How the model is spelled in columns: the same in every store, so that what one wrote another can take over.
//!
//! Pure. Knows no database: the stores bind and read the values.

pub(crate) mod alert_json;
pub(crate) mod answers;
pub(crate) mod breaker_json;
pub(crate) mod chunk_outcomes;
pub(crate) mod deliveries;
pub(crate) mod durations;
pub(crate) mod endpoint_columns;
pub(crate) mod extras;
pub(crate) mod health;
pub(crate) mod health_history;
pub(crate) mod limits_json;
pub(crate) mod page;
pub(crate) mod payload;
pub(crate) mod releases;
pub(crate) mod reseal_step;
pub(crate) mod resealing;
pub(crate) mod response_headers;
pub(crate) mod rollup_span;
pub(crate) mod schedule_json;
pub(crate) mod selection_json;
pub(crate) mod source_counts;
pub(crate) mod source_json;
pub(crate) mod spelling;
pub(crate) mod tokens;
pub(crate) mod waiting_place;

use std::time::Duration;

/// A length of time as a column holds it: microseconds, as many as fit.
pub(crate) fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

/// The length of time that a column holds.
pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
