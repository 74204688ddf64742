//! What is due about an endpoint that fails: nothing yet, a warning, or its end. Pure; asked by the job that checks endpoints.

use std::time::Duration;

use super::cron::CronSchedule;
use crate::{
    model::{FailingClock, FailingRule, HealthReportKind},
    time::Timestamp,
};

/// How far Everhook goes with endpoints that fail for days. Each step includes those before it, so that it can be introduced one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthPhase {
    /// Nothing is checked.
    Off,
    /// What would be done is counted and logged.
    Observe,
    /// Owners are warned.
    Warn,
    /// Endpoints are disabled.
    Disable,
}

/// How endpoints that fail are treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointHealthSettings {
    /// How far it goes.
    pub phase: HealthPhase,
    /// From when on the clock runs.
    pub rule: FailingRule,
    /// How long it runs until the owner is warned.
    pub warning_after: Duration,
    /// How long it runs until the endpoint is disabled. Longer than the other.
    pub disable_after: Duration,
    /// When endpoints are checked.
    pub schedule: CronSchedule,
}

impl Default for EndpointHealthSettings {
    fn default() -> Self {
        let days = |count: u64| Duration::from_secs(count * 86_400);
        Self {
            phase: HealthPhase::Disable,
            rule: FailingRule::default(),
            warning_after: days(3),
            disable_after: days(5),
            schedule: CronSchedule::parse("0 8 * * *").expect("the schedule is well-formed"),
        }
    }
}

impl EndpointHealthSettings {
    /// What is due. Where owners are warned, nobody's endpoint is disabled without a warning, also after a time in which nothing was checked.
    pub fn due(&self, clock: &FailingClock, now: Timestamp) -> Option<HealthReportKind> {
        let since = clock.failing_since?;
        let is_announced = clock.warned_at.is_some() || !self.does(HealthReportKind::Warned);
        if is_announced && self.disable_at(clock).is_some_and(|at| at <= now) {
            return Some(HealthReportKind::Disabled);
        }
        (clock.warned_at.is_none() && since + self.warning_after <= now).then_some(HealthReportKind::Warned)
    }

    /// Whether that is done, and not only counted. Whoever was notified of a problem is notified of its end in every phase: a `410 Gone` disables in every phase too.
    pub fn does(&self, kind: HealthReportKind) -> bool {
        match kind {
            HealthReportKind::Warned => self.phase >= HealthPhase::Warn,
            HealthReportKind::Disabled => self.phase >= HealthPhase::Disable,
            HealthReportKind::Recovered => true,
        }
    }

    /// When the owner is warned, and when the endpoint is disabled, as far as either is still to be done: the checks after these instants do it.
    pub fn deadlines(&self, clock: &FailingClock) -> (Option<Timestamp>, Option<Timestamp>) {
        let warning_at = clock.failing_since.filter(|_| clock.warned_at.is_none()).map(|since| since + self.warning_after);
        (
            warning_at.filter(|_| self.does(HealthReportKind::Warned)),
            self.disable_at(clock).filter(|_| self.does(HealthReportKind::Disabled)),
        )
    }

    /// A warning that came late still leaves the whole time that it announces.
    fn disable_at(&self, clock: &FailingClock) -> Option<Timestamp> {
        let notice = self.disable_after.saturating_sub(self.warning_after);
        let by_clock = clock.failing_since? + self.disable_after;
        Some(clock.warned_at.map_or(by_clock, |warned_at| by_clock.max(warned_at + notice)))
    }
}

/// A length of time as people say it: in the greatest unit of which there are two.
pub fn in_words(length: Duration) -> String {
    let secs = length.as_secs();
    let units = [(86_400, "days"), (3_600, "hours"), (60, "minutes")];
    match units.into_iter().find(|(size, _)| secs >= 2 * size) {
        Some((size, unit)) => format!("{} {unit}", secs / size),
        None if secs == 1 => "1 second".to_owned(),
        None => format!("{secs} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600;

    fn at(hours: u64) -> Timestamp {
        Timestamp::EPOCH + Duration::from_secs(hours * HOUR)
    }

    #[test]
    fn an_owner_is_warned_before_an_endpoint_is_disabled() {
        use HealthReportKind::{Disabled, Warned};
        let settings = EndpointHealthSettings::default();
        let failing = FailingClock { failing_since: Some(at(0)), ..FailingClock::default() };
        let warned = FailingClock { warned_at: Some(at(72)), ..failing };
        let table = [
            (FailingClock::default(), 1_000, None),
            (failing, 71, None),
            (failing, 72, Some(Warned)),
            (failing, 500, Some(Warned)),
            (warned, 119, None),
            (warned, 120, Some(Disabled)),
            // Nothing was checked for a while: the warning was late, and the time that it left is not cut short.
            (FailingClock { warned_at: Some(at(500)), ..failing }, 547, None),
            (FailingClock { warned_at: Some(at(500)), ..failing }, 548, Some(Disabled)),
        ];
        for (clock, hours, expected) in table {
            assert_eq!(settings.due(&clock, at(hours)), expected, "{clock:?} after {hours} hours");
        }
    }

    #[test]
    fn where_nobody_is_warned_the_time_alone_says_what_would_be_done() {
        let settings = EndpointHealthSettings { phase: HealthPhase::Observe, ..EndpointHealthSettings::default() };
        let failing = FailingClock { failing_since: Some(at(0)), ..FailingClock::default() };
        let due = [71, 72, 119, 120].map(|hours| settings.due(&failing, at(hours)));
        assert_eq!(due, [None, Some(HealthReportKind::Warned), Some(HealthReportKind::Warned), Some(HealthReportKind::Disabled)]);
    }

    #[test]
    fn the_deadlines_are_those_that_are_still_to_come() {
        let settings = EndpointHealthSettings::default();
        let failing = FailingClock { failing_since: Some(at(0)), ..FailingClock::default() };
        assert_eq!(settings.deadlines(&FailingClock::default()), (None, None));
        assert_eq!(settings.deadlines(&failing), (Some(at(72)), Some(at(120))));
        assert_eq!(settings.deadlines(&FailingClock { warned_at: Some(at(80)), ..failing }), (None, Some(at(128))));
        let warning = EndpointHealthSettings { phase: HealthPhase::Warn, ..settings };
        assert_eq!(warning.deadlines(&failing), (Some(at(72)), None));
    }

    #[test]
    fn each_phase_does_what_the_one_before_did_and_one_thing_more() {
        let done = |phase| {
            let settings = EndpointHealthSettings { phase, ..EndpointHealthSettings::default() };
            HealthReportKind::ALL.map(|kind| settings.does(kind))
        };
        assert_eq!(done(HealthPhase::Off), [false, false, true]);
        assert_eq!(done(HealthPhase::Observe), [false, false, true]);
        assert_eq!(done(HealthPhase::Warn), [true, false, true]);
        assert_eq!(done(HealthPhase::Disable), [true; 3]);
    }

    #[test]
    fn lengths_of_time_are_said_in_the_greatest_unit_of_which_there_are_two() {
        let table = [
            (3 * 86_400 + 12 * HOUR, "3 days"),
            (86_400, "24 hours"),
            (36 * HOUR, "36 hours"),
            (120, "2 minutes"),
            (90, "90 seconds"),
            (1, "1 second"),
            (0, "0 seconds"),
        ];
        for (secs, expected) in table {
            assert_eq!(in_words(Duration::from_secs(secs)), expected);
        }
    }
}
