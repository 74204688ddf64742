//! `bench --neighbours`: what endpoints that hang or fail cost the others.
//!
//! The same hundred endpoints get the same events twice: once all of them answer, once twenty do not. Only the eighty that answer both times are
//! measured, so that the two lines of the report differ by their neighbours alone.

use super::{
    report::{Line, grouped},
    scenarios::Scenario,
};

/// How many endpoints are not measured: half of them hang, half of them fail, or all answer.
pub const NEIGHBOURS: u32 = 20;

/// How the endpoints behave that are not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbours {
    /// There are none.
    None,
    /// All answer.
    Good,
    /// Half never answer, half answer 500.
    Bad,
}

impl Neighbours {
    /// The paths in the sink of the endpoints that are not measured.
    pub fn paths(self) -> Vec<String> {
        let path = |number: u32| match self {
            Self::None => None,
            Self::Good => Some(format!("well/{number}")),
            Self::Bad if number.is_multiple_of(2) => Some(format!("hang/{number}")),
            Self::Bad => Some(format!("fail/{number}")),
        };
        (0..NEIGHBOURS).filter_map(path).collect()
    }
}

/// The two runs that are compared.
pub const SCENARIOS: [Scenario; 2] = [
    Scenario { name: "good", title: "all answer", neighbours: Neighbours::Good, ..OF_HUNDRED },
    Scenario { name: "bad", title: "20 of 100 bad", neighbours: Neighbours::Bad, ..OF_HUNDRED },
];

const OF_HUNDRED: Scenario =
    Scenario { name: "", title: "", endpoints: 80, events: 2_000, events_quick: 300, batch: 1, rate: None, neighbours: Neighbours::None };

/// What bad neighbours cost, as shares of what the measured endpoints have without them: delivered a second, and the 99th percentile.
pub fn compare(lines: &[Line]) -> Option<(f64, f64)> {
    let [good, bad] = lines else { return None };
    let delivered = bad.outcome.delivered_per_second / good.outcome.delivered_per_second.max(1.0);
    let p99 = bad.outcome.end_to_end_ms.p99 / good.outcome.end_to_end_ms.p99.max(f64::MIN_POSITIVE);
    Some((delivered, p99))
}

/// The same, in words.
pub fn compare_text(lines: &[Line]) -> String {
    let Some((delivered, p99)) = compare(lines) else { return String::new() };
    let of = grouped(f64::from(OF_HUNDRED.endpoints));
    format!(
        "\nof the {of} endpoints that answer: {delivered:.2} × delivered/s and {p99:.2} × p99 with 10 hanging and 10 failing neighbours"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_bad_hang_and_half_of_them_fail() {
        let paths = Neighbours::Bad.paths();
        let count = |kind: &str| paths.iter().filter(|path| path.starts_with(kind)).count();
        assert_eq!((paths.len(), count("hang/"), count("fail/")), (20, 10, 10));
        assert!(Neighbours::None.paths().is_empty());
        assert_eq!(Neighbours::Good.paths().len(), 20);
    }
}
