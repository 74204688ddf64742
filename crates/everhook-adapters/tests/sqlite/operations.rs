//! What operations promise: a list that is fixed in steps and worked off once, whatever is repeated or killed in between.

use std::{num::NonZeroU32, sync::Arc};

use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, EventId, OperationId, OrganizationId},
    model::{
        AutoReplay, CancelCause, Cursor, DeadLetterSelection, DeadLetterStatus, DeathCause, Operation, OperationKind, OperationStatus,
        PageRequest, Priority, Selection, Stage, Standing,
    },
    ports::{
        Alert, Begun, CancelWaiting, Cleared, DeliveryQueue, DueDeadLetters, Ending, History, OperationEnded, OperationStore, Phase,
        Replay, ReplayAnswer, ReplayBy, ReplayItem, Replayed, Scan, SelectionStep,
    },
};
use uuid::Uuid;

use crate::given::{Given, NOW, after, entry, event_type, failure, id, settlement, success};

impl Given {
    async fn begun(&self, kind: OperationKind) -> OperationId {
        let operation = operation(self.organization, kind);
        let id = operation.id;
        let selection = Selection::DeadLetters(DeadLetterSelection::default());
        assert_eq!(self.store.begin(operation, selection, 10, entry()).await.unwrap(), Begun::Begun);
        id
    }

    async fn look(&self, id: OperationId) -> Operation {
        self.store.operation(self.organization, id).await.unwrap().unwrap()
    }

    /// An operation that runs, about these events.
    async fn running(&self, kind: OperationKind, events: &[(EventId, DeliveryId)]) -> OperationId {
        let operation = self.begun(kind).await;
        let items = events.iter().map(|(event, of)| (*event, self.endpoint, Some(*of))).collect();
        let step = SelectionStep { operation, items, skipped: 0, phase: Some(Phase::Selected) };
        self.store.select(step).await.unwrap();
        assert!(self.store.start(operation, NOW).await.unwrap());
        operation
    }

    /// Does the next items; says what became of them.
    async fn work(&self, operation: OperationId, items: &[everhook_core::ports::OperationItem]) -> Replayed {
        let mut replays = Vec::new();
        for item in items {
            replays.push(ReplayItem { position: Some(item.position), of: item.of, ..self.replay_item(item.event).await });
        }
        let by = ReplayBy::Operation { id: operation, failed: Vec::new() };
        self.store.replay(Replay { organization: self.organization, by, items: replays, at: after(60) }).await.unwrap()
    }

    async fn end(&self, operation: OperationId, status: OperationStatus) -> OperationEnded {
        let alert =
            Alert { id: id(), organization: self.organization, event_type: event_type("operation.finished"), data: Bytes::from("{}") };
        let ending = Ending { organization: self.organization, operation, status, at: after(90), alert };
        self.store.end(ending).await.unwrap()
    }

    async fn published_dead(&self) -> (EventId, DeliveryId) {
        let (event, delivery) = self.published().await;
        let dead = Stage::Dead { at: NOW, cause: DeathCause::RetriesExhausted };
        self.store.settle(Arc::new(vec![settlement(delivery, self.endpoint, failure(1), dead)])).await.unwrap();
        (event, delivery)
    }
}

fn operation(organization: OrganizationId, kind: OperationKind) -> Operation {
    Operation {
        id: OperationId::from_uuid(id()),
        organization,
        kind,
        status: OperationStatus::Pending,
        total: 0,
        done: 0,
        failed: 0,
        skipped: 0,
        rate: NonZeroU32::new(7),
        priority: Priority::Low,
        start_at: Some(after(3)),
        created_at: NOW,
        started_at: None,
        finished_at: None,
    }
}

#[tokio::test]
async fn an_operation_is_kept_and_listed_and_is_nobody_elses() {
    let given = Given::new().await;
    let new = operation(given.organization, OperationKind::Replay);
    let selection = Selection::DeadLetters(DeadLetterSelection::default());
    given.store.begin(new.clone(), selection.clone(), 10, entry()).await.unwrap();
    let second = given.begun(OperationKind::DiscardBatch).await;
    let given = given.reopened();
    assert_eq!(given.look(new.id).await, new);
    let all = PageRequest { limit: 10, cursor: Cursor::Newest };
    let listed = given.store.operations(given.organization, all).await.unwrap().rows;
    assert_eq!(listed.iter().map(|operation| operation.id).collect::<Vec<_>>(), [second, new.id]);
    let open = given.store.open_operations(10).await.unwrap();
    assert_eq!((open[0].operation.id, &open[0].selection, open[0].phase), (new.id, &selection, Phase::Selecting(Uuid::nil())));
    let stranger = OrganizationId::from_uuid(id());
    assert_eq!(given.store.operation(stranger, new.id).await.unwrap(), None);
    assert_eq!(given.store.operations(stranger, all).await.unwrap().rows, []);
}

#[tokio::test]
async fn an_organization_may_have_only_so_many_under_way() {
    let given = Given::new().await;
    let selection = Selection::DeadLetters(DeadLetterSelection::default());
    let begin = async |organization| {
        given.store.begin(operation(organization, OperationKind::Replay), selection.clone(), 2, entry()).await.unwrap()
    };
    let other = OrganizationId::from_uuid(id());
    let told = [begin(given.organization).await, begin(given.organization).await, begin(given.organization).await, begin(other).await];
    assert_eq!(told, [Begun::Begun, Begun::Begun, Begun::TooMany, Begun::Begun]);
}

#[tokio::test]
async fn what_is_selected_twice_is_on_the_list_once_in_the_order_of_events() {
    let given = Given::new().await;
    let operation = given.begun(OperationKind::Replay).await;
    let mut events = Vec::new();
    for _ in 0..3 {
        events.push(given.published().await);
    }
    let until = id();
    let of = |indexes: &[usize]| indexes.iter().map(|n| (events[*n].0, given.endpoint, Some(events[*n].1))).collect::<Vec<_>>();
    for (items, skipped, phase) in
        [(of(&[2, 0]), 0, None), (of(&[0, 1]), 2, Some(Phase::Selecting(until))), (of(&[]), 0, Some(Phase::Selected))]
    {
        given.store.select(SelectionStep { operation, items, skipped, phase }).await.unwrap();
        if let Some(Phase::Selecting(until)) = phase {
            assert_eq!(given.store.open_operations(1).await.unwrap()[0].phase, Phase::Selecting(until));
        }
    }
    let found = given.look(operation).await;
    assert_eq!((found.total, found.skipped, found.remaining()), (5, 2, 3));
    let items = given.store.items(operation, 10).await.unwrap();
    assert_eq!(items.iter().map(|item| (item.event, item.of.unwrap())).collect::<Vec<_>>(), events);
}

#[tokio::test]
async fn an_item_is_done_once_however_often_it_is_asked_for() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await, given.published().await];
    let operation = given.running(OperationKind::Replay, &events).await;
    let items = given.store.items(operation, 10).await.unwrap();
    let Replayed::Answered(first) = given.work(operation, &items).await else { panic!("it runs") };
    // The answer was lost: the same items are asked for again, after a crash.
    let given = given.reopened();
    let Replayed::Answered(again) = given.work(operation, &items).await else { panic!("it runs") };
    assert!(matches!(first[..], [ReplayAnswer::Made { .. }, ReplayAnswer::Made { .. }, ReplayAnswer::Open]));
    assert!(matches!(again[..], [ReplayAnswer::DoneBefore, ReplayAnswer::DoneBefore, ReplayAnswer::DoneBefore]));
    let found = given.look(operation).await;
    assert_eq!((found.total, found.done, found.failed, found.skipped), (3, 2, 0, 1));
    assert_eq!(given.store.items(operation, 10).await.unwrap(), []);
    let standing = given.store.event_standing(given.organization, events[0].0).await.unwrap().unwrap().standings;
    let [(_, Standing::Open(made))] = standing[..] else { panic!("{standing:?}") };
    let (made, _) = given.store.delivery(given.organization, made).await.unwrap().unwrap();
    assert_eq!((made.operation, made.replay_of), (Some(operation), Some(events[0].1)));
    assert_eq!(given.end(operation, OperationStatus::Finished).await, OperationEnded::Ended);
}

#[tokio::test]
async fn what_cannot_be_done_is_taken_off_the_list_and_counted() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await];
    let operation = given.running(OperationKind::RetryBatch, &events).await;
    let items = given.store.items(operation, 10).await.unwrap();
    let failed = vec![(items[0].position, items[0].endpoint); 2];
    given.tamper("DELETE FROM events");
    let by = ReplayBy::Operation { id: operation, failed };
    let gone = ReplayItem { position: Some(items[1].position), of: items[1].of, ..given.replay_item(items[1].event).await };
    let replay = Replay { organization: given.organization, by, items: vec![gone], at: NOW };
    given.store.replay(replay).await.unwrap();
    let found = given.look(operation).await;
    assert_eq!((found.done, found.failed, found.skipped, found.remaining()), (0, 2, 0, 0));
}

#[tokio::test]
async fn discarding_throws_away_what_is_still_dead() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await, given.published_dead().await];
    let operation = given.running(OperationKind::DiscardBatch, &events).await;
    given.store.discard(given.organization, events[1].1, crate::given::entry()).await.unwrap();
    assert_eq!(given.store.discard_next(operation, 2).await.unwrap(), 2);
    assert_eq!(given.store.discard_next(operation, 2).await.unwrap(), 1);
    assert_eq!(given.store.discard_next(operation, 2).await.unwrap(), 0);
    let found = given.look(operation).await;
    assert_eq!((found.done, found.skipped), (2, 1));
    for (_, letter) in events {
        let letter = given.store.dead_letter(given.organization, letter).await.unwrap().unwrap();
        assert_eq!(letter.status, DeadLetterStatus::Discarded);
    }
}

#[tokio::test]
async fn an_operation_ends_once_and_does_nothing_afterwards() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await];
    let operation = given.running(OperationKind::Replay, &events).await;
    let items = given.store.items(operation, 10).await.unwrap();
    assert_eq!(given.end(operation, OperationStatus::Finished).await, OperationEnded::NotYet);
    assert_eq!(given.end(operation, OperationStatus::Cancelled).await, OperationEnded::Ended);
    assert_eq!(given.end(operation, OperationStatus::Finished).await, OperationEnded::Before(OperationStatus::Cancelled));
    assert_eq!(given.store.pending_alerts(10).await.unwrap().len(), 1, "it is told once");
    assert!(matches!(given.work(operation, &items).await, Replayed::Stopped));
    assert!(!given.store.start(operation, NOW).await.unwrap());
    assert_eq!(given.look(operation).await.finished_at, Some(after(90)));
    assert_eq!(given.store.open_operations(10).await.unwrap()[0].phase, Phase::Clearing);
    assert_eq!(given.store.clear(operation, 1).await.unwrap(), Cleared::SomeLeft);
    assert_eq!(given.store.clear(operation, 2).await.unwrap(), Cleared::All);
    assert_eq!(given.store.open_operations(10).await.unwrap(), []);
    let selecting = given.begun(OperationKind::Replay).await;
    assert_eq!(given.end(selecting, OperationStatus::Finished).await, OperationEnded::NotYet, "it still selects");
}

#[tokio::test]
async fn a_scan_looks_at_no_more_than_it_is_allowed_to() {
    let given = Given::new().await;
    let mut letters = Vec::new();
    for secs in 0..5 {
        let mut new = given.event(&[given.endpoint]).await;
        new.event.created_at = after(secs);
        let (event, delivery) = (new.event.id, new.deliveries[0].id);
        given.record(new).await;
        let end = if secs == 3 {
            (success(1), Stage::Delivered { at: NOW })
        } else {
            (failure(1), Stage::Dead { at: NOW, cause: DeathCause::GivenUp })
        };
        given.store.settle(Arc::new(vec![settlement(delivery, given.endpoint, end.0, end.1)])).await.unwrap();
        letters.push((event, delivery));
    }
    let (mut after_id, mut found) = (Some(Uuid::nil()), Vec::new());
    while let Some(from) = after_id {
        let scanned = given.store.scan_dead_letters(given.organization, Scan { after: from, limit: 2 }).await.unwrap();
        assert!(scanned.rows.len() <= 2);
        found.extend(scanned.rows.iter().map(|letter| letter.id));
        after_id = scanned.goes_on_after;
    }
    assert_eq!(found, [0, 1, 2, 4].map(|n: usize| letters[n].1));
    let (mut after_id, mut found) = (Some(Uuid::nil()), Vec::new());
    while let Some(from) = after_id {
        let scan = Scan { after: from, limit: 2 };
        let scanned = given.store.scan_events(given.organization, given.application, (after(1), after(4)), scan).await.unwrap();
        found.extend(scanned.rows.iter().map(|event| (event.event, event.standings.clone())));
        after_id = scanned.goes_on_after;
    }
    let standing = |n: usize, standing| (letters[n].0, vec![(given.endpoint, standing)]);
    let failed = |n: usize| standing(n, Standing::Failed(letters[n].1));
    assert_eq!(found, [failed(1), failed(2), standing(3, Standing::Delivered(letters[3].1))]);
}

#[tokio::test]
async fn dead_letters_that_can_recover_are_due_by_how_often_and_how_long_ago_they_died() {
    let given = Given::new().await;
    let mut letters = Vec::new();
    for (secs, cause) in
        [(10, DeathCause::RetriesExhausted), (20, DeathCause::RetriesExhausted), (5, DeathCause::GivenUp), (30, DeathCause::TlsFailed)]
    {
        let (_, delivery) = given.published().await;
        let stage = Stage::Dead { at: after(secs), cause };
        given.store.settle(Arc::new(vec![settlement(delivery, given.endpoint, failure(1), stage)])).await.unwrap();
        letters.push(delivery);
    }
    let due = async |failures, secs, limit| {
        let wanted = DueDeadLetters { organization: given.organization, failures, died_until: after(secs), limit };
        given.store.due_dead_letters(wanted).await.unwrap().iter().map(|letter| letter.id).collect::<Vec<_>>()
    };
    assert_eq!(due(1, 9, 10).await, []);
    assert_eq!(due(1, 20, 10).await, letters[..2]);
    assert_eq!(due(1, 99, 10).await, [letters[0], letters[1], letters[3]]);
    assert_eq!(due(1, 99, 1).await, letters[..1]);
    assert_eq!(due(2, 99, 10).await, []);
    // One that was tried and cancelled waits as long again; those of a closed endpoint wait until it is enabled.
    let event = given.store.dead_letter(given.organization, letters[0]).await.unwrap().unwrap().event;
    given.replay(vec![ReplayItem { of: Some(letters[0]), ..given.replay_item(event).await }]).await;
    let cause = CancelCause::EndpointDisabled;
    let cancel = CancelWaiting { endpoint: given.endpoint, made_until: after(99), cause, at: after(61), limit: 10 };
    given.store.cancel_waiting(cancel).await.unwrap();
    assert_eq!(due(1, 59, 10).await, [letters[1], letters[3]]);
    assert_eq!(due(1, 60, 10).await, [letters[0], letters[1], letters[3]]);
    given.tamper("UPDATE endpoints SET state = 'deleted', deleted_at = 0");
    assert_eq!(due(1, 99, 10).await, []);
}

#[tokio::test]
async fn the_death_of_an_automatic_try_is_told_and_no_other() {
    let given = Given::new().await;
    for (by, told) in [(ReplayBy::Hand, 0), (ReplayBy::Automatic, 1)] {
        let (event, of) = given.published_dead().await;
        let item = ReplayItem { of: Some(of), only_dead: true, ..given.replay_item(event).await };
        given.store.replay(Replay { organization: given.organization, by, items: vec![item], at: NOW }).await.unwrap();
        let dead = Stage::Dead { at: NOW, cause: DeathCause::RetriesExhausted };
        let mut death = settlement(item.delivery, given.endpoint, failure(1), dead);
        let event_type = event_type(Alert::REPLAY_FAILED);
        death.alerts = vec![Alert { id: id(), organization: given.organization, event_type, data: Bytes::from("{}") }];
        given.store.settle(Arc::new(vec![death])).await.unwrap();
        assert_eq!(given.store.pending_alerts(10).await.unwrap().len(), told);
    }
}

#[tokio::test]
async fn how_dead_letters_come_back_by_themselves_is_kept_for_each_organization() {
    let given = Given::new().await;
    assert_eq!(given.store.auto_replay(given.organization).await.unwrap(), None);
    let on = AutoReplay { enabled: true, max_tries: 3, ..AutoReplay::default() };
    let other = OrganizationId::from_uuid(id());
    given.store.set_auto_replay(given.organization, AutoReplay::default()).await.unwrap();
    given.store.set_auto_replay(other, on).await.unwrap();
    let given = given.reopened();
    assert_eq!(given.store.auto_replay(given.organization).await.unwrap(), Some(AutoReplay::default()));
    assert_eq!(given.store.auto_replays().await.unwrap(), [(other, on)]);
}
