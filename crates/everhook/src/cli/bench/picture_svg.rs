//! Callers' latency under a fault as a picture: three rows on one axis of time, a point for each call. Follows light and dark.

use std::{fmt::Write as _, time::Duration};

use super::{
    report::grouped,
    under_fault::{BREAKER_FAILURES, BREAKER_SLEEP, Caller, Picture, Source, TIMEOUT},
};

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
/// The first row, how high each is, and how much is between.
const TOP: f64 = 104.0;
const ROW: f64 = 128.0;
const GAP: f64 = 40.0;
/// What the axis of latency shows, in milliseconds: each step is ten times the one before.
const SHORTEST_MS: f64 = 0.3;
const LONGEST_MS: f64 = 10_000.0;
const TICKS_MS: [(f64, &str); 5] = [(1.0, "1 ms"), (10.0, "10 ms"), (100.0, "100 ms"), (1_000.0, "1 s"), (10_000.0, "10 s")];

/// Plain colors, because many viewers know no variables; those that know media queries also get the dark ones.
const STYLE: &str = "
  text { font: 13px system-ui, sans-serif; fill: #1b1f24 }
  .title { font-size: 17px; font-weight: 600 }
  .faint { fill: #667080; font-size: 12px }
  .paper { fill: #ffffff }
  .down { fill: #fdeceb }
  .line { stroke: #d5dae1; stroke-width: 1 }
  .limit { stroke: #d5493f; stroke-width: 1; stroke-dasharray: 4 3 }
  .late { fill: #d5493f }
  .app { fill: #1a8754 }
  .instead { fill: #2f6fdb }
  @media (prefers-color-scheme: dark) {
    text { fill: #e8ebef }
    .faint { fill: #98a2b0 }
    .paper { fill: #14171b }
    .down { fill: #3a1f1e }
    .line { stroke: #363d47 }
    .limit { stroke: #f0736a }
    .late { fill: #f0736a }
    .app { fill: #48c78e }
    .instead { fill: #7aa7f5 }
  }
";

/// The picture of a run.
pub fn draw(picture: &Picture) -> String {
    let mut out = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" width=\"{WIDTH}\">\n");
    let title = format!("What callers wait for while an app hangs for {} s", (picture.fault.1 - picture.fault.0).as_secs());
    let _ = writeln!(out, "<title>{title}</title>\n<style>{STYLE}</style>");
    let _ = writeln!(out, "<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>");
    text(&mut out, (LEFT, 34.0), "class=\"title\"", &title);
    let sub =
        format!("One run, 20 calls a second in each row, each point a call. Callers may wait for {} ms (dashed).", TIMEOUT.as_millis());
    text(&mut out, (LEFT, 55.0), "class=\"faint\"", &sub);
    for (place, caller) in Caller::ALL.into_iter().enumerate() {
        row(&mut out, picture, caller, TOP + place as f64 * (ROW + GAP));
    }
    seconds(&mut out, picture);
    legend(&mut out);
    out.push_str("</svg>\n");
    out
}

fn x(picture: &Picture, at: Duration) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * at.as_secs_f64() / picture.ends_at.as_secs_f64()
}

/// How far above the bottom of its row.
fn height(took: Duration) -> f64 {
    let ms = (took.as_secs_f64() * 1e3).clamp(SHORTEST_MS, LONGEST_MS);
    ROW * (ms / SHORTEST_MS).log10() / (LONGEST_MS / SHORTEST_MS).log10()
}

fn row(out: &mut String, picture: &Picture, caller: Caller, top: f64) {
    let bottom = top + ROW;
    let (from, to) = (x(picture, picture.fault.0), x(picture, picture.fault.1));
    let _ = writeln!(out, "<rect class=\"down\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{ROW}\"/>", to - from);
    for (ms, label) in TICKS_MS {
        let y = bottom - height(Duration::from_secs_f64(ms / 1e3));
        let _ = writeln!(out, "<path class=\"line\" d=\"M{LEFT} {y:.1}H{}\"/>", WIDTH - RIGHT);
        text(out, (LEFT - 8.0, y + 4.0), "class=\"faint\" text-anchor=\"end\"", label);
    }
    let _ = writeln!(out, "<path class=\"limit\" d=\"M{LEFT} {:.1}H{}\"/>", bottom - height(TIMEOUT), WIDTH - RIGHT);
    text(out, (LEFT, top - 8.0), "", &name(caller));
    text(out, (WIDTH - RIGHT, top - 8.0), "class=\"faint\" text-anchor=\"end\"", &measurements(picture, caller));
    for sample in picture.samples.iter().filter(|sample| sample.caller == caller) {
        let class = match sample.source {
            _ if sample.took > TIMEOUT + Duration::from_millis(50) => "late",
            Source::App => "app",
            Source::Fallback => "instead",
        };
        let (x, y) = (x(picture, sample.at), bottom - height(sample.took));
        let _ = writeln!(out, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\"/>");
    }
}

fn name(caller: Caller) -> String {
    let (failures, sleep) = (BREAKER_FAILURES, BREAKER_SLEEP.as_secs());
    match caller {
        Caller::Nothing => "Nothing between: the HTTP client waits".to_owned(),
        Caller::Wrapper => format!("A wrapper: timeout, one retry, breaker ({failures} failures, {sleep} s)"),
        Caller::Everhook => format!("Everhook, with the same timeout and breaker ({failures} failures, {sleep} s)"),
    }
}

fn measurements(picture: &Picture, caller: Caller) -> String {
    let (ms, late) = (picture.during_fault(caller), picture.too_late(caller));
    format!("during the fault: p50 {} ms, p99 {} ms · {late} calls too late", short(ms.p50), short(ms.p99))
}

fn short(ms: f64) -> String {
    if ms >= 10.0 { grouped(ms) } else { format!("{ms:.1}") }
}

fn seconds(out: &mut String, picture: &Picture) {
    let bottom = TOP + 3.0 * ROW + 2.0 * GAP;
    for second in 0..=picture.ends_at.as_secs() {
        let x = x(picture, Duration::from_secs(second));
        text(out, (x, bottom + 18.0), "class=\"faint\" text-anchor=\"middle\"", &format!("{second} s"));
    }
}

fn legend(out: &mut String) {
    let y = HEIGHT - 18.0;
    for (x, class, words) in [
        (LEFT, "app", "answered by the app"),
        (LEFT + 190.0, "instead", "by the fallback"),
        (LEFT + 350.0, "late", "later than callers may wait"),
    ] {
        let _ = writeln!(out, "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"4\"/>", x + 4.0, y - 4.0);
        text(out, (x + 14.0, y), "class=\"faint\"", words);
    }
    let _ = writeln!(out, "<rect class=\"down\" x=\"{}\" y=\"{}\" width=\"14\" height=\"14\"/>", LEFT + 570.0, y - 11.0);
    text(out, (LEFT + 590.0, y), "class=\"faint\"", "the app hangs");
}

fn text(out: &mut String, (x, y): (f64, f64), attributes: &str, words: &str) {
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{words}</text>");
}

#[cfg(test)]
mod tests {
    use super::{super::under_fault::Sample, *};

    #[test]
    fn each_call_is_a_point_where_it_belongs_and_the_fault_is_a_band() {
        let ms = Duration::from_millis;
        let sample = |caller, at, took, source| Sample { caller, at: ms(at), took: ms(took), source };
        let samples = vec![
            sample(Caller::Nothing, 0, 20, Source::App),
            sample(Caller::Nothing, 4_000, 5_000, Source::App),
            sample(Caller::Everhook, 4_000, 480, Source::Fallback),
        ];
        let picture = Picture { samples, fault: (ms(3_000), ms(9_000)), ends_at: ms(14_000) };
        let svg = draw(&picture);
        assert_eq!((svg.matches("r=\"2.2\"").count(), svg.matches("class=\"down\"").count()), (3, 4));
        assert_eq!((picture.too_late(Caller::Nothing), picture.too_late(Caller::Everhook)), (1, 0));
        assert!(svg.contains("p50 5,000 ms") && svg.contains("hangs for 6 s"), "{svg}");
        assert!(height(ms(10_000)) > height(TIMEOUT) && height(Duration::ZERO) == 0.0);
    }
}
