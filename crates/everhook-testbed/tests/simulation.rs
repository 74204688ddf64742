//! The simulation in a small dose: kept seeds, fresh ones, and the tests of the test itself.
//!
//! More of it: `cargo run -p everhook-testbed --bin simulate -- --seeds 0..500 --hours 2 --jobs 2`; one seed again: `--seed N`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everhook_testbed::{
    disk::Syncing,
    hours,
    simulation::{Outcome, Plan, run},
};

/// Seeds whose lives are full. One that fails is added here; but a change of the simulator gives every seed another life, so that what it found
/// also gets a test of its own.
const KEPT_SEEDS: [u64; 6] = [1, 2, 13, 19, 23, 53];

/// How many seeds nobody has tried before.
const FRESH_SEEDS: u64 = 5;

/// How many seeds a disk without syncs may stay unnoticed.
const BLIND_SEEDS_MAX: u64 = 5;

/// How much of a failing run is shown.
const TRACE_LINES: usize = 40;

fn simulate(seed: u64, span: Duration, syncing: Syncing) -> Outcome {
    run(Plan { seed, span, syncing })
}

fn assert_every_rule_holds(outcome: &Outcome) {
    let Some(violation) = &outcome.violation else { return };
    let trace = outcome.trace[outcome.trace.len().saturating_sub(TRACE_LINES)..].join("\n");
    let again = format!("cargo run -p everhook-testbed --bin simulate -- --seed {} --hours 2", outcome.seed);
    panic!("{trace}\nseed {} broke the rule: {}\n{}\nagain: {again}", outcome.seed, violation.rule, violation.because);
}

#[test]
fn every_rule_holds_for_kept_seeds() {
    for seed in KEPT_SEEDS {
        let outcome = simulate(seed, hours(2), Syncing::Honest);
        assert_every_rule_holds(&outcome);
        assert!(outcome.tally.requests > 0 && outcome.tally.power_cuts > 0, "seed {seed} does nothing: {:?}", outcome.tally);
    }
}

#[test]
fn every_rule_holds_for_fresh_seeds() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
    eprintln!("fresh seeds from {now} on");
    for seed in now..now + FRESH_SEEDS {
        assert_every_rule_holds(&simulate(seed, hours(2), Syncing::Honest));
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let fingerprint = |seed| simulate(seed, hours(1), Syncing::Honest).fingerprint;
    assert_eq!(fingerprint(7), fingerprint(7));
    assert_ne!(fingerprint(7), fingerprint(8));
}

#[test]
fn a_disk_that_ignores_syncs_is_noticed() {
    let rules: Vec<_> = (0..BLIND_SEEDS_MAX)
        .filter_map(|seed| simulate(seed, hours(1), Syncing::Ignored).violation)
        .map(|violation| violation.rule)
        .collect();
    assert!(rules.contains(&"every accepted event is in the store"), "the oracle is blind: {rules:?}");
}
