//! Reading what happened.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use everhook_core::{
    ids::{ApplicationId, DeliveryId, EndpointId, EventId, OrganizationId, RevisionNumber},
    model::{
        Attempt, AttemptStatus, CancelCause, Cursor, Cut, DeadLetterStatus, DeathCause, FailureCategory, Page, PageRequest, PhaseTimes,
        Priority, Response, RetryAfter, Stage,
    },
    ports::{
        CancelWaiting, DeadLetterFilter, DeliveryFilter, DeliveryQueue, DeliveryStatus, Discarded, EventFilter, EventSummary, History,
        ReplayItem, TimeRange,
    },
    time::Timestamp,
};
use uuid::Uuid;

use crate::given::{Given, NOW, after, entry, event_type, failure, id, settlement, success};

const ALL: PageRequest = PageRequest { limit: 100, cursor: Cursor::Newest };

/// Walks a list to its end and back to its beginning, two rows at a time, and returns what was seen both ways.
async fn walk<T>(list: impl AsyncFn(PageRequest) -> Page<T>, id: impl Fn(&T) -> Uuid) -> (Vec<Uuid>, Vec<Uuid>) {
    let mut forth = Vec::new();
    let mut page = list(PageRequest { limit: 2, cursor: Cursor::Newest }).await;
    assert_eq!(page.prev, None);
    loop {
        forth.extend(page.rows.iter().map(&id));
        let Some(cursor) = page.next else { break };
        page = list(PageRequest { limit: 2, cursor }).await;
    }
    let mut back: Vec<Uuid> = page.rows.iter().map(&id).collect();
    while let Some(cursor) = page.prev {
        page = list(PageRequest { limit: 2, cursor }).await;
        back.splice(0..0, page.rows.iter().map(&id));
    }
    (forth, back)
}

#[tokio::test]
async fn an_event_is_shown_with_what_became_of_it() {
    let given = Given::new().await;
    let mut new = given.event(&[given.endpoint]).await;
    new.event.source = Some("billing".to_owned());
    let mut event = new.event.clone();
    event.sequence_number = given.record(new).await;
    let summary = EventSummary {
        id: event.id,
        application: given.application,
        event_type: event.event_type.clone(),
        priority: Priority::Normal,
        timestamp: NOW,
        idempotency_key: event.id.to_string(),
        source: Some("billing".to_owned()),
        sequence_number: event.sequence_number,
        deliveries: 1,
        created_at: NOW,
        erased_at: None,
    };
    assert_eq!(History::event(&given.store, given.organization, event.id).await.unwrap(), Some((summary, Some(event.clone()))));
    assert_eq!(History::event(&given.store, OrganizationId::from_uuid(id()), event.id).await.unwrap(), None);
}

#[tokio::test]
async fn events_are_listed_by_application_type_and_time() {
    let given = Given::new().await;
    let mut ids = Vec::new();
    for (name, secs) in [("user.created", 0), ("order.paid", 10), ("user.created", 20)] {
        let mut new = given.event(&[]).await;
        (new.event.event_type, new.event.created_at) = (event_type(name), after(secs));
        ids.push(new.event.id);
        given.record(new).await;
    }
    let [first, second, third] = ids[..] else { panic!("three were made") };
    let any = EventFilter::default;
    let accepted = |from: Option<Timestamp>, to| EventFilter { accepted: TimeRange { from, to }, ..any() };
    let cases = [
        (any(), vec![third, second, first]),
        (EventFilter { application: Some(given.application), ..any() }, vec![third, second, first]),
        (EventFilter { application: Some(ApplicationId::from_uuid(id())), ..any() }, vec![]),
        (EventFilter { event_type: Some(event_type("user.created")), ..any() }, vec![third, first]),
        (accepted(Some(after(10)), None), vec![third, second]),
        (accepted(None, Some(after(10))), vec![first]),
        (accepted(Some(after(10)), Some(after(20))), vec![second]),
        (accepted(Some(after(86_400)), None), vec![]),
        (accepted(None, Some(NOW - Duration::from_secs(86_400))), vec![]),
    ];
    for (filter, expected) in cases {
        let page = given.store.events(given.organization, filter.clone(), ALL).await.unwrap();
        assert_eq!(page.rows.iter().map(|event| event.id).collect::<Vec<EventId>>(), expected, "{filter:?}");
    }
    assert_eq!(given.store.events(OrganizationId::from_uuid(id()), any(), ALL).await.unwrap().rows, []);
}

#[tokio::test]
async fn a_delivery_is_shown_with_its_attempts_as_they_were() {
    let given = Given::new().await;
    let (event, delivery) = given.published().await;
    let response = Response {
        status: 429,
        headers: vec![("retry-after".to_owned(), Bytes::from_static(b"7")), ("x-odd".to_owned(), Bytes::from_static(b"\xff\x00"))],
        body_sample: Bytes::from_static(b"slow down"),
        cut: Cut { headers: false, body: true },
        retry_after: Some(RetryAfter::Delay(Duration::from_secs(7))),
    };
    let millis = |n| Some(Duration::from_millis(n));
    let full = Attempt {
        number: 1,
        status: AttemptStatus::Failed,
        failure_category: Some(FailureCategory::RateLimit),
        error: Some("answered 429".to_owned()),
        response: Some(response.clone()),
        duration: Duration::from_micros(1_234),
        phases: PhaseTimes { dns: millis(1), connect: millis(2), tls: millis(3), first_byte: millis(4) },
        scheduled_at: after(1),
        picked_at: after(2),
        executed_at: after(3),
        next_retry_at: Some(after(60)),
        revision: Some(RevisionNumber(300)),
        node: "node-7".to_owned(),
        user_agent: "Everhook/1".into(),
        breaker: everhook_core::model::BreakerState::Closed,
    };
    let dated = Response { cut: Cut { headers: true, body: false }, retry_after: Some(RetryAfter::At(after(90))), ..response };
    let second = Attempt { number: 2, response: Some(dated), revision: None, user_agent: "Everhook/2".into(), ..full.clone() };
    for attempt in [&full, &second] {
        let stage = Stage::Waiting { due_at: after(60) };
        given.store.settle(Arc::new(vec![settlement(delivery, given.endpoint, attempt.clone(), stage)])).await.unwrap();
    }
    let (shown, attempts) = given.store.delivery(given.organization, delivery).await.unwrap().unwrap();
    assert_eq!(attempts, [full, second]);
    assert_eq!((shown.event, shown.endpoint, shown.attempts), (event, given.endpoint, 2));
    assert_eq!((shown.failure_category, shown.last_error.as_deref()), (Some(FailureCategory::RateLimit), Some("answered 429")));
    assert_eq!(given.store.delivery(OrganizationId::from_uuid(id()), delivery).await.unwrap(), None);
}

/// One delivery in each state, all of one endpoint, and one of another endpoint.
struct Deliveries {
    waiting: DeliveryId,
    failed: DeliveryId,
    delivered: DeliveryId,
    dead: DeliveryId,
    cancelled: DeliveryId,
    elsewhere: DeliveryId,
    other: EndpointId,
    event: EventId,
}

async fn deliveries(given: &Given) -> Deliveries {
    let cancelled = given.published().await.1;
    let at = after(5);
    let cancel = CancelWaiting { endpoint: given.endpoint, made_until: at, cause: CancelCause::EndpointDisabled, at, limit: 10 };
    given.store.cancel_waiting(cancel).await.unwrap();
    let (event, waiting) = given.published().await;
    let (_, failed) = given.published().await;
    let (_, delivered) = given.published().await;
    let (_, dead) = given.published().await;
    let other = given.another_endpoint().await;
    let mut elsewhere = given.event(&[other]).await;
    (elsewhere.event.event_type, elsewhere.event.created_at) = (event_type("order.paid"), after(30));
    let last = elsewhere.deliveries[0].id;
    given.record(elsewhere).await;
    let settle = |delivery, attempt, stage| settlement(delivery, given.endpoint, attempt, stage);
    let batch = vec![
        settle(failed, failure(1), Stage::Waiting { due_at: at }),
        settle(delivered, success(1), Stage::Delivered { at }),
        settle(dead, failure(1), Stage::Dead { at, cause: DeathCause::RetriesExhausted }),
    ];
    given.store.settle(Arc::new(batch)).await.unwrap();
    Deliveries { waiting, failed, delivered, dead, cancelled, elsewhere: last, other, event }
}

#[tokio::test]
async fn deliveries_are_listed_by_every_filter() {
    let given = Given::new().await;
    let Deliveries { waiting, failed, delivered, dead, cancelled, elsewhere, other, event } = deliveries(&given).await;
    let any = DeliveryFilter::default;
    let of_endpoint = |endpoint| DeliveryFilter { endpoint: Some(endpoint), ..any() };
    let status = |status| DeliveryFilter { status: Some(status), ..any() };
    let made = |from, to| DeliveryFilter { made: TimeRange { from, to }, ..any() };
    let all = vec![elsewhere, dead, delivered, failed, waiting, cancelled];
    let cases = [
        (any(), all.clone()),
        (DeliveryFilter { application: Some(given.application), ..any() }, all),
        (DeliveryFilter { application: Some(ApplicationId::from_uuid(id())), ..any() }, vec![]),
        (of_endpoint(given.endpoint), vec![dead, delivered, failed, waiting, cancelled]),
        (of_endpoint(other), vec![elsewhere]),
        (DeliveryFilter { application: Some(ApplicationId::from_uuid(id())), ..of_endpoint(other) }, vec![]),
        (DeliveryFilter { event: Some(event), ..any() }, vec![waiting]),
        (DeliveryFilter { event: Some(event), ..of_endpoint(other) }, vec![]),
        (DeliveryFilter { event_type: Some(event_type("order.paid")), ..any() }, vec![elsewhere]),
        (status(DeliveryStatus::Waiting), vec![elsewhere, failed, waiting]),
        (status(DeliveryStatus::WaitingAfterFailure), vec![failed]),
        (status(DeliveryStatus::Delivered), vec![delivered]),
        (status(DeliveryStatus::Dead), vec![dead]),
        (status(DeliveryStatus::Cancelled), vec![cancelled]),
        (DeliveryFilter { category: Some(FailureCategory::ServerError), ..any() }, vec![dead, failed]),
        (DeliveryFilter { category: Some(FailureCategory::Dns), ..any() }, vec![]),
        (made(Some(after(30)), None), vec![elsewhere]),
        (made(None, Some(after(30))), vec![dead, delivered, failed, waiting, cancelled]),
    ];
    for (filter, expected) in cases {
        let page = given.store.deliveries(given.organization, filter.clone(), ALL).await.unwrap();
        assert_eq!(page.rows.iter().map(|delivery| delivery.id).collect::<Vec<_>>(), expected, "{filter:?}");
        let stranger = given.store.deliveries(OrganizationId::from_uuid(id()), filter, ALL).await.unwrap();
        assert_eq!(stranger.rows, []);
    }
}

#[tokio::test]
async fn the_deliveries_of_an_organization_are_merged_from_its_endpoints_in_both_directions() {
    let given = Given::new().await;
    let endpoints = [given.endpoint, given.another_endpoint().await, given.another_endpoint().await];
    let mut expected = Vec::new();
    for turn in 0..11 {
        let new = given.event(&[endpoints[turn * turn % 3]]).await;
        expected.insert(0, *new.deliveries[0].id.as_uuid());
        given.record(new).await;
    }
    let list = async |page| given.store.deliveries(given.organization, DeliveryFilter::default(), page).await.unwrap();
    let (forth, back) = walk(list, |delivery| *delivery.id.as_uuid()).await;
    assert_eq!(forth, expected);
    assert_eq!(back, expected);
}

#[tokio::test]
async fn every_other_list_is_walked_in_both_directions() {
    let given = Given::new().await;
    let new = given.event(&[given.endpoint; 7]).await;
    let event = new.event.id;
    let (mut of_event, mut events) = (Vec::new(), vec![*event.as_uuid()]);
    for delivery in &new.deliveries {
        of_event.insert(0, *delivery.id.as_uuid());
    }
    given.record(new).await;
    for _ in 0..4 {
        let (event, delivery) = given.published().await;
        events.insert(0, *event.as_uuid());
        let stage = Stage::Dead { at: NOW, cause: DeathCause::GivenUp };
        given.store.settle(Arc::new(vec![settlement(delivery, given.endpoint, failure(1), stage)])).await.unwrap();
    }
    let (store, organization) = (&given.store, given.organization);
    let list = async |page| store.events(organization, EventFilter::default(), page).await.unwrap();
    assert_eq!(walk(list, |event| *event.id.as_uuid()).await, (events.clone(), events));
    let filter = DeliveryFilter { event: Some(event), ..DeliveryFilter::default() };
    let list = async |page| store.deliveries(organization, filter.clone(), page).await.unwrap();
    assert_eq!(walk(list, |delivery| *delivery.id.as_uuid()).await, (of_event.clone(), of_event));
    let all = store.dead_letters(organization, DeadLetterFilter::default(), ALL).await.unwrap();
    let all: Vec<_> = all.rows.iter().map(|dead_letter| *dead_letter.id.as_uuid()).collect();
    assert_eq!(all.len(), 4);
    for filter in [DeadLetterFilter::default(), DeadLetterFilter { endpoint: Some(given.endpoint), ..DeadLetterFilter::default() }] {
        let list = async |page| store.dead_letters(organization, filter.clone(), page).await.unwrap();
        assert_eq!(walk(list, |dead_letter| *dead_letter.id.as_uuid()).await, (all.clone(), all.clone()));
    }
}

#[tokio::test]
async fn the_deliveries_of_an_event_include_its_replays() {
    let given = Given::new().await;
    let (event, delivery) = given.published().await;
    let stage = Stage::Dead { at: NOW, cause: DeathCause::GivenUp };
    given.store.settle(Arc::new(vec![settlement(delivery, given.endpoint, failure(1), stage)])).await.unwrap();
    given.published().await;
    let item = ReplayItem { of: Some(delivery), ..given.replay_item(event).await };
    let replay = item.delivery;
    given.replay(vec![item]).await;
    let filter = DeliveryFilter { event: Some(event), ..DeliveryFilter::default() };
    let page = given.store.deliveries(given.organization, filter, ALL).await.unwrap();
    let found: Vec<_> = page.rows.iter().map(|delivery| (delivery.id, delivery.replay_of)).collect();
    assert_eq!(found, [(replay, Some(delivery)), (delivery, None)]);
}

#[tokio::test]
async fn dead_letters_are_listed_by_every_filter_and_can_be_discarded() {
    let given = Given::new().await;
    let mut dead = Vec::new();
    for (category, secs) in [(FailureCategory::ServerError, 1), (FailureCategory::Dns, 20)] {
        let (_, delivery) = given.published().await;
        let attempt = Attempt { failure_category: Some(category), ..failure(1) };
        let stage = Stage::Dead { at: after(secs), cause: DeathCause::RetriesExhausted };
        given.store.settle(Arc::new(vec![settlement(delivery, given.endpoint, attempt, stage)])).await.unwrap();
        dead.push(delivery);
    }
    let [first, second] = dead[..] else { panic!("two died") };
    assert_eq!(given.store.discard(given.organization, first, entry()).await.unwrap(), Discarded::Discarded);
    assert_eq!(given.store.discard(given.organization, first, entry()).await.unwrap(), Discarded::NotDead(DeadLetterStatus::Discarded));
    assert_eq!(given.store.discard(OrganizationId::from_uuid(id()), second, entry()).await.unwrap(), Discarded::NotFound);
    let any = DeadLetterFilter::default;
    let cases = [
        (any(), vec![second, first]),
        (DeadLetterFilter { application: Some(given.application), ..any() }, vec![second, first]),
        (DeadLetterFilter { application: Some(ApplicationId::from_uuid(id())), ..any() }, vec![]),
        (DeadLetterFilter { endpoint: Some(given.endpoint), ..any() }, vec![second, first]),
        (DeadLetterFilter { endpoint: Some(EndpointId::from_uuid(id())), ..any() }, vec![]),
        (DeadLetterFilter { event_type: Some(event_type("user.created")), ..any() }, vec![second, first]),
        (DeadLetterFilter { event_type: Some(event_type("order.paid")), ..any() }, vec![]),
        (DeadLetterFilter { status: Some(DeadLetterStatus::Dead), ..any() }, vec![second]),
        (DeadLetterFilter { status: Some(DeadLetterStatus::Discarded), ..any() }, vec![first]),
        (DeadLetterFilter { category: Some(FailureCategory::Dns), ..any() }, vec![second]),
        (DeadLetterFilter { died: TimeRange { from: Some(after(2)), to: None }, ..any() }, vec![second]),
        (DeadLetterFilter { died: TimeRange { from: None, to: Some(after(20)) }, ..any() }, vec![first]),
    ];
    for (filter, expected) in cases {
        let page = given.store.dead_letters(given.organization, filter.clone(), ALL).await.unwrap();
        assert_eq!(page.rows.iter().map(|dead_letter| dead_letter.id).collect::<Vec<_>>(), expected, "{filter:?}");
        assert_eq!(given.store.dead_letters(OrganizationId::from_uuid(id()), filter, ALL).await.unwrap().rows, []);
    }
}
