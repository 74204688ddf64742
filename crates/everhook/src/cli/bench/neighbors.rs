//! `bench --neighbors`: what endpoints that hang or fail cost the others.
//!
//! The same hundred endpoints get the same events: once all of them answer, once twenty do not. Only the eighty that answer both times are measured, so
//! that the lines of the report differ by their neighbors alone.

use super::{report::Line, scenarios::Scenario};

/// How many endpoints are not measured: half of them hang, half of them fail, or all answer.
pub const NEIGHBORS: u32 = 20;

/// How the endpoints behave that are not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbors {
    /// There are none.
    None,
    /// All answer.
    Good,
    /// Half never answer, half answer 500.
    Bad,
}

impl Neighbors {
    /// The paths in the sink of the endpoints that are not measured.
    pub fn paths(self) -> Vec<String> {
        let path = |number: u32| match self {
            Self::None => None,
            Self::Good => Some(format!("well/{number}")),
            Self::Bad if number.is_multiple_of(2) => Some(format!("hang/{number}")),
            Self::Bad => Some(format!("fail/{number}")),
        };
        (0..NEIGHBORS).filter_map(path).collect()
    }
}

/// The runs that are compared: as fast as it goes, and at a rate that leaves room.
pub const SCENARIOS: [Scenario; 5] = [
    Scenario { name: "alone", title: "80 alone", ..OF_HUNDRED },
    Scenario { name: "good", title: "20 good beside", neighbors: Neighbors::Good, ..OF_HUNDRED },
    Scenario { name: "bad", title: "20 bad beside", neighbors: Neighbors::Bad, ..OF_HUNDRED },
    Scenario { name: "good-steady", title: "good, 50/s", neighbors: Neighbors::Good, rate: STEADY, ..OF_HUNDRED },
    Scenario { name: "bad-steady", title: "bad, 50/s", neighbors: Neighbors::Bad, rate: STEADY, ..OF_HUNDRED },
];

/// Events a second, each to a hundred endpoints: well below what two cores do.
const STEADY: Option<f64> = Some(50.0);

const OF_HUNDRED: Scenario =
    Scenario { name: "", title: "", endpoints: 80, events: 1_000, events_quick: 300, batch: 1, rate: None, neighbors: Neighbors::None };

/// What bad neighbors cost, as shares of what the measured endpoints have with good ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Deliveries a second.
    pub delivered: f64,
    /// The 99th percentile, end to end.
    pub p99: f64,
}

/// The cost as fast as it goes, and at the steady rate.
pub fn compare(lines: &[Line]) -> Option<(Cost, Cost)> {
    let of = |name: &str| lines.iter().find(|line| line.name == name);
    let cost = |good: &Line, bad: &Line| Cost {
        delivered: bad.outcome.delivered_per_second / good.outcome.delivered_per_second.max(1.0),
        p99: bad.outcome.end_to_end_ms.p99 / good.outcome.end_to_end_ms.p99.max(f64::MIN_POSITIVE),
    };
    Some((cost(of("good")?, of("bad")?), cost(of("good-steady")?, of("bad-steady")?)))
}

/// The same, in words.
pub fn compare_text(lines: &[Line]) -> String {
    let Some((full, steady)) = compare(lines) else { return String::new() };
    let words = |cost: Cost| format!("{:.2} × delivered/s, {:.2} × p99", cost.delivered, cost.p99);
    format!(
        "\n10 hanging and 10 failing neighbors instead of 20 good ones: {} at full speed, {} at a steady rate",
        words(full),
        words(steady)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_bad_hang_and_half_of_them_fail() {
        let paths = Neighbors::Bad.paths();
        let count = |kind: &str| paths.iter().filter(|path| path.starts_with(kind)).count();
        assert_eq!((paths.len(), count("hang/"), count("fail/")), (20, 10, 10));
        assert!(Neighbors::None.paths().is_empty());
        assert_eq!(Neighbors::Good.paths().len(), 20);
    }
}
