//! Dead letters that come back by themselves.

use std::{num::NonZeroU32, sync::Arc, time::Duration};

use bytes::Bytes;
use everhook_core::{
    ids::{OrganizationId, Ref},
    model::{AutoReplay, CancelCause, DeathCause, EndpointState, Stage},
    ports::{Alert, AlertCondition, CancelWaiting, DueDeadLetters, EndpointUpdated, Replay, ReplayBy, ReplayItem, SettlementAlert},
};

use super::given::{Given, NOW, after, entry, event_type, failure, id, settlement};

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
    let stranger = DueDeadLetters { organization: OrganizationId::from_uuid(id()), failures: 1, died_until: after(99), limit: 10 };
    assert_eq!(given.store.due_dead_letters(stranger).await.unwrap(), []);
    // One that was tried and cancelled waits as long again; those of a closed endpoint wait until it is enabled.
    let event = given.store.dead_letter(given.organization, letters[0]).await.unwrap().unwrap().event;
    given.replay(vec![ReplayItem { of: Some(letters[0]), ..given.replay_item(event).await }]).await;
    let cause = CancelCause::EndpointDisabled;
    let cancel = CancelWaiting { lane_id: given.endpoint.into(), made_until: after(99), cause, at: after(61), limit: 10 };
    given.store.cancel_waiting(cancel).await.unwrap();
    assert_eq!(due(1, 59, 10).await, [letters[1], letters[3]]);
    assert_eq!(due(1, 60, 10).await, [letters[0], letters[1], letters[3]]);
    let mut endpoint = given.store.endpoint(given.organization, &Ref::Id(given.endpoint)).await.unwrap().unwrap();
    let read_at = std::mem::replace(&mut endpoint.updated_at, after(1));
    endpoint.state = EndpointState::Deleted { at: after(1) };
    assert_eq!(given.store.update_endpoint(endpoint, read_at, entry()).await.unwrap(), EndpointUpdated::Updated);
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
        let event_type = event_type("dlq.replay_failed");
        let alert = Alert { id: id(), organization: given.organization, event_type, data: Bytes::from("{}") };
        death.alerts = vec![SettlementAlert { alert, condition: AlertCondition::IfAutomaticReplay }];
        given.store.settle(Arc::new(vec![death])).await.unwrap();
        assert_eq!(given.store.pending(10).await.unwrap().len(), told);
    }
}

#[tokio::test]
async fn how_dead_letters_come_back_by_themselves_is_kept_for_each_organization() {
    let given = Given::new().await;
    assert_eq!(given.store.auto_replay(given.organization).await.unwrap(), None);
    let requests_per_second = NonZeroU32::new(9).unwrap();
    let on = AutoReplay { enabled: true, max_tries: 3, after: Duration::from_secs(77), requests_per_second };
    let other = OrganizationId::from_uuid(id());
    given.store.set_auto_replay(given.organization, AutoReplay::default()).await.unwrap();
    given.store.set_auto_replay(other, on).await.unwrap();
    let given = given.reopened().await;
    assert_eq!(given.store.auto_replay(given.organization).await.unwrap(), Some(AutoReplay::default()));
    assert_eq!(given.store.auto_replays().await.unwrap(), [(other, on)]);
    // What is set again replaces what was set.
    given.store.set_auto_replay(other, AutoReplay { enabled: false, ..on }).await.unwrap();
    assert_eq!(given.store.auto_replay(other).await.unwrap(), Some(AutoReplay { enabled: false, ..on }));
    assert_eq!(given.store.auto_replays().await.unwrap(), []);
}
