//! Reading what happened.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use everhook_core::{
    ids::{ApplicationId, DeliveryId, EndpointId, EventId, OrganizationId, RevisionNumber},
    model::{
        Attempt, AttemptStatus, CancelCause, ContentType, Cursor, Cut, DeadLetterStatus, DeathCause, FailureCategory, OrderingMode,
        PageRequest, PhaseTimes, Placement, Priority, Response, RetryAfter, Stage,
    },
    ports::{
        CancelWaiting, DeadLetterFilter, DeliveryFilter, DeliveryStatus, Discarded, EventFilter, EventSummary, History, ReplayItem,
        TimeRange,
    },
    time::Timestamp,
};

use super::{
    given::{Given, NOW, after, entry, event_type, failure, id, settlement, success},
    walking::{both_ways, walk},
};

const STRICT: Placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };

pub const ALL: PageRequest = PageRequest { limit: 100, cursor: Cursor::Newest };

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
        content_type: ContentType::JSON,
        priority: Priority::Normal,
        timestamp: NOW,
        idempotency_key: event.id.to_string(),
        source: Some("billing".to_owned()),
        sequence_number: event.sequence_number,
        deliveries: 1,
        created_at: NOW,
        erased_at: None,
    };
    assert_eq!(History::event(&*given.store, given.organization, event.id).await.unwrap(), Some((summary, Some(event.clone()))));
    assert_eq!(History::event(&*given.store, OrganizationId::from_uuid(id()), event.id).await.unwrap(), None);
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
    let other = given.another_application().await;
    let mut elsewhere = given.event_of(other, &[]).await;
    (elsewhere.event.event_type, elsewhere.event.created_at) = (event_type("order.paid"), after(40));
    let fourth = elsewhere.event.id;
    given.record(elsewhere).await;
    let any = EventFilter::default;
    let in_application = |application| EventFilter { application: Some(application), ..any() };
    let of_type = |name| EventFilter { event_type: Some(event_type(name)), ..any() };
    let accepted = |from: Option<Timestamp>, to| EventFilter { accepted: TimeRange { from, to }, ..any() };
    let cases = [
        (any(), vec![fourth, third, second, first]),
        (in_application(given.application), vec![third, second, first]),
        (in_application(other), vec![fourth]),
        (in_application(ApplicationId::from_uuid(id())), vec![]),
        (of_type("user.created"), vec![third, first]),
        (of_type("order.paid"), vec![fourth, second]),
        (EventFilter { application: Some(other), ..of_type("user.created") }, vec![]),
        (accepted(Some(after(10)), None), vec![fourth, third, second]),
        (accepted(None, Some(after(10))), vec![first]),
        (accepted(Some(after(10)), Some(after(20))), vec![second]),
        (accepted(Some(after(86_400)), None), vec![]),
        (accepted(None, Some(NOW - Duration::from_secs(86_400))), vec![]),
    ];
    for (filter, expected) in cases {
        let list = async |page| given.store.events(given.organization, filter.clone(), page).await.unwrap();
        assert_eq!(walk(list, |event| event.id).await, both_ways(expected), "{filter:?}");
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
    assert_eq!((shown.event, shown.lane_id, shown.attempts), (event, given.endpoint.into(), 2));
    assert_eq!((shown.failure_category, shown.last_error.as_deref()), (Some(FailureCategory::RateLimit), Some("answered 429")));
    assert_eq!(given.store.delivery(OrganizationId::from_uuid(id()), delivery).await.unwrap(), None);
}

/// One delivery in each state, all of one endpoint but the one that is held; one of another endpoint, and one of another application.
struct Deliveries {
    waiting: DeliveryId,
    failed: DeliveryId,
    delivered: DeliveryId,
    dead: DeliveryId,
    cancelled: DeliveryId,
    elsewhere: DeliveryId,
    ahead: DeliveryId,
    held: DeliveryId,
    foreign: DeliveryId,
    other: EndpointId,
    application: ApplicationId,
    event: EventId,
}

async fn deliveries(given: &Given) -> Deliveries {
    let cancelled = given.published().await.1;
    let at = after(5);
    let cancel = CancelWaiting { lane_id: given.endpoint.into(), made_until: at, cause: CancelCause::EndpointDisabled, at, limit: 10 };
    given.store.cancel_waiting(cancel).await.unwrap();
    let (event, waiting) = given.published().await;
    let (_, failed) = given.published().await;
    let (_, delivered) = given.published().await;
    let (_, dead) = given.published().await;
    let other = given.another_endpoint().await;
    let mut elsewhere = given.event(&[other]).await;
    (elsewhere.event.event_type, elsewhere.made_at) = (event_type("order.paid"), after(30));
    let last = elsewhere.deliveries[0].id;
    given.record(elsewhere).await;
    let (ahead, held) = (ordered(given, other).await, ordered(given, other).await);
    let application = given.another_application().await;
    let there = given.endpoint_of(application).await;
    let new = given.event_of(application, &[there]).await;
    let foreign = new.deliveries[0].id;
    given.record(new).await;
    let settle = |delivery, attempt, stage| settlement(delivery, given.endpoint, attempt, stage);
    let batch = vec![
        settle(failed, failure(1), Stage::Waiting { due_at: at }),
        settle(delivered, success(1), Stage::Delivered { at }),
        settle(dead, failure(1), Stage::Dead { at, cause: DeathCause::RetriesExhausted }),
    ];
    given.store.settle(Arc::new(batch)).await.unwrap();
    Deliveries { waiting, failed, delivered, dead, cancelled, elsewhere: last, ahead, held, foreign, other, application, event }
}

/// A delivery that waits in a strict order, or is held there behind another.
async fn ordered(given: &Given, endpoint: EndpointId) -> DeliveryId {
    let mut new = given.event(&[endpoint]).await;
    new.deliveries[0].placement = STRICT;
    let delivery = new.deliveries[0].id;
    given.record(new).await;
    delivery
}

#[tokio::test]
async fn deliveries_are_listed_by_every_filter() {
    let given = Given::new().await;
    let Deliveries { waiting, failed, delivered, dead, cancelled, elsewhere, ahead, held, foreign, other, application, event } =
        deliveries(&given).await;
    let any = DeliveryFilter::default;
    let in_application = |application| DeliveryFilter { application: Some(application), ..any() };
    let of_endpoint = |endpoint| DeliveryFilter { endpoint: Some(endpoint), ..any() };
    let of_type = |name| DeliveryFilter { event_type: Some(event_type(name)), ..any() };
    let status = |status| DeliveryFilter { status: Some(status), ..any() };
    let category = |category| DeliveryFilter { category: Some(category), ..any() };
    let made = |from, to| DeliveryFilter { made: TimeRange { from, to }, ..any() };
    let cases = [
        (any(), vec![foreign, held, ahead, elsewhere, dead, delivered, failed, waiting, cancelled]),
        (in_application(given.application), vec![held, ahead, elsewhere, dead, delivered, failed, waiting, cancelled]),
        (in_application(application), vec![foreign]),
        (in_application(ApplicationId::from_uuid(id())), vec![]),
        (of_endpoint(given.endpoint), vec![dead, delivered, failed, waiting, cancelled]),
        (of_endpoint(other), vec![held, ahead, elsewhere]),
        (of_endpoint(EndpointId::from_uuid(id())), vec![]),
        (DeliveryFilter { application: Some(application), ..of_endpoint(other) }, vec![]),
        (DeliveryFilter { endpoint: Some(other), ..of_type("order.paid") }, vec![elsewhere]),
        (DeliveryFilter { endpoint: Some(given.endpoint), ..status(DeliveryStatus::WaitingAfterFailure) }, vec![failed]),
        (DeliveryFilter { event: Some(event), ..any() }, vec![waiting]),
        (DeliveryFilter { event: Some(event), ..of_endpoint(given.endpoint) }, vec![waiting]),
        (DeliveryFilter { event: Some(event), ..of_endpoint(other) }, vec![]),
        (DeliveryFilter { event: Some(event), ..in_application(application) }, vec![]),
        (DeliveryFilter { event: Some(event), ..of_type("order.paid") }, vec![]),
        (DeliveryFilter { event: Some(event), ..status(DeliveryStatus::Dead) }, vec![]),
        (DeliveryFilter { event: Some(event), ..status(DeliveryStatus::WaitingAfterFailure) }, vec![]),
        (DeliveryFilter { event: Some(event), ..category(FailureCategory::ServerError) }, vec![]),
        (DeliveryFilter { event: Some(event), ..made(Some(after(1)), None) }, vec![]),
        (DeliveryFilter { event: Some(EventId::from_uuid(id())), ..any() }, vec![]),
        (of_type("order.paid"), vec![elsewhere]),
        (status(DeliveryStatus::Waiting), vec![foreign, ahead, elsewhere, failed, waiting]),
        (status(DeliveryStatus::Held), vec![held]),
        (status(DeliveryStatus::Pending), vec![foreign, held, ahead, elsewhere, failed, waiting]),
        (status(DeliveryStatus::WaitingAfterFailure), vec![failed]),
        (status(DeliveryStatus::Delivered), vec![delivered]),
        (status(DeliveryStatus::Dead), vec![dead]),
        (status(DeliveryStatus::Cancelled), vec![cancelled]),
        (category(FailureCategory::ServerError), vec![dead, failed]),
        (category(FailureCategory::Dns), vec![]),
        (made(Some(after(30)), None), vec![elsewhere]),
        (made(None, Some(after(30))), vec![foreign, held, ahead, dead, delivered, failed, waiting, cancelled]),
        (made(Some(after(1)), Some(after(30))), vec![]),
    ];
    for (filter, expected) in cases {
        let list = async |page| given.store.deliveries(given.organization, filter.clone(), page).await.unwrap();
        assert_eq!(walk(list, |delivery| delivery.id).await, both_ways(expected), "{filter:?}");
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
    assert_eq!(walk(list, |delivery| *delivery.id.as_uuid()).await, both_ways(expected));
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

/// Three dead letters: of one endpoint the first two, of another application the third.
async fn dead_letters(given: &Given, application: ApplicationId, there: EndpointId) -> [DeliveryId; 3] {
    let deaths = [
        (given.application, given.endpoint, FailureCategory::ServerError, 1, "user.created"),
        (given.application, given.endpoint, FailureCategory::Dns, 20, "user.created"),
        (application, there, FailureCategory::Timeout, 30, "order.paid"),
    ];
    let mut ids = Vec::new();
    for (application, endpoint, category, secs, name) in deaths {
        let mut new = given.event_of(application, &[endpoint]).await;
        new.event.event_type = event_type(name);
        let delivery = new.deliveries[0].id;
        given.record(new).await;
        let attempt = Attempt { failure_category: Some(category), ..failure(1) };
        let stage = Stage::Dead { at: after(secs), cause: DeathCause::RetriesExhausted };
        given.store.settle(Arc::new(vec![settlement(delivery, endpoint, attempt, stage)])).await.unwrap();
        ids.push(delivery);
    }
    ids.try_into().unwrap()
}

#[tokio::test]
async fn dead_letters_are_listed_by_every_filter() {
    let given = Given::new().await;
    let other = given.another_application().await;
    let there = given.endpoint_of(other).await;
    let [first, second, third] = dead_letters(&given, other, there).await;
    assert_eq!(given.store.discard(given.organization, first, entry()).await.unwrap(), Discarded::Discarded);
    let any = DeadLetterFilter::default;
    let in_application = |application| DeadLetterFilter { application: Some(application), ..any() };
    let of_endpoint = |endpoint| DeadLetterFilter { endpoint: Some(endpoint), ..any() };
    let of_type = |name| DeadLetterFilter { event_type: Some(event_type(name)), ..any() };
    let status = |status| DeadLetterFilter { status: Some(status), ..any() };
    let category = |category| DeadLetterFilter { category: Some(category), ..any() };
    let died = |from, to| DeadLetterFilter { died: TimeRange { from, to }, ..any() };
    let here = || of_endpoint(given.endpoint);
    let cases = [
        (any(), vec![third, second, first]),
        (in_application(given.application), vec![second, first]),
        (in_application(other), vec![third]),
        (in_application(ApplicationId::from_uuid(id())), vec![]),
        (here(), vec![second, first]),
        (of_endpoint(there), vec![third]),
        (of_endpoint(EndpointId::from_uuid(id())), vec![]),
        (of_type("user.created"), vec![second, first]),
        (of_type("order.paid"), vec![third]),
        (status(DeadLetterStatus::Dead), vec![third, second]),
        (status(DeadLetterStatus::Discarded), vec![first]),
        (status(DeadLetterStatus::Retrying), vec![]),
        (category(FailureCategory::Dns), vec![second]),
        (category(FailureCategory::Timeout), vec![third]),
        (died(Some(after(2)), None), vec![third, second]),
        (died(None, Some(after(20))), vec![first]),
        (died(Some(after(20)), Some(after(30))), vec![second]),
        (DeadLetterFilter { endpoint: Some(there), ..in_application(given.application) }, vec![]),
        (DeadLetterFilter { endpoint: Some(there), ..of_type("user.created") }, vec![]),
        (DeadLetterFilter { endpoint: here().endpoint, ..status(DeadLetterStatus::Dead) }, vec![second]),
        (DeadLetterFilter { endpoint: here().endpoint, ..category(FailureCategory::ServerError) }, vec![first]),
        (DeadLetterFilter { endpoint: here().endpoint, ..died(Some(after(2)), None) }, vec![second]),
    ];
    for (filter, expected) in cases {
        let list = async |page| given.store.dead_letters(given.organization, filter.clone(), page).await.unwrap();
        assert_eq!(walk(list, |dead_letter| dead_letter.id).await, both_ways(expected), "{filter:?}");
        assert_eq!(given.store.dead_letters(OrganizationId::from_uuid(id()), filter, ALL).await.unwrap().rows, []);
    }
}

#[tokio::test]
async fn only_a_dead_letter_of_the_organization_that_is_dead_can_be_discarded() {
    let given = Given::new().await;
    let [first, second, _] = dead_letters(&given, given.application, given.endpoint).await;
    let stranger = OrganizationId::from_uuid(id());
    assert_eq!(given.store.discard(given.organization, first, entry()).await.unwrap(), Discarded::Discarded);
    assert_eq!(given.store.discard(given.organization, first, entry()).await.unwrap(), Discarded::NotDead(DeadLetterStatus::Discarded));
    assert_eq!(given.store.discard(stranger, second, entry()).await.unwrap(), Discarded::NotFound);
    assert_eq!(given.store.dead_letter(stranger, second).await.unwrap(), None);
    let status = async |id| given.store.dead_letter(given.organization, id).await.unwrap().unwrap().status;
    assert_eq!((status(first).await, status(second).await), (DeadLetterStatus::Discarded, DeadLetterStatus::Dead));
}

#[tokio::test]
async fn an_event_is_found_by_the_key_that_was_given_to_it_and_by_nobody_else() {
    let given = Given::new().await;
    let new = super::event_store::keyed(given.event(&[]).await, "order-17");
    let event = new.event.id;
    given.record(new).await;
    let found =
        async |organization, application, key: &str| given.store.event_of_key(organization, application, key.to_owned()).await.unwrap();
    assert_eq!(found(given.organization, None, "order-17").await, Some(event));
    assert_eq!(found(given.organization, Some(given.application), "order-17").await, Some(event));
    assert_eq!(found(given.organization, Some(ApplicationId::from_uuid(id())), "order-17").await, None);
    assert_eq!(found(given.organization, None, "order-18").await, None);
    assert_eq!(found(OrganizationId::from_uuid(id()), None, "order-17").await, None);
}
