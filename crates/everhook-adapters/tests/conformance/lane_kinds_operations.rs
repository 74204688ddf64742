//! What people and operations do to deliveries works for every kind of lane, as [`super::lane_kinds`] tests it for sending.

use std::sync::Arc;

use bytes::Bytes;
use everhook_core::{
    ids::{LaneId, SourceId},
    model::{
        AuditAction, AuditEntry, BreakerConfig, CancelCause, DeadLetterStatus, FailingRule, KeptStage, NewestDelivery, OperationKind,
        OperationStatus, Priority, Selection, Stage, Tally, minute_of,
    },
    policy::breaker::Breaker,
    ports::{
        Alert, AlertCondition, Begun, BreakerChange, BringForward, BroughtForward, CancelDelivery, Cleared, DeliveryCancelled, Discarded,
        DueDeadLetters, ErasureBatch, Expiring, ExpiringId, Phase, Replay, ReplayAnswer, ReplayBy, ReplayItem, Replayed, RetentionClass,
        Scan, SelectionStep, SettlementAlert, TimeRange, WatchedLane,
    },
};
use uuid::Uuid;

use super::{
    delivery_queue::{DELIVERED, dead, waiting},
    given::{Given, NOW, after, entry, event_type, failure, id, settlement, success},
    lane_kinds::{KINDS, stored_kind},
    operations::operation,
};

const ALL: Scan = Scan { after: Uuid::nil(), limit: 10 };

#[tokio::test]
async fn what_waits_is_counted_brought_forward_and_cancelled() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let lane_id = given.endpoint.into();
        let (_, delivery) = given.published().await;
        given.store.settle(Arc::new(vec![settlement(delivery, given.endpoint, failure(1), waiting(after(3_600)))])).await.unwrap();
        let backlog = given.store.waiting_backlog(lane_id, 10).await.unwrap();
        assert_eq!((backlog.count, backlog.oldest_at), (1, Some(NOW)), "{kind}");
        let rows = given.waiting_rows(10).await;
        assert_eq!(rows.iter().map(|row| row.delivery).collect::<Vec<_>>(), [delivery], "{kind}");
        let of = |action| AuditEntry { organization: given.organization, action, ..entry() };
        let forward = BringForward { deliveries: vec![(lane_id, delivery)], at: after(9), entry: of(AuditAction::DeliveryAttemptNow) };
        let answers = given.store.bring_forward(forward).await.unwrap();
        assert_eq!(answers, [BroughtForward::Forwarded(Priority::Normal)], "{kind}");
        assert_eq!(given.stage(delivery).await, waiting(after(9)), "{kind}");
        let (cause, entry) = (CancelCause::ByPerson, of(AuditAction::DeliveryCancel));
        let cancel = CancelDelivery { delivery, lane_id, application: given.application, cause, at: NOW, entry };
        let cancelled = given.store.cancel_delivery(cancel).await.unwrap();
        assert!(matches!(cancelled, DeliveryCancelled::Cancelled { freed: None }), "{kind}: {cancelled:?}");
        assert_eq!(given.stage(delivery).await, Stage::Cancelled { at: NOW, cause }, "{kind}");
    }
}

#[tokio::test]
async fn an_operation_brings_forward_what_waits() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let (event, delivery) = given.published().await;
        given.store.settle(Arc::new(vec![settlement(delivery, given.endpoint, failure(1), waiting(after(3_600)))])).await.unwrap();
        let new = operation(given.organization, OperationKind::AttemptNow);
        let id = new.id;
        let begun = given.store.begin(new, Selection::Waiting(given.endpoint), 10, entry()).await.unwrap();
        assert_eq!(begun, Begun::Begun, "{kind}");
        let items = vec![(event, given.endpoint.into(), Some(delivery))];
        let step = SelectionStep { operation: id, after: Uuid::nil(), items, skipped: 0, phase: Some(Phase::Selected) };
        given.store.select(step).await.unwrap();
        assert!(given.store.start(id, NOW).await.unwrap(), "{kind}");
        let forwarded = given.store.bring_listed_forward(id, 10, after(5)).await.unwrap().expect(kind);
        assert_eq!(forwarded.iter().map(|one| (one.delivery, one.lane_id)).collect::<Vec<_>>(), [(delivery, given.endpoint.into())]);
        assert_eq!(given.stage(delivery).await, waiting(after(5)), "{kind}");
    }
}

#[tokio::test]
async fn an_operation_selects_replays_and_discards_dead_letters() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let letters = [given.published_dead().await, given.published_dead().await];
        let scanned = given.store.scan_dead_letters(given.organization, ALL).await.unwrap().rows;
        assert_eq!(scanned.iter().map(|letter| letter.id).collect::<Vec<_>>(), [letters[0].1, letters[1].1], "{kind}");
        let events = given.store.scan_events(given.organization, given.application, (NOW, after(60)), ALL).await.unwrap().rows;
        let found: Vec<_> = events.into_iter().map(|event| (event.event, event.newest)).collect();
        let failed = letters.map(|(event, delivery)| (event, vec![(given.endpoint.into(), NewestDelivery::Failed(delivery))]));
        assert_eq!(found, failed, "{kind}");
        let due = DueDeadLetters { organization: given.organization, failures: 1, died_until: after(60), limit: 10 };
        // Of this channel and of this processor only the lane is left: their dead letters must not take the place of others in each batch.
        let expected = if ["channel", "processor"].contains(&kind) { 0 } else { 2 };
        assert_eq!(given.store.due_dead_letters(due).await.unwrap().len(), expected, "{kind}");
        let replaying = given.running(OperationKind::Replay, &letters[..1]).await;
        let items = given.store.items(replaying, 10).await.unwrap();
        assert_eq!(items.iter().map(|item| (item.lane_id, item.of)).collect::<Vec<_>>(), [(given.endpoint.into(), Some(letters[0].1))]);
        let item = ReplayItem { position: Some(items[0].position), of: items[0].of, ..given.replay_item(letters[0].0).await };
        let by = ReplayBy::Operation { id: replaying, failed: Vec::new() };
        let replay = Replay { organization: given.organization, by, items: vec![item], at: NOW };
        let Replayed::Answered(answers) = given.store.replay(replay).await.unwrap() else { panic!("{kind}") };
        assert!(matches!(answers[..], [ReplayAnswer::Made { .. }]), "{kind}: {answers:?}");
        given.end(replaying, OperationStatus::Finished).await;
        assert_eq!(given.store.clear(replaying, 10).await.unwrap(), Cleared::All, "{kind}");
        let discarding = given.running(OperationKind::DiscardBatch, &letters[1..]).await;
        assert_eq!(given.store.discard_next(discarding, 10).await.unwrap(), 1, "{kind}");
        assert_eq!(given.dead_letter(letters[1].1).await.status, DeadLetterStatus::Discarded, "{kind}");
        let (_, third) = given.published_dead().await;
        assert_eq!(given.store.discard(given.organization, third, entry()).await.unwrap(), Discarded::Discarded, "{kind}");
    }
}

#[tokio::test]
async fn an_operation_erases_what_waits() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let (event, delivery) = given.published().await;
        let found = given.store.scan_for_erasure(given.organization, TimeRange::default(), ALL).await.unwrap().rows;
        assert_eq!(found.iter().map(|row| row.event).collect::<Vec<_>>(), [event], "{kind}");
        let operation = given.erasing(&[event]).await;
        assert_eq!(given.store.next_for_erasure(operation, 10).await.unwrap(), [event], "{kind}");
        let batch = ErasureBatch { operation, events: vec![event], at: after(7) };
        assert!(given.store.erase_listed(batch).await.unwrap().is_some(), "{kind}");
        assert!(given.store.is_erased(event).await.unwrap(), "{kind}");
        assert_eq!(given.stage(delivery).await, Stage::Cancelled { at: after(7), cause: CancelCause::Erased }, "{kind}");
    }
}

#[tokio::test]
async fn an_alert_is_recorded_with_the_death_that_it_is_about() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let (_, delivery) = given.published().await;
        let mut death = settlement(delivery, given.endpoint, failure(1), dead(NOW));
        let event_type = event_type("message.attempt.exhausted");
        let alert = Alert { id: id(), organization: given.organization, event_type, data: Bytes::from("{}") };
        death.alerts = vec![SettlementAlert { alert: alert.clone(), condition: AlertCondition::Always }];
        given.store.settle(Arc::new(vec![death])).await.unwrap();
        let pending = given.store.pending(10).await.unwrap();
        assert_eq!(pending.iter().map(|pending| pending.id).collect::<Vec<_>>(), [alert.id], "{kind}");
        given.store.done(vec![alert.id]).await.unwrap();
        assert_eq!(given.store.pending(10).await.unwrap().len(), 0, "{kind}");
    }
}

#[tokio::test]
async fn what_is_past_its_time_goes() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let (_, delivered) = given.published().await;
        given.store.settle(Arc::new(vec![settlement(delivered, given.endpoint, success(1), DELIVERED)])).await.unwrap();
        let (_, letter) = given.published_dead().await;
        let mut breaker = Breaker::new(BreakerConfig::window(), NOW);
        for (revision, transition) in [(1, breaker.force_open(None, after(1))), (2, breaker.reset(after(2)))] {
            let (application, lane_id) = (given.application, given.endpoint.into());
            let kept = breaker.keep();
            let change =
                BreakerChange { application, lane_id, revision, kept, transition: Some(transition), alerts: Vec::new(), entry: None };
            given.store.keep(vec![change]).await.unwrap();
        }
        let kept = given.store.breakers().await.unwrap();
        assert_eq!(kept.iter().map(|row| row.lane_id).collect::<Vec<_>>(), [given.endpoint.into()], "{kind}");
        assert_eq!(given.purge(RetentionClass::OpenPeriods, after(600)).await, 1, "{kind}");
        assert_eq!(given.purge(RetentionClass::Attempts, after(600)).await, 1, "{kind}: that of the dead letter stays");
        assert_eq!(given.purge(RetentionClass::DeadLetters, after(600)).await, 1, "{kind}");
        assert_eq!(given.store.dead_letter(given.organization, letter).await.unwrap(), None, "{kind}");
    }
}

#[tokio::test]
async fn what_expires_is_named_and_goes_once_it_is_archived() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let received = given.received_event(SourceId::from_uuid(id()), "user-7").await;
        let (event, delivery) = (received.event.id, received.deliveries[0].id);
        given.record(received).await;
        given.ended(delivery, DELIVERED).await;
        let (_, letter) = given.published_dead().await;
        for (what, expiring) in
            [(RetentionClass::DeadLetters, ExpiringId::DeadLetter(letter)), (RetentionClass::Events, ExpiringId::Event(event))]
        {
            let expected = [Expiring { organization: given.organization, id: expiring }];
            assert_eq!(given.purge_archiving(what, after(1_000), 500, |_| Vec::new()).await, expected, "{kind}: {what:?}");
            assert_eq!(given.purge_archiving(what, after(1_000), 500, <[Expiring]>::to_vec).await, expected, "{kind}: {what:?}");
            assert_eq!(given.purge_archiving(what, after(1_000), 500, <[Expiring]>::to_vec).await, [], "{kind}: {what:?} are gone");
        }
        assert_eq!(given.store.delivery(given.organization, delivery).await.unwrap().map(|(found, _)| found.id), None, "{kind}");
    }
}

#[tokio::test]
async fn alert_rules_are_measured_from_the_kinds_that_they_are_about() {
    for kind in KINDS {
        let given = Given::of_kind(kind).await;
        let (lane_id, minute) = (LaneId::from(given.endpoint), minute_of(NOW));
        let mut tally = Tally::new(lane_id, minute);
        tally.add(&failure(1), NOW);
        given.store.add(vec![tally], FailingRule::default()).await.unwrap();
        given.published_dead().await;
        given.break_circuit(lane_id, KeptStage::Open { until: after(60) }).await;
        // Rules are about endpoints and capabilities. Channels are counted, because their failures are metrics, and are never an alert.
        let minutes = given.store.lane_minutes(minute, None, 100).await.unwrap().rows;
        let of_lane = minutes.iter().filter(|row| row.lane_id == lane_id).map(|row| row.lane).collect::<Vec<_>>();
        assert_eq!(of_lane, WatchedLane::parse(stored_kind(kind)).into_iter().collect::<Vec<_>>(), "{kind}");
        let of_application =
            minutes.iter().filter(|row| row.lane == WatchedLane::Application).map(|row| row.statistics.total()).sum::<u64>();
        assert_eq!(of_application, 1, "{kind}");
        let one_lane = given.store.minutes_of_lane(lane_id, minute, after(60)).await.unwrap();
        assert_eq!(one_lane.iter().map(|(at, found)| (*at, found.total())).collect::<Vec<_>>(), [(minute, 1)], "{kind}");
        let open = given.store.open_circuits(None, 100).await.unwrap().rows;
        let has_alerts = ["endpoint", "capability"].contains(&stored_kind(kind));
        assert_eq!(
            open.iter().map(|signal| signal.target).collect::<Vec<_>>(),
            Vec::from_iter(has_alerts.then_some(*lane_id.as_uuid())),
            "{kind}"
        );
        let dead = given.store.dead_letter_counts(10, None, 100).await.unwrap().rows;
        let expected = Vec::from_iter((kind != "channel").then_some((*given.application.as_uuid(), 1)));
        assert_eq!(dead.iter().map(|signal| (signal.target, signal.value)).collect::<Vec<_>>(), expected, "{kind}");
        // No source has this lane, and no app was checked.
        assert!(given.store.source_depths(10, None, 100).await.unwrap().rows.is_empty(), "{kind}");
        assert!(given.store.failing_apps(None, 100).await.unwrap().rows.is_empty(), "{kind}");
    }
}
