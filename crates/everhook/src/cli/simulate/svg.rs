//! The outcome as a picture: attempts of one event above, requests of all events below, on one axis of time. Follows light and dark.

use std::{fmt::Write as _, time::Duration};

use super::{
    SimulationResult,
    units::{grouped, per_second, words},
};

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 482.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
/// Where the band of the outage begins.
const BAND_TOP: f64 = 88.0;
/// The line on which the attempts of one event stand.
const TRIES_Y: f64 = 156.0;
const BARS_TOP: f64 = 216.0;
const BARS_BOTTOM: f64 = 430.0;

/// About how many labels the axes have.
const TIME_TICKS: u32 = 8;
const RATE_TICKS: u32 = 4;

/// Plain colors, because many viewers know no variables; those that know media queries also get the dark ones.
const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #1b1f24 }
  .title { font-size: 17px; font-weight: 600 }
  .faint { fill: #667080; font-size: 12px }
  .paper { fill: #ffffff }
  .down { fill: #fdeceb }
  .line { stroke: #d5dae1; stroke-width: 1 }
  .bad { fill: #d5493f }
  .good { fill: #1a8754 }
  circle { stroke: #ffffff; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e8ebef }
    .faint { fill: #98a2b0 }
    .paper { fill: #14171b }
    .down { fill: #3a1f1e }
    .line { stroke: #363d47 }
    .bad { fill: #f0736a }
    .good { fill: #48c78e }
    circle { stroke: #14171b }
  }
";

/// Where instants and rates are on the paper.
struct Scale {
    ends_at: Duration,
    requests_max: f64,
}

impl Scale {
    fn of(story: &SimulationResult) -> Self {
        let aftermath = &story.aftermath;
        let slices = u32::try_from(aftermath.load.len()).unwrap_or(u32::MAX);
        let last_try = aftermath.first_event.last().map_or(Duration::ZERO, |attempt| attempt.at);
        let ends_at = (aftermath.slice * slices).max(last_try);
        let most = aftermath.load.iter().map(|slice| slice.in_vain + slice.delivered).max().unwrap_or(0).max(1);
        Self { ends_at, requests_max: most as f64 }
    }

    fn x(&self, at: Duration) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * at.as_secs_f64() / self.ends_at.as_secs_f64()
    }

    fn height(&self, requests: f64) -> f64 {
        (BARS_BOTTOM - BARS_TOP) * requests / self.requests_max
    }
}

pub(super) fn draw(story: &SimulationResult) -> String {
    let scale = Scale::of(story);
    let mut out = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" width=\"{WIDTH}\">\n");
    let _ = writeln!(out, "<title>{}</title>\n<style>{STYLE}</style>", title(story));
    let _ = writeln!(out, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>");
    text(&mut out, (LEFT, 34.0), "class=\"title\"", &title(story));
    text(&mut out, (LEFT, 55.0), "class=\"faint\"", &fates(story));
    text(&mut out, (LEFT, 72.0), "class=\"faint\"", &delays(story));
    outage(&mut out, story, &scale);
    axes(&mut out, story, &scale);
    bars(&mut out, story, &scale);
    tries(&mut out, story, &scale);
    legend(&mut out);
    out.push_str("</svg>\n");
    out
}

fn title(story: &SimulationResult) -> String {
    format!("Schedule {} against {} of outage at {}", story.schedule.name.0, words(story.down_for), story.rate)
}

fn fates(story: &SimulationResult) -> String {
    let aftermath = &story.aftermath;
    let (delivered, dead, in_vain) = (grouped(aftermath.delivered), grouped(aftermath.dead), grouped(aftermath.attempts_in_vain));
    format!("{delivered} delivered · {dead} dead · {in_vain} failed attempts")
}

fn delays(story: &SimulationResult) -> String {
    let Some(late) = story.aftermath.lateness else { return "nothing is delivered".to_owned() };
    let (p50, p95, max) = (words(late.p50), words(late.p95), words(late.max));
    let peak = per_second(story.aftermath.peak_per_second);
    format!("delay {p50} (p50), {p95} (p95), {max} (max) · peak after recovery {peak}, plus {} published then", story.rate)
}

fn outage(out: &mut String, story: &SimulationResult, scale: &Scale) {
    let (x, top) = (scale.x(story.down_for), BAND_TOP);
    let (width, height) = (x - LEFT, BARS_BOTTOM - top);
    let _ = writeln!(out, "<rect class=\"down\" x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\"/>");
    text(out, (LEFT + 6.0, top + 17.0), "class=\"faint\"", "down");
    // Left out where it would leave the paper: the band's end says the same.
    if x < WIDTH - 90.0 {
        text(out, (x + 6.0, top + 17.0), "class=\"faint\"", "back");
    }
}

fn axes(out: &mut String, story: &SimulationResult, scale: &Scale) {
    for (y, words) in
        [(TRIES_Y - 28.0, "One event, published as the outage begins"), (BARS_TOP - 12.0, "Requests of all events of the outage")]
    {
        text(out, (LEFT + 6.0, y), "", words);
    }
    let _ = writeln!(out, "<path class=\"line\" d=\"M{LEFT} {TRIES_Y}H{}\"/>", WIDTH - RIGHT);
    let per_slice = story.aftermath.slice.as_secs_f64();
    for tick in 0..=RATE_TICKS {
        let requests = scale.requests_max * f64::from(tick) / f64::from(RATE_TICKS);
        let y = BARS_BOTTOM - scale.height(requests);
        let _ = writeln!(out, "<path class=\"line\" d=\"M{LEFT} {y:.1}H{}\"/>", WIDTH - RIGHT);
        text(out, (LEFT - 8.0, y + 4.0), "class=\"faint\" text-anchor=\"end\"", &per_second(requests / per_slice));
    }
    let slices = u32::try_from(story.aftermath.load.len()).unwrap_or(u32::MAX);
    let step = slices.div_ceil(TIME_TICKS).max(1);
    for tick in (0..slices).step_by(step as usize) {
        let at = story.aftermath.slice * tick;
        text(out, (scale.x(at), BARS_BOTTOM + 18.0), "class=\"faint\" text-anchor=\"middle\"", &words(at));
    }
}

fn bars(out: &mut String, story: &SimulationResult, scale: &Scale) {
    let slice = story.aftermath.slice;
    let mut start = Duration::ZERO;
    for load in &story.aftermath.load {
        let (x, width) = (scale.x(start) + 0.5, scale.x(start + slice) - scale.x(start) - 1.0);
        let (bad, good) = (scale.height(load.in_vain as f64), scale.height(load.delivered as f64));
        for (class, top, height) in [("bad", BARS_BOTTOM - bad, bad), ("good", BARS_BOTTOM - bad - good, good)] {
            if height > 0.0 {
                let _ = writeln!(out, "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>");
            }
        }
        start += slice;
    }
}

fn tries(out: &mut String, story: &SimulationResult, scale: &Scale) {
    for (index, attempt) in story.aftermath.first_event.iter().enumerate() {
        let class = if attempt.succeeds { "good" } else { "bad" };
        let told = format!("attempt {} at {}", index + 1, words(attempt.at));
        let x = scale.x(attempt.at);
        let _ = writeln!(out, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{TRIES_Y}\" r=\"6\"><title>{told}</title></circle>");
    }
    let Some(last) = story.aftermath.first_event.last() else { return };
    let end = if last.succeeds { "delivered" } else { "dead" };
    let told = format!("{end} at {}, attempt {}", words(last.at), story.aftermath.first_event.len());
    let x = scale.x(last.at);
    let anchor = if x > WIDTH / 2.0 { "end" } else { "start" };
    text(out, (x, TRIES_Y + 24.0), &format!("class=\"faint\" text-anchor=\"{anchor}\""), &told);
}

fn legend(out: &mut String) {
    for (x, class, words) in [(LEFT, "bad", "failed"), (LEFT + 90.0, "good", "delivered")] {
        let _ = writeln!(out, "<rect class=\"{class}\" x=\"{x}\" y=\"{}\" width=\"11\" height=\"11\"/>", HEIGHT - 22.0);
        text(out, (x + 17.0, HEIGHT - 12.0), "class=\"faint\"", words);
    }
}

/// `words` are ours, or a preset's name: nothing in them needs escaping.
fn text(out: &mut String, (x, y): (f64, f64), attributes: &str, words: &str) {
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{words}</text>");
}
