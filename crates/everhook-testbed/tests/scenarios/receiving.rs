//! Events of sources: whatever a provider sent arrives as it came, is readable nowhere meanwhile, and waits where its source is paused.

use everhook_core::{
    ids::SourceId,
    line::{parking::release, publish::Publication},
    manage::received::{self, ReceivedQuery, ReceivedStatus},
    model::{ContentType, Cursor, OrderingMode, PageRequest, Received, WaitsFor},
    ports::{ReceivedFilter, TimeRange},
};
use everhook_testbed::{Answer, World, hours, mins, secs};
use uuid::Uuid;

/// Room for as many events as a scenario has.
const ROOMY: u64 = 1 << 20;
const MARKER: &str = "a-very-private-thing";

fn source() -> SourceId {
    SourceId::from_uuid(Uuid::from_u128(7))
}

fn paused() -> WaitsFor {
    WaitsFor::parse("source:7").expect("a name")
}

/// As a source receives it: text, sealed.
fn as_received(publication: &mut Publication) {
    let headers = vec![("x-request-id".to_owned(), MARKER.to_owned())];
    publication.data = format!("<a>{MARKER}</a>").into();
    publication.content_type = ContentType::of_body(Some("text/xml"), &publication.data);
    publication.received =
        Some(Box::new(Received { source: source(), external_user: Some("4711".to_owned()), duplicate_of: None, headers }));
    publication.sealed = true;
}

async fn statuses(world: &World, status: Option<ReceivedStatus>) -> Vec<ReceivedStatus> {
    let filter =
        ReceivedFilter { source: source(), event_type: None, external_user: Some("4711".to_owned()), accepted: TimeRange::default() };
    let (mut rows, mut cursor) = (Vec::new(), Cursor::Newest);
    loop {
        let page = PageRequest { limit: 2, cursor };
        let query = ReceivedQuery { filter: &filter, status, with_payloads: false, provider: None };
        let found = received::list(world.line(), world.organization, query, page).await.expect("the store answers");
        rows.extend(found.rows.into_iter().map(|row| row.progress.status));
        match found.next {
            Some(next) => cursor = next,
            None => return rows,
        }
    }
}

#[tokio::test]
async fn what_a_provider_sent_arrives_as_it_came_and_is_nowhere_in_plain_text_meanwhile() {
    // Given an endpoint that is away for an hour, and events before and while the store is away.
    let mut world = World::spooling(ROOMY).await;
    let answers = [Answer::Status(503), Answer::Status(503), Answer::Status(200)];
    let endpoint = world.endpoint().retrying_after([hours(1); 4]).answering_in_turn(answers).create().await;
    let stored = world.event("order.paid").with(as_received).publish().await.event;
    world.pass(secs(1)).await;
    world.faults.set_away(true);
    let spooled = world.event("order.paid").with(as_received).spool().await.event;
    assert!(!world.files_hold(MARKER));
    // When the node crashes, and everything is back.
    world.crash().await;
    world.faults.set_away(false);
    world.pass(hours(3)).await;
    // Then both arrived whole, and nothing of them was ever on the disk.
    assert!(!world.files_hold(MARKER));
    let arrivals = world.arrivals_of(&endpoint);
    for arrival in &arrivals {
        let body = String::from_utf8_lossy(&arrival.request.body).into_owned();
        assert!(body.contains(&format!(r#""content_type":"text/xml","data":"<a>{MARKER}</a>""#)), "{body}");
    }
    world.assert_promises(&[stored, spooled]).await;
    assert_eq!(statuses(&world, None).await, [ReceivedStatus::Completed; 2]);
}

#[tokio::test]
async fn a_paused_source_holds_what_it_accepts_and_lets_it_go_in_order() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().in_order(OrderingMode::Strict).create().await;
    let other = world.endpoint().create().await;
    let mut events = Vec::new();
    for _ in 0..3 {
        let held = world.event("order.paid").with(as_received).with(|publication| publication.parked = Some(paused()));
        events.push(held.publish().await.event);
    }
    // When hours pass, and the node crashes.
    world.pass(hours(5)).await;
    world.crash().await;
    world.pass(hours(5)).await;
    assert_eq!((world.arrivals_of(&endpoint).len(), world.arrivals_of(&other).len()), (0, 0));
    assert_eq!(statuses(&world, Some(ReceivedStatus::Pending)).await, [ReceivedStatus::Pending; 3]);
    // Then nothing is lost, and the order is kept, whatever was published meanwhile.
    events.push(world.event("order.paid").with(as_received).publish().await.event);
    release(world.line(), world.organization, &paused()).await.expect("the store answers");
    world.pass(mins(1)).await;
    let arrived: Vec<String> = world.arrivals_of(&endpoint).into_iter().map(|arrival| arrival.event).collect();
    assert_eq!(arrived, events.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(world.arrivals_of(&other).len(), 4);
    world.assert_promises(&events).await;
}

#[tokio::test]
async fn an_event_that_is_accepted_as_its_source_goes_on_is_not_left_behind() {
    // Given a source that goes on, and a door that has not heard of it yet.
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    release(world.line(), world.organization, &paused()).await.expect("the store answers");
    world.pass(secs(1)).await;
    let late = world.event("order.paid").with(|publication| publication.parked = Some(paused())).publish().await.event;
    // Then it is not parked for a pause that is over.
    world.pass(secs(1)).await;
    assert_eq!(world.arrivals_of(&endpoint).len(), 1);
    world.assert_promises(&[late]).await;
}

#[tokio::test]
async fn a_duplicate_is_recorded_and_goes_nowhere() {
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    let first = world.event("order.paid").with(as_received).publish().await;
    let duplicate = world.event("order.paid").with(as_received).with(|publication| {
        publication.received.as_mut().expect("it was received").duplicate_of = Some(first.event);
    });
    let duplicate = duplicate.publish().await;
    world.pass(mins(1)).await;
    assert_eq!((first.deliveries, duplicate.deliveries, duplicate.duplicate), (1, 0, false));
    assert_eq!(world.arrivals_of(&endpoint).len(), 1);
    assert_eq!(statuses(&world, None).await, [ReceivedStatus::Completed; 2]);
}
