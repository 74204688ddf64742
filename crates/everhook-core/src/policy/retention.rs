//! What may go at an instant, and in which order it is looked at. Pure; called by the engine's retention task.

use std::time::Duration;

use crate::{
    model::{RetentionClass, RetentionPeriods},
    time::Timestamp,
};

/// How long replaced revisions and deleted endpoints are kept if nothing in history names them: until whatever was under way has ended. Nobody sees
/// them any more, and a tenant makes as many as it likes.
pub const UNUSED_KEPT_FOR: Duration = Duration::from_secs(3_600);

/// What may go, and before which instant. In this order: operations and dead letters keep events, which keep attempts, and
/// deliveries and statistics keep revisions and deleted endpoints.
///
/// An event stays as long as its idempotency key is in force: the answer to a duplicate names it.
pub fn horizons(periods: &RetentionPeriods, idempotency_window: Duration, now: Timestamp) -> Vec<(RetentionClass, Timestamp)> {
    let events = periods.events.map(|period| period.max(idempotency_window));
    // Those of an event go with it, at the latest.
    let attempts = periods.attempts.filter(|attempts| events.is_none_or(|events| *attempts < events));
    let kept_for = [
        (RetentionClass::Operations, periods.operations),
        (RetentionClass::DeadLetters, periods.dead_letters),
        (RetentionClass::Attempts, attempts),
        (RetentionClass::Events, events),
        (RetentionClass::Rollups, periods.rollups),
        (RetentionClass::SourceRollups, periods.rollups),
        (RetentionClass::HealthMetrics, periods.health),
        (RetentionClass::OpenPeriods, periods.rollups),
        (RetentionClass::AuditLog, periods.audit_log),
        (RetentionClass::Revisions, Some(UNUSED_KEPT_FOR)),
        (RetentionClass::DeletedEndpoints, Some(UNUSED_KEPT_FOR)),
        (RetentionClass::ScheduleVersions, Some(Duration::ZERO)),
        (RetentionClass::DeletedOrganizations, Some(UNUSED_KEPT_FOR)),
        (RetentionClass::FreeSpace, Some(Duration::ZERO)),
    ];
    kept_for.into_iter().filter_map(|(aging, period)| Some((aging, now - period?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

    fn days(count: u64) -> Option<Duration> {
        Some(Duration::from_secs(count * DAY.as_secs()))
    }

    fn periods(events: Option<Duration>, attempts: Option<Duration>, dead_letters: Option<Duration>) -> RetentionPeriods {
        RetentionPeriods { events, attempts, dead_letters, ..RetentionPeriods::FOR_EVER }
    }

    #[test]
    fn what_may_go_follows_from_the_periods() {
        use RetentionClass::*;
        let day = days(1);
        let always = [(Revisions, 1), (DeletedEndpoints, 1), (ScheduleVersions, 0), (DeletedOrganizations, 1), (FreeSpace, 0)];
        // Events, attempts, dead letters, idempotency window; what goes, and after how many days.
        let table: [(_, _, _, _, &[(RetentionClass, u64)]); 6] = [
            (None, None, None, day, &[]),
            (days(90), days(90), days(365), day, &[(DeadLetters, 365), (Events, 90)]),
            (days(90), days(30), None, day, &[(Attempts, 30), (Events, 90)]),
            (None, days(30), None, day, &[(Attempts, 30)]),
            (days(1), days(1), None, days(7), &[(Attempts, 1), (Events, 7)]),
            (days(90), None, days(7), day, &[(DeadLetters, 7), (Events, 90)]),
        ];
        for (events, attempts, dead_letters, window, expected) in table {
            let found = horizons(&periods(events, attempts, dead_letters), window.unwrap(), NOW);
            let expected = expected.iter().map(|(aging, days)| (*aging, days * 24)).chain(always);
            let mut expected: Vec<_> = expected.map(|(aging, hours)| (aging, NOW - Duration::from_secs(hours * 3_600))).collect();
            expected.sort_by_key(|(aging, _)| found.iter().position(|(found, _)| found == aging));
            assert_eq!(found, expected, "{events:?} {attempts:?} {dead_letters:?}");
        }
    }

    #[test]
    fn health_metrics_operations_and_the_audit_log_have_periods_of_their_own() {
        let periods = RetentionPeriods { health: days(730), operations: days(30), audit_log: days(365), ..RetentionPeriods::FOR_EVER };
        let found = horizons(&periods, DAY, NOW);
        for (class, count) in [(RetentionClass::HealthMetrics, 730), (RetentionClass::Operations, 30), (RetentionClass::AuditLog, 365)] {
            assert!(found.contains(&(class, NOW - days(count).unwrap())), "{class:?}");
            let never = horizons(&RetentionPeriods::FOR_EVER, DAY, NOW);
            assert!(never.iter().all(|(found, _)| *found != class), "{class:?}");
        }
    }

    #[test]
    fn statistics_and_open_periods_go_together() {
        let periods = RetentionPeriods { rollups: days(90), ..RetentionPeriods::FOR_EVER };
        let found = horizons(&periods, DAY, NOW);
        let before = NOW - days(90).unwrap();
        for class in [RetentionClass::Rollups, RetentionClass::SourceRollups, RetentionClass::OpenPeriods] {
            assert!(found.contains(&(class, before)), "{class:?}");
        }
    }
}
