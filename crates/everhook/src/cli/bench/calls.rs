//! `bench --calls`: what a call costs beside calling the app directly, and whether callers keep their deadlines whatever the app does.
//!
//! Callers, server and app are three processes. Each measurement has a capability of its own, so that no breaker or limit is shared.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use http::Method;
use serde_json::{Value, json};

use super::{
    BenchArgs, Place, app,
    children::{ServerProcess, SinkProcess},
    cores, faults, picture_svg,
    report::{Percentiles, grouped},
    say, under_fault,
};
use crate::cli::{
    client::{Connection, Server},
    scratch::ScratchFolder,
};

/// How long calls to the app that hangs may take.
const HANG_TIMEOUT: Duration = Duration::from_millis(500);
/// What a call may take beyond its timeout.
const SLACK_MS: f64 = 50.0;
/// How many callers there are at once where the app is slow or has too much to do.
const CROWD: u32 = 200;
/// Equal calls at the same moment: so many requests of so many calls each.
const EQUAL_BATCHES: u32 = 50;
const EQUAL_CALLS_OF_BATCH: u32 = 20;
/// Calls before the hedging is measured: a percentile must be known first.
const HEDGE_WARM_UP: u64 = 300;

/// What was measured: a number, and what it must be.
pub(super) struct Finding {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    pub(super) target: Target,
    pub(super) note: String,
}

/// What a number must be.
pub(super) enum Target {
    AtMost(f64),
    AtLeast(f64),
    /// It says something, and nothing is required of it.
    Open,
}

impl Finding {
    fn is_met(&self) -> bool {
        match self.target {
            Target::AtMost(most) => self.value <= most,
            Target::AtLeast(least) => self.value >= least,
            Target::Open => true,
        }
    }

    fn text(&self) -> String {
        let target = match self.target {
            Target::AtMost(most) => format!("≤ {most}"),
            Target::AtLeast(least) => format!("≥ {least}"),
            Target::Open => String::new(),
        };
        let verdict = match self.target {
            Target::Open => "",
            _ if self.is_met() => "ok",
            _ => "MISSED",
        };
        let value = if self.value >= 1_000.0 { grouped(self.value) } else { format!("{:.2}", self.value) };
        format!("{:<42} {value:>10} {:<10} {target:>8} {verdict:<7} {}", self.name, self.unit, self.note)
    }

    fn json(&self) -> Value {
        let target = match self.target {
            Target::AtMost(most) => json!({"at_most": most}),
            Target::AtLeast(least) => json!({"at_least": least}),
            Target::Open => Value::Null,
        };
        json!({"name": self.name, "value": self.value, "unit": self.unit, "target": target, "met": self.is_met(), "note": self.note})
    }
}

/// Measures calls and prints what was found.
///
/// # Errors
/// When something cannot be started, or a target is missed.
pub async fn run(args: &BenchArgs, place: &Place) -> anyhow::Result<()> {
    let app = SinkProcess::start()?;
    let (server, _running) = match place {
        Place::Running(server) => (server.clone(), None),
        Place::Folder { parent, .. } => {
            let folder = ScratchFolder::make(parent, "bench")?;
            let process = ServerProcess::start(folder.path()).await?;
            (process.server.clone(), Some((process, folder)))
        }
    };
    say(args, &format!("{} cores; callers, server and app are three processes\n", cores()));
    let bench = CallBench { args, app_server: Server::new(&app.url, None)?, server };
    bench.put_manifest(app.url.as_str().trim_end_matches('/')).await?;
    let mut findings = Vec::new();
    for measure in [Measure::Overhead, Measure::Throughput, Measure::Shortcuts, Measure::Hanging, Measure::Equal, Measure::Hedging] {
        bench.measure(measure, &mut findings).await?;
    }
    for measure in [Measure::Overload, Measure::Outage] {
        bench.measure(measure, &mut findings).await?;
    }
    for finding in faults::measure(&bench.server).await? {
        bench.found(finding, &mut findings);
    }
    if let Some(path) = &args.svg {
        let picture = under_fault::record(&bench.server, args.quick).await?;
        std::fs::write(path, picture_svg::draw(&picture)).with_context(|| format!("cannot write `{}`", path.display()))?;
        say(args, &format!("\n{}", picture.text()));
    }
    conclude(args, &findings)
}

fn conclude(args: &BenchArgs, findings: &[Finding]) -> anyhow::Result<()> {
    if args.json {
        let all: Vec<_> = findings.iter().map(Finding::json).collect();
        anstream::println!("{}", json!({"version": env!("CARGO_PKG_VERSION"), "cores": cores(), "calls": all}));
    }
    let missed: Vec<_> = findings.iter().filter(|finding| !finding.is_met()).map(|finding| finding.name).collect();
    if !missed.is_empty() {
        bail!("missed: {}", missed.join(", "));
    }
    say(args, "\nevery target is met");
    Ok(())
}

/// What is measured, in this order.
#[derive(Clone, Copy)]
enum Measure {
    Overhead,
    Throughput,
    Shortcuts,
    Hanging,
    Equal,
    Hedging,
    Overload,
    Outage,
}

struct CallBench<'a> {
    args: &'a BenchArgs,
    app_server: Arc<Server>,
    server: Arc<Server>,
}

/// What callers do.
struct Load {
    path: String,
    body: Vec<u8>,
    calls: u64,
    callers: u32,
}

/// What callers saw.
struct Seen {
    ms: Percentiles,
    /// Of those that the app answered, and of the others.
    app_ms: Percentiles,
    other_ms: Percentiles,
    per_second: f64,
    /// How many answers came from the app.
    from_app: u64,
}

impl CallBench<'_> {
    fn calls(&self, full: u64) -> u64 {
        self.args.events.unwrap_or(if self.args.quick { full / 5 } else { full })
    }

    async fn put_manifest(&self, base_url: &str) -> anyhow::Result<()> {
        let instead = json!([{"type": "default", "static": {"ok": false}}]);
        let no_breaker = json!({"enabled": false});
        let manifest = json!({"base_url": base_url, "capabilities": {
            "ok": {"path": "/app/ok", "max_concurrency": 500},
            "fast": {"path": "/app/fast", "max_concurrency": 500, "fallback": instead},
            "fail": {"path": "/app/fail", "fallback": instead},
            "kept": {"path": "/app/kept", "cache": {"fresh": "1h"}},
            "hang": {"path": "/app/hang", "timeout": HANG_TIMEOUT.as_millis() as u64, "circuit_breaker": no_breaker, "fallback": instead},
            "quick": {"path": "/app/quick", "max_concurrency": 500, "fallback": instead},
            "long": {"path": "/app/long"},
            "tail": {"path": "/app/tail", "idempotent": true, "hedge": {"after": "p95", "budget_percent": 5}, "max_concurrency": 500, "fallback": instead},
            "limited": {"path": "/app/limited", "fallback": instead},
            "outage": {"path": "/app/fail", "circuit_breaker": no_breaker, "retry": {"enabled": true, "max_attempts": 3}, "fallback": instead},
        }});
        let mut connection = Connection::new(self.server.clone());
        connection.ask(Method::PUT, "/v1/applications/default/manifest", Some(&manifest)).await.context("the manifest is refused")?;
        Ok(())
    }

    async fn measure(&self, what: Measure, findings: &mut Vec<Finding>) -> anyhow::Result<()> {
        let found = match what {
            Measure::Overhead => self.overhead().await?,
            Measure::Throughput => self.throughput().await?,
            Measure::Shortcuts => self.shortcuts().await?,
            Measure::Hanging => self.hanging().await?,
            Measure::Equal => self.equal().await?,
            Measure::Hedging => self.hedging().await?,
            Measure::Overload => self.overload().await?,
            Measure::Outage => self.outage().await?,
        };
        found.into_iter().for_each(|finding| self.found(finding, findings));
        Ok(())
    }

    fn found(&self, finding: Finding, findings: &mut Vec<Finding>) {
        say(self.args, &finding.text());
        findings.push(finding);
    }

    /// One caller: what a call takes, and what the same request takes straight to the app.
    async fn overhead(&self) -> anyhow::Result<Vec<Finding>> {
        let calls = self.calls(5_000);
        drive(&self.server, &call("ok", calls / 10, 1)).await?;
        let direct = drive(&self.app_server, &direct("ok", calls, 1)).await?;
        let called = drive(&self.server, &call("ok", calls, 1)).await?;
        ensure!(called.from_app == calls, "only {} of {calls} calls were answered by the app", called.from_app);
        let note =
            format!("p50 {:.2} ms direct, {:.2} ms called; p99 {:.2}, {:.2}", direct.ms.p50, called.ms.p50, direct.ms.p99, called.ms.p99);
        Ok(vec![Finding {
            name: "overhead of a call, p50",
            value: called.ms.p50 - direct.ms.p50,
            unit: "ms",
            target: Target::AtMost(1.0),
            note,
        }])
    }

    /// Many callers: calls a second, beside requests a second straight to the app.
    async fn throughput(&self) -> anyhow::Result<Vec<Finding>> {
        let (calls, callers) = (self.calls(50_000), self.args.connections);
        let direct = drive(&self.app_server, &direct("fast", calls, callers)).await?;
        // The limit of concurrency grows with what is answered.
        drive(&self.server, &call("fast", calls / 10, callers.min(8))).await?;
        let called = drive(&self.server, &call("fast", calls, callers)).await?;
        // What the limit refused was answered by the fallback, and is no call to the app.
        let per_second = called.per_second * called.from_app as f64 / calls as f64;
        let note =
            format!("{} requests/s directly, {callers} callers; {} calls refused", grouped(direct.per_second), calls - called.from_app);
        let ratio = per_second / direct.per_second.max(1.0);
        Ok(vec![
            Finding { name: "calls per second", value: per_second, unit: "calls/s", target: Target::Open, note },
            Finding {
                name: "ratio to the limit of this machine",
                value: ratio,
                unit: "",
                target: Target::AtLeast(0.25),
                note: String::new(),
            },
        ])
    }

    /// Answers that need no app: while the breaker is open, and from the cache.
    async fn shortcuts(&self) -> anyhow::Result<Vec<Finding>> {
        let calls = self.calls(5_000);
        drive(&self.server, &call("fail", 50, 1)).await?;
        self.take_counts().await?;
        let open = drive(&self.server, &call("fail", calls, 1)).await?;
        let requests = self.requests("fail").await?;
        drive(&self.server, &with_key("kept", 1, 1)).await?;
        let kept = drive(&self.server, &with_key("kept", calls, 1)).await?;
        ensure!(kept.from_app == 0, "{} answers came from the app instead of the cache", kept.from_app);
        Ok(vec![
            Finding {
                name: "breaker open, p50",
                value: open.ms.p50,
                unit: "ms",
                target: Target::AtMost(0.5),
                note: format!("p99 {:.2} ms; {requests} requests to the app", open.ms.p99),
            },
            Finding {
                name: "cache hit, p50",
                value: kept.ms.p50,
                unit: "ms",
                target: Target::AtMost(0.3),
                note: format!("p99 {:.2} ms", kept.ms.p99),
            },
        ])
    }

    /// Callers of an app that hangs, and callers of a good one beside them.
    async fn hanging(&self) -> anyhow::Result<Vec<Finding>> {
        let timeout_ms = HANG_TIMEOUT.as_secs_f64() * 1e3;
        let (hanging, beside) = (call("hang", u64::from(CROWD) * 10, CROWD), call("quick", self.calls(2_000), 8));
        let (hanging, beside) = tokio::try_join!(drive(&self.server, &hanging), drive(&self.server, &beside))?;
        Ok(vec![
            Finding {
                name: "app hangs: callers wait, p99",
                value: hanging.ms.p99,
                unit: "ms",
                target: Target::AtMost(timeout_ms + SLACK_MS),
                note: format!("{CROWD} callers, timeout {timeout_ms} ms, max {:.1}", hanging.ms.max),
            },
            Finding {
                name: "another app beside it, p99",
                value: beside.ms.p99,
                unit: "ms",
                target: Target::AtMost(app::QUICK.as_secs_f64() * 1e3 + SLACK_MS),
                note: format!("answers after {} ms", app::QUICK.as_millis()),
            },
        ])
    }

    /// Calls with the same key at the same moment.
    async fn equal(&self) -> anyhow::Result<Vec<Finding>> {
        self.take_counts().await?;
        let one = json!({"capability": "long", "payload": {"q": 1}, "cache_key": "equal"});
        let calls: Vec<_> = (0..EQUAL_CALLS_OF_BATCH).map(|_| one.clone()).collect();
        let path = "/v1/applications/default/call-batch".to_owned();
        let body = json!({"calls": calls}).to_string().into_bytes();
        let seen = drive(&self.server, &Load { path, body, calls: u64::from(EQUAL_BATCHES), callers: EQUAL_BATCHES }).await?;
        let requests = self.requests("long").await?;
        Ok(vec![Finding {
            name: "requests for 1,000 equal calls",
            value: requests as f64,
            unit: "requests",
            target: Target::AtMost(1.0),
            note: format!("all answered within {:.0} ms, the app takes {}", seen.ms.max, app::LONG.as_millis()),
        }])
    }

    /// An app with a long tail.
    async fn hedging(&self) -> anyhow::Result<Vec<Finding>> {
        let calls = self.calls(10_000);
        drive(&self.server, &call("tail", HEDGE_WARM_UP, 8)).await?;
        self.take_counts().await?;
        let seen = drive(&self.server, &call("tail", calls, 8)).await?;
        let extra = (self.requests("tail").await? as f64 / calls as f64 - 1.0) * 100.0;
        let note = format!("p50 {:.1} ms; {} % of the answers take {} ms", seen.ms.p50, app::TAIL_PERCENT, app::TAIL.as_millis());
        Ok(vec![
            Finding { name: "hedging: p99", value: seen.ms.p99, unit: "ms", target: Target::AtMost(80.0), note },
            Finding { name: "hedging: more requests", value: extra, unit: "%", target: Target::AtMost(6.0), note: String::new() },
        ])
    }

    /// More callers than the app serves at once. What the app answers is counted apart from what the limit refuses.
    async fn overload(&self) -> anyhow::Result<Vec<Finding>> {
        let calls = self.calls(100_000);
        let unloaded = drive(&self.server, &call("limited", self.calls(1_000), 1)).await?;
        self.take_counts().await?;
        let seen = drive(&self.server, &call("limited", calls, CROWD)).await?;
        let most = self.take_counts().await?["limited"]["most_at_once"].as_f64().context("the app was not called")?;
        let note = format!("p50 {:.1} ms, max {:.1}; refused ones: p99 {:.1} ms", seen.app_ms.p50, seen.app_ms.max, seen.other_ms.p99);
        Ok(vec![
            Finding {
                name: "overload: most requests at once",
                value: most,
                unit: "requests",
                target: Target::AtMost(24.0),
                note: format!("serves {}, offered {CROWD}; {} of {calls} calls reached it", app::SERVED_AT_ONCE, seen.from_app),
            },
            Finding {
                name: "overload: accepted calls, p99 to unloaded",
                value: seen.app_ms.p99 / unloaded.app_ms.p99.max(f64::MIN_POSITIVE),
                unit: "times",
                target: Target::AtMost(2.0),
                note: format!("{:.1} ms to {:.1}; {note}", seen.app_ms.p99, unloaded.app_ms.p99),
            },
        ])
    }

    /// An app that always fails, with retries.
    async fn outage(&self) -> anyhow::Result<Vec<Finding>> {
        let calls = self.calls(5_000);
        self.take_counts().await?;
        drive(&self.server, &call("outage", calls, 8)).await?;
        let retries = (self.requests("fail").await? as f64 / calls as f64 - 1.0).max(0.0) * 100.0;
        let note = format!("{calls} calls, up to 3 attempts each");
        Ok(vec![Finding { name: "outage: retries", value: retries, unit: "% of calls", target: Target::AtMost(10.0), note }])
    }

    async fn take_counts(&self) -> anyhow::Result<Value> {
        Connection::new(self.app_server.clone()).ask(Method::GET, "/control/app", None).await
    }

    async fn requests(&self, behavior: &str) -> anyhow::Result<u64> {
        Ok(self.take_counts().await?[behavior]["requests"].as_u64().unwrap_or(0))
    }
}

fn call(capability: &str, calls: u64, callers: u32) -> Load {
    let path = format!("/v1/applications/default/call/{capability}");
    Load { path, body: br#"{"payload":{"q":1}}"#.to_vec(), calls, callers }
}

fn with_key(capability: &str, calls: u64, callers: u32) -> Load {
    Load { body: br#"{"payload":{"q":1},"cache_key":"k"}"#.to_vec(), ..call(capability, calls, callers) }
}

fn direct(behavior: &str, calls: u64, callers: u32) -> Load {
    Load { path: format!("/app/{behavior}"), body: br#"{"q":1}"#.to_vec(), calls, callers }
}

/// Makes all calls, each caller one after the other on a connection of its own.
async fn drive(server: &Arc<Server>, load: &Load) -> anyhow::Result<Seen> {
    let mut connections = Vec::new();
    for _ in 0..load.callers {
        let mut connection = Connection::new(server.clone());
        connection.open().await?;
        connections.push(connection);
    }
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    let parts = connections.into_iter().map(|connection| drive_one(connection, load, &next));
    let parts = futures_util::future::try_join_all(parts).await?;
    let took = begun.elapsed().as_secs_f64();
    let [from_app, others] = [true, false].map(|is_from_app| {
        let of_kind = parts.iter().flatten().filter(|(_, from_app)| *from_app == is_from_app);
        of_kind.map(|(micros, _)| *micros).collect::<Vec<u32>>()
    });
    let micros: Vec<u32> = from_app.iter().chain(&others).copied().collect();
    let per_second = micros.len() as f64 / took.max(f64::MIN_POSITIVE);
    let count = from_app.len() as u64;
    let [ms, app_ms, other_ms] = [micros, from_app, others].map(Percentiles::of_micros);
    Ok(Seen { ms, app_ms, other_ms, per_second, from_app: count })
}

/// How long each call took, in microseconds, and whether the app answered it.
async fn drive_one(mut connection: Connection, load: &Load, next: &AtomicU64) -> anyhow::Result<Vec<(u32, bool)>> {
    let mut seen = Vec::new();
    while next.fetch_add(1, Ordering::Relaxed) < load.calls {
        let asked_at = Instant::now();
        let answer = connection.send(Method::POST, &load.path, load.body.clone()).await?;
        let took = u32::try_from(asked_at.elapsed().as_micros()).unwrap_or(u32::MAX);
        ensure!(answer.status.is_success(), "{}: {} {}", load.path, answer.status, String::from_utf8_lossy(&answer.body));
        seen.push((took, is_from_app(&answer.body)));
    }
    Ok(seen)
}

/// Whether an answer says that the app gave it. It is looked for in its first bytes, so that reading costs callers nothing.
pub(super) fn is_from_app(body: &[u8]) -> bool {
    const SAID: &[u8] = br#""source":"app""#;
    body.windows(SAID.len()).any(|window| window == SAID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_or_missed() {
        let finding = |value, target| Finding { name: "x", value, unit: "ms", target, note: String::new() };
        for (value, target, is_met) in [
            (1.0, Target::AtMost(1.0), true),
            (1.1, Target::AtMost(1.0), false),
            (0.2, Target::AtLeast(0.15), true),
            (0.1, Target::AtLeast(0.15), false),
            (9.0, Target::Open, true),
        ] {
            let finding = finding(value, target);
            assert_eq!(finding.is_met(), is_met, "{}", finding.text());
            assert_eq!(finding.text().contains("MISSED"), !is_met);
        }
        assert!(is_from_app(br#"{"source":"app","data":1}"#) && !is_from_app(br#"{"source":"cache","data":1}"#));
    }
}
