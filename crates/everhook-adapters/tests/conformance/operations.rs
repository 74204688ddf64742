//! What operations promise: a list that is fixed in steps and worked off once, whatever is repeated or killed in between.

use std::{num::NonZeroU32, sync::Arc};

use bytes::Bytes;
use everhook_core::{
    ids::{ApplicationId, DeliveryId, EventId, OperationId, OrganizationId},
    model::{
        AuditAction, AuditEntry, Cursor, DeadLetterSelection, DeadLetterStatus, DeathCause, EventSelection, EventTypePattern,
        FailureCategory, NewestDelivery, Operation, OperationKind, OperationStatus, PageRequest, Priority, Selection, Stage, Wanted,
    },
    ports::{
        Alert, AuditFilter, Begun, Cleared, Ending, FailedItem, OperationEnded, OperationItem, Phase, Replay, ReplayAnswer, ReplayBy,
        ReplayItem, Replayed, SelectionStep,
    },
};
use uuid::Uuid;

use super::{
    given::{Given, NOW, after, entry, event_type, failure, id, settlement},
    walking::{both_ways, walk},
};

impl Given {
    pub async fn begun(&self, kind: OperationKind) -> OperationId {
        let operation = operation(self.organization, kind);
        let id = operation.id;
        let selection = Selection::DeadLetters(DeadLetterSelection::default());
        assert_eq!(self.store.begin(operation, selection, 10, entry()).await.unwrap(), Begun::Begun);
        id
    }

    pub async fn look(&self, id: OperationId) -> Operation {
        self.store.operation(self.organization, id).await.unwrap().unwrap()
    }

    /// An operation that runs, about these events.
    pub async fn running(&self, kind: OperationKind, events: &[(EventId, DeliveryId)]) -> OperationId {
        let operation = self.begun(kind).await;
        let items = events.iter().map(|(event, of)| (*event, self.endpoint.into(), Some(*of))).collect();
        let step = SelectionStep { operation, after: Uuid::nil(), items, skipped: 0, phase: Some(Phase::Selected) };
        self.store.select(step).await.unwrap();
        assert!(self.store.start(operation, NOW).await.unwrap());
        operation
    }

    /// Does the next items; says what became of them.
    async fn work(&self, operation: OperationId, items: &[OperationItem]) -> Replayed {
        let mut replays = Vec::new();
        for item in items {
            replays.push(ReplayItem { position: Some(item.position), of: item.of, ..self.replay_item(item.event).await });
        }
        let by = ReplayBy::Operation { id: operation, failed: Vec::new() };
        self.store.replay(Replay { organization: self.organization, by, items: replays, at: after(60) }).await.unwrap()
    }

    /// Takes items off the list that cannot be done.
    async fn give_up(&self, operation: OperationId, failed: Vec<FailedItem>) -> Replayed {
        let by = ReplayBy::Operation { id: operation, failed };
        self.store.replay(Replay { organization: self.organization, by, items: Vec::new(), at: NOW }).await.unwrap()
    }

    pub async fn end(&self, operation: OperationId, status: OperationStatus) -> OperationEnded {
        let alert =
            Alert { id: id(), organization: self.organization, event_type: event_type("operation.finished"), data: Bytes::from("{}") };
        let ending = Ending { organization: self.organization, operation, status, at: after(90), alert, entry: None };
        self.store.end(ending).await.unwrap()
    }

    pub async fn published_dead(&self) -> (EventId, DeliveryId) {
        let (event, delivery) = self.published().await;
        let dead = Stage::Dead { at: NOW, cause: DeathCause::RetriesExhausted };
        self.store.settle(Arc::new(vec![settlement(delivery, self.endpoint, failure(1), dead)])).await.unwrap();
        (event, delivery)
    }
}

pub fn operation(organization: OrganizationId, kind: OperationKind) -> Operation {
    Operation {
        id: OperationId::from_uuid(id()),
        organization,
        application: None,
        endpoint: None,
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
    let given = given.reopened().await;
    assert_eq!(given.look(new.id).await, new);
    let all = PageRequest { limit: 10, cursor: Cursor::Newest };
    let listed = given.store.operations(given.organization, None, all).await.unwrap().rows;
    assert_eq!(listed.iter().map(|operation| operation.id).collect::<Vec<_>>(), [second, new.id]);
    let open = given.store.open_operations(10).await.unwrap();
    assert_eq!((open[0].operation.id, &open[0].selection, open[0].phase), (new.id, &selection, Phase::Selecting(Uuid::nil())));
    let stranger = OrganizationId::from_uuid(id());
    assert_eq!(given.store.operation(stranger, new.id).await.unwrap(), None);
    assert_eq!(given.store.operations(stranger, None, all).await.unwrap().rows, []);
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
    let of = |indexes: &[usize]| indexes.iter().map(|n| (events[*n].0, given.endpoint.into(), Some(events[*n].1))).collect::<Vec<_>>();
    for (after, items, skipped, phase) in [
        (Uuid::nil(), of(&[2, 0]), 0, None),
        (Uuid::nil(), of(&[0, 1]), 2, Some(Phase::Selecting(until))),
        (until, of(&[]), 0, Some(Phase::Selected)),
    ] {
        given.store.select(SelectionStep { operation, after, items, skipped, phase }).await.unwrap();
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
async fn a_step_of_a_selection_that_began_elsewhere_changes_nothing() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await, given.published_dead().await];
    let operation = given.begun(OperationKind::Replay).await;
    let (first, second) = (id(), id());
    let select = async |after, index: usize, phase| {
        let items = vec![(events[index].0, given.endpoint.into(), Some(events[index].1))];
        given.store.select(SelectionStep { operation, after, items, skipped: 1, phase }).await.unwrap();
        let (found, open) = (given.look(operation).await, given.store.open_operations(1).await.unwrap().remove(0));
        (found.total, found.skipped, open.phase)
    };
    assert_eq!(select(Uuid::nil(), 0, Some(Phase::Selecting(first))).await, (2, 1, Phase::Selecting(first)));
    // While another selects: from behind, and from a place that it has not come to.
    for (after, phase) in [(Uuid::nil(), None), (Uuid::nil(), Some(Phase::Selecting(second))), (second, Some(Phase::Selected))] {
        assert_eq!(select(after, 1, phase).await, (2, 1, Phase::Selecting(first)), "{after} {phase:?}");
    }
    assert_eq!(select(first, 2, Some(Phase::Selected)).await, (4, 2, Phase::Selected));
    // Once an item was worked off, nothing on the list says any more that it was selected.
    assert!(given.store.start(operation, NOW).await.unwrap());
    let items = given.store.items(operation, 1).await.unwrap();
    given.work(operation, &items).await;
    for (after, phase) in [(Uuid::nil(), None), (Uuid::nil(), Some(Phase::Selecting(first))), (first, Some(Phase::Selected))] {
        assert_eq!(select(after, 0, phase).await, (4, 2, Phase::Selected), "{after} {phase:?}");
    }
    assert_eq!(given.store.items(operation, 10).await.unwrap().iter().map(|item| item.event).collect::<Vec<_>>(), [events[2].0]);
}

#[tokio::test]
async fn an_item_is_done_once_however_often_it_is_asked_for() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await, given.published().await];
    let operation = given.running(OperationKind::Replay, &events).await;
    let items = given.store.items(operation, 10).await.unwrap();
    let Replayed::Answered(first) = given.work(operation, &items).await else { panic!("it runs") };
    // The answer was lost: the same items are asked for again, after a crash.
    let given = given.reopened().await;
    let Replayed::Answered(again) = given.work(operation, &items).await else { panic!("it runs") };
    assert!(matches!(first[..], [ReplayAnswer::Made { .. }, ReplayAnswer::Made { .. }, ReplayAnswer::Open]));
    assert!(matches!(again[..], [ReplayAnswer::DoneBefore, ReplayAnswer::DoneBefore, ReplayAnswer::DoneBefore]));
    let found = given.look(operation).await;
    assert_eq!((found.total, found.done, found.failed, found.skipped), (3, 2, 0, 1));
    assert_eq!(given.store.items(operation, 10).await.unwrap(), []);
    let newest = given.store.newest_deliveries(given.organization, events[0].0).await.unwrap().unwrap().newest;
    let [(_, NewestDelivery::Open(made))] = newest[..] else { panic!("{newest:?}") };
    let (made, _) = given.store.delivery(given.organization, made).await.unwrap().unwrap();
    assert_eq!((made.operation, made.replay_of), (Some(operation), Some(events[0].1)));
    assert_eq!(given.end(operation, OperationStatus::Finished).await, OperationEnded::Ended);
}

#[tokio::test]
async fn discarding_throws_away_what_is_still_dead() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await, given.published_dead().await];
    let operation = given.running(OperationKind::DiscardBatch, &events).await;
    given.store.discard(given.organization, events[1].1, entry()).await.unwrap();
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
    assert_eq!(given.store.pending(10).await.unwrap().len(), 1, "it is told once");
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
async fn what_cannot_be_done_is_taken_off_the_list_and_counted_once() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await];
    let operation = given.running(OperationKind::RetryBatch, &events).await;
    let items = given.store.items(operation, 10).await.unwrap();
    let version = given.config_version().await;
    for judged_by in [Some((given.application, version)), None] {
        let failed = vec![FailedItem { position: items[0].position, lane_id: items[0].lane_id, judged_by }; 2];
        assert!(matches!(given.give_up(operation, failed).await, Replayed::Answered(_)));
        assert_eq!(given.store.items(operation, 10).await.unwrap(), items[1..]);
        let found = given.look(operation).await;
        assert_eq!((found.done, found.failed, found.skipped, found.remaining()), (0, 1, 0, 1));
    }
}

#[tokio::test]
async fn what_could_not_be_done_by_an_older_configuration_stays_on_the_list() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await];
    let operation = given.running(OperationKind::RetryBatch, &events).await;
    let items = given.store.items(operation, 10).await.unwrap();
    // One of them says that by the present configuration, and the other one does not.
    let version = given.config_version().await;
    let judged = |(item, version): (&OperationItem, i64)| FailedItem {
        position: item.position,
        lane_id: item.lane_id,
        judged_by: Some((given.application, version)),
    };
    let failed = items.iter().zip([version, version - 1]).map(judged).collect();
    let told = given.give_up(operation, failed).await;
    assert!(matches!(&told, Replayed::ConfigChanged(applications) if *applications == [given.application]), "{told:?}");
    assert_eq!(given.store.items(operation, 10).await.unwrap(), items);
    assert_eq!(given.look(operation).await.failed, 0);
}

#[tokio::test]
async fn operations_are_walked_both_ways_and_those_with_work_come_oldest_first() {
    let given = Given::new().await;
    let mut begun = Vec::new();
    for _ in 0..5 {
        begun.push(given.begun(OperationKind::Replay).await);
    }
    let open = async |limit| {
        let open = given.store.open_operations(limit).await.unwrap();
        open.into_iter().map(|open| open.operation.id).collect::<Vec<_>>()
    };
    assert_eq!(open(10).await, begun);
    assert_eq!(open(2).await, begun[..2]);
    let list = async |page| given.store.operations(given.organization, None, page).await.unwrap();
    begun.reverse();
    assert_eq!(walk(list, |operation| operation.id).await, both_ways(begun));
}

#[tokio::test]
async fn operations_about_one_application_are_walked_both_ways() {
    let given = Given::new().await;
    let mut about = Vec::new();
    for number in 0..6 {
        let application = [None, Some(given.application), Some(ApplicationId::from_uuid(id()))][number % 3];
        let new = Operation { application, ..operation(given.organization, OperationKind::Replay) };
        given.store.begin(new.clone(), Selection::DeadLetters(DeadLetterSelection::default()), 10, entry()).await.unwrap();
        assert_eq!(given.look(new.id).await, new);
        if application == Some(given.application) {
            about.insert(0, new.id);
        }
    }
    let list = async |page| given.store.operations(given.organization, Some(given.application), page).await.unwrap();
    assert_eq!(walk(list, |operation| operation.id).await, both_ways(about));
    let of_stranger =
        given.store.operations(OrganizationId::from_uuid(id()), Some(given.application), PageRequest { limit: 10, cursor: Cursor::Newest });
    let of_stranger = of_stranger.await.unwrap();
    assert_eq!(of_stranger.rows, []);
}

#[tokio::test]
async fn what_an_operation_is_about_is_read_back_whole() {
    let given = Given::new().await;
    let pattern = |text| EventTypePattern::parse(text).unwrap();
    let selections = [
        Selection::DeadLetters(DeadLetterSelection {
            application: Some(given.application),
            endpoints: vec![given.endpoint],
            event_types: vec![pattern("order.*"), EventTypePattern::Any],
            categories: vec![FailureCategory::Dns, FailureCategory::Timeout],
            from: Some(NOW),
            to: Some(after(1)),
        }),
        Selection::Events(EventSelection {
            application: given.application,
            from: NOW,
            to: after(60),
            event_types: vec![pattern("user.created")],
            endpoints: vec![given.endpoint],
            wanted: Wanted::Missed,
        }),
    ];
    for selection in &selections {
        given.store.begin(operation(given.organization, OperationKind::Replay), selection.clone(), 10, entry()).await.unwrap();
    }
    let given = given.reopened().await;
    let open = given.store.open_operations(10).await.unwrap();
    assert_eq!(open.into_iter().map(|open| open.selection).collect::<Vec<_>>(), selections);
}

#[tokio::test]
async fn an_operation_starts_once_and_works_off_its_list_from_the_front() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await, given.published_dead().await];
    let operation = given.running(OperationKind::Replay, &events).await;
    assert!(given.store.start(operation, after(5)).await.unwrap());
    let found = given.look(operation).await;
    assert_eq!((found.status, found.started_at, found.finished_at), (OperationStatus::Running, Some(NOW), None));
    let items = given.store.items(operation, 2).await.unwrap();
    assert_eq!(items.iter().map(|item| (item.event, item.of.unwrap())).collect::<Vec<_>>(), events[..2]);
    assert!(items.iter().all(|item| (item.lane_id, item.application) == (given.endpoint.into(), given.application)));
    let other = given.running(OperationKind::Replay, &events[..1]).await;
    assert_eq!(given.store.items(other, 10).await.unwrap().len(), 1, "each has a list of its own");
}

#[tokio::test]
async fn an_operation_that_has_ended_takes_nothing_more_and_nobody_else_can_end_it() {
    let given = Given::new().await;
    let events = [given.published_dead().await, given.published_dead().await];
    let operation = given.running(OperationKind::DiscardBatch, &events[..1]).await;
    let alert = Alert { id: id(), organization: given.organization, event_type: event_type("operation.finished"), data: Bytes::from("{}") };
    let stranger = OrganizationId::from_uuid(id());
    let ending = Ending { organization: stranger, operation, status: OperationStatus::Cancelled, at: NOW, alert, entry: Some(entry()) };
    assert_eq!(given.store.end(ending).await.unwrap(), OperationEnded::NotFound);
    given.store.clear(operation, 10).await.unwrap();
    assert_eq!(given.store.items(operation, 10).await.unwrap().len(), 1, "nothing is cleared before its end");
    assert_eq!(given.end(operation, OperationStatus::Failed).await, OperationEnded::Ended);
    assert_eq!(given.store.discard_next(operation, 10).await.unwrap(), 0);
    let found = given.look(operation).await;
    assert_eq!((found.status, found.total, found.done, found.skipped), (OperationStatus::Failed, 1, 0, 0));
    // Nor is anything selected for one that ended before its selection did.
    let operation = given.begun(OperationKind::DiscardBatch).await;
    assert_eq!(given.end(operation, OperationStatus::Cancelled).await, OperationEnded::Ended);
    let items = vec![(events[1].0, given.endpoint.into(), None)];
    let step = SelectionStep { operation, after: Uuid::nil(), items, skipped: 7, phase: Some(Phase::Selected) };
    given.store.select(step).await.unwrap();
    let found = given.look(operation).await;
    assert_eq!((found.status, found.total, found.skipped), (OperationStatus::Cancelled, 0, 0));
}

#[tokio::test]
async fn who_ends_an_operation_is_entered_in_the_audit_log_with_it_and_whoever_comes_too_late_is_not() {
    let given = Given::new().await;
    let operation = given.begun(OperationKind::Replay).await;
    let ending = || Ending {
        organization: given.organization,
        operation,
        status: OperationStatus::Cancelled,
        at: NOW,
        alert: Alert { id: id(), organization: given.organization, event_type: event_type("operation.finished"), data: Bytes::from("{}") },
        entry: Some(AuditEntry { organization: given.organization, action: AuditAction::OperationCancel, ..entry() }),
    };
    let (first, second) = (ending(), ending());
    let written = first.entry.clone().unwrap();
    assert_eq!(given.store.end(first).await.unwrap(), OperationEnded::Ended);
    assert_eq!(given.store.end(second).await.unwrap(), OperationEnded::Before(OperationStatus::Cancelled));
    let all = PageRequest { limit: 10, cursor: Cursor::Newest };
    assert_eq!(given.store.audit_log(given.organization, AuditFilter::default(), all).await.unwrap().rows, [written]);
}
