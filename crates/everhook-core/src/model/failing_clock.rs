//! Since when an endpoint fails without a success in between: the clock by which owners are warned and endpoints disabled.
//!
//! A store keeps it beside an endpoint's activity and has it take in what happened. Plain values: when something is due is decided by
//! `policy::endpoint_health`.

use std::time::Duration;

use crate::{
    model::{CountedFailures, Tally},
    time::Timestamp,
};

/// From when on an endpoint counts as failing: so many failures within the window, the first and the last of them so far apart, and no success between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailingRule {
    /// How long failures count together.
    pub window: Duration,
    /// How far apart the first and the last are, at the least.
    pub spread: Duration,
    /// How many there are, at the least.
    pub failures_min: u32,
}

impl Default for FailingRule {
    fn default() -> Self {
        Self { window: Duration::from_secs(24 * 3_600), spread: Duration::from_secs(12 * 3_600), failures_min: 3 }
    }
}

/// An endpoint's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailingClock {
    /// The first failure of those that are counted together.
    pub observed_from: Option<Timestamp>,
    /// How many these are.
    pub observed: u32,
    /// The last failure that counted.
    pub last_counted_at: Option<Timestamp>,
    /// The one before it.
    pub previous_counted_at: Option<Timestamp>,
    /// When the rule was fulfilled: the clock runs since then.
    pub failing_since: Option<Timestamp>,
    /// When the owner was warned.
    pub warned_at: Option<Timestamp>,
    /// Whether the owner was notified of failures, and is to be notified of the recovery.
    pub owes_recovery: bool,
    /// When it succeeded again, until the owner is notified of it.
    pub recovered_at: Option<Timestamp>,
}

/// A notification about an endpoint's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthReportKind {
    /// It fails, and will be disabled.
    Warned,
    /// It failed for so long that it was disabled.
    Disabled,
    /// It works again.
    Recovered,
}

impl HealthReportKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Warned, Self::Disabled, Self::Recovered];

    /// Its name on every wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Warned => "warned",
            Self::Disabled => "disabled",
            Self::Recovered => "recovered",
        }
    }

    /// Reads its name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// What was reported about an endpoint's health, as its history shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthRecord {
    /// What.
    pub kind: HealthReportKind,
    /// When.
    pub at: Timestamp,
    /// Since when it failed.
    pub failing_since: Option<Timestamp>,
    /// How many attempts had failed in a row.
    pub failures: u32,
}

/// How many reports an endpoint's history keeps: the newest.
pub const HEALTH_RECORDS_MAX: usize = 20;

/// Why a clock begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockReset {
    /// A person paused or disabled it, and resumed it.
    ByOwner,
    /// It was disabled for what it answered, and is enabled again: the owner is notified when it works.
    AfterTrouble,
}

impl FailingClock {
    /// Takes in what happened next.
    pub fn add(&mut self, tally: &Tally, rule: &FailingRule) {
        if let Some(at) = tally.statistics.last_success_at {
            self.succeed(at);
        }
        let CountedFailures { count, first_at, last_at } = tally.counted;
        if let (Some(first_at), Some(last_at)) = (first_at, last_at) {
            self.fail(first_at, 1, rule);
            if count > 1 {
                self.fail(last_at, count - 1, rule);
            }
        }
    }

    /// Begins anew.
    pub fn reset(&mut self, why: ClockReset) {
        let owes_recovery = self.owes_recovery || why == ClockReset::AfterTrouble;
        *self = Self { owes_recovery, recovered_at: self.recovered_at, ..Self::default() };
    }

    /// Notes what is reported, unless the clock has changed since the caller read it: then it returns `false`, and nothing is reported.
    pub fn report(&mut self, kind: HealthReportKind, seen: &Self, at: Timestamp) -> bool {
        let is_as_seen = match kind {
            HealthReportKind::Warned => {
                self.failing_since.is_some() && self.failing_since == seen.failing_since && self.warned_at.is_none()
            }
            HealthReportKind::Disabled => self.failing_since.is_some() && self.failing_since == seen.failing_since,
            HealthReportKind::Recovered => self.recovered_at.is_some() && self.recovered_at == seen.recovered_at,
        };
        if is_as_seen {
            match kind {
                HealthReportKind::Warned => (self.warned_at, self.owes_recovery) = (Some(at), true),
                HealthReportKind::Disabled => self.reset(ClockReset::AfterTrouble),
                HealthReportKind::Recovered => self.recovered_at = None,
            }
        }
        is_as_seen
    }

    fn succeed(&mut self, at: Timestamp) {
        let recovered_at = if self.owes_recovery { Some(at) } else { self.recovered_at };
        *self = Self { recovered_at, ..Self::default() };
    }

    fn fail(&mut self, at: Timestamp, count: u32, rule: &FailingRule) {
        let is_within = |earlier: &Timestamp| at.since(*earlier) <= rule.window;
        let (from, before) = match self.observed_from.filter(is_within) {
            Some(from) => (from, self.observed),
            None => self.begin_at(at, is_within),
        };
        (self.observed_from, self.observed) = (Some(from), before.saturating_add(count));
        self.previous_counted_at = if count > 1 { Some(at) } else { self.last_counted_at };
        self.last_counted_at = Some(at);
        if self.observed >= rule.failures_min && at.since(from) >= rule.spread {
            self.failing_since.get_or_insert(at);
        }
    }

    /// Where counting begins once the first failure is too old, and how many there were since. Two remembered failures suffice for a minimum of three: had
    /// there been more within the window, either they fulfilled the rule or they are older than these. A greater minimum may begin later, never earlier.
    fn begin_at(&self, at: Timestamp, is_within: impl Fn(&Timestamp) -> bool) -> (Timestamp, u32) {
        match (self.previous_counted_at.filter(&is_within), self.last_counted_at.filter(&is_within)) {
            (Some(previous), _) => (previous, 2),
            (None, Some(last)) => (last, 1),
            (None, None) => (at, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ids::LaneId;

    const HOUR: i64 = 3_600;

    fn at(hours: f64) -> Timestamp {
        Timestamp::from_secs((hours * HOUR as f64) as i64)
    }

    /// A tally of failures at that hour, or of one success.
    fn tally(hours: f64, failures: u32) -> Tally {
        let mut tally = Tally::new(LaneId::from_uuid(Uuid::nil()), at(hours));
        if failures == 0 {
            tally.statistics.last_success_at = Some(at(hours));
        } else {
            tally.counted = CountedFailures { count: failures, first_at: Some(at(hours)), last_at: Some(at(hours)) };
        }
        tally
    }

    fn after(story: &[(f64, u32)]) -> FailingClock {
        let mut clock = FailingClock::default();
        story.iter().for_each(|(hours, failures)| clock.add(&tally(*hours, *failures), &FailingRule::default()));
        clock
    }

    /// What the rule says, by looking at every failure.
    fn by_definition(failures: &[f64]) -> Option<f64> {
        failures.iter().enumerate().find_map(|(index, last)| {
            let within: Vec<_> = failures[..=index].iter().filter(|hour| last - **hour <= 24.0).collect();
            (within.len() >= 3 && last - within[0] >= 12.0).then_some(*last)
        })
    }

    #[test]
    fn the_clock_starts_with_three_failures_within_a_day_that_are_half_a_day_apart() {
        type Case = (&'static [(f64, u32)], Option<f64>);
        let table: [Case; 8] = [
            (&[(0.0, 1), (6.0, 1), (12.0, 1)], Some(12.0)),
            (&[(0.0, 1), (12.0, 1)], None),
            (&[(0.0, 50), (11.9, 50)], None),
            (&[(0.0, 2), (12.0, 1)], Some(12.0)),
            (&[(0.0, 1), (6.0, 0), (12.0, 5)], None),
            (&[(0.0, 1), (20.0, 1), (25.0, 1)], None),
            (&[(0.0, 1), (20.0, 1), (25.0, 1), (33.0, 1)], Some(33.0)),
            (&[(0.0, 1), (1.0, 1), (2.0, 1), (24.5, 1)], Some(24.5)),
        ];
        for (story, expected) in table {
            assert_eq!(after(story).failing_since, expected.map(at), "{story:?}");
        }
    }

    #[test]
    fn the_clock_starts_when_the_rule_says_so_whatever_the_failures() {
        // A small generator of its own: the same gaps in each run.
        let mut state = 1_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for _ in 0..20_000 {
            let mut hour = 0.0;
            let mut failures = Vec::new();
            for _ in 0..next() % 12 {
                hour += [0.5, 1.0, 5.0, 11.0, 12.0, 13.0, 23.5, 25.0][(next() % 8) as usize];
                failures.push(hour);
            }
            let story: Vec<_> = failures.iter().map(|hour| (*hour, 1)).collect();
            assert_eq!(after(&story).failing_since, by_definition(&failures).map(at), "{failures:?}");
        }
    }

    #[test]
    fn a_success_stops_it_and_is_reported_only_if_the_failures_were() {
        let failing = after(&[(0.0, 2), (12.0, 1)]);
        let mut quiet = failing;
        quiet.add(&tally(13.0, 0), &FailingRule::default());
        assert_eq!(quiet, FailingClock::default());

        let mut warned = failing;
        assert!(warned.report(HealthReportKind::Warned, &failing, at(90.0)));
        assert!(!warned.report(HealthReportKind::Warned, &failing, at(91.0)), "it is reported once");
        warned.add(&tally(92.0, 0), &FailingRule::default());
        assert_eq!(warned, FailingClock { recovered_at: Some(at(92.0)), ..FailingClock::default() });
        let seen = warned;
        assert!(warned.report(HealthReportKind::Recovered, &seen, at(93.0)));
        assert!(!warned.report(HealthReportKind::Recovered, &seen, at(94.0)));
    }

    #[test]
    fn what_changed_since_it_was_seen_is_not_reported() {
        let failing = after(&[(0.0, 2), (12.0, 1)]);
        let mut later = after(&[(0.0, 2), (12.0, 1), (13.0, 0), (14.0, 2), (30.0, 1)]);
        assert_ne!(later.failing_since, failing.failing_since);
        assert!(!later.report(HealthReportKind::Disabled, &failing, at(200.0)));
        let seen = later;
        assert!(later.report(HealthReportKind::Disabled, &seen, at(200.0)));
        assert_eq!(later, FailingClock { owes_recovery: true, ..FailingClock::default() });
    }

    #[test]
    fn a_reset_forgets_failures_and_keeps_what_the_owner_is_owed() {
        let mut clock = after(&[(0.0, 2), (12.0, 1)]);
        clock.reset(ClockReset::ByOwner);
        assert_eq!(clock, FailingClock::default());
        clock.reset(ClockReset::AfterTrouble);
        clock.reset(ClockReset::ByOwner);
        assert!(clock.owes_recovery);
    }
}
