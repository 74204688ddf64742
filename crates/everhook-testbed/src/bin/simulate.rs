//! Runs the simulation: one seed, or many on several threads. Prints the fingerprint of each run, and of a failing one the rule it broke and its trace.
//!
//! `cargo run -p everhook-testbed --bin simulate -- --seed 42 --hours 2`

use std::{
    io::Write,
    ops::Range,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use clap::Parser;
use everhook_testbed::{
    cluster::life::{self, LifePlan, LifeTally},
    disk::Syncing,
    simulation::{Outcome, Plan, Tally, run},
};

/// How many lines of a failing run are shown where no file was asked for.
const TRACE_LINES: usize = 60;

/// The longest run, in hours: everything that happened in it is kept in memory.
const HOURS_MAX: f64 = 1_000.0;

/// Simulates Everhook: the real core on the real SQLite, with simulated time, network and disk.
#[derive(Parser)]
#[command(name = "simulate")]
struct Arguments {
    /// The one seed to run.
    #[arg(long, conflicts_with = "seeds", required_unless_present = "seeds")]
    seed: Option<u64>,
    /// Many seeds, from the first up to but without the last: `0..500`.
    #[arg(long, value_parser = parse_range)]
    seeds: Option<Range<u64>>,
    /// How long each run is, in simulated hours, before everything heals.
    #[arg(long, default_value = "2", value_parser = parse_hours)]
    hours: f64,
    /// How many seeds run at once.
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// The disk ignores every sync: the oracle must then find something lost.
    #[arg(long)]
    no_sync: bool,
    /// How many nodes share the store. More than one live a life of their own, in which nodes come, stop, die and lose the store.
    #[arg(long, default_value_t = 1)]
    nodes: usize,
    /// How many worker pools they are in. With more than one, the organization goes from one to another.
    #[arg(long, default_value_t = 1, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..100))]
    pools: usize,
    /// Where the whole trace of a run goes: of the one seed, or of the first that fails.
    #[arg(long)]
    trace: Option<PathBuf>,
}

fn parse_range(text: &str) -> Result<Range<u64>, String> {
    let wanted = "two numbers with `..` between them";
    let (first, last) = text.split_once("..").ok_or(wanted)?;
    let range = first.parse().map_err(|_| wanted)?..last.parse().map_err(|_| wanted)?;
    if range.is_empty() { Err("a range that is not empty".to_owned()) } else { Ok(range) }
}

fn parse_hours(text: &str) -> Result<f64, String> {
    let hours = text.parse().ok().filter(|hours| (0.0..=HOURS_MAX).contains(hours));
    hours.ok_or_else(|| format!("a number from 0 to {HOURS_MAX}"))
}

/// What came of all runs.
#[derive(Default)]
struct Summary {
    runs: u64,
    failed: Vec<u64>,
    tally: Tally,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seeds = match (&arguments.seeds, arguments.seed) {
        (Some(seeds), _) => seeds.clone(),
        (None, seed) => seed.map_or(0..0, |seed| seed..seed.saturating_add(1)),
    };
    if arguments.nodes > 1 {
        return live(&arguments, seeds);
    }
    let began = Instant::now();
    let summary = Mutex::new(Summary::default());
    let next = AtomicU64::new(seeds.start);
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| work(&arguments, &seeds, &next, &summary));
        }
    });
    let summary = summary.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Summary { runs, failed, tally } = &summary;
    let hours = *runs as f64 * arguments.hours;
    say(&format!("{runs} runs, {hours:.0} simulated hours in {:.0} s", began.elapsed().as_secs_f64()));
    say(&format!(
        "{} events, {} pushes and {} jobs accepted; {} mails taken; {} deliveries delivered, {} dead, {} cancelled",
        tally.accepted, tally.received, tally.jobs, tally.mails, tally.delivered, tally.dead, tally.cancelled
    ));
    say(&format!("{} requests, {} of them repeated", tally.requests, tally.repeated));
    say(&format!("{} deliveries in order, {} openings of breakers, {} changes by owners", tally.ordered, tally.openings, tally.changes));
    say(&format!(
        "{} kills, {} power cuts, {} restarts, {} faults of the store",
        tally.kills, tally.power_cuts, tally.restarts, tally.faults
    ));
    say(&format!("{} runs failed {failed:?}", failed.len()));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Lives of several nodes, one seed after the other.
fn live(arguments: &Arguments, seeds: Range<u64>) -> ExitCode {
    let span = Duration::from_secs_f64(arguments.hours * 3_600.0);
    let mut failed = Vec::new();
    let mut total = LifeTally::default();
    for seed in seeds {
        let life = life::run(LifePlan { seed, nodes: arguments.nodes, pools: arguments.pools, span });
        say(&format!("seed {seed}: {}", life.violation.as_deref().unwrap_or("every promise was kept")));
        total += life.tally;
        if life.violation.is_some() {
            failed.push(seed);
        }
    }
    let LifeTally { accepted, requests, kills, stops, pauses, moves, erasures } = total;
    say(&format!("{accepted} events accepted, {requests} requests; {kills} nodes died, {stops} were stopped, {pauses} lost the store"));
    say(&format!("{erasures} events were erased, and the organization changed pools {moves} times"));
    say(&format!("{} runs failed {failed:?}", failed.len()));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Takes one seed after the other.
fn work(arguments: &Arguments, seeds: &Range<u64>, next: &AtomicU64, summary: &Mutex<Summary>) {
    let syncing = if arguments.no_sync { Syncing::Ignored } else { Syncing::Honest };
    let span = Duration::from_secs_f64(arguments.hours * 3_600.0);
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds.end {
            return;
        }
        let began = Instant::now();
        let outcome = run(Plan { seed, span, syncing });
        let mut summary = summary.lock().unwrap_or_else(PoisonError::into_inner);
        summary.runs += 1;
        summary.tally += outcome.tally;
        report(&outcome, &format!("{}/{}", summary.runs, seeds.end - seeds.start), began.elapsed());
        let is_first_failure = outcome.violation.is_some() && summary.failed.is_empty();
        if is_first_failure || arguments.seed.is_some() {
            keep_trace(arguments, &outcome);
        }
        if outcome.violation.is_some() {
            summary.failed.push(seed);
        }
    }
}

fn report(outcome: &Outcome, progress: &str, took: Duration) {
    let Outcome { seed, fingerprint, tally, violation, trace } = outcome;
    say(&format!(
        "{progress} seed {seed}: fingerprint {fingerprint:016x}, {} accepted, {} requests, {} kills, {} power cuts, {:.1} s: {}",
        tally.accepted,
        tally.requests,
        tally.kills,
        tally.power_cuts,
        took.as_secs_f64(),
        if violation.is_none() { "every rule holds" } else { "FAILED" },
    ));
    if let Some(violation) = violation {
        trace[trace.len().saturating_sub(TRACE_LINES)..].iter().for_each(|line| say(&format!("  {line}")));
        say(&format!("seed {seed} broke the rule: {}\n  {}", violation.rule, violation.because));
    }
}

fn keep_trace(arguments: &Arguments, outcome: &Outcome) {
    let Some(path) = &arguments.trace else { return };
    match std::fs::write(path, outcome.trace.join("\n") + "\n") {
        Ok(()) => say(&format!("the whole trace of seed {} is in {}", outcome.seed, path.display())),
        Err(error) => say(&format!("the trace could not be written to {}: {error}", path.display())),
    }
}

/// A reader that went away does not stop the runs.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
