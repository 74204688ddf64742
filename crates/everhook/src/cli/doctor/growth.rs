//! How much was added since an earlier report: in all, and to each table.

use std::{fmt::Write as _, path::Path};

use everhook_core::time::Timestamp;
use serde_json::{Value, json};

use super::report::{age, size};

/// What changed between two reports.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Growth {
    /// How long after the earlier report.
    seconds: u64,
    bytes: i64,
    tables: Vec<TableGrowth>,
}

/// What changed in a table; `None` where a report does not have the number.
#[derive(Debug, PartialEq, Eq)]
struct TableGrowth {
    name: String,
    rows: Option<i64>,
    bytes: Option<i64>,
}

/// Compares what is stored now with the report that an earlier run printed with `--json`.
///
/// # Errors
/// Says why that report cannot be used.
pub(super) fn since(file: &Path, storage: &Value, now: Timestamp) -> Result<Growth, String> {
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    let earlier: Value = serde_json::from_str(&text).map_err(|_| "it is not JSON".to_owned())?;
    between(&earlier, storage, now).ok_or_else(|| "it is not a report of `everhook doctor --json` with what was stored".to_owned())
}

fn between(earlier: &Value, storage: &Value, now: Timestamp) -> Option<Growth> {
    let at = Timestamp::parse_rfc3339(earlier["at"].as_str()?)?;
    let before = &earlier["stored"];
    let tables = storage["tables"].as_array()?.iter().map(|table| {
        let name = table["name"].as_str().unwrap_or_default();
        let earlier = before["tables"].as_array().and_then(|tables| tables.iter().find(|earlier| earlier["name"] == name));
        let earlier = earlier.unwrap_or(&Value::Null);
        TableGrowth { name: name.to_owned(), rows: difference(rows(table), rows(earlier)), bytes: difference(bytes(table), bytes(earlier)) }
    });
    Some(Growth {
        seconds: now.since(at).as_secs(),
        bytes: difference(bytes(storage), bytes(before))?,
        tables: tables.filter(|table| table.rows.is_some_and(|rows| rows != 0) || table.bytes.is_some_and(|bytes| bytes != 0)).collect(),
    })
}

/// Rows, if they were counted or estimated: a bound says nothing about what was added.
fn rows(table: &Value) -> Option<u64> {
    table["rows"].as_u64().filter(|_| table["rows_are"] != "more_than")
}

fn bytes(of: &Value) -> Option<u64> {
    of["bytes"].as_u64()
}

fn difference(now: Option<u64>, before: Option<u64>) -> Option<i64> {
    Some(i64::try_from(now?).ok()? - i64::try_from(before?).ok()?)
}

impl Growth {
    pub(super) fn as_json(&self) -> Value {
        let table = |table: &TableGrowth| json!({ "name": table.name, "rows": table.rows, "bytes": table.bytes });
        json!({ "seconds": self.seconds, "bytes": self.bytes, "tables": self.tables.iter().map(table).collect::<Vec<_>>() })
    }

    pub(super) fn as_text(&self) -> String {
        let mut text = format!("\n  in the {} since the earlier report: {}\n", age(self.seconds), signed_size(self.bytes));
        let width = self.tables.iter().map(|table| table.name.len()).max().unwrap_or_default();
        for table in &self.tables {
            let rows = table.rows.map_or_else(|| "-".to_owned(), |rows| format!("{rows:+} rows"));
            let bytes = table.bytes.map(signed_size).unwrap_or_default();
            let line = format!("  {:width$}  {rows:>14}  {bytes:>11}", table.name);
            _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}

fn signed_size(bytes: i64) -> String {
    format!("{}{}", if bytes < 0 { '-' } else { '+' }, size(bytes.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage(bytes: u64, tables: [(&str, u64, &str, Option<u64>); 3]) -> Value {
        let table = |(name, rows, rows_are, bytes)| json!({ "name": name, "rows": rows, "rows_are": rows_are, "bytes": bytes });
        json!({ "bytes": bytes, "tables": tables.map(table) })
    }

    fn at(hours: u64) -> Timestamp {
        Timestamp::from_secs(1_700_000_000) + std::time::Duration::from_secs(hours * 3_600)
    }

    #[test]
    fn what_was_added_to_each_table_follows_from_two_reports() {
        let before = storage(5 << 20, [("events", 100, "about", Some(1 << 20)), ("alerts", 7, "exact", None), ("jobs", 0, "exact", None)]);
        let now = storage(8 << 20, [("events", 1_300, "about", Some(3 << 20)), ("alerts", 5, "exact", None), ("jobs", 0, "exact", None)]);
        let growth = between(&json!({ "at": at(0).to_string(), "stored": before }), &now, at(48)).unwrap();
        let text = growth.as_text();
        for line in
            ["in the 2 days since the earlier report: +3.0 MiB\n", "events      +1200 rows     +2.0 MiB\n", "alerts         -2 rows\n"]
        {
            assert!(text.contains(line), "`{line}` is missing in:\n{text}");
        }
        assert!(!text.contains("jobs"), "{text}");
        assert_eq!(growth.as_json()["tables"][0], json!({ "name": "events", "rows": 1_200, "bytes": 2 << 20 }));
    }

    #[test]
    fn a_table_that_was_not_counted_or_is_new_has_no_growth_and_what_is_no_report_is_refused() {
        let bound = |rows| storage(1, [("events", rows, "more_than", None), ("new", 3, "exact", None), ("jobs", 0, "exact", None)]);
        let mut before = bound(20_000);
        before["tables"].as_array_mut().unwrap().remove(1);
        let growth = between(&json!({ "at": at(0).to_string(), "stored": before }), &bound(20_000), at(1)).unwrap();
        assert_eq!(growth.tables, []);
        for report in [json!({}), json!({ "at": "yesterday", "stored": bound(1) }), json!({ "at": at(0).to_string(), "stored": null })] {
            assert_eq!(between(&report, &bound(1), at(1)), None, "{report}");
        }
    }
}
