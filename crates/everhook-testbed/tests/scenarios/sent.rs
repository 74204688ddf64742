//! What was sent, told afterwards: from the revision of the endpoint that shaped each attempt.

use everhook_core::{
    ids::{DeliveryId, Ref, RevisionNumber},
    manage::{
        endpoints::{Rotation, pause, resume, rotate_secret},
        sent::{PastRequest, Sent, sent},
    },
    model::{Endpoint, Ordering, PayloadStyle, SignatureStyle, Target},
};
use everhook_testbed::{Answer, Receiver, World, hours, mins, secs};

/// What history tells of each attempt of a delivery.
async fn told(world: &World, delivery: DeliveryId) -> Vec<Sent> {
    let (delivery, attempts) = world.delivery(delivery).await;
    let mut told = Vec::new();
    for attempt in &attempts {
        told.push(sent(world.line(), &delivery, attempt).await.expect("the store answers"));
    }
    told
}

/// What arrived, in order, as history should tell it.
fn arrived(world: &World) -> Vec<Sent> {
    let arrivals = world.network.arrivals().into_iter().map(|arrival| arrival.request);
    let past = arrivals.map(|request| PastRequest {
        url: request.target.requested().to_owned(),
        headers: request.wire_headers().map(|(name, value)| (name.clone(), value)).collect(),
        body: Some(request.body),
    });
    past.map(Sent::Request).collect()
}

fn target(url: &str) -> Target {
    Target { written: url.to_owned(), url: url.parse().expect("a URL") }
}

async fn revision(world: &World, of: &Receiver) -> RevisionNumber {
    let found = world.line().ports.endpoints.endpoint(world.organization, &Ref::Id(of.id)).await;
    found.expect("the store answers").expect("the endpoint exists").revision
}

#[tokio::test]
async fn attempts_of_one_delivery_are_told_as_each_was_sent_though_the_endpoint_changed_between_them() {
    // Given an endpoint that fails, with a header of its own, and an event with another.
    let mut world = World::new().await;
    let schedule = [secs(5), mins(10), hours(1), hours(2)];
    let endpoint = world.endpoint().answering(503).without_breaker().adding("X-Key", "one").retrying_after(schedule).create().await;
    let event = world.event("order.paid").header("X-Region", "eu").data(r#"{"n":1.10}"#).publish().await;
    world.pass(secs(1)).await;
    // When its secret is rotated before the second attempt, its grace ends before the third, and all else changes before the fourth.
    let rotation = Rotation { grace: secs(60), secret: None };
    rotate_secret(world.line(), &world.author(), &Ref::Id(endpoint.id), rotation).await.expect("the secret is rotated");
    world.pass(mins(20)).await;
    world
        .change(&endpoint, |endpoint| {
            endpoint.target = target("https://moved.example:8443/hook?a=b");
            endpoint.headers = vec![("X-Key".to_owned(), "two".to_owned())];
            endpoint.signature_style = SignatureStyle::Hex;
            endpoint.payload_style = PayloadStyle::Raw;
        })
        .await;
    world.network.script("https://moved.example:8443/hook?a=b", [], Answer::Status(503));
    world.crash().await;
    world.pass(hours(4)).await;
    // Then each of the five is told as it was sent.
    let delivery = world.deliveries_of(event.event).await[0].id;
    assert_eq!(arrived(&world).len(), 5);
    assert_eq!(told(&world, delivery).await, arrived(&world));
    let (_, attempts) = world.delivery(delivery).await;
    let revisions: Vec<_> = attempts.iter().filter_map(|attempt| Some(attempt.revision?.0)).collect();
    assert_eq!(revisions, [1, 2, 2, 3, 3]);
}

#[tokio::test]
async fn an_attempt_in_which_we_failed_tells_of_no_request() {
    let mut world = World::new().await;
    world.endpoint().answering_in_turn([Answer::Panics, Answer::Status(200)]).retrying_after([secs(5)]).create().await;
    let event = world.event("order.paid").publish().await;
    world.pass(mins(10)).await;
    let delivery = world.deliveries_of(event.event).await[0].id;
    let expected = [Sent::Unknown, arrived(&world).pop().expect("the second arrived")];
    assert_eq!(told(&world, delivery).await, expected);
}

#[tokio::test]
async fn only_a_change_that_a_receiver_could_see_makes_a_revision() {
    type Edit = fn(&mut Endpoint);
    let mut world = World::new().await;
    let endpoint = world.endpoint().create().await;
    let unseen: [Edit; 5] = [
        |endpoint| endpoint.name = Some("shop".to_owned()),
        |endpoint| endpoint.event_types.clear(),
        |endpoint| endpoint.timeout = Some(secs(3)),
        |endpoint| endpoint.max_concurrency += 1,
        |endpoint| endpoint.ordering = Ordering::default(),
    ];
    for edit in unseen {
        world.change(&endpoint, edit).await;
    }
    pause(world.line(), &world.author(), &Ref::Id(endpoint.id)).await.expect("it is paused");
    resume(world.line(), &world.author(), &Ref::Id(endpoint.id), None).await.expect("it is resumed");
    assert_eq!(revision(&world, &endpoint).await, RevisionNumber::FIRST);
    let seen: [Edit; 4] = [
        |endpoint| endpoint.target = target("https://moved.example/"),
        |endpoint| endpoint.headers = vec![("X-Key".to_owned(), "two".to_owned())],
        |endpoint| endpoint.signature_style = SignatureStyle::Sha256,
        |endpoint| endpoint.payload_style = PayloadStyle::Raw,
    ];
    for (edit, number) in seen.into_iter().zip(2..) {
        world.change(&endpoint, edit).await;
        assert_eq!(revision(&world, &endpoint).await, RevisionNumber(number));
    }
    let rotation = Rotation { grace: secs(0), secret: None };
    rotate_secret(world.line(), &world.author(), &Ref::Id(endpoint.id), rotation).await.expect("the secret is rotated");
    assert_eq!(revision(&world, &endpoint).await, RevisionNumber(6));
}
