//! What `bench` found: the results of a scenario, and how they are told to people and to programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::load::Published;

/// Percentiles in milliseconds, by nearest rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentiles {
    /// Half were faster.
    pub p50: f64,
    /// 95 of 100 were faster.
    pub p95: f64,
    /// 99 of 100 were faster.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

impl Percentiles {
    /// Of samples in microseconds; all zero if there are none.
    pub fn of_micros(mut samples: Vec<u32>) -> Self {
        samples.sort_unstable();
        let at = |share: f64| {
            let rank = (share * samples.len() as f64).ceil() as usize;
            samples.get(rank.saturating_sub(1)).map_or(0.0, |micros| f64::from(*micros) / 1e3)
        };
        Self { p50: at(0.50), p95: at(0.95), p99: at(0.99), max: at(1.0) }
    }

    /// As the sink tells them.
    pub fn to_json(self) -> Value {
        json!({"p50": self.p50, "p95": self.p95, "p99": self.p99, "max": self.max})
    }

    /// As the sink told them.
    pub fn from_json(value: &Value) -> Self {
        let number = |name: &str| value[name].as_f64().unwrap_or(0.0);
        Self { p50: number("p50"), p95: number("p95"), p99: number("p99"), max: number("max") }
    }
}

/// Whether every accepted event arrived at every endpoint exactly once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Accepted, but never arrived.
    pub missing: u64,
    /// Arrived more than once.
    pub doubled: u64,
    /// Publishes answered with a no.
    pub refused: u64,
    /// Publishes not answered.
    pub unanswered: u64,
    /// The last no or lost answer.
    pub last_error: Option<String>,
}

impl Proof {
    /// `arrivals` holds a byte per (endpoint, event): how often it arrived.
    pub fn of(published: &Published, arrivals: &[u8]) -> Self {
        let Published { refused, unanswered, .. } = *published;
        let mut proof = Self { refused, unanswered, last_error: published.last_error.clone(), ..Self::default() };
        proof.doubled = arrivals.iter().filter(|&&times| times > 1).count() as u64;
        let events = published.accepted.len() as u64 + refused + unanswered;
        for of_one_endpoint in arrivals.chunks(usize::try_from(events).unwrap_or(usize::MAX).max(1)) {
            let arrived =
                |number: &u64| usize::try_from(*number).ok().and_then(|index| of_one_endpoint.get(index)).is_some_and(|&times| times > 0);
            proof.missing += published.accepted.iter().filter(|number| !arrived(number)).count() as u64;
        }
        proof
    }

    /// Whether nothing is missing, doubled, refused or unanswered.
    pub const fn holds(&self) -> bool {
        self.missing == 0 && self.doubled == 0 && self.refused == 0 && self.unanswered == 0
    }
}

/// The results of one run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Accepted events a second, until the last answer.
    pub accepted_per_second: f64,
    /// Deliveries a second, from the first publish to the last arrival.
    pub delivered_per_second: f64,
    /// How many deliveries arrived, each counted once.
    pub delivered: u64,
    /// From asking to the answer of a publish.
    pub answer_ms: Percentiles,
    /// From just before the publish to the arrival.
    pub end_to_end_ms: Percentiles,
    /// CPU seconds of the server.
    pub server_cpu_seconds: Option<f64>,
    /// CPU seconds of the server, the sink and the publishers together.
    pub all_cpu_seconds: Option<f64>,
    /// The server's memory before the first event.
    pub idle_memory_mb: Option<f64>,
    /// The most memory that the server ever had.
    pub peak_memory_mb: Option<f64>,
    /// Whether the results can be believed.
    pub proof: Proof,
}

impl Outcome {
    fn per_10k(&self, seconds: Option<f64>) -> Option<f64> {
        seconds.filter(|_| self.delivered > 0).map(|seconds| seconds * 1e4 / self.delivered as f64)
    }
}

/// One line of the report.
pub struct Line {
    /// What `--scenario` calls it.
    pub name: &'static str,
    /// What people read.
    pub title: &'static str,
    /// Its results.
    pub outcome: Outcome,
    /// From start to ready, of a server that we started.
    pub ready_ms: Option<f64>,
    /// From asking an idle server to stop until it was gone.
    pub stop_ms: Option<f64>,
}

/// The head of the table: two lines, as wide as [`line_text`].
pub fn head_text() -> String {
    let top = format!(
        "{:<15} {:>10} {:>11} {:>8}   {:^26}   {:^13}   {:^13} {:>8} {:>8}",
        "", "accepted", "delivered", "of", "end to end, ms", "CPU s / 10k", "memory, MB", "ready", "stop"
    );
    let below = format!(
        "{:<15} {:>10} {:>11} {:>8}   {:>8} {:>8} {:>8}   {:>6} {:>6}   {:>6} {:>6} {:>8} {:>8}",
        "scenario", "/s", "/s", "limit", "p50", "p95", "p99", "server", "all", "idle", "peak", "ms", "ms"
    );
    format!("{top}\n{below}")
}

/// One scenario as a line of the table.
pub fn line_text(line: &Line, limit_per_second: f64) -> String {
    let outcome = &line.outcome;
    let number = |value: Option<f64>, digits: usize| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"));
    let percentiles = outcome.end_to_end_ms;
    let mut text = format!("{:<15} {:>10}", line.title, grouped(outcome.accepted_per_second));
    let share = format!("{:.1} %", 100.0 * outcome.delivered_per_second / limit_per_second.max(1.0));
    let _ = write!(text, " {:>11} {share:>8}", grouped(outcome.delivered_per_second));
    let _ = write!(text, "   {:>8.2} {:>8.2} {:>8.2}", percentiles.p50, percentiles.p95, percentiles.p99);
    let server = number(outcome.per_10k(outcome.server_cpu_seconds), 2);
    let _ = write!(text, "   {server:>6} {:>6}", number(outcome.per_10k(outcome.all_cpu_seconds), 2));
    let _ = write!(text, "   {:>6} {:>6}", number(outcome.idle_memory_mb, 1), number(outcome.peak_memory_mb, 1));
    let _ = write!(text, " {:>8} {:>8}", number(line.ready_ms, 1), number(line.stop_ms, 1));
    text
}

/// What is wrong with a run, or nothing.
pub fn fault_text(line: &Line) -> Option<String> {
    let proof = &line.outcome.proof;
    if proof.holds() {
        return None;
    }
    let Proof { missing, doubled, refused, unanswered, .. } = proof;
    let cause = proof.last_error.as_deref().map(|cause| format!(" (last: {cause})")).unwrap_or_default();
    Some(format!("{}: {missing} missing, {doubled} duplicated, {refused} refused, {unanswered} unanswered{cause}", line.title))
}

/// One scenario for programs.
pub fn line_json(line: &Line, limit_per_second: f64) -> Value {
    let outcome = &line.outcome;
    let proof = &outcome.proof;
    json!({
        "scenario": line.name,
        "accepted_per_second": outcome.accepted_per_second,
        "delivered_per_second": outcome.delivered_per_second,
        "share_of_limit": outcome.delivered_per_second / limit_per_second.max(1.0),
        "deliveries": outcome.delivered,
        "answer_ms": outcome.answer_ms.to_json(),
        "end_to_end_ms": outcome.end_to_end_ms.to_json(),
        "server_cpu_seconds_per_10k": outcome.per_10k(outcome.server_cpu_seconds),
        "all_cpu_seconds_per_10k": outcome.per_10k(outcome.all_cpu_seconds),
        "idle_memory_mb": outcome.idle_memory_mb,
        "peak_memory_mb": outcome.peak_memory_mb,
        "ready_ms": line.ready_ms,
        "stop_ms": line.stop_ms,
        "missing": proof.missing, "doubled": proof.doubled, "refused": proof.refused, "unanswered": proof.unanswered,
        "last_error": proof.last_error,
    })
}

/// A whole number with its thousands apart: `12,345`.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let hundred = Percentiles::of_micros((1..=100).rev().map(|n| n * 1_000).collect());
        assert_eq!(hundred, Percentiles { p50: 50.0, p95: 95.0, p99: 99.0, max: 100.0 });
        assert_eq!(Percentiles::of_micros(vec![7_000]).p50, 7.0);
        assert_eq!(Percentiles::of_micros(Vec::new()), Percentiles::default());
    }

    #[test]
    fn the_proof_looks_at_each_event_and_endpoint() {
        let published = Published { accepted: vec![0, 2], refused: 1, ..Published::default() };
        let proof = Proof::of(&published, &[1, 0, 1, 1, 0, 0]);
        assert_eq!((proof.missing, proof.doubled, proof.holds()), (1, 0, false));
        let proof = Proof::of(&published, &[1, 0, 1, 3, 0, 1]);
        assert_eq!((proof.missing, proof.doubled), (0, 1));
        let all = Published { accepted: vec![1, 0], ..Published::default() };
        assert!(Proof::of(&all, &[1, 1]).holds());
    }

    #[test]
    fn thousands_stand_apart() {
        for (value, text) in [(0.0, "0"), (999.4, "999"), (1_000.0, "1,000"), (1_234_567.0, "1,234,567")] {
            assert_eq!(grouped(value), text);
        }
    }

    #[test]
    fn head_and_lines_are_equally_wide() {
        let outcome = Outcome {
            accepted_per_second: 12_345.0,
            delivered_per_second: 12_345.0,
            delivered: 10,
            answer_ms: Percentiles::default(),
            end_to_end_ms: Percentiles::default(),
            server_cpu_seconds: None,
            all_cpu_seconds: Some(0.5),
            idle_memory_mb: None,
            peak_memory_mb: None,
            proof: Proof::default(),
        };
        let line = Line { name: "one", title: "1 endpoint", outcome, ready_ms: None, stop_ms: Some(3.0) };
        let width = line_text(&line, 30_000.0).chars().count();
        assert!(head_text().lines().all(|head| head.chars().count() == width));
    }
}
