//! What `bench` measures: the list of scenarios, and how one is run from the first publish to the last arrival.
//!
//! A run is believed only if every accepted event arrived at every endpoint exactly once; that is checked here, event by event.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use http::Method;
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{
    children::SinkProcess,
    load::{self, Load, PublishPath, Published},
    marker::now_ns,
    neighbors::Neighbors,
    procs,
    report::{Outcome, Percentiles, Proof},
};
use crate::cli::client::{Connection, Server};

/// How often the sink is asked how far it is.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);
/// How long nothing may arrive before the rest is taken as missing: longer than the longest pause of a delivery that succeeds at once.
const STALL_MAX: Duration = Duration::from_secs(30);
/// How long doubles are waited for after the last expected arrival.
const DOUBLES_WAIT: Duration = Duration::from_millis(300);

/// One way of using a server.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What `--scenario` calls it.
    pub name: &'static str,
    /// What the report calls it.
    pub title: &'static str,
    /// How many endpoints get every event.
    pub endpoints: u32,
    /// Events in a full run.
    pub events: u64,
    /// Events in a `--quick` run.
    pub events_quick: u64,
    /// Events a publish request; 1 uses `POST /v1/events`.
    pub batch: u64,
    /// Events a second, or as fast as answered.
    pub rate: Option<f64>,
    /// Endpoints that get every event too, and are not measured.
    pub neighbors: Neighbors,
}

/// All scenarios, in the order they are run.
pub const SCENARIOS: [Scenario; 4] = [
    Scenario { name: "one", title: "1 endpoint", events: 50_000, events_quick: 10_000, ..ALONE },
    Scenario { name: "fan-out", title: "10 endpoints", endpoints: 10, events: 10_000, events_quick: 2_000, ..ALONE },
    Scenario { name: "batch", title: "batches of 500", events: 50_000, events_quick: 10_000, batch: 500, ..ALONE },
    Scenario { name: "low-load", title: "50 events/s", events: 1_000, events_quick: 150, rate: Some(50.0), ..ALONE },
];

const ALONE: Scenario =
    Scenario { name: "", title: "", endpoints: 1, events: 0, events_quick: 0, batch: 1, rate: None, neighbors: Neighbors::None };

/// What every scenario of a bench has in common.
pub struct Bench<'a> {
    /// Where deliveries arrive.
    pub sink: &'a SinkProcess,
    /// Publishers, each with a connection of its own.
    pub connections: u32,
    /// The size of each event's `data`.
    pub data_bytes: usize,
    /// `max_concurrency` of the endpoints, where it is not the server's default.
    pub max_concurrency: Option<u32>,
}

/// The server under test.
pub struct Subject<'a> {
    /// How to reach it.
    pub server: &'a Arc<Server>,
    /// Its process, where it was started by us.
    pub pid: Option<u32>,
}

impl Bench<'_> {
    /// Posts straight into the sink: what this machine and this client can do at most.
    ///
    /// # Errors
    /// When the sink cannot be reached.
    pub async fn limit(&self, events: u64, bar: &ProgressBar) -> anyhow::Result<Outcome> {
        let sink = Server::new(&self.sink.url, None)?;
        self.measure(PublishPath::Sink, events, 1, None, &Subject { server: &sink, pid: None }, bar).await
    }

    /// Runs one scenario against a server that has nothing else to do.
    ///
    /// # Errors
    /// When the server refuses the endpoints or the sink is lost. Missing and doubled deliveries are part of the outcome.
    pub async fn run(&self, scenario: &Scenario, events: u64, subject: &Subject<'_>, bar: &ProgressBar) -> anyhow::Result<Outcome> {
        let event_type = format!("bench.{}", now_ns());
        let mut connection = Connection::new(subject.server.clone());
        let endpoints = self.create_endpoints(&mut connection, scenario, &event_type).await?;
        let door = match scenario.batch {
            1 => PublishPath::Single { event_type },
            batch => PublishPath::Batch { event_type, batch },
        };
        let outcome = self.measure(door, events, scenario.endpoints, scenario.rate, subject, bar).await;
        for endpoint in endpoints {
            connection.ask(Method::DELETE, &format!("/v1/endpoints/{endpoint}"), None).await.context("cannot delete an endpoint")?;
        }
        outcome
    }

    async fn create_endpoints(&self, connection: &mut Connection, scenario: &Scenario, event_type: &str) -> anyhow::Result<Vec<String>> {
        let mut ids = Vec::new();
        let measured = (0..scenario.endpoints).map(|number| format!("e/{number}"));
        for path in measured.chain(scenario.neighbors.paths()) {
            let mut endpoint =
                json!({"url": format!("{}{path}", self.sink.url), "event_types": [event_type], "name": format!("bench {path}")});
            if let Some(max_concurrency) = self.max_concurrency {
                endpoint["max_concurrency"] = json!(max_concurrency);
            }
            let made = connection.ask(Method::POST, "/v1/endpoints", Some(&endpoint)).await.context("cannot create an endpoint")?;
            ids.push(made["id"].as_str().context("the server returned an endpoint without an id")?.to_owned());
        }
        Ok(ids)
    }

    /// Publishes through a door, waits until everything arrived at so many endpoints, and compares.
    ///
    /// # Errors
    /// When the sink is lost. Missing and doubled deliveries are part of the outcome.
    pub async fn measure(
        &self,
        door: PublishPath,
        events: u64,
        endpoints: u32,
        rate: Option<f64>,
        subject: &Subject<'_>,
        bar: &ProgressBar,
    ) -> anyhow::Result<Outcome> {
        let run = now_ns();
        let mut gauge = SinkGauge::new(self.sink)?;
        gauge.expect(run, events, endpoints).await?;
        bar.set_length(events * u64::from(endpoints));
        let idle_memory = subject.pid.and_then(procs::memory);
        let before = CpuReading::take(subject.pid, self.sink.pid());

        let load = Load { run, events, connections: self.connections, data_bytes: self.data_bytes, door, rate };
        let publishing = load::publish(Arc::new(load), subject.server);
        let published = with_progress(publishing, SinkGauge::new(self.sink)?, bar).await?;
        gauge.wait_for(published.accepted.len() as u64 * u64::from(endpoints), bar).await?;
        let cpu = CpuReading::take(subject.pid, self.sink.pid()).since(&before);

        tokio::time::sleep(DOUBLES_WAIT).await;
        let counts = gauge.counts("?latency").await?;
        let proof = gauge.prove(&published, events, endpoints).await?;
        let delivered = counts["unique"].as_u64().unwrap_or(0);
        let arriving_ns = counts["last_new_ns"].as_u64().unwrap_or(0).saturating_sub(published.began_ns);
        Ok(Outcome {
            accepted_per_second: per_second(published.accepted.len() as u64, published.ended_ns - published.began_ns),
            delivered_per_second: per_second(delivered, arriving_ns),
            delivered,
            answer_ms: Percentiles::of_micros(published.answer_us),
            end_to_end_ms: Percentiles::from_json(&counts["latency_ms"]),
            server_cpu_seconds: cpu.server,
            all_cpu_seconds: cpu.all,
            idle_memory_mb: idle_memory.map(|memory| memory.resident_mb),
            peak_memory_mb: subject.pid.and_then(procs::memory).map(|memory| memory.peak_mb),
            proof,
        })
    }
}

fn per_second(count: u64, nanoseconds: u64) -> f64 {
    if nanoseconds == 0 { 0.0 } else { count as f64 * 1e9 / nanoseconds as f64 }
}

/// Moves the bar by what arrived while the work goes on.
async fn with_progress<T>(work: impl Future<Output = T>, mut gauge: SinkGauge, bar: &ProgressBar) -> T {
    tokio::pin!(work);
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = tick.tick() => {
                // The bar is an ornament: the work itself tells what goes wrong.
                if let Ok(counts) = gauge.counts("").await {
                    bar.set_position(counts["unique"].as_u64().unwrap_or(0));
                }
            }
        }
    }
}

/// CPU seconds used so far.
struct CpuReading {
    server: Option<f64>,
    all: Option<f64>,
}

impl CpuReading {
    fn take(server: Option<u32>, sink: u32) -> Self {
        // Without the server's own time a sum would be taken for the whole.
        let server = server.and_then(procs::cpu_seconds);
        let others = procs::cpu_seconds(sink).zip(procs::cpu_seconds(std::process::id()));
        let all = server.zip(others).map(|(server, (sink, own))| server + sink + own);
        Self { server, all }
    }

    fn since(&self, before: &Self) -> Self {
        let difference = |now: Option<f64>, then: Option<f64>| now.zip(then).map(|(now, then)| now - then);
        Self { server: difference(self.server, before.server), all: difference(self.all, before.all) }
    }
}

/// The sink's control side.
struct SinkGauge {
    connection: Connection,
}

impl SinkGauge {
    fn new(sink: &SinkProcess) -> anyhow::Result<Self> {
        Ok(Self { connection: Connection::new(Server::new(&sink.url, None)?) })
    }

    async fn expect(&mut self, run: u64, events: u64, endpoints: u32) -> anyhow::Result<()> {
        let path = format!("/control/expect?run={run}&events={events}&endpoints={endpoints}");
        self.connection.ask(Method::POST, &path, None).await.context("the sink refuses the run")?;
        Ok(())
    }

    async fn counts(&mut self, query: &str) -> anyhow::Result<Value> {
        self.connection.ask(Method::GET, &format!("/control/counts{query}"), None).await
    }

    /// Returns when that many arrived, or when nothing new arrived for [`STALL_MAX`].
    async fn wait_for(&mut self, expected: u64, bar: &ProgressBar) -> anyhow::Result<()> {
        let (mut seen, mut moved_at) = (0, Instant::now());
        loop {
            let unique = self.counts("").await?["unique"].as_u64().unwrap_or(0);
            bar.set_position(unique);
            if unique > seen {
                (seen, moved_at) = (unique, Instant::now());
            }
            if unique >= expected || moved_at.elapsed() > STALL_MAX {
                return Ok(());
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Compares what was accepted with what arrived, for each event and endpoint.
    async fn prove(&mut self, published: &Published, events: u64, endpoints: u32) -> anyhow::Result<Proof> {
        let arrivals = self.connection.send(Method::GET, "/control/arrivals", "").await?.body;
        ensure!(arrivals.len() as u64 == events * u64::from(endpoints), "the sink was taken over by another bench");
        Ok(Proof::of(published, &arrivals))
    }
}
