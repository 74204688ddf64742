//! What notes of open breakers promise: one for each time that a due delivery was kept waiting, and none for anything else.

use uuid::Uuid;

use super::*;
use crate::{
    ids::{ApplicationId, DeliveryId, EventId, LaneId, OrganizationId, ScheduleVersion},
    model::{AttemptStatus, BreakerState, CancelCause, EventType, PhaseTimes, Priority},
};

const NOW: i64 = 1_000;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(secs)
}

fn delivery(attempts: usize, stage: Stage) -> Delivery {
    Delivery {
        id: DeliveryId::from_uuid(Uuid::nil()),
        organization: OrganizationId::from_uuid(Uuid::nil()),
        application: ApplicationId::from_uuid(Uuid::nil()),
        event: EventId::from_uuid(Uuid::nil()),
        event_type: EventType::parse("order.paid").expect("a type"),
        lane_id: LaneId::from_uuid(Uuid::nil()),
        kind: crate::model::LaneKind::Endpoint,
        priority: Priority::Normal,
        retry_schedule: ScheduleVersion(1),
        stage,
        attempts: u32::try_from(attempts).expect("few"),
        failure_category: None,
        last_error: None,
        replay_of: None,
        operation: None,
        created_at: at(0),
    }
}

/// Attempts that were due and picked at these instants; each but the last was to be tried again when the next was due.
fn attempts(times: &[(i64, i64)], retry_at: Option<i64>) -> Vec<Attempt> {
    let next = times.iter().skip(1).map(|(due, _)| Some(*due)).chain([retry_at]);
    let made = (1..).zip(times).zip(next).map(|((number, (due, picked)), next)| Attempt {
        number,
        status: AttemptStatus::Failed,
        failure_category: None,
        error: None,
        response: None,
        duration: Duration::ZERO,
        phases: PhaseTimes::default(),
        scheduled_at: at(*due),
        picked_at: at(*picked),
        executed_at: at(*picked),
        next_retry_at: next.map(at),
        revision: None,
        node: "node".to_owned(),
        user_agent: "Everhook/1".into(),
        breaker: BreakerState::Closed,
    });
    made.collect()
}

#[test]
fn a_note_tells_of_each_time_that_a_due_delivery_met_an_open_breaker() {
    let waiting = |due| Stage::Waiting { due_at: at(due) };
    let delivered = || Stage::Delivered { at: at(900) };
    let cancelled = || Stage::Cancelled { at: at(900), cause: CancelCause::EndpointDisabled };
    type Case<'a> = (&'a str, &'a [(i64, i64)], Option<i64>, Stage, &'a [(i64, Option<i64>)], &'a [(u32, i64)]);
    #[rustfmt::skip]
    let table: [Case<'_>; 17] = [
        // (what, attempts (due, picked), next retry, stage, open periods, notes (number, since))
        ("never open",                       &[(0, 0)],             None,      delivered(),  &[],                                     &[]),
        ("not yet due",                      &[],                   None,      waiting(2_000), &[(10, None)],                         &[]),
        ("due and still blocked",            &[],                   None,      waiting(0),   &[(10, None)],                           &[(1, 10)]),
        ("came due while open",              &[],                   None,      waiting(50),  &[(10, None)],                           &[(1, 50)]),
        ("open only before it was due",      &[(60, 60)],           None,      delivered(),  &[(10, Some(60))],                       &[]),
        ("open only after it was sent",      &[(0, 5)],             None,      delivered(),  &[(10, Some(60))],                       &[]),
        ("sent after the breaker closed",    &[(0, 60)],            None,      delivered(),  &[(10, Some(60))],                       &[(1, 10)]),
        ("a probe that waited its sleep",    &[(20, 40)],           None,      delivered(),  &[(10, Some(60))],                       &[(1, 20)]),
        ("a probe that came due half-open",  &[(40, 40)],           None,      delivered(),  &[(10, Some(60))],                       &[]),
        ("blocked before the second",        &[(0, 0), (5, 60)],    None,      delivered(),  &[(1, Some(60))],                        &[(2, 5)]),
        ("once for each time it was open",   &[(0, 500)],           None,      delivered(),  &[(10, Some(60)), (100, Some(200))],     &[(1, 10), (1, 100)]),
        ("once, though it probed and waits", &[(20, 40)],           Some(50),  waiting(50),  &[(10, None)],                           &[(1, 20)]),
        ("two times, two attempts",          &[(0, 40), (80, 200)], None,      delivered(),  &[(10, Some(30)), (90, Some(150))],      &[(1, 10), (2, 90)]),
        ("held behind another",              &[],                   None,      Stage::Held,  &[(10, None)],                           &[]),
        ("cancelled while blocked",          &[],                   None,      cancelled(),  &[(10, None)],                           &[(1, 10)]),
        ("cancelled while its retry waited", &[(0, 0)],             Some(50),  cancelled(),  &[(10, Some(100))],                      &[(2, 50)]),
        ("cancelled by its last outcome",    &[(0, 0)],             None,      cancelled(),  &[(10, None)],                           &[]),
    ];
    for (what, made, retry_at, stage, open, expected) in table {
        let periods: Vec<_> = open.iter().map(|(from, to)| OpenPeriod { opened_at: at(*from), closed_at: to.map(at) }).collect();
        let notes = blocked(&delivery(made.len(), stage), &attempts(made, retry_at), &periods, at(NOW));
        let notes: Vec<_> = notes.iter().map(|note| (note.attempt_number, note.at.as_secs())).collect();
        assert_eq!(notes, expected, "{what}");
    }
}

#[test]
fn a_turn_that_takes_a_moment_is_no_block() {
    let period = OpenPeriod { opened_at: at(10), closed_at: Some(at(60)) };
    for (millis, is_blocked) in [(0, false), (99, false), (100, true)] {
        let mut made = attempts(&[(20, 20)], None);
        made[0].picked_at = at(20) + Duration::from_millis(millis);
        let notes = blocked(&delivery(1, Stage::Delivered { at: at(30) }), &made, &[period], at(NOW));
        assert_eq!(!notes.is_empty(), is_blocked, "{millis} ms");
    }
}
