//! What `bench --receive` found, for people and for programs, beside what is aimed at.

use serde_json::{Value, json};

use crate::cli::bench::report::{Percentiles, grouped};

/// Pushes of one kind.
pub struct Pushes {
    /// What programs call it.
    pub name: &'static str,
    /// What people read.
    pub title: &'static str,
    /// Accepted pushes a second.
    pub accepted_per_second: f64,
    /// From asking to the answer.
    pub answer_ms: Percentiles,
    /// CPU time of the server for each push, in microseconds; what it did behind the answers included.
    pub server_cpu_us: Option<f64>,
    /// What is aimed at, if anything is.
    pub target: Option<Target>,
}

/// What is aimed at.
#[derive(Clone, Copy)]
pub enum Target {
    /// At least this share of the machine's limit.
    ShareOfLimit(f64),
    /// The 99th percentile of the answers, in milliseconds.
    P99Ms(f64),
    /// The slowest answer, in milliseconds.
    MaxMs(f64),
}

impl Target {
    fn is_met(self, pushes: &Pushes, limit_per_second: f64) -> bool {
        match self {
            Self::ShareOfLimit(share) => pushes.accepted_per_second >= share * limit_per_second,
            Self::P99Ms(ms) => pushes.answer_ms.p99 <= ms,
            Self::MaxMs(ms) => pushes.answer_ms.max <= ms,
        }
    }

    fn text(self) -> String {
        match self {
            Self::ShareOfLimit(share) => format!("≥ {:.0} % of the limit", share * 100.0),
            Self::P99Ms(ms) => format!("p99 ≤ {ms:.0} ms"),
            Self::MaxMs(ms) => format!("max ≤ {ms:.0} ms"),
        }
    }
}

/// Whether what was answered with a success is in the store of a server that was killed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durable {
    /// Events that were answered with a success.
    pub accepted: u64,
    /// Events that the store has after the kill.
    pub found: u64,
}

/// What verifying 10 KiB may cost, in microseconds.
pub const VERIFYING_US_TARGET: f64 = 20.0;

/// Everything that was measured.
pub struct Report {
    /// Requests a second straight into the sink.
    pub limit_per_second: f64,
    /// In the order of the report.
    pub pushes: Vec<Pushes>,
    /// Verifying a body of 10 KiB.
    pub verifying_us: f64,
    /// The most memory that the server had.
    pub peak_memory_mb: Option<f64>,
    /// What became of what was accepted.
    pub durable: Durable,
}

impl Report {
    /// A table.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{:<32} {:>10} {:>8} {:>9} {:>9} {:>9} {:>8}   {}\n",
            "", "/s", "of limit", "p50 ms", "p99 ms", "max ms", "CPU µs", "target"
        );
        for pushes in &self.pushes {
            let Percentiles { p50, p99, max, .. } = pushes.answer_ms;
            let share = format!("{:.2}", pushes.accepted_per_second / self.limit_per_second.max(1.0));
            let cpu = pushes.server_cpu_us.map_or("–".to_owned(), |cpu| format!("{cpu:.0}"));
            let per_second = grouped(pushes.accepted_per_second);
            let target =
                pushes.target.map_or_else(String::new, |target| verdict(&target.text(), target.is_met(pushes, self.limit_per_second)));
            text += &format!("{:<32} {per_second:>10} {share:>8} {p50:>9.2} {p99:>9.2} {max:>9.2} {cpu:>8}   {target}\n", pushes.title);
        }
        let target = verdict(&format!("≤ {VERIFYING_US_TARGET:.0} µs"), self.verifying_us <= VERIFYING_US_TARGET);
        text += &format!("\nverifying 10 KiB: {:.1} µs ({target})", self.verifying_us);
        if let Some(memory) = self.peak_memory_mb {
            text += &format!("\nmemory of the server: at most {memory:.0} MB");
        }
        let Durable { accepted, found } = self.durable;
        text + &format!("\nafter a kill, the store has {} of {} accepted events", grouped(found as f64), grouped(accepted as f64))
    }

    /// One object.
    pub fn to_json(&self) -> Value {
        let measured: serde_json::Map<String, Value> = self
            .pushes
            .iter()
            .map(|pushes| {
                let target =
                    pushes.target.map(|target| json!({"target": target.text(), "met": target.is_met(pushes, self.limit_per_second)}));
                let value = json!({
                    "accepted_per_second": pushes.accepted_per_second,
                    "share_of_limit": pushes.accepted_per_second / self.limit_per_second.max(1.0),
                    "answer_ms": pushes.answer_ms.to_json(),
                    "server_cpu_us": pushes.server_cpu_us,
                    "target": target,
                });
                (pushes.name.to_owned(), value)
            })
            .collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"), "limit_per_second": self.limit_per_second, "measured": measured,
            "verifying_10_kib_us": self.verifying_us, "peak_memory_mb": self.peak_memory_mb,
            "accepted": self.durable.accepted, "found_after_kill": self.durable.found,
        })
    }
}

fn verdict(target: &str, is_met: bool) -> String {
    if is_met { format!("{target}: met") } else { format!("{target}: NOT met") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_is_judged_by_its_own_value() {
        let answer_ms = Percentiles { p50: 1.0, p95: 2.0, p99: 4.0, max: 60.0 };
        let pushes = |target| Pushes { name: "a", title: "a", accepted_per_second: 600.0, answer_ms, server_cpu_us: None, target };
        let is_met = |target: Target| target.is_met(&pushes(None), 1_000.0);
        assert!(is_met(Target::ShareOfLimit(0.5)) && !is_met(Target::ShareOfLimit(0.7)));
        assert!(is_met(Target::P99Ms(5.0)) && !is_met(Target::P99Ms(3.0)));
        assert!(is_met(Target::MaxMs(60.0)) && !is_met(Target::MaxMs(50.0)));
        let report = Report {
            limit_per_second: 1_000.0,
            pushes: vec![pushes(Some(Target::MaxMs(50.0)))],
            verifying_us: 9.0,
            peak_memory_mb: Some(80.0),
            durable: Durable { accepted: 7, found: 7 },
        };
        let text = report.to_text();
        assert!(text.contains("max ≤ 50 ms: NOT met") && text.contains("9.0 µs (≤ 20 µs: met)"), "{text}");
        let json = report.to_json();
        assert_eq!((&json["measured"]["a"]["target"]["met"], &json["found_after_kill"]), (&json!(false), &json!(7)));
    }
}
