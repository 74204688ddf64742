//! What operations select from: bounded stretches, in the order of ids.

use std::sync::Arc;

use everhook_core::{
    ids::{EventId, OrganizationId},
    model::{DeathCause, NewestDelivery, Stage},
    ports::{ReplayItem, Scan},
};
use uuid::Uuid;

use super::given::{Given, NOW, after, event_type, failure, id, settlement, success};

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
        found.extend(scanned.rows.iter().map(|event| (event.event, event.newest.clone())));
        after_id = scanned.goes_on_after;
    }
    let newest = |n: usize, newest| (letters[n].0, vec![(given.endpoint.into(), newest)]);
    let failed = |n: usize| newest(n, NewestDelivery::Failed(letters[n].1));
    assert_eq!(found, [failed(1), failed(2), newest(3, NewestDelivery::Delivered(letters[3].1))]);
}

#[tokio::test]
async fn a_scan_is_of_one_organization_and_events_of_other_applications_are_passed_over() {
    let given = Given::new().await;
    let other = given.another_application().await;
    let mut events = Vec::new();
    for application in [other, given.application, other, other, given.application] {
        let new = given.event_of(application, &[]).await;
        events.push(new.event.id);
        given.record(new).await;
    }
    given.published_dead().await;
    let span = (NOW, after(1));
    let (mut from, mut found) = (Some(Uuid::nil()), Vec::new());
    while let Some(after) = from {
        let scanned = given.store.scan_events(given.organization, other, span, Scan { after, limit: 1 }).await.unwrap();
        found.extend(scanned.rows.iter().map(|event| (event.application, event.event)));
        from = scanned.goes_on_after;
    }
    assert_eq!(found, [0, 2, 3].map(|n: usize| (other, events[n])));
    let (stranger, all) = (OrganizationId::from_uuid(id()), Scan { after: Uuid::nil(), limit: 100 });
    assert_eq!(given.store.scan_events(stranger, other, span, all).await.unwrap().rows, []);
    assert_eq!(given.store.scan_dead_letters(stranger, all).await.unwrap().rows, []);
    assert_eq!(given.store.scan_dead_letters(given.organization, all).await.unwrap().rows.len(), 1);
}

#[tokio::test]
async fn an_event_stands_at_each_endpoint_as_its_newest_delivery_does() {
    let given = Given::new().await;
    let (second, third) = (given.another_endpoint().await, given.another_endpoint().await);
    let mut new = given.event(&[given.endpoint, second, third]).await;
    (new.event.event_type, new.event.created_at) = (event_type("order.paid"), after(7));
    let (event, deliveries) = (new.event.id, new.deliveries.iter().map(|delivery| delivery.id).collect::<Vec<_>>());
    given.record(new).await;
    let ends = vec![
        settlement(deliveries[0], given.endpoint, failure(1), Stage::Dead { at: NOW, cause: DeathCause::GivenUp }),
        settlement(deliveries[1], second, success(1), Stage::Delivered { at: NOW }),
    ];
    given.store.settle(Arc::new(ends)).await.unwrap();
    let again = ReplayItem { of: Some(deliveries[0]), ..given.replay_item(event).await };
    given.replay(vec![again]).await;
    let found = given.store.newest_deliveries(given.organization, event).await.unwrap().unwrap();
    assert_eq!((found.event, found.application, found.accepted_at), (event, given.application, after(7)));
    assert_eq!(found.event_type, event_type("order.paid"));
    let expected = [
        (given.endpoint.into(), NewestDelivery::Open(again.delivery)),
        (second.into(), NewestDelivery::Delivered(deliveries[1])),
        (third.into(), NewestDelivery::Open(deliveries[2])),
    ];
    assert_eq!(found.newest, expected);
    assert_eq!(given.store.newest_deliveries(OrganizationId::from_uuid(id()), event).await.unwrap(), None);
    assert_eq!(given.store.newest_deliveries(given.organization, EventId::from_uuid(id())).await.unwrap(), None);
}
