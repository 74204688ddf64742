//! `bench --endpoints N`: what a change and a publish cost in an application with many endpoints.
//!
//! The endpoints are created through `POST /v1/applications/{id}/import`, the way that is meant for many. Then single requests are measured one after
//! the other, as a person or a deployment makes them, and the CPU time of the server over all requests of a kind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use http::Method;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{
    BenchArgs, Place,
    children::{ServerProcess, SinkProcess},
    marker::now_ns,
    procs, progress_bar,
    report::{Percentiles, grouped},
    say,
};
use crate::cli::{
    client::{Connection, Server},
    scratch::ScratchFolder,
};

/// How many endpoints a document has. Small enough that several documents are imported at once.
const ENDPOINTS_A_DOCUMENT: u64 = 250;
/// How many documents are imported at once: their writes share commits. Few, because PostgreSQL makes an organization's changes one after the other,
/// and each document has a minute.
const IMPORTS_AT_ONCE: usize = 4;
/// How many event types the endpoints have among them, so that each type has a few.
const EVENT_TYPES: u64 = 5_000;
/// How many endpoints get the events that are published.
const MATCHING: u64 = 3;
/// How many requests of each kind are measured: enough for a 99th percentile, and for CPU time that is counted in hundredths of a second.
const REQUESTS: u32 = 300;
const REQUESTS_QUICK: u32 = 100;
/// How long the server has after a step to finish what it does behind an answer, so that the next step does not pay for it.
const SETTLE_TIME: Duration = Duration::from_millis(300);

/// Requests of one kind.
#[derive(Debug)]
struct Measured {
    /// What programs call it.
    name: &'static str,
    /// What people read.
    title: &'static str,
    answer_ms: Percentiles,
    /// CPU time of the server for each.
    cpu_ms: Option<f64>,
}

/// Everything that was measured.
#[derive(Debug)]
struct Report {
    endpoints: u64,
    requests: u32,
    created_per_second: f64,
    ready_ms: Option<f64>,
    first_publish_ms: f64,
    memory_mb: Option<f64>,
    peak_memory_mb: Option<f64>,
    /// Of a second node on the same database, where there is one.
    other_node: Option<OtherReport>,
    measured: Vec<Measured>,
}

/// What was measured of the second node.
#[derive(Debug)]
struct OtherReport {
    ready_ms: f64,
    first_publish_ms: f64,
    memory_mb: Option<f64>,
}

/// A second node on the same database.
struct OtherNode {
    process: ServerProcess,
    connection: Connection,
    first_publish_ms: f64,
}

/// Measures and prints.
///
/// # Errors
/// When the server cannot be started, or refuses something.
pub(super) async fn run(args: &BenchArgs, place: &Place, endpoints: u64) -> anyhow::Result<()> {
    let sink = SinkProcess::start()?;
    let requests = if args.quick { REQUESTS_QUICK } else { REQUESTS };
    let report = match place {
        Place::Running(server) => {
            let mut bench = Large::prepare(server, None, &sink, requests).await?;
            bench.measure(endpoints, None).await?
        }
        Place::Folder { parent, .. } => {
            let folder = ScratchFolder::make(parent, "bench")?;
            let first = ServerProcess::start_on(folder.path(), args.database.as_deref()).await?;
            let mut bench = Large::prepare(&first.server, Some(first.pid()), &sink, requests).await?;
            bench.measure(endpoints, Some((first, folder.path(), args.database.as_deref()))).await?
        }
    };
    match args.json {
        true => anstream::println!("{}", report.to_json()),
        false => say(args, &report.to_text()),
    }
    Ok(())
}

/// An application, and how to reach its server.
struct Large<'a> {
    connection: Connection,
    server: Arc<Server>,
    pid: Option<u32>,
    sink: &'a SinkProcess,
    requests: u32,
    application: String,
    measured: Vec<Measured>,
}

impl<'a> Large<'a> {
    async fn prepare(server: &Arc<Server>, pid: Option<u32>, sink: &'a SinkProcess, requests: u32) -> anyhow::Result<Self> {
        let mut connection = Connection::new(server.clone());
        let asked = json!({"name": format!("bench {}", now_ns())});
        let made = connection.ask(Method::POST, "/v1/applications", Some(&asked)).await.context("an application cannot be created")?;
        let application = made["id"].as_str().context("the server answered an application without an id")?.to_owned();
        Ok(Self { connection, server: server.clone(), pid, sink, requests, application, measured: Vec::new() })
    }

    /// Measures publishing with few endpoints, creates the many, starts the server again where it is ours, and measures everything.
    async fn measure(&mut self, endpoints: u64, own: Option<(ServerProcess, &std::path::Path, Option<&str>)>) -> anyhow::Result<Report> {
        for number in 0..MATCHING {
            self.create(&format!("well/three/{number}"), "bench.three").await?;
        }
        self.publishes("publish_of_3", "publish, 3 endpoints in all").await?;
        let began_at = Instant::now();
        self.import(endpoints.saturating_sub(MATCHING)).await?;
        let created_per_second = endpoints as f64 / began_at.elapsed().as_secs_f64();
        let mut running = None;
        let mut ready_ms = None;
        let other_on = own.as_ref().and_then(|(_, folder, database)| database.map(|database| (folder.join("other"), database.to_owned())));
        if let Some((first, folder, database)) = own {
            first.stop().await?;
            let again = ServerProcess::start_on(folder, database).await?;
            ready_ms = Some(again.ready_after.as_secs_f64() * 1e3);
            (self.server, self.pid) = (again.server.clone(), Some(again.pid()));
            self.connection = Connection::new(self.server.clone());
            running = Some(again);
        }
        let first_publish_ms = self.publish("bench.three").await?.as_secs_f64() * 1e3;
        let mut other = match other_on {
            Some((folder, database)) => Some(self.start_other(&folder, &database).await?),
            None => None,
        };
        self.publishes("publish", "publish, 3 of all match").await?;
        self.changes(other.as_mut()).await?;
        let memory = self.pid.and_then(procs::memory);
        let other_node = other.map(|other| OtherReport {
            ready_ms: other.process.ready_after.as_secs_f64() * 1e3,
            first_publish_ms: other.first_publish_ms,
            memory_mb: procs::memory(other.process.pid()).map(|memory| memory.resident_mb),
        });
        drop(running);
        Ok(Report {
            endpoints,
            requests: self.requests,
            created_per_second,
            ready_ms,
            first_publish_ms,
            memory_mb: memory.map(|memory| memory.resident_mb),
            peak_memory_mb: memory.map(|memory| memory.peak_mb),
            other_node,
            measured: std::mem::take(&mut self.measured),
        })
    }

    async fn start_other(&self, folder: &std::path::Path, database: &str) -> anyhow::Result<OtherNode> {
        std::fs::create_dir_all(folder)?;
        let process = ServerProcess::start_on(folder, Some(database)).await?;
        let mut connection = Connection::new(process.server.clone());
        let began_at = Instant::now();
        connection.ask(Method::POST, "/v1/events", Some(&self.event("bench.three"))).await.context("the second node takes no event")?;
        Ok(OtherNode { process, connection, first_publish_ms: began_at.elapsed().as_secs_f64() * 1e3 })
    }

    async fn import(&self, endpoints: u64) -> anyhow::Result<()> {
        let (next, bar, run) = (Arc::new(AtomicU64::new(0)), progress_bar(), now_ns());
        bar.set_length(endpoints);
        bar.set_message("creating");
        let workers = (0..IMPORTS_AT_ONCE).map(|_| {
            let importer = Importer {
                connection: Connection::new(self.server.clone()),
                path: format!("/v1/applications/{}/import", self.application),
                run,
                sink: self.sink.url.to_string(),
                next: next.clone(),
                endpoints,
                bar: bar.clone(),
            };
            tokio::spawn(importer.run())
        });
        for worker in workers.collect::<Vec<_>>() {
            worker.await.context("an importer panicked")??;
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Creates, changes and deletes endpoints, and publishes after each of some changes.
    async fn changes(&mut self, other: Option<&mut OtherNode>) -> anyhow::Result<()> {
        let mut ids = Vec::new();
        let mut step = Step::begin(self.pid).await;
        for number in 0..self.requests {
            ids.push(step.time(self.create(&format!("well/new/{number}"), "bench.new")).await?);
        }
        self.measured.push(step.end("create", "create an endpoint"));
        let mut step = Step::begin(self.pid).await;
        for (number, id) in ids.iter().enumerate() {
            step.time(self.change(id, number)).await?;
        }
        self.measured.push(step.end("change", "change an endpoint"));
        let mut step = Step::begin(self.pid).await;
        for (number, id) in ids.iter().enumerate() {
            self.change(id, number + 1_000).await?;
            step.time(self.publish("bench.three")).await?;
        }
        // Its CPU time is that of a change and a publish together.
        self.measured.push(step.end("publish_after_change", "first publish after a change"));
        if let Some(other) = other {
            self.publishes_elsewhere(other, &ids).await?;
        }
        let mut step = Step::begin(self.pid).await;
        for id in &ids {
            step.time(self.connection.ask(Method::DELETE, &format!("/v1/endpoints/{id}"), None)).await?;
        }
        self.measured.push(step.end("delete", "delete an endpoint"));
        Ok(())
    }

    /// Changes endpoints on one node and publishes what they want now on the other: the time until an event goes where the change says.
    async fn publishes_elsewhere(&mut self, other: &mut OtherNode, ids: &[String]) -> anyhow::Result<()> {
        let mut step = Step::begin(Some(other.process.pid())).await;
        for (number, id) in ids.iter().enumerate() {
            let number = number + 2_000;
            self.change(id, number).await?;
            let event = self.event(&format!("bench.changed.{number}"));
            let seen = async {
                while other.connection.ask(Method::POST, "/v1/events", Some(&event)).await?["deliveries"] != 1 {}
                Ok(())
            };
            step.time(seen).await.context("the second node takes no event")?;
        }
        self.measured.push(step.end("publish_elsewhere_after_change", "publish on the other node"));
        Ok(())
    }

    fn event(&self, event_type: &str) -> Value {
        json!({"type": event_type, "application_id": self.application, "data": {"order": 1}})
    }

    async fn create(&mut self, path: &str, event_type: &str) -> anyhow::Result<String> {
        let url = format!("{}{path}", self.sink.url);
        let asked = json!({"url": url, "event_types": [event_type], "application_id": self.application});
        let made = self.connection.ask(Method::POST, "/v1/endpoints", Some(&asked)).await.context("an endpoint cannot be created")?;
        Ok(made["id"].as_str().context("the server answered an endpoint without an id")?.to_owned())
    }

    async fn change(&mut self, id: &str, number: usize) -> anyhow::Result<Value> {
        let asked = json!({"event_types": [format!("bench.changed.{number}")]});
        self.connection.ask(Method::PATCH, &format!("/v1/endpoints/{id}"), Some(&asked)).await.context("an endpoint cannot be changed")
    }

    async fn publishes(&mut self, name: &'static str, title: &'static str) -> anyhow::Result<()> {
        let mut step = Step::begin(self.pid).await;
        for _ in 0..self.requests {
            step.time(self.publish("bench.three")).await?;
        }
        self.measured.push(step.end(name, title));
        Ok(())
    }

    async fn publish(&mut self, event_type: &str) -> anyhow::Result<Duration> {
        let asked = self.event(event_type);
        let began_at = Instant::now();
        self.connection.ask(Method::POST, "/v1/events", Some(&asked)).await.context("an event cannot be published")?;
        Ok(began_at.elapsed())
    }
}

/// Creates endpoints, a document at a time.
struct Importer {
    connection: Connection,
    path: String,
    /// Part of every uid, so that another run on the same server has others.
    run: u64,
    sink: String,
    next: Arc<AtomicU64>,
    endpoints: u64,
    bar: ProgressBar,
}

impl Importer {
    async fn run(mut self) -> anyhow::Result<()> {
        loop {
            let first = self.next.fetch_add(ENDPOINTS_A_DOCUMENT, Ordering::Relaxed);
            if first >= self.endpoints {
                return Ok(());
            }
            let numbers = first..self.endpoints.min(first + ENDPOINTS_A_DOCUMENT);
            let count = numbers.end - numbers.start;
            let endpoint = |number: u64| {
                json!({
                    "uid": format!("bench-{}-{number}", self.run),
                    "url": format!("{}well/{number}", self.sink),
                    "event_types": [format!("bulk.{}", number % EVENT_TYPES)],
                })
            };
            let document = json!({"version": 1, "endpoints": numbers.map(endpoint).collect::<Vec<_>>()});
            self.connection.ask(Method::POST, &self.path, Some(&document)).await.context("endpoints cannot be imported")?;
            self.bar.inc(count);
        }
    }
}

/// Some requests of one kind, being measured.
struct Step {
    pid: Option<u32>,
    cpu_before: Option<f64>,
    took_us: Vec<u32>,
}

impl Step {
    async fn begin(pid: Option<u32>) -> Self {
        tokio::time::sleep(SETTLE_TIME).await;
        Self { pid, cpu_before: pid.and_then(procs::cpu_seconds), took_us: Vec::new() }
    }

    async fn time<T>(&mut self, request: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let began_at = Instant::now();
        let answer = request.await?;
        self.took_us.push(u32::try_from(began_at.elapsed().as_micros()).unwrap_or(u32::MAX));
        Ok(answer)
    }

    fn end(self, name: &'static str, title: &'static str) -> Measured {
        let cpu = self.cpu_before.zip(self.pid.and_then(procs::cpu_seconds)).map(|(before, now)| now - before);
        let cpu_ms = cpu.map(|seconds| seconds * 1e3 / self.took_us.len().max(1) as f64);
        Measured { name, title, answer_ms: Percentiles::of_micros(self.took_us), cpu_ms }
    }
}

impl Report {
    fn to_text(&self) -> String {
        let mut text = format!(
            "{} endpoints in one application, created at {} a second\n\n{:<32} {:>9} {:>9} {:>9} {:>12}\n",
            grouped(self.endpoints as f64),
            grouped(self.created_per_second),
            format!("{} requests of each", self.requests),
            "p50 ms",
            "p99 ms",
            "max ms",
            "CPU ms each",
        );
        for measured in &self.measured {
            let cpu = measured.cpu_ms.map_or("-".to_owned(), |cpu| format!("{cpu:.2}"));
            let Percentiles { p50, p99, max, .. } = measured.answer_ms;
            text += &format!("{:<32} {p50:>9.2} {p99:>9.2} {max:>9.2} {cpu:>12}\n", measured.title);
        }
        let shown = |value: Option<f64>, unit: &str| value.map_or("-".to_owned(), |value| format!("{value:.0} {unit}"));
        text += &format!(
            "\nstart to ready {}, first publish after it {:.0} ms, memory {} (at most {})",
            shown(self.ready_ms, "ms"),
            self.first_publish_ms,
            shown(self.memory_mb, "MB"),
            shown(self.peak_memory_mb, "MB"),
        );
        if let Some(other) = &self.other_node {
            text += &format!(
                "\nthe other node: start to ready {:.0} ms, first publish after it {:.0} ms, memory {}",
                other.ready_ms,
                other.first_publish_ms,
                shown(other.memory_mb, "MB"),
            );
        }
        text
    }

    fn to_json(&self) -> Value {
        let measured: serde_json::Map<String, Value> = self
            .measured
            .iter()
            .map(|measured| (measured.name.to_owned(), json!({"answer_ms": measured.answer_ms.to_json(), "cpu_ms": measured.cpu_ms})))
            .collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"), "endpoints": self.endpoints, "requests": self.requests,
            "created_per_second": self.created_per_second, "ready_ms": self.ready_ms, "first_publish_ms": self.first_publish_ms,
            "memory_mb": self.memory_mb, "peak_memory_mb": self.peak_memory_mb, "measured": measured,
            "other_node": self.other_node.as_ref().map(|other| json!({
                "ready_ms": other.ready_ms, "first_publish_ms": other.first_publish_ms, "memory_mb": other.memory_mb,
            })),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_each_kind_of_request_for_people_and_for_programs() {
        let answer_ms = Percentiles { p50: 1.0, p95: 2.0, p99: 3.0, max: 4.0 };
        let report = Report {
            endpoints: 100_000,
            requests: 300,
            created_per_second: 2_000.0,
            ready_ms: Some(250.0),
            first_publish_ms: 600.0,
            memory_mb: Some(180.0),
            peak_memory_mb: None,
            other_node: None,
            measured: vec![Measured { name: "create", title: "create an endpoint", answer_ms, cpu_ms: Some(0.5) }],
        };
        assert_eq!(report.to_json()["measured"]["create"]["answer_ms"]["p99"], 3.0);
        let text = report.to_text();
        assert!(text.contains("create an endpoint") && text.contains("0.50") && text.contains("start to ready 250 ms"), "{text}");
    }
}
