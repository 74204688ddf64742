//! The mapping, table by table: each type of data with every spelling that is in use, then what is partial, odd or hostile.

mod garmin;
mod hostile;
mod notices;
mod strava;

use super::{Effect, Mapped, Unmappable, map};
use crate::model::health::{MetricDraft, Provider};

/// The metrics of an item, one line each: type, span, value, unit, details, record id; and what was missing.
fn lines(mapped: &Mapped) -> (Vec<String>, Vec<String>) {
    let Effect::Metrics(drafts) = &mapped.effect else { panic!("no metrics: {mapped:?}") };
    (drafts.iter().map(line).collect(), mapped.missing.iter().map(ToString::to_string).collect())
}

fn line(draft: &MetricDraft) -> String {
    let MetricDraft { metric_type, start, end, value, details, record_id, .. } = draft;
    let value = value.map_or("none".to_owned(), |value| value.to_string());
    let details = details.as_deref().unwrap_or("-");
    let record = record_id.as_ref().map_or("-", |id| id.as_str());
    format!("{} {start} {end} {value} {} {details} {record}", metric_type.as_str(), metric_type.unit().as_str())
}

fn garmin(event_type: &str, item: &str) -> Result<Mapped, Unmappable> {
    map(Provider::Garmin, event_type, item.as_bytes())
}

/// Asserts the metrics of a Garmin item, and what it lacks.
#[track_caller]
fn assert_garmin(event_type: &str, item: &str, metrics: &[&str], missing: &[&str]) {
    let mapped = garmin(event_type, item).unwrap_or_else(|error| panic!("{event_type}: {error}"));
    let (found, lacks) = lines(&mapped);
    assert_eq!(found, metrics, "{event_type} {item}");
    assert_eq!(lacks, missing, "{event_type} {item}");
}
