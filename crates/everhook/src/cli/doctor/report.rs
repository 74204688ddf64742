//! What was found, for people and for programs.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::{growth::Growth, server::now};

const BOLD: Style = Style::new().bold();
const OK: Style = AnsiColor::Green.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default();
const PROBLEM: Style = AnsiColor::Red.on_default().bold();
const SKIPPED: Style = Style::new().dimmed();

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No problem was found.
    Ok,
    /// It works, but needs attention.
    Warning,
    /// It does not work.
    Problem,
    /// It was not checked.
    Skipped,
}

impl Verdict {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
            Self::Skipped => "skipped",
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Ok => OK,
            Self::Warning => WARNING,
            Self::Problem => PROBLEM,
            Self::Skipped => SKIPPED,
        }
    }
}

/// One check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    name: &'static str,
    pub(super) verdict: Verdict,
    finding: String,
    /// What to do about it.
    advice: Option<String>,
}

impl Check {
    pub(super) fn ok(name: &'static str, finding: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, finding: finding.into(), advice: None }
    }

    pub(super) fn warning(name: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warning, finding: finding.into(), advice: Some(advice.into()) }
    }

    pub(super) fn problem(name: &'static str, finding: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Problem, finding: finding.into(), advice: Some(advice.into()) }
    }

    pub(super) fn skipped(name: &'static str, why: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Skipped, finding: why.into(), advice: None }
    }
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Report {
    checks: Vec<Check>,
    stored: Option<StoredReport>,
}

/// What is kept, as `GET /v1/storage` says it, and where.
#[derive(Debug)]
pub(super) struct StoredReport {
    pub(super) place: String,
    pub(super) storage: Value,
    /// How old the oldest event is, in seconds.
    pub(super) oldest_event_seconds: Option<u64>,
    /// What was added since an earlier report, if one was named.
    pub(super) growth: Option<Growth>,
}

impl StoredReport {
    /// About how many bytes are added a day, if nothing was removed since the oldest event; `None` where that is too young to tell.
    pub(super) fn bytes_a_day(&self) -> Option<u64> {
        const HOUR: u64 = 3_600;
        let seconds = self.oldest_event_seconds.filter(|seconds| *seconds >= HOUR)?;
        let used = self.number("bytes").saturating_sub(self.number("free_bytes"));
        Some((u128::from(used) * 86_400 / u128::from(seconds)).try_into().unwrap_or(u64::MAX))
    }

    fn number(&self, name: &str) -> u64 {
        self.storage[name].as_u64().unwrap_or_default()
    }
}

impl Report {
    pub(super) fn add(&mut self, check: Check) {
        self.checks.push(check);
    }

    pub(super) fn set_stored(&mut self, stored: StoredReport) {
        self.stored = Some(stored);
    }

    pub(super) fn has_problem(&self) -> bool {
        self.count(Verdict::Problem) > 0
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }

    pub(super) fn as_json(&self) -> String {
        let check = |check: &Check| json!({ "name": check.name, "verdict": check.verdict.as_str(), "finding": check.finding, "advice": check.advice });
        let stored = self.stored.as_ref().map(|stored| {
            let mut out = stored.storage.clone();
            out["place"] = json!(stored.place);
            out["bytes_a_day"] = json!(stored.bytes_a_day());
            out["growth"] = json!(stored.growth.as_ref().map(Growth::as_json));
            out
        });
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "at": now().to_string(),
            "problems": self.count(Verdict::Problem),
            "warnings": self.count(Verdict::Warning),
            "checks": self.checks.iter().map(check).collect::<Vec<_>>(),
            "stored": stored,
        });
        serde_json::to_string_pretty(&report).expect("plain values are JSON")
    }

    pub(super) fn as_text(&self) -> String {
        let mut text = format!("{BOLD}Everhook {} on this machine{BOLD:#}\n\n", env!("CARGO_PKG_VERSION"));
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
        for check in &self.checks {
            let (style, word) = (check.verdict.style(), check.verdict.as_str());
            // Further lines are indented below the first one.
            let indent = " ".repeat(word_width() + width + 6);
            let finding = check.finding.replace('\n', &format!("\n{indent}"));
            _ = writeln!(text, "  {style}{word:w$}{style:#}  {:width$}  {finding}", check.name, w = word_width());
            if let Some(advice) = &check.advice {
                _ = writeln!(text, "{indent}→ {advice}");
            }
        }
        if let Some(stored) = &self.stored {
            text.push_str(&stored_text(stored));
        }
        _ = write!(text, "\n{}", self.summary());
        text
    }

    fn summary(&self) -> String {
        let counted = |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        match (self.count(Verdict::Problem), self.count(Verdict::Warning)) {
            (0, 0) => format!("{OK}No problems.{OK:#}"),
            (0, warnings) => format!("{OK}No problems{OK:#}, {WARNING}{}{WARNING:#}.", counted(warnings, "warning", "warnings")),
            (problems, 0) => format!("{PROBLEM}{}{PROBLEM:#}.", counted(problems, "problem", "problems")),
            (problems, warnings) => format!(
                "{PROBLEM}{}{PROBLEM:#}, {WARNING}{}{WARNING:#}.",
                counted(problems, "problem", "problems"),
                counted(warnings, "warning", "warnings")
            ),
        }
    }
}

/// The width of the longest verdict.
const fn word_width() -> usize {
    "warning".len()
}

fn stored_text(stored: &StoredReport) -> String {
    let mut text = format!("\n{BOLD}Stored in {}{BOLD:#}\n\n", stored.place);
    let free = match stored.number("free_bytes") {
        0 => String::new(),
        free => format!(", of which {} are free for reuse", size(free)),
    };
    _ = writeln!(text, "  size          {}{free}", size(stored.number("bytes")));
    let oldest = stored.oldest_event_seconds.map_or_else(|| "none".to_owned(), |seconds| format!("{} old", age(seconds)));
    let kept = match stored.storage["retention"]["events_seconds"].as_u64() {
        Some(seconds) => format!("; kept for {}", age(seconds)),
        None if stored.storage["retention"].is_object() => "; kept forever".to_owned(),
        None => String::new(),
    };
    _ = writeln!(text, "  oldest event  {oldest}{kept}");
    if let Some(bytes) = stored.bytes_a_day() {
        _ = writeln!(text, "  growth        about {} a day on average since the oldest event", size(bytes));
    }
    text.push('\n');
    let tables = stored.storage["tables"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (filled, empty): (Vec<_>, Vec<_>) =
        tables.iter().partition(|table| table["rows"] != 0 || table["bytes"].as_u64().is_some_and(|bytes| bytes > EMPTY_BYTES_MAX));
    let width = filled.iter().filter_map(|table| table["name"].as_str()).map(str::len).max().unwrap_or_default().max("table".len());
    if !filled.is_empty() {
        _ = writeln!(text, "  {SKIPPED}{:width$}  {:>14}  {:>10}{SKIPPED:#}", "table", "rows", "size");
    }
    for table in filled {
        let bytes = table["bytes"].as_u64().map_or_else(|| "-".to_owned(), size);
        _ = writeln!(text, "  {:width$}  {:>14}  {bytes:>10}", table["name"].as_str().unwrap_or_default(), rows(table));
    }
    if !empty.is_empty() {
        let names: Vec<&str> = empty.iter().filter_map(|table| table["name"].as_str()).collect();
        _ = writeln!(text, "  {SKIPPED}empty: {}{SKIPPED:#}", names.join(", "));
    }
    if let Some(growth) = &stored.growth {
        text.push_str(&growth.as_text());
    }
    text
}

/// What a table without rows takes with all its indexes and partitions in PostgreSQL, at the most.
const EMPTY_BYTES_MAX: u64 = 4 << 20;

fn rows(table: &Value) -> String {
    let number = table["rows"].as_u64().unwrap_or_default();
    match table["rows_are"].as_str() {
        Some("about") => format!("about {number}"),
        Some("more_than") => format!("> {number}"),
        _ => number.to_string(),
    }
}

/// A number of bytes, as people read it.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut number = bytes as f64;
    let mut unit = "B";
    for next in UNITS {
        if number < 1024.0 {
            break;
        }
        (number, unit) = (number / 1024.0, next);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{number:.1} {unit}") }
}

/// A length of time, as people read it.
pub(super) fn age(seconds: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "day"), (3_600, "hour"), (60, "minute")];
    let (count, unit) =
        UNITS.iter().find(|(length, _)| seconds >= *length).map_or((seconds, "second"), |(length, unit)| (seconds / length, *unit));
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        report.add(Check::ok("clock", "agrees with the server's"));
        report.add(Check::warning("disk", "5.0 GiB free", "free some"));
        report.add(Check::skipped("delivery", "no server runs"));
        let storage = json!({
            "bytes": 30 << 20, "free_bytes": 10 << 20, "retention": { "events_seconds": 90 * 86_400 },
            "tables": [
                { "name": "events", "rows": 20_000, "rows_are": "more_than", "bytes": null },
                { "name": "attempts", "rows": 3, "rows_are": "exact", "bytes": 8_192 },
                { "name": "jobs", "rows": 0, "rows_are": "exact", "bytes": null },
            ],
        });
        report.set_stored(StoredReport {
            place: "data folder ./d".to_owned(),
            storage,
            oldest_event_seconds: Some(2 * 86_400),
            growth: None,
        });
        report
    }

    #[test]
    fn people_see_each_check_in_a_line_what_to_do_below_it_and_what_is_kept() {
        let text = anstream::adapter::strip_str(&report().as_text()).to_string();
        for expected in [
            "  ok       clock     agrees with the server's\n",
            "  warning  disk      5.0 GiB free\n                     → free some\n",
            "  skipped  delivery  no server runs\n",
            "Stored in data folder ./d\n",
            "  size          30.0 MiB, of which 10.0 MiB are free for reuse\n",
            "  oldest event  2 days old; kept for 90 days\n",
            "  growth        about 10.0 MiB a day on average since the oldest event\n",
            "  events           > 20000           -\n",
            "  attempts               3     8.0 KiB\n",
            "  empty: jobs\n",
            "No problems, 1 warning.",
        ] {
            assert!(text.contains(expected), "`{expected}` is missing in:\n{text}");
        }
        assert!(!report().has_problem());
    }

    #[test]
    fn programs_get_the_same() {
        let mut report = report();
        report.add(Check::problem("store", "away", "start it"));
        let json: Value = serde_json::from_str(&report.as_json()).unwrap();
        assert_eq!((&json["problems"], &json["warnings"]), (&json!(1), &json!(1)));
        assert_eq!(json["checks"][3], json!({ "name": "store", "verdict": "problem", "finding": "away", "advice": "start it" }));
        assert_eq!((&json["stored"]["place"], &json["stored"]["bytes_a_day"]), (&json!("data folder ./d"), &json!(10 << 20)));
        assert!(report.has_problem());
    }

    #[test]
    fn sizes_and_ages_are_written_for_people() {
        for (bytes, text) in
            [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.0 KiB"), (1_572_864, "1.5 MiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3072.0 TiB")]
        {
            assert_eq!(size(bytes), text);
        }
        for (seconds, text) in [(0, "0 seconds"), (1, "1 second"), (3_599, "59 minutes"), (86_400, "1 day"), (90 * 86_400, "90 days")] {
            assert_eq!(age(seconds), text);
        }
    }
}
