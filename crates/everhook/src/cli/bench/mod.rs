//! `everhook bench`: what this machine does with Everhook, measured end to end and checked event by event.
//!
//! Publishers, server and sink are three processes on one machine, so that their costs can be told apart and latency is exact. Every
//! figure stands beside the limit of the machine: the same publishers posting straight into the same sink.

mod app;
mod calls;
mod children;
mod fault_app;
mod faults;
mod large;
mod load;
mod marker;
mod neighbors;
mod picture_svg;
mod procs;
mod receive;
mod report;
mod scenarios;
pub mod sink;
mod under_fault;

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use url::Url;

use self::{
    children::{ServerProcess, SinkProcess},
    report::{Line, Outcome},
    scenarios::{Bench, SCENARIOS, Scenario, Subject},
};
use super::{client::Server, scratch::ScratchFolder};

/// Measure throughput, latency, CPU and memory on this machine, and check that nothing is lost or duplicated.
#[derive(Clone, Debug, clap::Args)]
pub struct BenchArgs {
    /// Run only this scenario; may be repeated.
    #[arg(long, value_name = "NAME", value_parser = SCENARIOS.map(|scenario| scenario.name))]
    scenario: Vec<String>,
    /// The number of events in each scenario.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    events: Option<u64>,
    /// The size of each event's data, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    size: usize,
    /// The number of publishers, each with its own keep-alive connection.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: u32,
    /// The number of publisher threads; the number of cores by default.
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroU16>,
    /// `max_concurrency` of the endpoints; the server's default if absent.
    #[arg(long, value_name = "N")]
    max_concurrency: Option<u32>,
    /// Measure the effect of hanging and failing endpoints on the others instead: 80 of 100 endpoints, with good and with bad neighbors.
    #[arg(long, conflicts_with = "scenario")]
    neighbors: bool,
    /// Instead, measure the cost of changes and publishes in one application with this number of endpoints.
    #[arg(long, value_name = "N", conflicts_with_all = ["scenario", "neighbors"], value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    endpoints: Option<u64>,
    /// Measure receiving instead: signed pushes, dead destinations, batches, handshakes, and the cost of verifying.
    #[arg(long, conflicts_with_all = ["scenario", "neighbors", "endpoints", "server"])]
    receive: bool,
    /// Measure calls to an app instead: their overhead, and whether deadlines and limits hold when the app hangs, fails or has too much to do.
    #[arg(long, conflicts_with_all = ["scenario", "neighbors", "endpoints", "receive"])]
    calls: bool,
    /// With `--calls`, also record what callers see while an app hangs for some seconds (with nothing, with a hand-written wrapper, and with Everhook) and draw
    /// it in this file.
    #[arg(long, value_name = "FILE", requires = "calls")]
    svg: Option<PathBuf>,
    /// Measure `--endpoints` on a temporary server that keeps everything in this PostgreSQL database, which must be empty or of an earlier bench.
    #[arg(long, value_name = "URL", requires = "endpoints", conflicts_with = "server")]
    database: Option<String>,
    /// Use fewer events, for a result within seconds.
    #[arg(long)]
    quick: bool,
    /// The folder for temporary data folders.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Measure this running server instead of a temporary one. It must permit private networks.
    #[arg(long, value_name = "URL", requires = "key", conflicts_with = "data")]
    server: Option<Url>,
    /// A key of that server with the scope `manage`.
    #[arg(long, env = "EVERHOOK_KEY", hide_env_values = true, value_name = "KEY")]
    key: Option<String>,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Runs the scenarios one after the other and prints each as it ends.
///
/// # Errors
/// When something cannot be started, or when a delivery is missing or doubled.
pub async fn run(args: BenchArgs) -> anyhow::Result<()> {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = args.threads {
        runtime.worker_threads(usize::from(threads.get()));
    }
    let runtime = runtime.enable_all().build()?;
    // A runtime of its own, because the number of its threads is part of what is measured.
    tokio::task::spawn_blocking(move || runtime.block_on(run_scenarios(&args))).await.context("the bench panicked")?
}

async fn run_scenarios(args: &BenchArgs) -> anyhow::Result<()> {
    let place = Place::choose(args)?;
    if let Some(endpoints) = args.endpoints {
        return large::run(args, &place, endpoints).await;
    }
    if args.receive {
        return receive::run(args, &place).await;
    }
    if args.calls {
        return calls::run(args, &place).await;
    }
    say(args, &place.text(args));
    let sink = SinkProcess::start()?;
    let bench = Bench { sink: &sink, connections: args.connections, data_bytes: args.size, max_concurrency: args.max_concurrency };
    let bar = progress_bar();
    let limit = measure_limit(args, &bench, &bar).await?;
    say(args, &report::head_text());
    let mut lines = Vec::new();
    for scenario in chosen(args) {
        bar.reset();
        bar.set_message(scenario.title);
        let line = run_one(args, &bench, scenario, &place, &bar).await.with_context(|| format!("scenario `{}`", scenario.name))?;
        bar.suspend(|| say(args, &report::line_text(&line, limit.delivered_per_second)));
        lines.push(line);
    }
    bar.finish_and_clear();
    conclude(args, &place, &limit, &lines)
}

fn chosen(args: &BenchArgs) -> impl Iterator<Item = &'static Scenario> {
    let all: &[Scenario] = if args.neighbors { &neighbors::SCENARIOS } else { &SCENARIOS };
    all.iter().filter(|scenario| args.scenario.is_empty() || args.scenario.iter().any(|name| name == scenario.name))
}

/// Text for people; silent where a program reads.
fn say(args: &BenchArgs, text: &str) {
    if !args.json {
        anstream::println!("{text}");
    }
}

fn progress_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:<15} {wide_bar} {human_pos}/{human_len} {per_sec}");
    ProgressBar::new(1).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Enough requests for two decimals, in a second or two.
const LIMIT_EVENTS: u64 = 50_000;
const LIMIT_EVENTS_QUICK: u64 = 20_000;

async fn measure_limit(args: &BenchArgs, bench: &Bench<'_>, bar: &ProgressBar) -> anyhow::Result<Outcome> {
    bar.set_message("limit");
    let limit = bench.limit(if args.quick { LIMIT_EVENTS_QUICK } else { LIMIT_EVENTS }, bar).await?;
    let text = format!(
        "limit of this machine: {} requests/s ({} connections directly to the sink)\n",
        report::grouped(limit.delivered_per_second),
        args.connections
    );
    bar.suspend(|| say(args, &text));
    Ok(limit)
}

async fn run_one(args: &BenchArgs, bench: &Bench<'_>, scenario: &Scenario, place: &Place, bar: &ProgressBar) -> anyhow::Result<Line> {
    let events = args.events.unwrap_or(if args.quick { scenario.events_quick } else { scenario.events });
    let Scenario { name, title, .. } = *scenario;
    match place {
        Place::Running(server) => {
            let outcome = bench.run(scenario, events, &Subject { server, pid: None }, bar).await?;
            Ok(Line { name, title, outcome, ready_ms: None, stop_ms: None })
        }
        Place::Folder { parent, .. } => {
            let folder = ScratchFolder::make(parent, "bench")?;
            let server = ServerProcess::start(folder.path()).await?;
            let outcome = bench.run(scenario, events, &Subject { server: &server.server, pid: Some(server.pid()) }, bar).await?;
            let ready_ms = Some(server.ready_after.as_secs_f64() * 1e3);
            let stop_ms = Some(server.stop().await?.as_secs_f64() * 1e3);
            Ok(Line { name, title, outcome, ready_ms, stop_ms })
        }
    }
}

/// Prints the end of the report and judges the whole.
fn conclude(args: &BenchArgs, place: &Place, limit: &Outcome, lines: &[Line]) -> anyhow::Result<()> {
    let faults: Vec<String> = lines.iter().filter_map(report::fault_text).collect();
    let checked: u64 = lines.iter().map(|line| line.outcome.delivered).sum();
    if args.json {
        let scenarios: Vec<_> = lines.iter().map(|line| report::line_json(line, limit.delivered_per_second)).collect();
        let whole = json!({
            "version": env!("CARGO_PKG_VERSION"), "cores": cores(), "file_system": place.file_system(),
            "connections": args.connections, "data_bytes": args.size,
            "limit_per_second": limit.delivered_per_second, "limit_ms": limit.end_to_end_ms.to_json(), "scenarios": scenarios,
            "bad_neighbors": neighbors::compare(lines).map(|(full, steady)| json!({
                "full_speed": {"delivered_ratio": full.delivered, "p99_ratio": full.p99},
                "steady": {"delivered_ratio": steady.delivered, "p99_ratio": steady.p99},
            })),
        });
        anstream::println!("{whole}");
    }
    if args.neighbors {
        say(args, &neighbors::compare_text(lines));
    }
    if !faults.is_empty() {
        bail!("deliveries are missing, duplicated or refused:\n{}", faults.join("\n"));
    }
    say(args, &format!("\nevery accepted event arrived exactly once ({} deliveries checked)", report::grouped(checked as f64)));
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
}

/// Where the server under test is, or where its data goes.
enum Place {
    Running(Arc<Server>),
    Folder { parent: PathBuf, file_system: Option<String> },
}

impl Place {
    fn choose(args: &BenchArgs) -> anyhow::Result<Self> {
        if let Some(url) = &args.server {
            return Ok(Self::Running(Server::new(url, args.key.as_deref())?));
        }
        if let Some(parent) = &args.data {
            std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
            return Ok(Self::Folder { parent: std::path::absolute(parent)?, file_system: procs::file_system_of(parent) });
        }
        // Many systems keep the temporary folder in memory, where a commit costs nothing: the current folder is more honest.
        let temporary = std::env::temp_dir();
        let file_system = procs::file_system_of(&temporary);
        let parent = match &file_system {
            Some(kind) if procs::is_in_memory(kind) => std::env::current_dir()?,
            _ => temporary,
        };
        Ok(Self::Folder { file_system: procs::file_system_of(&parent), parent })
    }

    fn file_system(&self) -> Option<&str> {
        match self {
            Self::Running(_) => None,
            Self::Folder { file_system, .. } => file_system.as_deref(),
        }
    }

    fn text(&self, args: &BenchArgs) -> String {
        let machine = format!("{} cores, events of {} bytes", cores(), report::grouped(args.size as f64));
        match self {
            Self::Running(_) => format!("{machine}, a running server"),
            Self::Folder { parent, file_system } => {
                let kind = file_system.as_deref().unwrap_or("unknown file system");
                let warning = match procs::is_in_memory(kind) {
                    true => "\nWARNING: this folder is in memory, so commits cost nothing. Name a folder on a disk with --data.",
                    false => "",
                };
                format!("{machine}, data under {} ({kind}){warning}", parent.display())
            }
        }
    }
}
