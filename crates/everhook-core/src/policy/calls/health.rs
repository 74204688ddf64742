//! What the health check of an app means: what its answer says, when somebody is notified, and how it is when calls are looked at too. Pure.

use std::time::Duration;

use serde_json::Value;
use uuid::Uuid;

use crate::{
    model::{AppHealth, AppStatus, AttemptStatistics, FailingChecks, Report, Sent},
    time::Timestamp,
};

/// So many failed checks in a row mean that the app is away: one may be a deployment.
pub const FAILURES_TOLD: u32 = 3;

/// Fewer of a hundred calls in 24 hours that succeed, and the app is degraded.
const SUCCESS_RATE_MIN: f64 = 98.0;
/// Fewer calls say nothing.
const CALLS_MIN: u64 = 20;
/// An app is slow if 95 in a hundred answers take up to more than this part of the time that they may take.
const SLOW_SHARE: f64 = 0.8;

/// The longest text that is kept of what an app says about its parts. A longer one is left out.
const CHECKS_BYTES_MAX: usize = 4 * 1024;
/// How many parts that are not well are named.
const NAMED_MAX: usize = 5;
/// The longest name of a part that is repeated, and the longest error.
const NAME_CHARS_MAX: usize = 60;
const ERROR_CHARS_MAX: usize = 500;

/// What apps call a part that is well.
const WELL: [&str; 6] = ["ok", "healthy", "pass", "passing", "up", "true"];

/// What one request saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What it says about the app.
    pub status: AppStatus,
    /// The same in words.
    pub detail: String,
    /// What the app says about its parts: a JSON text.
    pub checks: Option<String>,
}

/// What is reported after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The app has failed its third check in a row.
    Unhealthy(FailingChecks),
    /// An app that was reported as away has passed again.
    Healthy(FailingChecks),
}

/// How long after an interval's begin an application is checked: each has its own part of it, so that no two herds meet.
pub fn phase(application: &Uuid, interval: Duration) -> Duration {
    // The last bits of an id are random; the first are its time, which many share that were made together.
    let random = application.as_u128() as u64;
    let micros = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX).max(1);
    Duration::from_micros(random % micros)
}

/// Reads what a check saw; `None` if this machine could not ask.
pub fn read(report: &Report) -> Option<Seen> {
    let unhealthy = |detail: String| Some(Seen { status: AppStatus::Unhealthy, detail: short(&detail, ERROR_CHARS_MAX), checks: None });
    match &report.sent {
        Sent::OutOfResources { .. } => None,
        Sent::Failed { error, .. } | Sent::Refused { error, .. } => unhealthy(error.clone()),
        Sent::Parked { .. } => unhealthy("there is no answer".to_owned()),
        Sent::Answered(response) => {
            // An answer that was cut is no JSON: that it came is enough.
            let body = if response.cut.body { None } else { serde_json::from_slice::<Value>(&response.body_sample).ok() };
            let checks = body.as_ref().and_then(|body| body.get("checks"));
            let text = checks.map(Value::to_string).filter(|text| text.len() <= CHECKS_BYTES_MAX);
            if !(200..300).contains(&response.status) {
                let detail = format!("it answered {}", response.status);
                return Some(Seen { status: AppStatus::Unhealthy, detail, checks: text });
            }
            let unwell = checks.map(unwell).unwrap_or_default();
            let (status, detail) = match unwell.is_empty() {
                true => (AppStatus::Healthy, format!("it answered {}", response.status)),
                false => (AppStatus::Degraded, format!("not ok: {}", unwell.join(", "))),
            };
            Some(Seen { status, detail, checks: text })
        }
    }
}

/// The names of the parts that are not well, a few of them.
fn unwell(checks: &Value) -> Vec<String> {
    let Some(checks) = checks.as_object() else { return Vec::new() };
    let named = checks.iter().filter(|(_, part)| !is_well(part)).map(|(name, _)| short(name, NAME_CHARS_MAX));
    named.take(NAMED_MAX).collect()
}

fn is_well(part: &Value) -> bool {
    match part {
        Value::String(word) => WELL.iter().any(|well| well.eq_ignore_ascii_case(word)),
        Value::Bool(is_well) => *is_well,
        Value::Object(fields) => fields.get("status").is_none_or(is_well),
        // Numbers and lists say nothing that could be understood.
        Value::Null | Value::Number(_) | Value::Array(_) => true,
    }
}

fn short(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// What is known after a check, from what was known before.
pub fn after(before: Option<&AppHealth>, seen: Seen, at: Timestamp, took: Duration) -> AppHealth {
    let Seen { status, detail, checks } = seen;
    let was_failing = before.and_then(|before| before.failing);
    let failing = (status == AppStatus::Unhealthy).then(|| match was_failing {
        Some(FailingChecks { count, since }) => FailingChecks { count: count.saturating_add(1), since },
        None => FailingChecks { count: 1, since: at },
    });
    AppHealth { status, checked_at: at, took, failing, detail, checks }
}

/// Whether somebody is notified: once when the app is away, once when it is back.
pub fn notice(before: Option<&AppHealth>, after: &AppHealth) -> Option<Notice> {
    match (before.and_then(|before| before.failing), after.failing) {
        (_, Some(failing)) if failing.count == FAILURES_TOLD => Some(Notice::Unhealthy(failing)),
        (Some(failing), None) if failing.count >= FAILURES_TOLD => Some(Notice::Healthy(failing)),
        _ => None,
    }
}

/// How the calls of one capability went in 24 hours.
pub struct CallsOf<'a> {
    /// Its name.
    pub capability: &'a str,
    /// How long a call may take.
    pub timeout: Duration,
    /// What happened.
    pub statistics: &'a AttemptStatistics,
}

/// How an app is, by its health check and by its calls; and what is wrong, in words.
pub fn overall(found: &AppHealth, calls: &[CallsOf<'_>]) -> (AppStatus, Vec<String>) {
    let mut reasons = Vec::new();
    if found.status != AppStatus::Healthy {
        reasons.push(format!("health check: {}", found.detail));
    }
    let successes: u64 = calls.iter().map(|calls| calls.statistics.successes).sum();
    let total: u64 = calls.iter().map(|calls| calls.statistics.total()).sum();
    #[expect(clippy::cast_precision_loss, reason = "a share of calls is rounded anyway")]
    let rate = successes as f64 * 100.0 / total.max(1) as f64;
    if total >= CALLS_MIN && rate < SUCCESS_RATE_MIN {
        reasons.push(format!("calls: {rate:.1} % of {total} succeeded in 24 hours"));
    }
    for CallsOf { capability, timeout, statistics } in calls {
        let p95 = statistics.durations.quantile(0.95).filter(|_| statistics.total() >= CALLS_MIN);
        if let Some(p95) = p95.filter(|p95| *p95 > timeout.mul_f64(SLOW_SHARE)) {
            reasons.push(format!("calls of `{capability}`: p95 is {} ms of {} ms", p95.as_millis(), timeout.as_millis()));
        }
    }
    let status = if reasons.is_empty() { AppStatus::Healthy } else { found.status.max(AppStatus::Degraded) };
    (status, reasons)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::model::{Cut, FailureCategory, PhaseTimes, Response};

    fn report(sent: Sent) -> Report {
        Report { sent, duration: Duration::from_millis(7), phases: PhaseTimes::default() }
    }

    fn answered(status: u16, body: &str, is_cut: bool) -> Report {
        let cut = Cut { body: is_cut, ..Cut::default() };
        let body_sample = Bytes::from(body.to_owned());
        report(Sent::Answered(Response { status, headers: Vec::new(), body_sample, cut, retry_after: None }))
    }

    fn found(failures: u32) -> AppHealth {
        let at = Timestamp::from_secs(1);
        let failing = (failures > 0).then_some(FailingChecks { count: failures, since: at });
        let status = if failures > 0 { AppStatus::Unhealthy } else { AppStatus::Healthy };
        AppHealth { status, checked_at: at, took: Duration::ZERO, failing, detail: String::new(), checks: None }
    }

    #[test]
    fn a_2xx_is_healthy_unless_a_part_of_the_app_is_not_ok() {
        use AppStatus::{Degraded, Healthy, Unhealthy};
        let table = [
            (answered(200, "", false), Healthy, "it answered 200"),
            (answered(204, "<html>", false), Healthy, "it answered 204"),
            (
                answered(
                    200,
                    r#"{"status": "ok", "checks": {"db": {"status": "ok", "ms": 3}, "cache": "UP", "disk": true, "n": 7}}"#,
                    false,
                ),
                Healthy,
                "it answered 200",
            ),
            (
                answered(200, r#"{"checks": {"db": {"status": "down"}, "cache": "ok", "mail": false, "api": "slow"}}"#, false),
                Degraded,
                "not ok: api, db, mail",
            ),
            (answered(200, r#"{"checks": {"db": {"status": "down"#, true), Healthy, "it answered 200"),
            (answered(200, r#"{"checks": ["db"]}"#, false), Healthy, "it answered 200"),
            (answered(503, r#"{"checks": {"db": "down"}}"#, false), Unhealthy, "it answered 503"),
            (answered(301, "", false), Unhealthy, "it answered 301"),
            (
                report(Sent::Failed { category: FailureCategory::Timeout, error: "no answer\nin time".to_owned(), response: None }),
                Unhealthy,
                "no answer in time",
            ),
        ];
        for (report, status, detail) in table {
            let seen = read(&report).expect("it was asked");
            assert_eq!((seen.status, &*seen.detail), (status, detail));
        }
        assert_eq!(read(&report(Sent::OutOfResources { error: "no descriptor".to_owned() })), None, "that says nothing about the app");
        let long = format!(r#"{{"checks": {{"db": "{}"}}}}"#, "x".repeat(5_000));
        assert_eq!(read(&answered(200, &long, false)).unwrap().checks, None, "what is kept is bounded");
        assert_eq!(read(&answered(503, r#"{"checks": {"db": "down"}}"#, false)).unwrap().checks.unwrap(), r#"{"db":"down"}"#);
    }

    #[test]
    fn the_third_failure_in_a_row_is_told_and_the_first_success_after_it() {
        let fail = || Seen { status: AppStatus::Unhealthy, detail: String::new(), checks: None };
        let pass = |status| Seen { status, detail: String::new(), checks: None };
        let (mut known, mut reported) = (None, Vec::new());
        let seen =
            [fail(), fail(), pass(AppStatus::Degraded), fail(), fail(), fail(), fail(), pass(AppStatus::Healthy), pass(AppStatus::Healthy)];
        for (at, seen) in (1..).zip(seen) {
            let next = after(known.as_ref(), seen, Timestamp::from_secs(at), Duration::ZERO);
            reported.push(notice(known.as_ref(), &next));
            known = Some(next);
        }
        let failing = |count| FailingChecks { count, since: Timestamp::from_secs(4) };
        let mut expected = vec![None; 9];
        expected[5] = Some(Notice::Unhealthy(failing(3)));
        expected[7] = Some(Notice::Healthy(failing(4)));
        assert_eq!(reported, expected);
    }

    #[test]
    fn calls_that_fail_or_are_slow_make_a_healthy_app_degraded_and_an_unhealthy_one_no_better() {
        let statistics = |successes: u32, failures: u32, millis: u64| {
            let mut statistics = AttemptStatistics::default();
            for call in 0..successes + failures {
                let failure = (call < failures).then_some(FailureCategory::ServerError);
                statistics.count(failure, Duration::from_millis(millis), Timestamp::EPOCH);
            }
            statistics
        };
        let status = |failed_checks, successes, failures, millis| {
            let statistics = statistics(successes, failures, millis);
            let calls = CallsOf { capability: "ask", timeout: Duration::from_millis(1_000), statistics: &statistics };
            let (status, reasons) = overall(&found(failed_checks), &[calls]);
            (status, reasons.len())
        };
        assert_eq!(status(0, 100, 0, 10), (AppStatus::Healthy, 0));
        assert_eq!(status(0, 98, 2, 10), (AppStatus::Healthy, 0));
        assert_eq!(status(0, 97, 3, 10), (AppStatus::Degraded, 1));
        assert_eq!(status(0, 0, 19, 10), (AppStatus::Healthy, 0), "too few to say");
        assert_eq!(status(0, 100, 0, 900), (AppStatus::Degraded, 1));
        assert_eq!(status(1, 100, 0, 10), (AppStatus::Unhealthy, 1));
        assert_eq!(status(1, 0, 100, 900), (AppStatus::Unhealthy, 3));
    }

    #[test]
    fn a_thousand_apps_are_spread_over_the_interval() {
        let interval = Duration::from_secs(300);
        let mut tenths = [0; 10];
        for n in 0..1_000_u128 {
            // As ids are that were made in one moment: the same time, other random bits.
            let id = Uuid::from_u128(0x0191_0000_0000_7000_8000_0000_0000_0000 | ((n * 0x1234_5678_9abc_def1) & 0x3fff_ffff_ffff_ffff));
            let phase = phase(&id, interval);
            assert!(phase < interval);
            tenths[usize::try_from(phase.as_secs() / 30).unwrap()] += 1;
        }
        assert!(tenths.iter().all(|count| (50..200).contains(count)), "{tenths:?}");
    }
}
