//! The outcome as text, for a terminal of 80 columns.

use std::{fmt::Write as _, time::Duration};

use everhook_core::policy::outage::{OutageOutcome, Try};

use super::{
    SimulationResult,
    units::{grouped, per_second, words},
};

/// How long the longest bar is.
const BAR_COLUMNS: f64 = 56.0;

/// How many rows the plot takes at most.
const ROWS_MAX: usize = 24;

/// How many attempts are listed at the beginning and at the end of a long list.
const FIRST_TRIES: usize = 10;
const LAST_TRIES: usize = 3;

/// Ends of bars, by eighths of a column.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

pub(super) fn draw(story: &SimulationResult) -> String {
    let mut out = String::new();
    headline(&mut out, story);
    first_event(&mut out, story);
    numbers(&mut out, story);
    recovery(&mut out, story);
    out
}

// Writing to a string cannot fail: the results below are dropped for that reason.

fn headline(out: &mut String, story: &SimulationResult) {
    let (name, attempts) = (&story.schedule.name.0, story.schedule.max_attempts);
    let breaker = if story.breaker.enabled { "on" } else { "off" };
    let _ = writeln!(out, "{name}: {attempts} attempts, circuit breaker {breaker}.");
    let _ = writeln!(out, "The endpoint is down for {}; events are published at {}.", words(story.down_for), story.rate);
    let millis = story.response_time.as_millis();
    let _ = writeln!(out, "It answers after {millis} ms; five requests are made at a time.\n");
}

fn first_event(out: &mut String, story: &SimulationResult) {
    let tries = &story.aftermath.first_event;
    let _ = writeln!(out, "An event published as the outage begins");
    let is_long = tries.len() > FIRST_TRIES + LAST_TRIES + 1;
    for (index, attempt) in tries.iter().enumerate() {
        if is_long && index == FIRST_TRIES {
            let _ = writeln!(out, "         ⋮  {} more fail", tries.len() - FIRST_TRIES - LAST_TRIES);
        }
        if !is_long || index < FIRST_TRIES || index >= tries.len() - LAST_TRIES {
            let end = ending(*attempt, index + 1 == tries.len(), story.down_for);
            let _ = writeln!(out, "  attempt {:>3}  {:>8}  {end}", index + 1, words(attempt.at));
        }
    }
    out.push('\n');
}

fn ending(attempt: Try, is_last: bool, down_for: Duration) -> String {
    match (attempt.succeeds, is_last) {
        (true, _) => format!("✓ delivered, {} after the endpoint has recovered", words(attempt.at.saturating_sub(down_for))),
        (false, true) => format!("✗ dead, {} before the endpoint has recovered", words(down_for.saturating_sub(attempt.at))),
        (false, false) => "✗".to_owned(),
    }
}

fn numbers(out: &mut String, story: &SimulationResult) {
    let aftermath = &story.aftermath;
    let events = aftermath.events;
    let share = |count: u64| count as f64 * 100.0 / events as f64;
    let _ = writeln!(out, "The {} events of the outage{}", grouped(events), sampling(aftermath));
    let _ = writeln!(out, "  delivered         {:>12}  {}", grouped(aftermath.delivered), percent(share(aftermath.delivered)));
    let _ = writeln!(out, "  dead              {:>12}  {}", grouped(aftermath.dead), percent(share(aftermath.dead)));
    let each = aftermath.attempts_in_vain as f64 / events as f64;
    let _ = writeln!(out, "  failed attempts   {:>12}  {each:.1} per event", grouped(aftermath.attempts_in_vain));
    if let Some(late) = aftermath.lateness {
        let (p50, p95, max) = (words(late.p50), words(late.p95), words(late.max));
        let _ = writeln!(out, "  delay             {p50:>12}  p50; p95 {p95}, max {max}");
        let peak = per_second(aftermath.peak_per_second);
        let _ = writeln!(out, "  peak afterwards   {peak:>12}  plus the {} published then", story.rate);
    }
    out.push('\n');
}

fn sampling(aftermath: &OutageOutcome) -> String {
    if aftermath.followed == aftermath.events { String::new() } else { format!(" (from {} of them)", grouped(aftermath.followed)) }
}

/// Never says 0 % or 100 % of what is only close to it.
fn percent(share: f64) -> String {
    match share {
        share if share > 0.0 && share < 0.1 => "< 0.1 %".to_owned(),
        share if share > 99.9 && share < 100.0 => "> 99.9 %".to_owned(),
        share if share == share.round() => format!("{share:.0} %"),
        share => format!("{share:.1} %"),
    }
}

fn recovery(out: &mut String, story: &SimulationResult) {
    let aftermath = &story.aftermath;
    if aftermath.recovery.is_empty() {
        let _ = writeln!(out, "When the endpoint has recovered, none of them is left to send.");
        return;
    }
    let slices_a_row = aftermath.recovery.len().div_ceil(ROWS_MAX);
    let row_length = aftermath.recovery_slice * u32::try_from(slices_a_row).unwrap_or(u32::MAX);
    let rows: Vec<u64> = aftermath.recovery.chunks(slices_a_row).map(|slices| slices.iter().sum()).collect();
    let most = rows.iter().max().copied().unwrap_or(0).max(1);
    let _ = writeln!(out, "Their requests after the endpoint has recovered, by {}", words(row_length));
    let mut start = Duration::ZERO;
    let mut is_quiet = false;
    for row in rows {
        if row > 0 {
            let rate = per_second(row as f64 / row_length.as_secs_f64());
            let _ = writeln!(out, "  {:>8} {} {rate}", format!("+{}", words(start)), bar(row, most));
        } else if !is_quiet {
            // Rows in which nothing is sent are shown as one.
            let _ = writeln!(out, "         ⋮");
        }
        is_quiet = row == 0;
        start += row_length;
    }
}

/// Never empty: something was sent, and the bar must not look as if nothing was.
fn bar(count: u64, most: u64) -> String {
    let eighths = ((count as f64 * BAR_COLUMNS * 8.0 / most as f64).round() as usize).max(1);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}
