//! How both stores spell what was reported about an endpoint's health: a list as JSON, the newest first, in one column.

use everhook_core::{
    model::{HEALTH_RECORDS_MAX, HealthRecord, HealthReportKind},
    time::Timestamp,
};
use serde_json::{Value, json};

/// The list with one more record, without what is too old to be kept.
pub(crate) fn with(written: &str, record: HealthRecord) -> Option<String> {
    let mut records = read(written)?;
    records.insert(0, record);
    records.truncate(HEALTH_RECORDS_MAX);
    Some(Value::from_iter(records.iter().map(spell)).to_string())
}

/// Reads the list; `None` if nobody wrote that.
pub(crate) fn read(written: &str) -> Option<Vec<HealthRecord>> {
    serde_json::from_str::<Vec<Value>>(written).ok()?.iter().map(record).collect()
}

fn spell(record: &HealthRecord) -> Value {
    json!({
        "kind": record.kind.as_str(),
        "at": record.at.as_micros(),
        "failing_since": record.failing_since.map(Timestamp::as_micros),
        "failures": record.failures,
    })
}

fn record(value: &Value) -> Option<HealthRecord> {
    Some(HealthRecord {
        kind: HealthReportKind::parse(value["kind"].as_str()?)?,
        at: Timestamp::from_micros(value["at"].as_i64()?),
        failing_since: value["failing_since"].as_i64().map(Timestamp::from_micros),
        failures: u32::try_from(value["failures"].as_u64()?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_records_are_kept_as_they_were() {
        let record = |n: u32| HealthRecord {
            kind: HealthReportKind::ALL[n as usize % 3],
            at: Timestamp::from_secs(i64::from(n)),
            failing_since: n.is_multiple_of(2).then_some(Timestamp::EPOCH),
            failures: n,
        };
        let written = (0..30).fold("[]".to_owned(), |written, n| with(&written, record(n)).unwrap());
        let expected: Vec<_> = (10..30).rev().map(record).collect();
        assert_eq!(read(&written), Some(expected));
        assert_eq!(read(r#"[{"kind": "gone"}]"#), None);
    }
}
