//! The limits of `docs/operating.md` are those of the code.

use crate::tree::Tree;

const PAGE: &str = "docs/operating.md";

/// How a bound is written on the page.
#[derive(Clone, Copy)]
enum Unit {
    /// `1,000`
    Count,
    /// `24 MiB`
    Bytes,
    /// `30 s`, `5 min`
    Time,
}
use Unit::{Bytes, Count, Time};

/// The row of the page that has the bound, the file and the constant.
type Bound = (&'static str, &'static str, &'static str, Unit);

/// The principal ones. Add a bound here with its row.
#[rustfmt::skip]
const BOUNDS: &[Bound] = &[
    ("event type patterns of an endpoint",   "crates/everhook-core/src/manage/endpoints/settings.rs",   "EVENT_TYPES_MAX",             Count),
    ("event types, retry schedules",         "crates/everhook-core/src/manage/event_types.rs",          "EVENT_TYPES_MAX",             Count),
    ("event types, retry schedules",         "crates/everhook-core/src/manage/schedules/mod.rs",        "SCHEDULES_MAX",               Count),
    ("API keys of an organization",          "crates/everhook-core/src/manage/api_keys.rs",             "API_KEYS_MAX",                Count),
    ("operations of an organization",        "crates/everhook-core/src/manage/operations.rs",           "OPEN_MAX",                    Count),
    ("calls of an application that wait",    "crates/everhook-core/src/manage/approvals.rs",            "PENDING_MAX",                 Count),
    ("alert rules of an organization",       "crates/everhook-core/src/model/alert.rs",                 "ALERT_RULES_MAX",             Count),
    ("alert rules of an organization",       "crates/everhook-core/src/manage/alert_rules/checking.rs", "CHANNELS_MAX",                Count),
    ("channels of an organization",          "crates/everhook-core/src/model/channel.rs",               "CHANNELS_MAX",                Count),
    ("channels of an organization",          "crates/everhook-core/src/model/channel.rs",               "ADMIN_EMAILS_MAX",            Count),
    ("body of a request |",                  "crates/everhook/src/api/publish/mod.rs",                  "BATCH_EVENTS_MAX",            Count),
    ("body of a request |",                  "crates/everhook/src/api/jobs.rs",                         "CALLBACK_BYTES_MAX",          Bytes),
    ("reads of one organization at once",    "crates/everhook/src/api/reads.rs",                        "READS_MAX",                   Count),
    ("searches of one organization at once", "crates/everhook/src/api/reads.rs",                        "SEARCHES_MAX",                Count),
    ("what one search does",                 "crates/everhook-core/src/manage/finding.rs",              "EVENTS_MAX",                  Count),
    ("what one search does",                 "crates/everhook-core/src/manage/finding.rs",              "WHOLE_EVENTS_MAX",            Count),
    ("what one search does",                 "crates/everhook-core/src/manage/finding.rs",              "BYTES_MAX",                   Bytes),
    ("what one search does",                 "crates/everhook-core/src/manage/finding.rs",              "SEARCH_TIMEOUT",              Time),
    ("what one search does",                 "crates/everhook-core/src/policy/work.rs",                 "INLINE_BYTES_MAX",            Bytes),
    ("reads of the embedded store at once",  "crates/everhook-adapters/src/sqlite/readers.rs",          "READERS",                     Count),
    ("reads of the embedded store at once",  "crates/everhook-adapters/src/sqlite/readers.rs",          "RUN_TIMEOUT",                 Time),
    ("connections to PostgreSQL for",        "crates/everhook-adapters/src/postgres/connect.rs",        "HISTORY_CONNECTIONS",         Count),
    ("reads that wait",                      "crates/everhook-adapters/src/read_turns.rs",              "WAITING_OF_ORGANIZATION_MAX", Count),
    ("reads that wait",                      "crates/everhook-adapters/src/read_turns.rs",              "WAITING_MAX",                 Count),
    ("reads that wait",                      "crates/everhook-adapters/src/sqlite/readers.rs",          "WAIT_TIMEOUT",                Time),
    ("reads that wait",                      "crates/everhook-adapters/src/postgres/connect.rs",        "WAIT_TIMEOUT",                Time),
    ("the rest of a refused body",           "crates/everhook/src/server/body.rs",                      "DRAINED_BYTES_MAX",           Bytes),
    ("the rest of a refused body",           "crates/everhook/src/server/body.rs",                      "DRAIN_TIMEOUT",               Time),
    ("lookups of API keys",                  "crates/everhook/src/api/access.rs",                       "LOOK_UPS_MAX",                Count),
    ("connections to `metrics_listen`",      "crates/everhook/src/wiring.rs",                           "METRICS_CONNECTIONS",         Count),
    ("connections to `metrics_listen`",      "crates/everhook/src/wiring.rs",                           "METRICS_RESERVE",             Count),
    ("an export |",                          "crates/everhook-core/src/manage/transfer.rs",             "ITEMS_MAX",                   Count),
    ("requests to apps in progress",         "crates/everhook-core/src/gates/slots.rs",                 "CALLS_IN_FLIGHT_MAX",         Count),
    ("a batch of calls",                     "crates/everhook/src/api/calls/batch.rs",                  "CALLS_MAX",                   Count),
    ("picks of a draw",                      "crates/everhook-core/src/policy/calls/pick.rs",           "PICKS_MAX",                   Count),
    ("versions of retry schedules",          "crates/everhook-core/src/catalog/schedules.rs",           "SCHEDULES_MAX",               Count),
    ("manifests of an organization",         "crates/everhook-core/src/policy/calls/manifest.rs",       "CAPABILITIES_MAX",            Count),
    ("sources of an organization",           "crates/everhook-core/src/manage/sources/mod.rs",          "SOURCES_MAX",                 Count),
    ("events in one request to a source",    "crates/everhook-core/src/inbound/verifier/items.rs",      "ITEMS_MAX",                   Count),
    ("keys of providers in memory",          "crates/everhook-core/src/sources/provider_keys.rs",       "KEYS_MAX",                    Count),
    ("notifications from other nodes",       "crates/everhook-core/src/lanes/owner/hinted.rs",          "UNKNOWN_MAX",                 Count),
    ("notifications from other nodes",       "crates/everhook-core/src/lanes/owner/hinted.rs",          "MISSES_MAX",                  Count),
    ("notifications from other nodes",       "crates/everhook-adapters/src/postgres/hints.rs",          "NOTIFICATIONS_A_SECOND",      Count),
];

/// Constants that are gone, and rows that are gone or say something else.
pub fn violations(tree: &Tree) -> Vec<String> {
    found_in(tree, BOUNDS)
}

fn found_in(tree: &Tree, bounds: &[Bound]) -> Vec<String> {
    bounds.iter().filter_map(|bound| violation(tree, bound)).collect()
}

fn violation(tree: &Tree, (row, file, name, unit): &Bound) -> Option<String> {
    let page = tree.text(PAGE).unwrap_or_default();
    let Some(value) = tree.text(file).and_then(|text| constant(text, name)) else {
        return Some(format!("{file} has no constant {name} whose value can be read: correct its line in tests/tidy/bounds.rs"));
    };
    let Some(line) = page.lines().find(|line| line.strip_prefix("| ").is_some_and(|line| line.starts_with(row))) else {
        return Some(format!("{PAGE} has no row that begins with `{row}`: it has {name} of {file}"));
    };
    let written = written(value, *unit);
    let is_there = written.iter().any(|written| has(line, written));
    (!is_there).then(|| format!("{PAGE}: the row `{row}` does not say `{}`, which {name} of {file} is", written[0]))
}

/// The value of a constant, in units, bytes or milliseconds.
fn constant(text: &str, name: &str) -> Option<u64> {
    let begin = format!("const {name}: ");
    let definition = text.lines().find_map(|line| line.split_once(&begin))?.1;
    let value = definition.split_once(" = ")?.1.split_once(';')?.0;
    let inside = |begin: &str| value.strip_prefix(begin)?.strip_suffix(')');
    match (inside("Duration::from_secs("), inside("Duration::from_millis(")) {
        (Some(seconds), _) => Some(product(seconds)? * 1_000),
        (None, Some(millis)) => product(millis),
        (None, None) => product(value),
    }
}

/// `1_000`, `16 * 1024`, `24 << 20`.
fn product(text: &str) -> Option<u64> {
    if let Some((number, bits)) = text.split_once(" << ") {
        return Some(number_of(number)? << number_of(bits)?);
    }
    text.split(" * ").map(number_of).product()
}

fn number_of(text: &str) -> Option<u64> {
    text.trim().replace('_', "").parse().ok()
}

/// How the page may write it.
fn written(value: u64, unit: Unit) -> Vec<String> {
    match unit {
        Count => vec![with_commas(value)],
        Bytes if value.is_multiple_of(1 << 20) => vec![format!("{} MiB", with_commas(value >> 20))],
        Bytes => vec![format!("{} KiB", with_commas(value >> 10))],
        Time if value.is_multiple_of(60_000) => vec![format!("{} min", value / 60_000), format!("{} s", value / 1_000)],
        Time if value.is_multiple_of(1_000) => vec![format!("{} s", value / 1_000)],
        Time => vec![format!("{value} ms")],
    }
}

fn with_commas(value: u64) -> String {
    let digits = value.to_string();
    let places = digits.len();
    digits
        .chars()
        .enumerate()
        .flat_map(|(at, digit)| (at > 0 && (places - at).is_multiple_of(3)).then_some(',').into_iter().chain([digit]))
        .collect()
}

/// Whether a line has a number that is not a part of another.
fn has(line: &str, number: &str) -> bool {
    line.match_indices(number).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + number.len()..]);
        let goes_on = after.chars().next().is_some_and(|c| c.is_ascii_digit())
            || after.starts_with(',') && after[1..].starts_with(|c: char| c.is_ascii_digit());
        !before.ends_with(|c: char| c.is_ascii_digit() || c == ',' || c == '.') && !goes_on
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: Bound = ("things", "a.rs", "THINGS_MAX", Count);

    fn found(page: &str, code: &str, bound: Bound) -> usize {
        found_in(&Tree::planted([(PAGE, page), ("a.rs", code)]), &[bound]).len()
    }

    #[test]
    fn a_row_that_says_something_else_is_found() {
        let code = "/// So many.\npub const THINGS_MAX: u32 = 1_000;\n";
        assert_eq!(found("| things at once | 16, 1,000 in total | they wait |", code, ROW), 0);
        for page in ["| things at once | 100 |", "| things | 11,000 |", "| things | 1,000,000 |", "| other things | 1,000 |", ""] {
            assert_eq!(found(page, code, ROW), 1, "{page}");
        }
        assert_eq!(found("| things | 1,000 |", "const OTHERS_MAX: u32 = 1_000;", ROW), 1, "the constant is gone");
    }

    #[test]
    fn bytes_and_times_are_written_as_people_do() {
        let of = |unit| ("things", "a.rs", "THINGS_MAX", unit);
        assert_eq!(found("| things | 24 MiB |", "const THINGS_MAX: usize = 24 << 20;", of(Bytes)), 0);
        assert_eq!(found("| things | 256 KiB |", "const THINGS_MAX: usize = 256 * 1024;", of(Bytes)), 0);
        assert_eq!(found("| things | 5 min |", "const THINGS_MAX: Duration = Duration::from_secs(300);", of(Time)), 0);
        assert_eq!(found("| things | 30 s |", "const THINGS_MAX: Duration = Duration::from_secs(3);", of(Time)), 1);
    }
}
