//! Events of any content type, sealed ones, events of sources, and deliveries that are made parked.

use bytes::Bytes;
use everhook_core::{
    ids::{DeliveryId, EventId, OrganizationId, SourceId},
    model::{ContentType, Cursor, OrderingMode, PageRequest, Parking, Placement, Received, Stage, WaitsFor},
    ports::{EventStore, History, KeyOrigin, NewDelivery, NewEvent, ReceivedFilter, Recorded, Release, Settlement, TimeRange},
    time::Timestamp,
};

use super::{
    given::{Given, NOW, after, event_type, id, settlement, success},
    history::ALL,
    walking::{both_ways, walk},
};

const STRICT: Placement = Placement { mode: OrderingMode::Strict, behind_barrier: false };

pub fn received(source: SourceId, user: &str) -> Received {
    let headers = vec![("x-request-id".to_owned(), "a-very-private-thing".to_owned()), ("x-request-id".to_owned(), String::new())];
    Received { source, external_user: Some(user.to_owned()), duplicate_of: None, headers }
}

fn source() -> SourceId {
    SourceId::from_uuid(id())
}

fn waits_for() -> WaitsFor {
    WaitsFor::parse("source:7").unwrap()
}

fn parked() -> Stage {
    Stage::Parked(Parking { waits_for: waits_for(), expiry: None })
}

impl Given {
    /// An event for the endpoint that a source received.
    pub async fn received_event(&self, source: SourceId, user: &str) -> NewEvent {
        let mut new = self.event(&[self.endpoint]).await;
        new.event.received = Some(Box::new(received(source, user)));
        new
    }

    async fn listed(&self, filter: &ReceivedFilter) -> Vec<EventId> {
        let page = self.store.received_events(self.organization, filter.clone(), ALL).await.unwrap();
        page.rows.iter().map(|received| received.event.id).collect()
    }

    async fn let_go(&self, at: Timestamp) -> usize {
        let release = Release { organization: self.organization, waits_for: waits_for(), at, limit: 10 };
        self.store.release(release).await.unwrap().deliveries.len()
    }
}

fn of(source: SourceId) -> ReceivedFilter {
    ReceivedFilter { source, event_type: None, external_user: None, accepted: TimeRange::default() }
}

#[tokio::test]
async fn an_event_keeps_its_content_type_its_bytes_and_how_it_came_in_sealed_or_not() {
    let given = Given::new().await;
    let large = vec![b'x'; 50_000];
    for (content_type, data) in
        [("text/xml; charset=utf-8", &b"<a/>"[..]), ("application/octet-stream", &[0xff, 0, 1]), ("text/plain", &large)]
    {
        for sealed in [false, true] {
            let mut new = given.received_event(source(), "user \u{fc}").await;
            new.event.data = Bytes::copy_from_slice(data);
            new.event.content_type = ContentType::parse(content_type).unwrap();
            new.event.sealed = sealed;
            new.event.received.as_mut().unwrap().duplicate_of = Some(EventId::from_uuid(id()));
            let mut event = new.event.clone();
            event.sequence_number = given.record(new).await;
            assert_eq!(EventStore::event(&*given.store, event.id).await.unwrap().as_ref(), Some(&event), "{content_type}, {sealed}");
            let (summary, found) = History::event(&*given.store, given.organization, event.id).await.unwrap().unwrap();
            assert_eq!((summary.content_type, found), (event.content_type.clone(), Some(event)), "{content_type}, {sealed}");
        }
    }
}

#[tokio::test]
async fn a_sealed_event_is_the_same_event_when_it_is_published_again() {
    let given = Given::new().await;
    let mut new = given.event(&[given.endpoint]).await;
    (new.event.sealed, new.event.idempotency_key) = (true, "key".to_owned());
    new.key = KeyOrigin::Given { valid_since: NOW };
    let original = new.event.id;
    given.record(new.clone()).await;
    // Once more under its own id, as after a lost answer; and under another, with the same key.
    for again in [original, EventId::from_uuid(id())] {
        new.event.id = again;
        let answers = given.record_all(vec![new.clone()]).await;
        assert!(matches!(answers[..], [Recorded::Duplicate { event, .. }] if event == original), "{answers:?}");
    }
    // A key that was made is the event's id: what it said is in the payload alone.
    let mut made = given.event(&[given.endpoint]).await;
    made.event.sealed = true;
    given.record(made.clone()).await;
    let (first, key) = (made.event.id, KeyOrigin::Given { valid_since: Timestamp::EPOCH });
    (made.event.id, made.key) = (EventId::from_uuid(id()), key);
    let answers = given.record_all(vec![made]).await;
    assert!(matches!(answers[..], [Recorded::Duplicate { event, .. }] if event == first), "{answers:?}");
}

#[tokio::test]
async fn an_erased_event_of_a_source_says_neither_whom_it_is_about_nor_what_came_with_it() {
    let given = Given::new().await;
    let source = source();
    let mut new = given.received_event(source, "user-1").await;
    (new.event.sealed, new.event.content_type) = (true, ContentType::parse("text/plain").unwrap());
    let event = new.event.id;
    given.record(new).await;
    given.erase(event).await;
    let listed = given.store.received_events(given.organization, of(source), ALL).await.unwrap().rows;
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].event.erased_at, &listed[0].external_user), (Some(after(7)), &None));
    assert_eq!(listed[0].event.content_type.as_str(), "text/plain", "what a request looked like can still be told");
    assert_eq!(given.listed(&ReceivedFilter { external_user: Some("user-1".to_owned()), ..of(source) }).await, []);
    let (_, found) = History::event(&*given.store, given.organization, event).await.unwrap().unwrap();
    assert_eq!(found, None);
}

#[tokio::test]
async fn events_of_a_source_are_listed_by_type_user_and_time_and_those_of_others_are_not() {
    let given = Given::new().await;
    let (source, other) = (source(), source());
    let mut ids = Vec::new();
    for (number, user) in ["a", "b", "a", "\u{fc}"].into_iter().enumerate() {
        let mut new = given.received_event(source, user).await;
        new.event.created_at = after(number as u64 * 10);
        if number == 2 {
            new.event.event_type = event_type("order.paid");
        }
        ids.push(new.event.id);
        given.record(new).await;
    }
    given.record(given.received_event(other, "a").await).await;
    given.published().await;
    ids.reverse();
    assert_eq!(given.listed(&of(source)).await, ids);
    assert_eq!(given.listed(&ReceivedFilter { external_user: Some("a".to_owned()), ..of(source) }).await, [ids[1], ids[3]]);
    assert_eq!(given.listed(&ReceivedFilter { external_user: Some("\0".to_owned()), ..of(source) }).await, []);
    assert_eq!(given.listed(&ReceivedFilter { event_type: Some(event_type("order.paid")), ..of(source) }).await, [ids[1]]);
    let accepted = TimeRange { from: Some(after(10)), to: Some(after(30)) };
    assert_eq!(given.listed(&ReceivedFilter { accepted, ..of(source) }).await, ids[1..3]);
    assert_eq!(given.listed(&of(self::source())).await, []);
    let stranger = OrganizationId::from_uuid(id());
    assert_eq!(given.store.received_events(stranger, of(source), ALL).await.unwrap().rows, []);
    for filter in [of(source), ReceivedFilter { external_user: Some("a".to_owned()), ..of(source) }] {
        let list = async |page: PageRequest| given.store.received_events(given.organization, filter.clone(), page).await.unwrap();
        assert_eq!(walk(list, |received| received.event.id).await, both_ways(given.listed(&filter).await), "{filter:?}");
    }
    let newest =
        given.store.received_events(given.organization, of(source), PageRequest { limit: 1, cursor: Cursor::Newest }).await.unwrap();
    assert_eq!((newest.rows[0].source, newest.rows[0].external_user.as_deref()), (source, Some("\u{fc}")));
}

#[tokio::test]
async fn deliveries_that_are_made_parked_wait_once_that_is_released_which_they_wait_for() {
    let given = Given::new().await;
    let mut new = given.event(&[given.endpoint]).await;
    new.parked = Some(waits_for());
    let delivery = new.deliveries[0].id;
    match &given.record_all(vec![new.clone()]).await[..] {
        [Recorded::Accepted { held, .. }] => assert_eq!(held, &[delivery], "it is not handed over"),
        other => panic!("{other:?}"),
    }
    let given = given.reopened().await;
    assert_eq!(given.stage(delivery).await, parked());
    assert_eq!(given.let_go(after(5)).await, 1);
    assert_eq!(given.stage(delivery).await, Stage::Waiting { due_at: after(5) });
    let due = given.due(given.endpoint, after(5), 10, 0).await.rows.remove(0);
    assert_eq!((due.attempts, due.parkings), (0, 0));
    // A name is used once: what has come has come, whether the event was accepted before that or after, on a node that had not heard of it.
    for accepted_at in [NOW, after(6)] {
        let mut late = given.event(&[given.endpoint]).await;
        (late.parked, late.event.created_at) = (Some(waits_for()), accepted_at);
        let delivery = late.deliveries[0].id;
        given.record(late).await;
        assert_eq!(given.stage(delivery).await, Stage::Waiting { due_at: NOW });
    }
}

#[tokio::test]
async fn in_an_order_those_that_are_made_parked_keep_their_place_and_go_one_after_the_other() {
    let given = Given::new().await;
    let mut deliveries = Vec::new();
    for waits in [None, Some(waits_for()), Some(waits_for()), None] {
        let mut new = given.event(&[given.endpoint]).await;
        (new.deliveries[0].placement, new.parked) = (STRICT, waits);
        deliveries.push(new.deliveries[0].id);
        given.record(new).await;
    }
    let stages = async || {
        let mut stages = Vec::new();
        for delivery in &deliveries {
            stages.push(given.stage(*delivery).await);
        }
        stages
    };
    assert_eq!(stages().await, [Stage::Waiting { due_at: NOW }, parked(), parked(), Stage::Held]);
    // Released behind another, they are held; then each waits when the one before it has ended.
    assert_eq!(given.let_go(after(1)).await, 0);
    assert_eq!(stages().await, [Stage::Waiting { due_at: NOW }, Stage::Held, Stage::Held, Stage::Held]);
    for (index, delivery) in deliveries.iter().enumerate() {
        assert!(matches!(stages().await[index], Stage::Waiting { .. }), "{index}: {:?}", stages().await);
        assert!(stages().await[index + 1..].iter().all(|stage| *stage == Stage::Held), "{index}: {:?}", stages().await);
        let delivered = Stage::Delivered { at: after(2) };
        let settlement = Settlement { ordered: true, ..settlement(*delivery, given.endpoint, success(1), delivered) };
        given.settle_one(settlement).await;
    }
}

#[tokio::test]
async fn the_first_of_an_order_that_is_parked_holds_up_those_behind_it_until_it_is_released() {
    let given = Given::new().await;
    let mut deliveries = Vec::new();
    for waits in [Some(waits_for()), None] {
        let mut new = given.event(&[given.endpoint]).await;
        (new.deliveries[0].placement, new.parked) = (STRICT, waits);
        deliveries.push(new.deliveries[0].id);
        given.record(new).await;
    }
    assert_eq!((given.stage(deliveries[0]).await, given.stage(deliveries[1]).await), (parked(), Stage::Held));
    assert_eq!(given.let_go(after(3)).await, 1);
    assert_eq!((given.stage(deliveries[0]).await, given.stage(deliveries[1]).await), (Stage::Waiting { due_at: after(3) }, Stage::Held));
}

#[tokio::test]
async fn all_deliveries_of_an_event_for_very_many_endpoints_are_made_parked() {
    let given = Given::new().await;
    let mut new = given.event(&[given.endpoint]).await;
    // More than the embedded store makes in one commit.
    let one = new.deliveries[0];
    new.deliveries = (0..2_500).map(|_| NewDelivery { id: DeliveryId::from_uuid(id()), ..one }).collect();
    new.parked = Some(waits_for());
    let (first, last) = (new.deliveries[0].id, new.deliveries[2_499].id);
    match &given.record_all(vec![new]).await[..] {
        [Recorded::Accepted { held, .. }] => assert_eq!(held.len(), 2_500, "none is handed over"),
        other => panic!("{other:?}"),
    }
    assert_eq!((given.stage(first).await, given.stage(last).await), (parked(), parked()));
    let backlog = given.store.waiting_backlog(given.endpoint.into(), 10_000).await.unwrap();
    assert_eq!(backlog.parked, 2_500);
}
