//! `everhook simulate`: a retry schedule against an outage, before there is one.
//!
//! For the person who chooses a schedule. It needs no server. What happens is computed by `policy::outage` with the policy that deliveries
//! get; here it is only asked for and shown.

mod svg;
mod text_plot;
mod units;

use std::{path::PathBuf, time::Duration};

use anyhow::Context as _;
use everhook_core::{
    model::{BreakerConfig, RetrySchedule},
    policy::{
        outage::{Outage, OutageOutcome, simulate},
        presets,
    },
};
use serde_json::json;

use units::EventRate;

/// Simulate an outage under a retry schedule: attempts, delays, dead letters, and the load after recovery.
#[derive(Debug, clap::Args)]
pub struct SimulateArgs {
    /// The preset to simulate: standard, backoff, relay, job, ingest, notify or patient.
    #[arg(long, default_value = "standard", value_name = "PRESET", value_parser = parse_schedule)]
    schedule: RetrySchedule,
    /// How long the endpoint is down (`90s`, `3h`, `2d`; at most 30 days).
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    down: Duration,
    /// The rate at which events are published (`20/s`, `600/m`, `1000/h`).
    #[arg(long, default_value = "1/s", value_name = "RATE", value_parser = units::parse_rate)]
    rate: EventRate,
    /// How long the endpoint takes to answer a request (`50ms`, `2s`; at most 60 s). Five requests are made at a time.
    #[arg(long, default_value = "50ms", value_name = "DURATION", value_parser = units::parse_response_time)]
    response_time: Duration,
    /// Whether the endpoint's circuit breaker is on, with its default settings.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    breaker: bool,
    /// The seed of the jitter; the same seed gives the same result.
    #[arg(long, default_value_t = 1, value_name = "N")]
    jitter_seed: u64,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Also write the plot to this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// What was asked and what came of it: all that the plots show.
struct SimulationResult {
    schedule: RetrySchedule,
    down_for: Duration,
    rate: EventRate,
    breaker: BreakerConfig,
    response_time: Duration,
    aftermath: OutageOutcome,
}

/// Simulates the outage and prints what came of it.
///
/// # Errors
/// When the SVG cannot be written; the rest was printed.
pub fn run(args: SimulateArgs) -> anyhow::Result<()> {
    let breaker = BreakerConfig { enabled: args.breaker, ..BreakerConfig::window() };
    let SimulateArgs { down: down_for, rate, response_time, .. } = args;
    let outage = Outage { schedule: &args.schedule, breaker, down_for, events_per_second: rate.per_second(), response_time };
    let aftermath = simulate(&outage, units_from(args.jitter_seed));
    let story = SimulationResult { schedule: args.schedule, down_for, rate, breaker, response_time, aftermath };
    if args.json {
        anstream::println!("{:#}", as_json(&story));
    } else {
        anstream::print!("{}", text_plot::draw(&story));
    }
    if let Some(file) = args.svg {
        std::fs::write(&file, svg::draw(&story)).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn parse_schedule(name: &str) -> Result<RetrySchedule, String> {
    presets::preset(name).ok_or_else(|| format!("no preset has this name; the presets are {}", presets::NAMES.join(", ")))
}

/// Numbers from 0 to 1 (SplitMix64): the same for the same seed, on every machine.
fn units_from(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // 53 bits are what an `f64` holds exactly.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Lengths of time are in seconds, to the millisecond.
fn as_json(story: &SimulationResult) -> serde_json::Value {
    let secs = |length: Duration| length.as_millis() as f64 / 1_000.0;
    let aftermath = &story.aftermath;
    json!({
        "schedule": story.schedule.name.0,
        "max_attempts": story.schedule.max_attempts,
        "down_seconds": secs(story.down_for),
        "events_per_second": story.rate.per_second(),
        "circuit_breaker": story.breaker.enabled,
        "response_seconds": secs(story.response_time),
        "first_event": aftermath.first_event.iter().map(|attempt| json!({
            "at_seconds": secs(attempt.at),
            "delivered": attempt.succeeds,
        })).collect::<Vec<_>>(),
        "events": aftermath.events,
        "events_followed": aftermath.followed,
        "delivered": aftermath.delivered,
        "dead": aftermath.dead,
        "attempts_in_vain": aftermath.attempts_in_vain,
        "late_seconds": aftermath.lateness.map(|late| json!({ "p50": secs(late.p50), "p95": secs(late.p95), "max": secs(late.max) })),
        "peak_per_second_after_recovery": aftermath.peak_per_second,
        "recovery": { "slice_seconds": secs(aftermath.recovery_slice), "requests": aftermath.recovery },
        "load": {
            "slice_seconds": secs(aftermath.slice),
            "in_vain": aftermath.load.iter().map(|slice| slice.in_vain).collect::<Vec<_>>(),
            "delivered": aftermath.load.iter().map(|slice| slice.delivered).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests;
